// Products with a triangle of ones, to which `cumsum` is expanded. The triangle is the condition that one index is at most another.
#include "ir/ir.h"

// Is t the index along this dimension of an n x n matrix? block: the node of g in whose block graph t is a tile, or NULL.
static bool is_index(const struct graph *g, const struct node *block, int t, int dim, int64_t n)
{
  const int from = block ? node_iterated(block, t) : t;
  if (from < 0 || g->nodes[g->tensors[from].node].op != OP_IOTA) return false;
  const struct shape *s = &g->tensors[from].shape;
  const int there = dim - 2 + s->n;
  return s->n <= 2 && there >= 0 && s->d[there] == n && shape_size(s) == n && (!block || shape_size(&block->sub->tensors[t].shape) == n);
}

struct scan graph_scan(const struct graph *g, const struct node *block, const struct node *n)
{
  const struct graph *in = block ? block->sub : g;
  if (n->op != OP_MATMUL || n->in[0] == n->in[1]) return (struct scan){0}; // the elements of a triangle times itself are read
  for (int k = 0; k < 2; k++) {
    const struct node *x = &in->nodes[in->tensors[n->in[k]].node];
    const struct shape *s = &in->tensors[n->in[k]].shape, *other = &in->tensors[n->in[!k]].shape;
    if (x->op != OP_LESS_EQUAL || s->n != 2 || s->d[0] != s->d[1] || s->d[0] < 2 || other->n < 2) continue;
    if (is_index(g, block, x->in[0], !k, s->d[0]) && is_index(g, block, x->in[1], k, s->d[0])) return (struct scan){x, !k, other->n - 2 + k};
  }
  return (struct scan){0};
}

bool graph_scans(const struct graph *g, const struct node *block, int node)
{
  const struct graph *in = block ? block->sub : g;
  const struct node *x = &in->nodes[node];
  bool any = false;
  for (int i = node + 1; i < in->nnodes && x->op == OP_LESS_EQUAL; i++)
    for (int k = 0; k < in->nodes[i].nin; k++) {
      if (in->nodes[i].in[k] != x->out) continue;
      if (graph_scan(g, block, &in->nodes[i]).triangle != x) return false;
      any = true;
    }
  return any;
}

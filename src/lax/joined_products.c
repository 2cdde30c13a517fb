// Products of concatenations. [A1 A2] times [B1; B2] is A1 B1 + A2 B2, if both are concatenated at the same positions of the summed dimension. Attention
// over the keys of two caches then reads each cache in place, and the program is not cut at the concatenation (divide.c).
#include "lax/lax.h"

enum { MOST_PIECES = 4 };

struct joined {                     // an operand
  const struct node *concat, *view; // view: the transpose of it that the product reads, or NULL
};

static const struct node *maker(const struct graph *g, int t) { return &g->nodes[g->tensors[t].node]; }

// Is tensor t a concatenation along dimension dim, or the transpose of one?
static bool joined_along(const struct graph *g, int t, int dim, struct joined *out)
{
  const struct node *n = maker(g, t);
  *out = (struct joined){0};
  if (n->op == OP_TRANSPOSE) out->view = n, dim = perm_of(&n->a, g->tensors[t].shape.n, dim), n = maker(g, n->in[0]);
  out->concat = n;
  return n->op == OP_CONCAT && n->a.dim == dim && n->nin > 1 && n->nin <= MOST_PIECES;
}

static bool joined_alike(const struct graph *g, const struct node *n, struct joined *left, struct joined *right)
{
  if (n->op != OP_MATMUL) return false;
  const struct shape *x = &g->tensors[n->in[0]].shape, *y = &g->tensors[n->in[1]].shape;
  if (x->n < 2 || y->n < 2) return false;
  if (!joined_along(g, n->in[0], x->n - 1, left) || !joined_along(g, n->in[1], y->n - 2, right) || left->concat->nin != right->concat->nin)
    return false;
  for (int i = 0; i < left->concat->nin; i++) {
    const int l = left->concat->in[i], r = right->concat->in[i];
    if (g->tensors[l].shape.d[left->concat->a.dim] != g->tensors[r].shape.d[right->concat->a.dim]) return false;
  }
  return true;
}

static int piece(struct graph *to, const struct joined *j, int i, const int *map, int *out, struct err *e)
{
  *out = map[j->concat->in[i]];
  return j->view ? graph_add(to, OP_TRANSPOSE, 1, out, &j->view->a, j->view->at, out, e) : OK;
}

static int sum_of_products(void *own, struct graph *to, const struct graph *p, const struct node *n, const int *map, int *made, struct err *e)
{
  struct joined side[2];
  (void)own;
  if (!joined_alike(p, n, &side[0], &side[1])) return NO;
  for (int i = 0; i < side[0].concat->nin; i++) {
    int in[2], one;
    for (int s = 0; s < 2; s++) TRY(piece(to, &side[s], i, map, &in[s], e));
    TRY(graph_add(to, OP_MATMUL, 2, in, &n->a, n->at, &one, e));
    if (i) TRY(graph_add(to, OP_ADD, 2, (int[]){*made, one}, NULL, n->at, &one, e));
    *made = one;
  }
  return OK;
}

int lax_products(struct arena *mem, const struct graph *p, const struct lax_proof *proof, struct graph **out, struct err *e)
{
  return lax_by_law(mem, p, sum_of_products, NULL, proof, out, e);
}

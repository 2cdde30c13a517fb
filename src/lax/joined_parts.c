// Concatenations of parts. Operands that are consecutive parts of one tensor become one slice of it, or the tensor itself:
//   concat(a, c, X, dim=1)  with  a, c, _ = split(T, dim=1, parts=3)  becomes  concat(slice(T, dim=1, start=0, end=2n), X, dim=1)
// A slice is a view, and a concatenation is a copy.
#include "lax/lax.h"

struct joined_part { // of tensor `of` along a dimension: [start, end)
  int of;
  int64_t start, end;
};

// t as a part along dim; a tensor that is no part is the whole of itself.
static struct joined_part part_of(const struct graph *g, int t, int dim)
{
  const struct node *n = &g->nodes[g->tensors[t].node];
  const int64_t extent = g->tensors[t].shape.d[dim];
  if (!(op_rows[n->op].flags & TAKES_PART) || n->a.dim != dim) return (struct joined_part){t, 0, extent};
  const int64_t start = n->op == OP_SLICE ? n->a.start : (n->op == OP_SPLIT ? t - n->out : n->a.index) * extent;
  return (struct joined_part){n->in[0], start, start + extent};
}

// Joins operand i and its successors while they are consecutive in one tensor. Returns their number.
static int run_of(const struct graph *g, const struct node *n, int i, struct joined_part *all)
{
  const int first = i;
  *all = part_of(g, n->in[i], n->a.dim);
  for (i++; i < n->nin; i++) {
    const struct joined_part next = part_of(g, n->in[i], n->a.dim);
    if (next.of != all->of || next.start != all->end) break;
    all->end = next.end;
  }
  return i - first;
}

static int take_part(struct graph *to, const struct graph *g, const struct node *n, const struct joined_part *x, const int *map, int *out,
                     struct err *e)
{
  struct attrs a = attrs_default(OP_SLICE);
  a.dim = n->a.dim, a.start = x->start, a.end = x->end;
  if (a.end - a.start == g->tensors[x->of].shape.d[a.dim]) return *out = map[x->of], OK;
  return graph_add(to, OP_SLICE, 1, &map[x->of], &a, n->at, out, e);
}

static int join(void *own, struct graph *to, const struct graph *g, const struct node *n, const int *map, int *made, struct err *e)
{
  struct joined_part x;
  int nin = 0;
  (void)own;
  if (n->op != OP_CONCAT) return NO;
  for (int i = 0; i < n->nin; i += run_of(g, n, i, &x)) nin++;
  if (nin == n->nin) return NO;
  int *in = NEWS(to->mem, int, nin + 1);
  for (int i = 0, k, at = 0; i < n->nin; i += k, at++) {
    k = run_of(g, n, i, &x);
    in[at] = map[n->in[i]];
    if (k > 1) TRY(take_part(to, g, n, &x, map, &in[at], e));
  }
  if (nin == 1) return *made = in[0], OK;
  return graph_add(to, OP_CONCAT, nin, in, &n->a, n->at, made, e);
}

int lax_parts(struct arena *mem, const struct graph *p, const struct lax_proof *proof, struct graph **out, struct err *e)
{
  return lax_by_law(mem, p, join, NULL, proof, out, e);
}

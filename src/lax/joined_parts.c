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

static int join(struct graph *to, const struct graph *g, const struct node *n, int *map, int *found, struct err *e)
{
  struct joined_part x;
  int *in = NEWS(to->mem, int, n->nin + 1), nin = 0;
  for (int i = 0, k; i < n->nin; i += k, nin++) {
    k = run_of(g, n, i, &x);
    in[nin] = map[n->in[i]];
    if (k > 1) TRY(take_part(to, g, n, &x, map, &in[nin], e));
  }
  *found += nin < n->nin;
  if (nin == 1) return map[n->out] = in[0], OK;
  return graph_add(to, OP_CONCAT, nin, in, &n->a, n->at, &map[n->out], e);
}

int lax_parts(struct arena *mem, const struct graph *p, struct graph **out, struct err *e)
{
  struct graph *to = graph_new_as(mem, p);
  int *map = NEWS(mem, int, p->ntensors + 1), found = 0;
  for (int i = 0; i < p->nnodes; i++) {
    const struct node *n = &p->nodes[i];
    if (n->op == OP_CONCAT)
      TRY(join(to, p, n, map, &found, e));
    else
      TRY(graph_take(to, NULL, -1, p, n, map, e));
    graph_keep_names(to, p, n, map);
  }
  if (!found) return NO;
  TRY(graph_without_unread(mem, to, false, out, e));
  return graph_check(*out, e);
}

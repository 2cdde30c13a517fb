// Operators of a thread graph on whole tiles. An axis that partitions a dimension of an operand partitions one of the result. A reduction of a
// partitioned dimension leaves one element for each part; on the whole tile, the parts become a dimension of their own.
#include "thread/flat.h"

// The shape of the whole tile of tensor t: its shape in the thread graph, times the extents of the axes that partition it.
static struct shape whole_shape(const struct flattening *f, int t)
{
  struct shape s = f->node->sub->tensors[t].shape;
  for (int i = 0; i < AXES; i++) {
    int d = f->tensor[t].cut[i];
    if (d != REPLICA && d < s.n) s.d[d] *= flat_extent(f, i);
  }
  return s;
}

static int view_as(struct flattening *f, const struct node *n, const struct shape *s, int t, int *out)
{
  struct attrs view = attrs_default(OP_RESHAPE);
  *out = t;
  if (shape_eq(&f->to->tensors[t].shape, s)) return OK;
  view.shape = *s;
  return graph_add(f->to, OP_RESHAPE, 1, &t, &view, n->at, out, f->e);
}

// Is `axis` a loop axis over which all readers of tensor t add it up?
static bool adds_up(const struct flattening *f, int t, int axis)
{
  const struct graph *g = f->node->sub;
  if (axis < MAX_GRID) return false;
  for (int i = 0; i < g->nnodes; i++)
    for (int k = 0; k < g->nodes[i].nin && g->nodes[i].op != OP_ITER; k++)
      if (g->nodes[i].in[k] == t && (g->nodes[i].op != OP_ACCUM || g->nodes[i].a.fmap[axis - MAX_GRID] != REPLICA)) return false;
  return true;
}

// ---- partitioned dimensions ----

// The dimension of operand t that an axis partitions, counted from the last, or REPLICA.
static int cut_from_last(const struct flattening *f, int t, int axis)
{
  int d = f->tensor[t].cut[axis];
  return d == REPLICA ? REPLICA : f->node->sub->tensors[t].shape.n - 1 - d;
}

static int map_cuts(struct flattening *f, const struct node *n)
{
  int rank = f->node->sub->tensors[n->out].shape.n;
  for (int i = 0; i < AXES; i++) {
    int joint = REPLICA;
    for (int k = 0; k < n->nin; k++) {
      int d = cut_from_last(f, n->in[k], i);
      if (d != REPLICA && joint != REPLICA && d != joint) return flat_refuse(f, n, "joins what the threads cut along different dimensions");
      if (d != REPLICA) joint = d;
    }
    f->tensor[n->out].cut[i] = (int8_t)(joint == REPLICA ? REPLICA : rank - 1 - joint);
  }
  return OK;
}

// Rows of the left operand, columns of the right one, and batches are dimensions of the result. Axes that partition the summed dimension make
// partial sums.
static int product_cuts(struct flattening *f, const struct node *n)
{
  struct flat_tensor *x = &f->tensor[n->out];
  int rank = f->node->sub->tensors[n->out].shape.n;
  for (int i = 0; i < AXES; i++) {
    int a = cut_from_last(f, n->in[0], i), b = cut_from_last(f, n->in[1], i), d = a != REPLICA ? a : b;
    x->cut[i] = REPLICA;
    if (d == REPLICA || flat_extent(f, i) == 1) continue;
    if (a == 0 && b == 1) {
      if (!adds_up(f, n->out, i)) return flat_refuse(f, n, "sums over a dimension that the threads cut, and no accumulator adds up the parts");
      x->partial |= 1u << i;
      continue;
    }
    if (a == 0 || b == 1 || (a != REPLICA && b != REPLICA && a != b))
      return flat_refuse(f, n, "joins what the threads cut along different dimensions");
    x->cut[i] = (int8_t)(rank - 1 - d);
  }
  return OK;
}

// ---- parts of a dimension ----

static bool add_extent(struct shape *s, int64_t extent)
{
  if (s->n == MAX_DIMS) return false;
  s->d[s->n++] = extent;
  return true;
}

// Reduces dimension d of tensor t, seen as [outer][parts][inner], over its parts.
static int reduce_parts(struct flattening *f, const struct node *n, enum op op, int t, int d, int64_t outer, int64_t parts, int *out)
{
  struct attrs a = attrs_default(op);
  struct shape was = f->to->tensors[t].shape, s = {0}, made = was;
  int64_t split[] = {outer, parts, was.d[d] / (outer * parts)};
  bool fits = true;
  for (int i = 0; i < was.n; i++)
    for (int k = 0; k < (i == d ? 3 : 1); k++) fits = fits && add_extent(&s, i == d ? split[k] : was.d[i]);
  if (!fits) return flat_refuse(f, n, "reduces the parts of a dimension, and there are too many dimensions");
  a.dim = d + 1, made.d[d] = outer * split[2];
  TRY(view_as(f, n, &s, t, &t));
  TRY(graph_add(f->to, op, 1, &t, &a, n->at, &t, f->e));
  return view_as(f, n, &made, t, out);
}

// Number of parts of dimension d of tensor x, by the axes before `end`.
static int64_t parts_of(const struct flattening *f, const struct flat_tensor *x, int d, int end)
{
  int64_t parts = 1;
  for (int i = 0; i < end; i++) parts *= x->cut[i] == d ? flat_extent(f, i) : 1;
  return parts;
}

// A reduction. Parts of loop axes that an accumulator adds up are reduced together. Parts of other axes are reduced separately.
static int flat_reduction(struct flattening *f, const struct node *n)
{
  struct flat_tensor *x = &f->tensor[n->out];
  int d = n->a.dim, t = f->tensor[n->in[0]].whole;
  bool added = false;
  for (int i = 0; i < AXES && !n->a.group; i++) {
    if (x->cut[i] != d || flat_extent(f, i) == 1) continue;
    if (n->op == OP_SUM && adds_up(f, n->out, i))
      x->cut[i] = REPLICA, x->partial |= 1u << i, added = true;
    else if (added)
      return flat_refuse(f, n, "leaves parts of a dimension, and an accumulator adds up parts that hold them");
  }
  int64_t parts = n->a.group ? 1 : parts_of(f, x, d, AXES);
  if (parts == 1) return graph_add(f->to, n->op, 1, &t, &n->a, n->at, &x->whole, f->e);
  return reduce_parts(f, n, n->op, t, d, parts, f->to->tensors[t].shape.d[d] / parts, &x->whole);
}

// Reshapes operand t of n to have a dimension for each axis that partitions the result. Its extent is 1 for axes that do not partition the
// operand, so the operand is broadcast along them.
static int split_operand(struct flattening *f, const struct node *n, int t, int *out)
{
  const struct flat_tensor *x = &f->tensor[t], *y = &f->tensor[n->out];
  const struct shape *tile = &f->node->sub->tensors[t].shape;
  struct shape s = {0};
  int before = f->node->sub->tensors[n->out].shape.n - tile->n;
  bool fits = true;
  for (int d = 0; d < tile->n; d++) {
    for (int i = 0; i < AXES; i++)
      if (y->cut[i] == d + before && flat_extent(f, i) > 1) fits = fits && add_extent(&s, x->cut[i] == d ? flat_extent(f, i) : 1);
    fits = fits && add_extent(&s, tile->d[d]);
  }
  if (!fits) return flat_refuse(f, n, "broadcasts parts of a dimension, and there are too many dimensions");
  return view_as(f, n, &s, x->whole, out);
}

// An elementwise operator. If an operand has one element in each part, or the same elements in all parts, its whole tile cannot be broadcast
// directly; then all operands are reshaped by split_operand.
static int flat_map(struct flattening *f, const struct node *n, const int *whole)
{
  struct shape made = whole_shape(f, n->out);
  int in[2], *out = &f->tensor[n->out].whole;
  bool plain = true;
  for (int k = 0; k < n->nin; k++) {
    const struct shape *s = &f->to->tensors[whole[k]].shape;
    for (int d = 0; d < s->n; d++) plain = plain && (s->d[d] == 1 || s->d[d] == made.d[d + made.n - s->n]);
  }
  if (plain) return graph_add(f->to, n->op, n->nin, whole, &n->a, n->at, out, f->e);
  for (int k = 0; k < n->nin; k++) TRY(split_operand(f, n, n->in[k], &in[k]));
  TRY(graph_add(f->to, n->op, n->nin, in, &n->a, n->at, out, f->e));
  return view_as(f, n, &made, *out, out);
}

int flat_operator(struct flattening *f, const struct node *n)
{
  int in[2];
  enum rule rule = op_rows[n->op].rule;
  if (n->nin > (int)COUNT(in)) return flat_refuse(f, n, "has too many operands");
  for (int k = 0; k < n->nin; k++) {
    if (f->tensor[n->in[k]].partial) return flat_refuse(f, n, "reads a partial sum of one iteration");
    in[k] = f->tensor[n->in[k]].whole;
  }
  TRY(rule == RULE_CONTRACT ? product_cuts(f, n) : map_cuts(f, n));
  if (rule == RULE_REDUCE) return flat_reduction(f, n);
  if (rule == RULE_MAP) return flat_map(f, n, in);
  return graph_add(f->to, n->op, n->nin, in, &n->a, n->at, &f->tensor[n->out].whole, f->e);
}

// An accumulator concatenates the parts of the iterations, or adds them up. Partial sums have been added up by their operator.
int flat_accumulator(struct flattening *f, const struct node *n)
{
  struct flat_tensor x = f->tensor[n->in[0]], *out = &f->tensor[n->out];
  if (n->op != OP_ACCUM) return flat_refuse(f, n, "reduces over the loop of threads");
  for (int i = MAX_GRID; i < AXES; i++) {
    int into = n->a.fmap[i - MAX_GRID], d = x.cut[i];
    if (flat_extent(f, i) == 1 || (into == REPLICA ? x.partial >> i & 1 : into == d)) continue;
    if (into != REPLICA || d == REPLICA) return flat_refuse(f, n, "does not join the parts of the iterations as they were cut");
    TRY(reduce_parts(f, n, OP_SUM, x.whole, d, parts_of(f, &x, d, i), flat_extent(f, i), &x.whole));
    x.cut[i] = REPLICA;
  }
  for (int i = MAX_GRID; i < AXES; i++) x.cut[i] = REPLICA;
  x.partial = 0;
  return *out = x, OK;
}

// Rewrites composites, partial sums and whole powers into primitives, at every level; other nodes are copied. Search and proof
// use the plain form, which has the exponential's laws and no maximum. The stable form subtracts the row maximum first, so
// floats neither overflow nor all underflow. Both forms are the same function over the reals.
#include "ir/ir.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_POWER = 64, MOST_NARROW = 1000000 };

struct rewrite {
  struct graph *to;
  struct loc at;
  bool stable;
  struct err *e;
  int status; // the first error, after which later steps do nothing
  node_adder *add;
};

static int put(struct rewrite *w, enum op op, int x, int y, const struct attrs *a)
{
  int in[] = {x, y}, out = 0;
  if (!w->status) w->status = w->add(w->to, op, y < 0 ? 1 : 2, in, a, w->at, &out, w->e);
  return out;
}

static int along(struct rewrite *w, enum op op, int x, int dim)
{
  struct attrs a = attrs_default(op);
  a.dim = dim;
  return put(w, op, x, -1, &a);
}

static int with_number(struct rewrite *w, enum op op, int x, double c)
{
  struct attrs a = attrs_default(op);
  a.scalar = c;
  return put(w, op, x, -1, &a);
}

static int limited(struct rewrite *w, int x, double lo, double hi)
{
  struct attrs a = attrs_default(OP_CLAMP);
  a.lo = lo, a.hi = hi;
  return put(w, OP_CLAMP, x, -1, &a);
}

static int two(struct rewrite *w, enum op op, int x, int y) { return put(w, op, x, y, NULL); }
static int one(struct rewrite *w, enum op op, int x) { return put(w, op, x, -1, NULL); }

// exp(x); in the stable form exp(x - max(x)) along dim
static int exponential(struct rewrite *w, int x, int dim) { return one(w, OP_EXP, w->stable ? two(w, OP_SUB, x, along(w, OP_MAX, x, dim)) : x); }

static int plain_softmax(struct rewrite *w, int x, int dim)
{
  int e = exponential(w, x, dim);
  return two(w, OP_DIV, e, along(w, OP_SUM, e, dim));
}

// min(x) as -max(-x), so that rules for maxima, including running ones, apply to minima.
static int smallest(struct rewrite *w, int x, int dim) { return one(w, OP_NEG, along(w, OP_MAX, one(w, OP_NEG, x), dim)); }

// In the stable form the maximum m is finite: a row that is -inf, or has an inf, is its own logarithm.
static int log_of_sum(struct rewrite *w, int x, int dim)
{
  if (!w->stable) return one(w, OP_LOG, along(w, OP_SUM, one(w, OP_EXP, x), dim));
  double most = dtype_largest(w->to->tensors[x].dtype);
  int m = limited(w, along(w, OP_MAX, x, dim), -most, most);
  return two(w, OP_ADD, one(w, OP_LOG, along(w, OP_SUM, one(w, OP_EXP, two(w, OP_SUB, x, m)), dim)), m);
}

// 1 - c
static int opposite(struct rewrite *w, int c) { return with_number(w, OP_ADD_SCALAR, one(w, OP_NEG, c), 1); }

static const struct node *maker(const struct rewrite *w, int t) { return &w->to->nodes[w->to->tensors[t].node]; }

static int reshaped(struct rewrite *w, int x, const struct shape *s)
{
  struct attrs a = attrs_default(OP_RESHAPE);
  a.shape = *s;
  return put(w, OP_RESHAPE, x, -1, &a);
}

// 0, 1, 2, ... along dim of n dimensions. runs: number of its run-time extent, or 0. An existing node is reused.
static int index_in(struct rewrite *w, int n, int dim, int64_t extent, uint8_t runs)
{
  struct attrs a = attrs_default(OP_IOTA);
  int out = -1;
  a.shape.n = n - dim;
  for (int i = 0; i < a.shape.n; i++) a.shape.d[i] = i ? 1 : extent;
  for (int i = 0; i < w->to->nnodes && out < 0; i++)
    if (w->to->nodes[i].op == OP_IOTA && shape_eq(&w->to->nodes[i].a.shape, &a.shape) && w->to->tensors[w->to->nodes[i].out].runs[0] == runs)
      out = w->to->nodes[i].out;
  if (out < 0 && !w->status) w->status = graph_add(w->to, OP_IOTA, 0, NULL, &a, w->at, &out, w->e);
  if (!w->status) w->to->tensors[out].runs[0] = runs;
  return out;
}

static int index_along(struct rewrite *w, int n, int dim, int64_t extent) { return index_in(w, n, dim, extent, 0); }

static int number(struct rewrite *w, double c)
{
  struct attrs a = attrs_default(OP_CONST);
  int out = 0;
  a.scalar = c;
  if (!w->status) w->status = graph_add(w->to, OP_CONST, 0, NULL, &a, w->at, &out, w->e);
  return out;
}

// The sum of those terms of b that have this sign. shape: the shape whose dimensions are indexed.
static int index_side(struct rewrite *w, const struct index_sum *b, const struct shape *shape, double sign)
{
  int sum = -1;
  for (int d = 0; d < shape->n; d++) {
    if (b->step[d] * sign <= 0 || shape->d[d] == 1) continue;
    int x = index_along(w, shape->n, d, shape->d[d]);
    if (b->step[d] * sign > 1) x = with_number(w, OP_MUL_SCALAR, x, b->step[d] * sign);
    sum = sum < 0 ? x : two(w, OP_ADD, sum, x);
  }
  if (sum < 0) return number(w, fmax(0, b->constant * sign));
  return b->constant * sign > 0 ? with_number(w, OP_ADD_SCALAR, sum, b->constant * sign) : sum;
}

// keep(x, c). A condition on indices is applied as one inequality after the other, each in a canonical form, so that a search has few operators.
static int kept(struct rewrite *w, int x, int c, const struct attrs *a)
{
  struct shape shape = w->to->tensors[c].shape;
  struct index_bounds b;
  if (!index_bounds_of(w->to, c, &b)) return put(w, OP_KEEP, x, c, a);
  for (int i = 0; i < b.n; i++)
    x = put(w, OP_KEEP, x, two(w, OP_LESS_EQUAL, index_side(w, &b.sum[i], &shape, -1), index_side(w, &b.sum[i], &shape, 1)), a);
  return x;
}

// exp(x) / sum(exp(x)), and 0 for masked elements, whose c is 0 and whose x is lower than any score. In a row of masked elements all exponentials are
// 1 in the stable form; the product with c makes the row 0.
static int shown_softmax(struct rewrite *w, int x, int c, int dim)
{
  int e = exponential(w, x, dim), sum = along(w, OP_SUM, e, dim);
  return two(w, OP_DIV, two(w, OP_MUL, e, c), sum);
}

static int softmax_where(struct rewrite *w, int x, int c, int dim)
{
  int along_c = dim - (w->to->tensors[x].shape.n - w->to->tensors[c].shape.n);
  struct attrs a = attrs_default(OP_KEEP);
  a.scalar = dtype_low(w->to->tensors[x].dtype);
  x = kept(w, x, c, &a);
  return index_reaches(w->to, c, along_c) ? plain_softmax(w, x, dim) : shown_softmax(w, x, c, dim);
}

// An additive mask hides elements at which it is -inf. The bias is the number added to other elements, limited so that it stays above masked scores.
static void mask_bias(struct rewrite *w, int mask, enum dtype sum, int *shows, int *bias)
{
  *shows = two(w, OP_LESS_EQUAL, number(w, -dtype_largest(w->to->tensors[mask].dtype)), mask);
  *bias = limited(w, mask, dtype_low(sum) / 2, INFINITY);
}

// Softmax with an additive mask. Masked scores are replaced in the mask, so the scores themselves have only one more operator. If the mask's dtype differs
// from that of the sum, the mask is added first and masked scores are replaced in the sum.
static int masked_softmax(struct rewrite *w, int x, int mask, int dim)
{
  const enum dtype t = w->to->tensors[mask].dtype, sum = dtype_join(w->to->tensors[x].dtype, t);
  struct attrs a = attrs_default(OP_KEEP);
  int shows, bias;
  if (t == BOOL) return softmax_where(w, x, mask, dim);
  mask_bias(w, mask, sum, &shows, &bias);
  a.scalar = 1.5 * dtype_low(sum);
  if (t != sum) return softmax_where(w, two(w, OP_ADD, x, bias), shows, dim);
  return shown_softmax(w, two(w, OP_ADD, x, put(w, OP_KEEP, bias, shows, &a)), shows, dim);
}

static int chosen(struct rewrite *w, int c, int x, int y)
{
  const struct node *other = maker(w, y);
  struct attrs a = attrs_default(OP_KEEP);
  a.scalar = other->a.scalar;
  if (other->op == OP_CONST) return other->a.scalar < 0 || other->a.scalar > 0 ? put(w, OP_KEEP, x, c, &a) : two(w, OP_MASK, x, c);
  return two(w, OP_ADD, two(w, OP_MASK, x, c), two(w, OP_MASK, y, opposite(w, c)));
}

static int whole(struct rewrite *w, int x, double lo, double hi)
{
  struct attrs a = attrs_default(OP_WHOLE);
  a.lo = lo, a.hi = hi;
  return put(w, OP_WHOLE, x, -1, &a);
}

// Rounds down (x + 0.5) / y instead of x / y: its distance from whole numbers is larger than the rounding error.
static int floor_quotient(struct rewrite *w, int x, int y)
{
  const struct whole_range a = w->to->tensors[x].range, b = w->to->tensors[y].range;
  double lo = fmin(floor((double)a.least / (double)b.least), floor((double)a.least / (double)b.most));
  double hi = fmax(floor((double)a.most / (double)b.least), floor((double)a.most / (double)b.most));
  return whole(w, two(w, OP_DIV, with_number(w, OP_ADD_SCALAR, x, 0.5), y), lo, hi);
}

static int remainder_of(struct rewrite *w, int x, int y) { return two(w, OP_SUB, x, two(w, OP_MUL, floor_quotient(w, x, y), y)); }

// x with the range of the composite's result, which may be narrower than the one inferred from its operators.
static int as_declared(struct rewrite *w, int x, const struct tensor *t)
{
  const struct tensor *have = &w->to->tensors[x];
  const double lo = (double)t->range.least, hi = (double)t->range.most;
  if (w->status || !t->whole) return x;
  if (!have->whole) return whole(w, x, lo, hi);
  return have->range.least < t->range.least || have->range.most > t->range.most ? limited(w, x, lo, hi) : x;
}

static int one_hot(struct rewrite *w, int x, int64_t extent)
{
  struct shape s = w->to->tensors[x].shape;
  s.d[s.n++] = 1;
  return two(w, OP_EQUAL, index_along(w, 1, 0, extent), reshaped(w, x, &s));
}

// The index of the first maximum: n - 1 minus the largest n - 1 - i over indices i of elements that equal the maximum.
static int first_largest(struct rewrite *w, int x, int dim)
{
  struct shape s = w->to->tensors[x].shape;
  double last = (double)(s.d[dim] - 1);
  int behind = with_number(w, OP_ADD_SCALAR, one(w, OP_NEG, index_along(w, s.n, dim, s.d[dim])), last);
  int is = whole(w, two(w, OP_EQUAL, x, along(w, OP_MAX, x, dim)), 0, 1);
  return with_number(w, OP_ADD_SCALAR, one(w, OP_NEG, along(w, OP_MAX, two(w, OP_MASK, behind, is), dim)), last);
}

// A running sum as a product with a triangle of ones.
static int running_sum(struct rewrite *w, int x, int dim)
{
  struct shape s = w->to->tensors[x].shape, rows = {2, {1, s.d[0]}};
  int64_t n = s.d[dim];
  if (n == 1) return x;
  if (s.n == 1) return reshaped(w, running_sum(w, reshaped(w, x, &rows), 1), &s);
  const uint8_t runs = w->to->tensors[x].runs[dim];
  int row = index_in(w, 2, 0, n, runs), col = index_in(w, 2, 1, n, runs);
  if (dim == s.n - 1) return two(w, OP_MATMUL, x, two(w, OP_LESS_EQUAL, row, col));
  if (dim == s.n - 2) return two(w, OP_MATMUL, two(w, OP_LESS_EQUAL, col, row), x);
  bool whole = true; // no run-time extents: the dimensions after dim are merged into one
  struct shape joined = {dim + 2, {0}};
  for (int i = 0; i < s.n; i++) whole &= !w->to->tensors[x].runs[i];
  for (int i = 0; i <= dim + 1; i++) joined.d[i] = s.d[i];
  for (int i = dim + 2; i < s.n; i++) joined.d[dim + 1] *= s.d[i];
  if (whole) return reshaped(w, running_sum(w, reshaped(w, x, &joined), dim), &s);
  struct attrs a = attrs_default(OP_TRANSPOSE);
  a.perm.n = s.n;
  for (int i = 0; i < s.n; i++) a.perm.d[i] = i == dim ? s.n - 1 : i == s.n - 1 ? dim : i;
  return put(w, OP_TRANSPOSE, running_sum(w, put(w, OP_TRANSPOSE, x, -1, &a), s.n - 1), -1, &a);
}

static int cast(struct rewrite *w, int x, enum dtype t)
{
  for (int op = 0; op < OPS; op++)
    if (op_rows[op].flags & CASTS && !strcmp(op_rows[op].name, dtype_name(t))) return one(w, (enum op)op, x);
  return x;
}

// x / sqrt(mean(x * x) + eps) [* weight] [+ shift]. In the stable form the mean of squares is f32 if x is f16 or narrower: squares exceed such a
// dtype, and their root does not.
static int normalized(struct rewrite *w, int x, int last, double eps, int nin, const int *in)
{
  const struct tensor *t = &w->to->tensors[x];
  const enum dtype narrow = t->dtype;
  const bool widens = w->stable && !t->whole && dtype_largest(narrow) < MOST_NARROW;
  int mean = along(w, OP_MEAN, one(w, OP_SQUARE, widens ? cast(w, x, F32) : x), last);
  int root = one(w, OP_SQRT, eps == 0 ? mean : with_number(w, OP_ADD_SCALAR, mean, eps));
  int r = two(w, OP_DIV, x, widens ? cast(w, root, narrow) : root);
  if (nin > 1) r = two(w, OP_MUL, r, in[1]);
  if (nin > 2) r = two(w, OP_ADD, r, in[2]);
  return r;
}

// x to a whole power, by squaring. Products have algebraic laws and are faster than a call of pow.
static int whole_power(struct rewrite *w, int x, int n)
{
  int r = -1, square = x;
  for (int left = abs(n); left; left >>= 1) {
    if (left & 1) r = r < 0 ? square : two(w, OP_MUL, r, square);
    if (left > 1) square = one(w, OP_SQUARE, square);
  }
  if (n > 0) return r;
  return two(w, OP_DIV, number(w, 1), r);
}

// The exponent y if it is a constant whole number of at most MOST_POWER; otherwise 0.
static int power_of(const struct rewrite *w, int y)
{
  const struct node *n = &w->to->nodes[w->to->tensors[y].node];
  double c = n->op == OP_CONST ? n->a.scalar : 0;
  return fabs(c) <= MOST_POWER && c == rint(c) ? (int)c : 0;
}

// Partial sums of every extent-th element: reshapes the dimension to a matrix with `extent` columns, and adds up its rows.
static int partial_sums(struct rewrite *w, const struct node *n, int x)
{
  struct shape s = w->to->tensors[x].shape, matrix = {s.n + 1};
  if (s.n == MAX_DIMS) {
    if (!w->status) w->status = err_set(w->e, ERR_LIMIT, n->at, "%s of a tensor of %d dimensions", op_rows[n->op].name, MAX_DIMS);
    return x;
  }
  for (int i = 0; i <= s.n; i++) matrix.d[i] = s.d[i - (i > n->a.dim)];
  matrix.d[n->a.dim] /= n->a.extent, matrix.d[n->a.dim + 1] = s.d[n->a.dim] = n->a.extent;
  return reshaped(w, along(w, op_rows[n->op].rule == RULE_REDUCE ? OP_SUM : OP_ACCUM_SUM, reshaped(w, x, &matrix), n->a.dim), &s);
}

static bool is_composite(enum op op) { return op_rows[op].rule == RULE_COMPOSITE || (op_rows[op].attrs & A_EXTENT); }

static int composite(struct rewrite *w, const struct node *n, const int *in)
{
  if (op_rows[n->op].rule != RULE_COMPOSITE) return partial_sums(w, n, in[0]);
  int last = w->to->tensors[in[0]].shape.n - 1;
  if (n->op == OP_SOFTMAX) return n->nin > 1 ? masked_softmax(w, in[0], in[1], n->a.dim) : plain_softmax(w, in[0], n->a.dim);
  if (n->op == OP_SOFTMAX_WHERE) return softmax_where(w, in[0], in[1], n->a.dim);
  if (n->op == OP_WHERE) return chosen(w, in[0], in[1], in[2]);
  if (n->op == OP_CUMSUM) return running_sum(w, in[0], n->a.dim);
  if (n->op == OP_ARGMAX) return first_largest(w, in[0], n->a.dim);
  if (n->op == OP_ONE_HOT) return one_hot(w, in[0], n->a.extent);
  if (n->op == OP_FLOOR_DIV) return floor_quotient(w, in[0], in[1]);
  if (n->op == OP_MOD) return remainder_of(w, in[0], in[1]);
  if (n->op == OP_LOGSUMEXP) return log_of_sum(w, in[0], n->a.dim);
  if (n->op == OP_MIN) return smallest(w, in[0], n->a.dim);
  int x = in[0];
  if (n->op == OP_LAYER_NORM) x = two(w, OP_SUB, x, along(w, OP_MEAN, x, last));
  return normalized(w, x, last, n->a.eps, n->nin, in);
}

static int copy_graph(struct rewrite *w, const struct graph *g, const struct graph *above, const int *from);

static int copy_nest(struct rewrite *w, const struct node *n, const int *in, int *out)
{
  struct graph *sub = graph_new(w->to->mem, n->sub->level, n->sub->name);
  graph_axes(sub, n->sub->ngrid, n->sub->grid, n->sub->nloop, n->sub->loop);
  struct rewrite inner = {sub, n->at, w->stable, w->e, OK, w->add};
  int s = copy_graph(&inner, n->sub, w->to, in);
  return s ? s : graph_nest(w->to, sub, n->nin, in, n->at, out, w->e);
}

// Appends a copy of node n of g. in[]: its arguments in the copy; for ITER, the tensor of the enclosing graph.
static int copy_node(struct rewrite *w, const struct graph *g, const struct graph *above, const struct node *n, const int *in, int *out)
{
  if (n->op == OP_INPUT) return graph_input_as(w->to, NULL, g->tensors[n->out].dtype, &g->tensors[n->out], n->at, out, w->e);
  if (n->op == OP_ITER) return graph_iter(w->to, above, in[0], &n->a, n->at, out, w->e);
  if (n->sub) return copy_nest(w, n, in, out);
  w->at = n->at;
  if (op_rows[n->op].rule == RULE_WORLD && w->to->world == 1) return *out = in[0], OK; // the rank's own tensor
  if (n->op == OP_POW && power_of(w, in[1])) return *out = whole_power(w, in[0], power_of(w, in[1])), w->status;
  if (!is_composite(n->op)) return graph_add(w->to, n->op, n->nin, in, &n->a, n->at, out, w->e);
  *out = as_declared(w, composite(w, n, in), &g->tensors[n->out]);
  return w->status;
}

static int copy_graph(struct rewrite *w, const struct graph *g, const struct graph *above, const int *from)
{
  struct arena tmp = {0};
  int *to = NEWS(&tmp, int, g->ntensors + 1), iters = 0, s = OK;
  for (int i = 0; i < g->nnodes && !s; i++) {
    const struct node *n = &g->nodes[i];
    int *in = NEWS(&tmp, int, n->nin + 1), out = 0;
    if (n->op == OP_ITER)
      in[0] = from[iters++];
    else
      for (int k = 0; k < n->nin; k++) in[k] = to[n->in[k]];
    s = copy_node(w, g, above, n, in, &out);
    for (int k = 0; k < n->nout && !s; k++) {
      to[n->out + k] = out + k;
      if (extent_told(n->op)) memcpy(w->to->tensors[out + k].runs, g->tensors[n->out + k].runs, sizeof g->tensors->runs);
      const char *name = g->tensors[n->out + k].name;
      if (name && !w->to->tensors[out + k].name) w->to->tensors[out + k].name = arena_strdup(w->to->mem, name);
    }
  }
  arena_close(&tmp);
  return s;
}

int graph_expand(struct arena *mem, const struct graph *g, bool stable, struct graph **out, struct err *e)
{
  *out = graph_new_as(mem, g);
  struct rewrite w = {*out, NOWHERE, stable, e, OK, graph_add};
  int s = copy_graph(&w, g, NULL, NULL);
  if (s || g->level != KERNEL) return s;
  return graph_without_unread(mem, *out, true, out, e); // conditions that were replaced by inequalities may be unused
}

int graph_expand_node(struct graph *g, const struct node *n, node_adder *add, int *out, struct err *e)
{
  struct rewrite w = {g, n->at, false, e, OK, add};
  struct tensor declared[64];
  int nout;
  TRY(infer_node(g, n, declared, &nout, e));
  *out = as_declared(&w, composite(&w, n, n->in), &declared[0]);
  return w.status;
}

int graph_mask_bias(struct graph *g, int mask, enum dtype sum, node_adder *add, struct loc at, int *shows, int *bias, struct err *e)
{
  struct rewrite w = {.to = g, .at = at, .e = e, .add = add};
  return mask_bias(&w, mask, sum, shows, bias), w.status;
}

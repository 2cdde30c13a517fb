// Conditions, selection by them, and data-dependent indices. A condition is a tensor of 0 and 1. An index is an input with a range, or a value
// computed in the same program. ONNX allows negative indices, which count from the end.
#include "onnx/onnx_lower.h"

// ---- conditions ----

void onnx_as_compare(struct onnx_lower *l)
{
  const bool turned = l->row->fn == FN_GREATER || l->row->fn == FN_GREATER_EQUAL;
  l->type = ONNX_BOOL;
  lo_out(l, 0, lo_pair(l, l->row->op, turned, !turned));
}

// The negation of a condition.
static int negation(struct onnx_lower *l, int c) { return lo_op2(l, OP_EQUAL, c, lo_const(l, 0)); }

void onnx_as_not(struct onnx_lower *l)
{
  l->type = ONNX_BOOL;
  lo_out(l, 0, negation(l, lo_condition(l, 0)));
}

// And is the product, Or the maximum, Xor the inequality.
void onnx_as_logic(struct onnx_lower *l)
{
  l->type = ONNX_BOOL;
  int t = lo_op2(l, l->row->op, lo_condition(l, 0), lo_condition(l, 1));
  lo_out(l, 0, l->row->op == OP_EQUAL ? negation(l, t) : t);
}

static int number_or_in(struct onnx_lower *l, int k)
{
  double c;
  return lo_known(l, k, &c) && !l->m->values[l->n->in[k]].shape.n ? lo_const(l, c) : lo_in(l, k);
}

void onnx_as_where(struct onnx_lower *l)
{
  double c;
  if (lo_known(l, 1, &c) && lo_known(l, 2, &c)) return lo_fail(l, "it chooses between two numbers");
  const int condition = lo_condition(l, 0), x = number_or_in(l, 1), y = number_or_in(l, 2);
  lo_out(l, 0, lo_op(l, OP_WHERE, 3, (int[]){condition, x, y}, NULL));
}

// ---- along an axis ----

static bool axis_of(struct onnx_lower *l, int64_t otherwise, int x, int *axis)
{
  return x >= 0 && lo_axis(l, onnx_attr_int(l->n, "axis", otherwise), lo_shape(l, x)->n, axis);
}

void onnx_as_arg(struct onnx_lower *l)
{
  struct shape s;
  int x = lo_in(l, 0), axis;
  if (onnx_attr_int(l->n, "select_last_index", 0)) return lo_fail(l, "it chooses the last of equal elements");
  if (!axis_of(l, 0, x, &axis) || !lo_host_shape(l, 0, &s)) return;
  if (l->row->fn == FN_MIN) x = lo_op1(l, OP_NEG, x);
  lo_out(l, 0, lo_reshape(l, lo_dim(l, OP_ARGMAX, x, axis), &s));
}

// The smallest elements are the largest of the negated tensor.
void onnx_as_top_k(struct onnx_lower *l)
{
  struct shape s;
  struct attrs a = attrs_default(OP_TOPK);
  const bool most = onnx_attr_int(l->n, "largest", 1);
  int x = lo_in(l, 0);
  if (!axis_of(l, -1, x, &a.dim) || !lo_host_shape(l, 0, &s)) return;
  a.k = s.d[a.dim];
  if (!most) x = lo_op1(l, OP_NEG, x);
  const int values = lo_op(l, OP_TOPK, 1, &x, &a);
  lo_out(l, 1, values < 0 ? -1 : values + 1);
  lo_out(l, 0, most || !lo_wants(l, 0) ? values : lo_op1(l, OP_NEG, values));
}

void onnx_as_cumulate(struct onnx_lower *l)
{
  const struct onnx_cells *axis = lo_has(l, 1) ? onnx_known(l->m, l->n->in[1]) : NULL;
  int x = lo_in(l, 0), dim;
  if (!axis || onnx_type_kind(axis->type) != WHOLE || onnx_elements(&axis->shape) != 1) return lo_fail(l, "its axis is computed when the model runs");
  if (onnx_attr_int(l->n, "exclusive", 0) || onnx_attr_int(l->n, "reverse", 0))
    return lo_fail(l, "its sums leave an element out, or begin at the end");
  if (x >= 0 && lo_axis(l, axis->i[0], lo_shape(l, x)->n, &dim)) lo_out(l, 0, lo_dim(l, OP_CUMSUM, x, dim));
}

// ---- indices ----

// Input k as indices of a dimension; negative ones count from its end.
static int index_of(struct onnx_lower *l, int k, int64_t extent)
{
  if (extent > WHOLE_DIVIDED) return lo_fail(l, "it chooses of %lld elements, and Mica of at most %d", (long long)extent, WHOLE_DIVIDED), -1;
  const int at = lo_index(l, k, -extent, extent - 1);
  return at < 0 || l->g->tensors[at].range.least >= 0 ? at : lo_op2(l, OP_MOD, at, lo_const(l, (double)extent));
}

static int chosen(struct onnx_lower *l, int x, int at, int dim)
{
  struct attrs a = attrs_default(OP_GATHER);
  a.dim = dim;
  return lo_op(l, OP_GATHER, 2, (int[]){x, at}, &a);
}

void onnx_gather_computed(struct onnx_lower *l, int x, int axis, const struct shape *out)
{
  int at = index_of(l, 1, lo_shape(l, x)->d[axis]);
  if (at >= 0 && !lo_shape(l, at)->n) at = lo_reshape(l, at, &(struct shape){.n = 1, .d = {1}});
  lo_out(l, 0, lo_reshape(l, chosen(l, x, at, axis), out));
}

// The offset of the first element selected by each index along dimension d of a tensor of shape s, in which elements of x have these strides.
static int numbers(struct onnx_lower *l, const struct shape *s, int d, int64_t stride)
{
  struct attrs a = attrs_default(OP_IOTA);
  a.shape = (struct shape){.n = s->n};
  for (int i = 0; i < s->n; i++) a.shape.d[i] = i == d ? s->d[d] : 1;
  return lo_scale(l, lo_op(l, OP_IOTA, 0, NULL, &a), (double)stride);
}

// Flattens x, and computes one index for each element of the result.
void onnx_as_gather_elements(struct onnx_lower *l)
{
  struct shape s;
  int64_t stride[MAX_DIMS];
  int x = lo_in(l, 0), axis;
  if (!axis_of(l, 0, x, &axis) || !lo_host_shape(l, 0, &s)) return;
  host_strides(lo_shape(l, x), stride);
  const int64_t all = onnx_elements(lo_shape(l, x));
  int at = lo_scale(l, index_of(l, 1, lo_shape(l, x)->d[axis]), (double)stride[axis]);
  for (int d = 0; d < s.n; d++)
    if (d != axis && s.d[d] > 1) at = lo_op2(l, OP_ADD, at, numbers(l, &s, d, stride[d]));
  lo_out(l, 0, chosen(l, lo_reshape(l, x, &(struct shape){.n = 1, .d = {all}}), at, 0));
}

// Combines the indices of the first dimensions, which are adjacent in the last dimension of input 1, into one.
void onnx_as_gather_nd(struct onnx_lower *l)
{
  struct shape s, flat = {.n = 1, .d = {1}};
  int x = lo_in(l, 0), at = -1;
  if (onnx_attr_int(l->n, "batch_dims", 0)) return lo_fail(l, "it has batches");
  if (x < 0 || !lo_host_shape(l, 0, &s)) return;
  const struct shape own = *lo_shape(l, x), *index = &l->m->values[l->n->in[1]].shape;
  const int last = index->n - 1, n = (int)index->d[last];
  for (int i = 0; i < n; i++) {
    if (own.d[i] != own.d[0]) return lo_fail(l, "its indices are of dimensions of different extents"); // one input has one range
    flat.d[0] *= own.d[i];
  }
  for (int i = n; i < own.n; i++) flat.d[flat.n++] = own.d[i];
  if (flat.d[0] > WHOLE_DIVIDED) return lo_fail(l, "it chooses of %lld slices, and Mica of at most %d", (long long)flat.d[0], WHOLE_DIVIDED);
  const int all = lo_index(l, 1, -own.d[0], own.d[0] - 1);
  for (int i = 0; i < n; i++) {
    int one = n > 1 ? lo_part(l, all, last, i, 1) : all;
    if (l->failed) return;
    if (l->g->tensors[one].range.least < 0) one = lo_op2(l, OP_MOD, one, lo_const(l, (double)own.d[i]));
    at = i ? lo_op2(l, OP_ADD, lo_scale(l, at, (double)own.d[i]), one) : one;
  }
  lo_out(l, 0, lo_reshape(l, chosen(l, lo_reshape(l, x, &flat), at, 0), &s));
}

// An index beyond the depth selects no element.
void onnx_as_one_hot(struct onnx_lower *l)
{
  struct shape s, perm = {0};
  struct attrs a = attrs_default(OP_ONE_HOT);
  int axis;
  if (!lo_host_shape(l, 0, &s) || !lo_axis(l, onnx_attr_int(l->n, "axis", -1), s.n, &axis)) return;
  a.extent = s.d[axis];
  if (a.extent > WHOLE_DIVIDED) return lo_fail(l, "it has a depth of %lld", (long long)a.extent);
  int at = lo_index(l, 0, -WHOLE_DIVIDED, WHOLE_DIVIDED), pair = lo_in(l, 2);
  if (l->failed) return;
  if (l->g->tensors[at].range.least < 0) at = lo_op2(l, OP_ADD, at, lo_scale(l, lo_op2(l, OP_LESS, at, lo_const(l, 0)), (double)a.extent));
  int hot = lo_op(l, OP_ONE_HOT, 1, &at, &a);
  for (int i = 0, k = 0; i < s.n; i++) perm.d[perm.n++] = i == axis ? s.n - 1 : k++;
  hot = lo_transpose(l, hot, &perm);
  lo_out(l, 0, lo_op(l, OP_WHERE, 3, (int[]){hot, lo_part(l, pair, 0, 1, 1), lo_part(l, pair, 0, 0, 1)}, NULL));
}

// Operators that move elements, as far as Mica's views, slices and concatenations express them.
#include "onnx/onnx_lower.h"

#include <string.h>

void onnx_as_identity(struct onnx_lower *l) { lo_out(l, 0, lo_in(l, 0)); }

// Dropout outside of training; else the simple function reports the error.
void onnx_as_dropout(struct onnx_lower *l)
{
  const struct onnx_cells *training = lo_has(l, 2) ? onnx_known(l->m, l->n->in[2]) : NULL;
  if (lo_wants(l, 1)) lo_fail(l, "its mask is read");
  if (lo_has(l, 2) && (!training || onnx_type_kind(training->type) != WHOLE || onnx_elements(&training->shape) != 1 || training->i[0]))
    lo_fail(l, "it is, or may be, in training");
  onnx_as_identity(l);
}

// Mica has no conversions. A kernel computes in 32 bits whatever it loads, so a widened value may keep its dtype, and a narrowed value must already
// be narrow. The surrounding program decides which holds; a node tried alone accepts both (convert.c).
void onnx_as_cast(struct onnx_lower *l)
{
  int x = lo_in(l, 0), to = lo_has(l, 1) ? l->m->values[l->n->in[1]].type : (int)onnx_attr_int(l->n, "to", 0);
  if (l->failed) return;
  int from = l->m->values[l->n->in[0]].type;
  enum dtype is = l->g->tensors[x].dtype, want = is;
  l->type = to;
  if (to != from && !onnx_type_dtype(to, &want)) lo_fail(l, "from %s to %s: Mica has no conversions", onnx_type_name(from), onnx_type_name(to));
  if (l->whole && want != F32 && is != want)
    lo_fail(l, "from %s to %s: it rounds what was not of that type before, and Mica has no conversions", onnx_type_name(from), onnx_type_name(to));
  if (!l->whole && to != from && want != F32 && onnx_type_dtype(from, &is) && is != F32)
    lo_fail(l, "from %s to %s: Mica has no conversions", onnx_type_name(from), onnx_type_name(to));
  lo_out(l, 0, x);
}

// Reshape, Squeeze, Unsqueeze, Flatten: their simple functions know the shape.
void onnx_as_shaped(struct onnx_lower *l)
{
  struct shape s;
  int x = lo_in(l, 0);
  if (lo_host_shape(l, 0, &s)) lo_out(l, 0, lo_reshape(l, x, &s));
}

void onnx_as_transpose(struct onnx_lower *l)
{
  struct onnx_ints list;
  int x = lo_in(l, 0);
  struct shape perm = {.n = lo_shape(l, x)->n};
  bool given = lo_list(l, "perm", MAX_DIMS, &list);
  if (given && list.n != perm.n) return lo_fail(l, "perm has %d entries for %d dimensions", list.n, perm.n);
  for (int i = 0; i < perm.n; i++) perm.d[i] = given ? list.v[i] : perm.n - 1 - i;
  lo_out(l, 0, lo_transpose(l, x, &perm));
}

void onnx_as_concat(struct onnx_lower *l)
{
  int in[LO_MOST_PARTS], n = l->n->nin;
  struct attrs a = attrs_default(OP_CONCAT);
  if (n > LO_MOST_PARTS) return lo_fail(l, "it joins %d tensors", n);
  for (int k = 0; k < n; k++) in[k] = lo_in(l, k);
  if (l->failed || !lo_axis(l, onnx_attr_int(l->n, "axis", 0), lo_shape(l, in[0])->n, &a.dim)) return;
  lo_out(l, 0, n == 1 ? in[0] : lo_op(l, OP_CONCAT, n, in, &a));
}

void onnx_as_split(struct onnx_lower *l)
{
  int x = lo_in(l, 0), axis;
  int64_t at = 0;
  if (!lo_axis(l, onnx_attr_int(l->n, "axis", 0), lo_shape(l, x)->n, &axis)) return;
  for (int k = 0; k < l->n->nout && !l->failed; k++) {
    struct shape s;
    if (!lo_host_shape(l, k, &s)) return;
    if (lo_wants(l, k)) lo_out(l, k, lo_part(l, x, axis, at, s.d[axis]));
    at += s.d[axis];
  }
}

void onnx_as_slice(struct onnx_lower *l)
{
  struct onnx_ints from, axes, steps;
  struct shape s;
  int x = lo_in(l, 0), axis;
  bool at = lo_list(l, "axes", 3, &axes), by = lo_list(l, "steps", 4, &steps);
  if (!lo_list(l, "starts", 1, &from) || !lo_host_shape(l, 0, &s)) return lo_fail(l, "its bounds are missing");
  for (int i = 0; i < from.n && !l->failed; i++) {
    if (!lo_axis(l, at ? axes.v[i] : i, s.n, &axis)) return;
    int64_t d = lo_shape(l, x)->d[axis], start = from.v[i] < 0 ? from.v[i] + d : from.v[i];
    if (by && steps.v[i] != 1 && s.d[axis] != d) return lo_fail(l, "it takes every %lld", (long long)steps.v[i]);
    if (by && steps.v[i] < 0) return lo_fail(l, "it goes backwards");
    x = lo_part(l, x, axis, MAX(MIN(start, d), 0), s.d[axis]);
  }
  lo_out(l, 0, x);
}

// Known indices in few contiguous runs become slices, which are joined.
void onnx_as_gather(struct onnx_lower *l)
{
  int x = lo_in(l, 0), axis, n = 0, in[LO_MOST_PARTS];
  const struct onnx_cells *at = lo_has(l, 1) ? onnx_known(l->m, l->n->in[1]) : NULL;
  struct shape s;
  if (!lo_host_shape(l, 0, &s) || !lo_axis(l, onnx_attr_int(l->n, "axis", 0), lo_shape(l, x)->n, &axis)) return;
  if (!at) return onnx_gather_computed(l, x, axis, &s);
  int64_t count = onnx_elements(&at->shape), d = lo_shape(l, x)->d[axis];
  for (int64_t k = 0, run; k < count && !l->failed; k += run) {
    int64_t i = at->i[k] < 0 ? at->i[k] + d : at->i[k];
    for (run = 1; k + run < count && at->i[k + run] == at->i[k] + run;) run++;
    if (i < 0 || i + run > d) return lo_fail(l, "an index is %lld of an extent of %lld", (long long)at->i[k], (long long)d);
    if (n == LO_MOST_PARTS) return lo_fail(l, "it gathers more than %d runs of indices", LO_MOST_PARTS);
    in[n++] = lo_part(l, x, axis, i, run);
  }
  if (!n) return lo_fail(l, "it gathers nothing");
  struct attrs a = attrs_default(OP_CONCAT);
  a.dim = axis;
  lo_out(l, 0, lo_reshape(l, n == 1 ? in[0] : lo_op(l, OP_CONCAT, n, in, &a), &s));
}

static int repeated(struct onnx_lower *l, int x, int dim, int64_t times)
{
  struct attrs a = attrs_default(OP_REPEAT);
  a.dim = dim, a.times = times;
  return times == 1 ? x : lo_op(l, OP_REPEAT, 1, &x, &a);
}

void onnx_as_expand(struct onnx_lower *l)
{
  struct shape s, own = {0};
  int x = lo_in(l, 0);
  if (!lo_host_shape(l, 0, &s)) return;
  const struct shape *was = lo_shape(l, x);
  for (int i = 0; i < s.n; i++) own.d[own.n++] = i < s.n - was->n ? 1 : was->d[i - (s.n - was->n)];
  x = lo_reshape(l, x, &own);
  for (int i = 0; i < s.n; i++)
    if (own.d[i] != s.d[i]) x = repeated(l, x, i, s.d[i]);
  lo_out(l, 0, x);
}

void onnx_as_tile(struct onnx_lower *l)
{
  struct onnx_ints times;
  int x = lo_in(l, 0), in[LO_MOST_PARTS];
  if (!lo_list(l, "repeats", 1, &times) || times.n != lo_shape(l, x)->n) return lo_fail(l, "its repeats are not known");
  for (int i = 0; i < times.n && !l->failed; i++) {
    struct attrs a = attrs_default(OP_CONCAT);
    a.dim = i;
    if (times.v[i] < 1) return lo_fail(l, "it makes an empty tensor");
    if (lo_shape(l, x)->d[i] == 1)
      x = repeated(l, x, i, times.v[i]);
    else if (times.v[i] > LO_MOST_PARTS)
      lo_fail(l, "it repeats %lld times", (long long)times.v[i]);
    else if (times.v[i] > 1) {
      for (int k = 0; k < times.v[i]; k++) in[k] = x;
      x = lo_op(l, OP_CONCAT, (int)times.v[i], in, &a);
    }
  }
  lo_out(l, 0, x);
}

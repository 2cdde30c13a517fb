// Operators that move elements: each element of the result is an element of an input, or a constant.
#include "onnx/onnx_host.h"

#include <math.h>
#include <string.h>

void host_transpose(struct onnx_host *h)
{
  const struct onnx_cells *a = host_in(h, 0);
  struct onnx_ints perm;
  struct shape s = a->shape;
  int64_t own[MAX_DIMS], stride[MAX_DIMS];
  bool seen[MAX_DIMS] = {false}, given = host_list(h, "perm", MAX_DIMS, &perm);
  host_strides(&a->shape, own);
  if (given && perm.n != s.n) return host_fail(h, "perm has %d entries for %d dimensions", perm.n, s.n);
  for (int i = 0; i < s.n; i++) {
    int64_t from = given ? perm.v[i] : s.n - 1 - i;
    if (from < 0 || from >= s.n || seen[from]) return host_fail(h, "perm is no permutation");
    seen[from] = true, s.d[i] = a->shape.d[from], stride[i] = own[from];
  }
  struct onnx_cells *out = host_out(h, 0, a->type, &s);
  if (!h->failed && out->p) host_copy(out->p, a->p, &s, 0, stride);
}

// Start and number of elements of a slice of extent d (Python's rules).
static void slice_of(int64_t d, int64_t from, int64_t to, int64_t step, int64_t *start, int64_t *count)
{
  int64_t lo = step > 0 ? 0 : -1, hi = step > 0 ? d : d - 1;
  from = from < 0 ? from + d : from, to = to < 0 ? to + d : to;
  from = MAX(MIN(from, hi), step > 0 ? 0 : MIN(0, hi)), to = MAX(MIN(to, hi), lo);
  int64_t span = step > 0 ? to - from : from - to, by = step > 0 ? step : -step;
  *start = from, *count = span > 0 ? (span - 1) / by + 1 : 0;
}

void host_slice(struct onnx_host *h)
{
  const struct onnx_cells *a = host_in(h, 0);
  struct onnx_ints from, to, axes, steps;
  struct shape s = a->shape;
  int64_t stride[MAX_DIMS], start = 0, first;
  bool named = host_list(h, "starts", 1, &from) && host_list(h, "ends", 2, &to), at = host_list(h, "axes", 3, &axes),
       by = host_list(h, "steps", 4, &steps);
  int axis;
  if (!named) return host_fail(h, "its bounds are missing");
  if (from.n != to.n || (at && axes.n != from.n) || (by && steps.n != from.n) || from.n > a->shape.n)
    return host_fail(h, "its bounds and axes do not match");
  host_strides(&a->shape, stride);
  for (int i = 0; i < from.n; i++) {
    int64_t step = by ? steps.v[i] : 1;
    if (!host_axis(h, at ? axes.v[i] : i, a->shape.n, &axis)) return;
    if (!step) return host_fail(h, "a step is 0");
    step = MAX(MIN(step, (int64_t)1 << 40), -((int64_t)1 << 40));
    slice_of(s.d[axis], from.v[i], to.v[i], step, &first, &s.d[axis]);
    if (s.d[axis]) start += first * stride[axis], stride[axis] *= s.d[axis] > 1 ? step : 1;
  }
  struct onnx_cells *out = host_out(h, 0, a->type, &s);
  if (!h->failed && out->p) host_copy(out->p, a->p, &s, start, stride);
}

static bool index_ok(struct onnx_host *h, int64_t *i, int64_t d)
{
  if (*i < 0) *i += d;
  if (*i < 0 || *i >= d) host_fail(h, "index %lld of an extent of %lld", (long long)*i, (long long)d);
  return !h->failed;
}

void host_gather(struct onnx_host *h)
{
  const struct onnx_cells *a = host_in(h, 0), *at = host_in(h, 1);
  int axis, rank = a->shape.n + at->shape.n - 1;
  struct shape s = {.n = rank};
  int64_t outer = 1, inner = 1;
  if (h->failed || !host_axis(h, onnx_attr_int(h->n, "axis", 0), a->shape.n, &axis)) return;
  if (rank > MAX_DIMS || onnx_type_kind(at->type) != WHOLE)
    return host_fail(h, "it makes %d dimensions by indices of %s", rank, onnx_type_name(at->type));
  for (int i = 0; i < axis; i++) outer *= s.d[i] = a->shape.d[i];
  for (int i = 0; i < at->shape.n; i++) s.d[axis + i] = at->shape.d[i];
  for (int i = axis + 1; i < a->shape.n; i++) inner *= s.d[at->shape.n + i - 1] = a->shape.d[i];
  struct onnx_cells *out = host_out(h, 0, a->type, &s);
  int64_t n = onnx_elements(&at->shape), d = a->shape.d[axis];
  for (int64_t k = 0; k < n && !h->failed && out->p; k++) {
    int64_t i = at->i[k];
    if (!index_ok(h, &i, d)) return;
    for (int64_t o = 0; o < outer; o++) memcpy(out->i + (o * n + k) * inner, a->i + (o * d + i) * inner, 8 * (size_t)inner);
  }
}

void host_gather_elements(struct onnx_host *h)
{
  const struct onnx_cells *a = host_in(h, 0), *at = host_in(h, 1);
  int axis;
  int64_t own[MAX_DIMS], to[MAX_DIMS];
  if (h->failed || !host_axis(h, onnx_attr_int(h->n, "axis", 0), a->shape.n, &axis)) return;
  if (at->shape.n != a->shape.n || onnx_type_kind(at->type) != WHOLE) return host_fail(h, "its indices do not fit");
  for (int i = 0; i < a->shape.n; i++)
    if (i != axis && at->shape.d[i] > a->shape.d[i]) return host_fail(h, "its indices do not fit");
  struct onnx_cells *out = host_out(h, 0, a->type, &at->shape);
  host_strides(&a->shape, own), host_strides(&at->shape, to);
  for (int64_t k = 0, n = onnx_elements(&at->shape); k < n && !h->failed && out->p; k++) {
    int64_t from = 0, i = at->i[k];
    if (!index_ok(h, &i, a->shape.d[axis])) return;
    for (int d = 0; d < a->shape.n; d++) from += (d == axis ? i : k / to[d] % at->shape.d[d]) * own[d];
    out->i[k] = a->i[from];
  }
}

// ---- regions of the result ----

// Copies all of `from` to the region of `to` that begins at `at` along axis.
static void put(struct onnx_cells *to, const struct onnx_cells *from, int axis, int64_t at)
{
  int64_t outer = 1, inner = 1, d = from->shape.d[axis], all = to->shape.d[axis];
  for (int i = 0; i < axis; i++) outer *= from->shape.d[i];
  for (int i = axis + 1; i < from->shape.n; i++) inner *= from->shape.d[i];
  for (int64_t o = 0; o < outer; o++) memcpy(to->i + (o * all + at) * inner, from->i + o * d * inner, 8 * (size_t)(d * inner));
}

void host_concat(struct onnx_host *h)
{
  const struct onnx_cells *a = host_in(h, 0);
  struct shape s = a->shape;
  int axis;
  if (h->failed || !host_axis(h, onnx_attr_int(h->n, "axis", 0), s.n, &axis)) return;
  for (int k = 1; k < h->nin; k++) {
    const struct onnx_cells *b = host_in(h, k);
    bool fits = !h->failed && b->type == a->type && b->shape.n == s.n;
    for (int i = 0; fits && i < s.n; i++) fits = i == axis || b->shape.d[i] == s.d[i];
    if (!fits) return host_fail(h, "input %d does not fit the first", k);
    s.d[axis] += b->shape.d[axis];
  }
  struct onnx_cells *out = host_out(h, 0, a->type, &s);
  int64_t at = 0;
  for (int k = 0; k < h->nin && !h->failed && out->p; k++) put(out, h->in[k], axis, at), at += h->in[k]->shape.d[axis];
}

// Extent of part k of a split.
static int64_t part_of(struct onnx_host *h, const struct onnx_ints *given, int64_t d, int k)
{
  int64_t each = (d + h->n->nout - 1) / h->n->nout;
  if (given->n) return k < given->n ? given->v[k] : -1;
  return MAX(MIN(each, d - each * k), 0);
}

void host_split(struct onnx_host *h)
{
  const struct onnx_cells *a = host_in(h, 0);
  struct onnx_ints parts;
  int64_t at = 0, stride[MAX_DIMS];
  int axis;
  host_list(h, "split", 1, &parts);
  if (h->failed || !host_axis(h, onnx_attr_int(h->n, "axis", 0), a->shape.n, &axis)) return;
  host_strides(&a->shape, stride);
  for (int k = 0; k < h->n->nout && !h->failed; k++) {
    struct shape s = a->shape;
    s.d[axis] = part_of(h, &parts, a->shape.d[axis], k);
    if (s.d[axis] < 0 || s.d[axis] > a->shape.d[axis] - at) return host_fail(h, "its parts do not add up to %lld", (long long)a->shape.d[axis]);
    struct onnx_cells *out = host_out(h, k, a->type, &s);
    if (!h->failed && out->p) host_copy(out->p, a->p, &s, at * stride[axis], stride);
    at += s.d[axis];
  }
  if (!h->failed && at != a->shape.d[axis]) host_fail(h, "its parts do not add up to %lld", (long long)a->shape.d[axis]);
}

void host_expand(struct onnx_host *h)
{
  const struct onnx_cells *a = host_in(h, 0);
  struct shape to, s;
  int64_t stride[MAX_DIMS];
  if (h->failed || !host_shape_of(h, 1, &to) || !host_broadcast(h, &a->shape, &to, &s)) return;
  struct onnx_cells *out = host_out(h, 0, a->type, &s);
  host_spread(&a->shape, &s, stride);
  if (!h->failed && out->p) host_copy(out->p, a->p, &s, 0, stride);
}

void host_tile(struct onnx_host *h)
{
  const struct onnx_cells *a = host_in(h, 0);
  struct onnx_ints times;
  struct shape s = a->shape;
  int64_t own[MAX_DIMS], to[MAX_DIMS];
  if (!host_list(h, "repeats", 1, &times) || times.n != s.n) return host_fail(h, "its repeats do not fit");
  for (int i = 0; i < s.n; i++)
    if (times.v[i] < 0 || times.v[i] > 1 << 30 || __builtin_mul_overflow(s.d[i], times.v[i], &s.d[i]))
      return host_fail(h, "its repeats are too large");
  struct onnx_cells *out = host_out(h, 0, a->type, &s);
  if (h->failed || !out->p) return;
  host_strides(&a->shape, own), host_strides(&s, to);
  for (int64_t k = 0, n = onnx_elements(&s); k < n; k++) {
    int64_t from = 0;
    for (int d = 0; d < s.n; d++) from += k / to[d] % s.d[d] % a->shape.d[d] * own[d];
    out->i[k] = a->i[from];
  }
}

void host_trilu(struct onnx_host *h)
{
  const struct onnx_cells *a = host_in(h, 0), *by = host_has(h, 1) ? h->in[1] : NULL;
  bool upper = onnx_attr_int(h->n, "upper", 1);
  if (a->shape.n < 2 || (by && (onnx_type_kind(by->type) != WHOLE || onnx_elements(&by->shape) != 1)))
    return host_fail(h, "it takes matrices and a diagonal");
  struct onnx_cells *out = host_out(h, 0, a->type, &a->shape);
  if (h->failed || !out->p) return;
  int64_t cols = a->shape.d[a->shape.n - 1], rows = a->shape.d[a->shape.n - 2],
          diagonal = by ? MAX(MIN(by->i[0], (int64_t)1 << 40), -((int64_t)1 << 40)) : 0;
  for (int64_t k = 0, n = onnx_elements(&a->shape); k < n; k++) {
    int64_t r = k / cols % rows, c = k % cols;
    out->i[k] = (upper ? c - r >= diagonal : c - r <= diagonal) ? a->i[k] : 0;
  }
}

void host_where(struct onnx_host *h)
{
  const struct onnx_cells *c = host_in(h, 0), *a = host_in(h, 1), *b = host_in(h, 2);
  struct shape one, s;
  int64_t stride[MAX_DIMS];
  if (!h->failed && (c->type != ONNX_BOOL || a->type != b->type))
    host_fail(h, "it takes %s, %s and %s", onnx_type_name(c->type), onnx_type_name(a->type), onnx_type_name(b->type));
  if (h->failed || !host_broadcast(h, &a->shape, &b->shape, &one) || !host_broadcast(h, &one, &c->shape, &s)) return;
  struct onnx_cells *out = host_out(h, 0, a->type, &s);
  if (h->failed || !out->p) return;
  int64_t n = onnx_elements(&s), *which = arena_alloc(h->mem, 8 * (size_t)MAX(n, 1)), *other = arena_alloc(h->mem, 8 * (size_t)MAX(n, 1));
  host_spread(&c->shape, &s, stride), host_copy(which, c->p, &s, 0, stride);
  host_spread(&b->shape, &s, stride), host_copy(other, b->p, &s, 0, stride);
  host_spread(&a->shape, &s, stride), host_copy(out->p, a->p, &s, 0, stride);
  for (int64_t i = 0; i < n; i++)
    if (!which[i]) out->i[i] = other[i];
}

void host_one_hot(struct onnx_host *h)
{
  const struct onnx_cells *at = host_in(h, 0), *depth = host_in(h, 1), *values = host_in(h, 2);
  int axis;
  if (!h->failed && !depth->p) return host_late(h, "its depth");
  if (h->failed || onnx_elements(&depth->shape) != 1 || onnx_elements(&values->shape) != 2)
    return host_fail(h, "its depth is no number, or its values are no pair");
  int64_t d = onnx_type_kind(depth->type) == REAL ? (fabs(depth->f[0]) < 0x1p40 ? (int64_t)depth->f[0] : 0) : depth->i[0], inner = 1;
  if (at->shape.n == MAX_DIMS || d < 1 || d >= (int64_t)1 << 40 || !host_axis(h, onnx_attr_int(h->n, "axis", -1), at->shape.n + 1, &axis))
    return host_fail(h, "it makes no tensor");
  struct shape s = {.n = at->shape.n + 1};
  for (int i = 0, k = 0; i < s.n; i++) s.d[i] = i == axis ? d : at->shape.d[k++];
  for (int i = axis + 1; i < s.n; i++) inner *= s.d[i];
  struct onnx_cells *out = host_out(h, 0, values->type, &s);
  for (int64_t k = 0, n = onnx_elements(&s); k < n && !h->failed && out->p; k++) {
    double i = host_number(at, k / (inner * d) * inner + k % inner);
    out->i[k] = values->i[(i < 0 ? i + (double)d : i) == (double)(k / inner % d)];
  }
}

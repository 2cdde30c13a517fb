// Operators whose result's size depends on their elements: NonZero, Compress, Unique. Also EyeLike, ReverseSequence, DepthToSpace, SpaceToDepth,
// CenterCropPad.
#include "onnx/onnx_host.h"

#include <stdlib.h>
#include <string.h>

void host_non_zero(struct onnx_host *h)
{
  const struct onnx_cells *a = host_in(h, 0);
  int64_t count = 0, at[MAX_DIMS], rank = MAX(a->shape.n, 1);
  if (!h->failed && !a->p) host_late(h, "input 0");
  if (h->failed) return;
  int64_t n = onnx_elements(&a->shape);
  for (int64_t i = 0; i < n; i++) count += host_number(a, i) != 0;
  struct onnx_cells *y = host_out(h, 0, ONNX_INT64, &(struct shape){.n = 2, .d = {rank, count}});
  for (int64_t i = 0, k = 0; i < n && !h->failed; i++) {
    if (host_number(a, i) == 0) continue;
    at[0] = 0, host_place(&a->shape, i, at);
    for (int64_t d = 0; d < rank; d++) y->i[d * count + k] = at[d];
    k++;
  }
}

void host_compress(struct onnx_host *h)
{
  const struct onnx_cells *a = host_in(h, 0), *keep = host_in(h, 1);
  bool flat = !onnx_attr(h->n, "axis");
  int64_t count = 0;
  int axis = 0;
  if (!h->failed && (keep->type != ONNX_BOOL || keep->shape.n != 1)) host_fail(h, "its condition is no list of bools");
  if (!h->failed && !keep->p) host_late(h, "its condition");
  if (h->failed || (!flat && !host_axis(h, onnx_attr_int(h->n, "axis", 0), a->shape.n, &axis))) return;
  struct shape s = flat ? (struct shape){.n = 1, .d = {onnx_elements(&a->shape)}} : a->shape;
  struct host_lanes from = host_lanes(&s, axis);
  int64_t most = MIN(keep->shape.d[0], from.d);
  for (int64_t k = 0; k < most; k++) count += keep->i[k] != 0;
  s.d[axis] = count;
  struct host_lanes to = host_lanes(&s, axis);
  struct onnx_cells *y = host_out(h, 0, a->type, &s);
  for (int64_t lane = 0; lane < from.n && !h->failed && y->p; lane++)
    for (int64_t k = 0, j = 0; k < most; k++)
      if (keep->i[k]) y->i[host_lane(&to, lane) + j++ * to.step] = a->i[host_lane(&from, lane) + k * from.step];
}

struct find_slice { // a slice of a tensor along an axis
  const struct onnx_cells *a;
  struct host_lanes l;
  int64_t at;
};

static int by_elements(const void *p, const void *q)
{
  const struct find_slice *x = p, *y = q;
  for (int64_t lane = 0; lane < x->l.n; lane++) {
    int64_t i = host_lane(&x->l, lane) + x->at * x->l.step, j = host_lane(&y->l, lane) + y->at * y->l.step;
    double d = onnx_type_kind(x->a->type) == REAL ? x->a->f[i] : 0, e = onnx_type_kind(x->a->type) == REAL ? x->a->f[j] : 0;
    if (onnx_type_kind(x->a->type) == REAL ? d != e : x->a->i[i] != x->a->i[j])
      return (onnx_type_kind(x->a->type) == REAL ? d < e : x->a->i[i] < x->a->i[j]) ? -1 : 1;
  }
  return 0;
}

static int by_elements_first(const void *p, const void *q)
{
  const struct find_slice *x = p, *y = q;
  int order = by_elements(p, q);
  return order ? order : x->at < y->at ? -1 : x->at > y->at;
}

static int by_place(const void *p, const void *q)
{
  const struct find_slice *const *x = p, *const *y = q;
  return (*x)->at < (*y)->at ? -1 : (*x)->at > (*y)->at;
}

// The distinct slices, the first position of each, the distinct slice of every slice, and the counts.
void host_unique(struct onnx_host *h)
{
  const struct onnx_cells *a = host_in(h, 0);
  bool flat = !onnx_attr(h->n, "axis"), sorted = onnx_attr_int(h->n, "sorted", 1);
  int axis = 0;
  if (!h->failed && !a->p) host_late(h, "input 0");
  if (h->failed || (!flat && !host_axis(h, onnx_attr_int(h->n, "axis", 0), a->shape.n, &axis))) return;
  struct shape s = flat ? (struct shape){.n = 1, .d = {onnx_elements(&a->shape)}} : a->shape;
  struct host_lanes l = host_lanes(&s, axis);
  struct find_slice *all = arena_alloc(h->mem, sizeof *all * (size_t)MAX(l.d, 1)), **first = arena_alloc(h->mem, sizeof *first * (size_t)MAX(l.d, 1));
  int64_t *which = arena_alloc(h->mem, 8 * (size_t)MAX(l.d, 1)), n = 0;
  for (int64_t k = 0; k < l.d; k++) all[k] = (struct find_slice){a, l, k};
  qsort(all, (size_t)l.d, sizeof *all, by_elements_first);
  for (int64_t k = 0; k < l.d; k++)
    if (!k || by_elements(&all[k - 1], &all[k])) first[n++] = &all[k];
  if (!sorted) qsort(first, (size_t)n, sizeof *first, by_place);
  s.d[axis] = n;
  struct host_lanes to = host_lanes(&s, axis);
  struct shape list = {.n = 1, .d = {n}}, whole = {.n = 1, .d = {l.d}};
  struct onnx_cells *y = host_out(h, 0, a->type, &s), *out[3] = {NULL};
  for (int k = 0; k < 3 && k + 1 < h->n->nout; k++) out[k] = host_out(h, k + 1, ONNX_INT64, k == 1 ? &whole : &list);
  if (h->failed || !y->p) return;
  for (int64_t j = 0; j < n; j++) {
    for (int64_t lane = 0; lane < l.n; lane++) y->i[host_lane(&to, lane) + j * to.step] = a->i[host_lane(&l, lane) + first[j]->at * l.step];
    int64_t count = 0;
    for (struct find_slice *p = first[j]; p < all + l.d && !by_elements(p, first[j]); p++) which[p->at] = j, count++;
    if (out[0]) out[0]->i[j] = first[j]->at;
    if (out[2]) out[2]->i[j] = count;
  }
  if (out[1]) memcpy(out[1]->i, which, 8 * (size_t)l.d);
}

void host_eye_like(struct onnx_host *h)
{
  const struct onnx_cells *a = host_in(h, 0);
  int type = (int)onnx_attr_int(h->n, "dtype", a->type);
  int64_t k = onnx_attr_int(h->n, "k", 0);
  if (!h->failed && (a->shape.n != 2 || onnx_type_kind(type) == NEITHER)) host_fail(h, "it makes a matrix of numbers");
  if (h->failed) return;
  struct onnx_cells *y = host_out(h, 0, type, &a->shape);
  for (int64_t i = 0, n = onnx_elements(&a->shape); i < n && !h->failed && y->p; i++) host_store(y, i, i % a->shape.d[1] - i / a->shape.d[1] == k);
}

// Reverses the first elements of each sequence.
void host_reverse_sequence(struct onnx_host *h)
{
  const struct onnx_cells *a = host_in(h, 0), *length = host_in(h, 1);
  int64_t time = onnx_attr_int(h->n, "time_axis", 0), batch = onnx_attr_int(h->n, "batch_axis", 1), own[MAX_DIMS], at[MAX_DIMS];
  if (!host_whole(h, 1)) return;
  bool fits =
      time >= 0 && time < a->shape.n && batch >= 0 && batch < a->shape.n && time != batch && onnx_elements(&length->shape) == a->shape.d[batch];
  if (!fits) return host_fail(h, "its axes or lengths do not fit");
  struct onnx_cells *y = host_out(h, 0, a->type, &a->shape);
  host_strides(&a->shape, own);
  for (int64_t i = 0, n = onnx_elements(&a->shape); i < n && !h->failed && y->p; i++) {
    host_place(&a->shape, i, at);
    int64_t many = length->i[at[batch]];
    if (many < 0 || many > a->shape.d[time]) return host_fail(h, "a sequence of %lld", (long long)many);
    y->i[i] = a->i[at[time] < many ? i + (many - 1 - 2 * at[time]) * own[time] : i];
  }
}

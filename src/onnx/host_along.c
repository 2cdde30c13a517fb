// Operators along an axis: running sums and products, arg-extrema, the k largest elements.
#include "onnx/onnx_host.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Running sums or products; without the element itself if `exclusive`, from the end if `reverse`.
void host_cumulate(struct onnx_host *h)
{
  const struct onnx_cells *a = host_in(h, 0);
  bool exclusive = onnx_attr_int(h->n, "exclusive", 0), reverse = onnx_attr_int(h->n, "reverse", 0), sums = h->row->fn == FN_ADD;
  int axis;
  if (!host_whole(h, 1)) return;
  struct onnx_cells *out = host_out(h, 0, a->type, &a->shape);
  if (h->failed || !out->p || !host_axis(h, host_integer(h, 1, 0), a->shape.n, &axis)) return;
  struct host_lanes l = host_lanes(&a->shape, axis);
  bool real = onnx_type_kind(a->type) == REAL;
  for (int64_t lane = 0; lane < l.n; lane++) {
    double f = sums ? 0 : 1;
    uint64_t w = sums ? 0 : 1;
    for (int64_t k = 0; k < l.d; k++) {
      int64_t i = host_lane(&l, lane) + (reverse ? l.d - 1 - k : k) * l.step;
      double f2 = real ? sums ? f + a->f[i] : f * a->f[i] : 0;
      uint64_t w2 = real ? 0 : sums ? w + (uint64_t)a->i[i] : w * (uint64_t)a->i[i];
      if (real)
        out->f[i] = exclusive ? f : f2;
      else
        out->i[i] = (int64_t)(exclusive ? w : w2);
      f = f2, w = w2;
    }
  }
}

static bool before(const struct onnx_cells *a, int64_t x, int64_t y, bool largest)
{
  if (onnx_type_kind(a->type) == REAL) return largest ? a->f[x] > a->f[y] : a->f[x] < a->f[y];
  return largest ? a->i[x] > a->i[y] : a->i[x] < a->i[y];
}

// Index of the largest or smallest element along an axis. Ties go to the first, or to the last.
void host_arg(struct onnx_host *h)
{
  const struct onnx_cells *a = host_in(h, 0);
  bool last = onnx_attr_int(h->n, "select_last_index", 0), most = h->row->fn == FN_MAX;
  int axis;
  if (h->failed || !host_axis(h, onnx_attr_int(h->n, "axis", 0), a->shape.n, &axis)) return;
  struct shape s = host_shape_with(&a->shape, axis, 1);
  if (!onnx_attr_int(h->n, "keepdims", 1)) {
    memmove(s.d + axis, s.d + axis + 1, sizeof *s.d * (size_t)(s.n - axis - 1));
    s.n--;
  }
  if (!onnx_elements(&a->shape)) return host_fail(h, "it chooses of no elements");
  struct onnx_cells *out = host_out(h, 0, ONNX_INT64, &s);
  if (h->failed || !out->p) return;
  struct host_lanes l = host_lanes(&a->shape, axis);
  for (int64_t lane = 0; lane < l.n; lane++) {
    int64_t from = host_lane(&l, lane), best = 0;
    for (int64_t k = 1; k < l.d; k++) {
      int64_t x = from + k * l.step, y = from + best * l.step;
      if (last ? !before(a, y, x, most) : before(a, x, y, most)) best = k;
    }
    out->i[lane] = best;
  }
}

struct host_along_pick {
  double f;
  int64_t i, at; // value as f (reals) or i (integers), and position
};

static int larger_first(const void *a, const void *b)
{
  const struct host_along_pick *x = a, *y = b;
  if (x->f != y->f) return x->f > y->f ? -1 : 1;
  if (x->i != y->i) return x->i > y->i ? -1 : 1;
  return x->at < y->at ? -1 : x->at > y->at;
}

static int smaller_first(const void *a, const void *b)
{
  const struct host_along_pick *x = a, *y = b;
  if (x->f == y->f && x->i == y->i) return x->at < y->at ? -1 : x->at > y->at;
  return larger_first(y, x);
}

// The k largest or smallest elements along an axis, in order, with their positions. Ties go to the lower position.
void host_top_k(struct onnx_host *h)
{
  const struct onnx_cells *a = host_in(h, 0);
  const struct onnx_attr *said = onnx_attr(h->n, "k");
  struct onnx_ints list = {0};
  int axis;
  if (!said && (!host_list(h, "K", 1, &list) || list.n != 1)) return host_fail(h, "its k is no number");
  if (!host_axis(h, onnx_attr_int(h->n, "axis", -1), a->shape.n, &axis)) return;
  int64_t k = said ? said->i : list.v[0], d = a->shape.d[axis];
  if (k < 0 || k > d) return host_fail(h, "%lld of %lld elements", (long long)k, (long long)d);
  struct shape s = a->shape;
  s.d[axis] = k;
  struct onnx_cells *out = host_out(h, 0, a->type, &s), *at = h->n->nout > 1 ? host_out(h, 1, ONNX_INT64, &s) : NULL;
  if (h->failed || !out->p) return;
  struct host_along_pick *all = arena_alloc(h->mem, sizeof *all * (size_t)MAX(d, 1));
  struct host_lanes l = host_lanes(&a->shape, axis), kept = host_lanes(&s, axis);
  int64_t step = l.step;
  for (int64_t lane = 0; lane < l.n && k; lane++) {
    int64_t from = host_lane(&l, lane), to = host_lane(&kept, lane);
    for (int64_t i = 0; i < d; i++)
      all[i] = onnx_type_kind(a->type) == REAL ? (struct host_along_pick){.f = a->f[from + i * step], .at = i}
                                               : (struct host_along_pick){.i = a->i[from + i * step], .at = i};
    qsort(all, (size_t)d, sizeof *all, onnx_attr_int(h->n, "largest", 1) ? larger_first : smaller_first);
    for (int64_t i = 0; i < k; i++) {
      if (onnx_type_kind(a->type) == REAL)
        out->f[to + i * step] = all[i].f;
      else
        out->i[to + i * step] = all[i].i;
      if (at) at->i[to + i * step] = all[i].at;
    }
  }
}

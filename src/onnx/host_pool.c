// Pooling on cells: maximum, mean or norm of each window, or of the whole space.
#include "onnx/window.h"

#include <math.h>
#include <string.h>

struct pooling {
  const struct onnx_cells *x;
  struct window w;
  enum host_fn fn; // MAX, MEAN, or POW: the norm of order p
  double p;
  bool pads; // padding counts in means
};

// Reduces one window; *best is the spatial index of its largest element.
static double pooled(const struct pooling *l, int64_t from, const int64_t *to, int64_t *best)
{
  int64_t at[MOST_SPACE] = {0}, size = window_product(l->w.size, l->w.n), seen = 0;
  double r = l->fn == FN_MAX ? -INFINITY : 0;
  *best = -1;
  for (int64_t e = 0; e < size; e++, window_next(at, l->w.size, l->w.n)) {
    bool padded;
    int64_t k = window_element(&l->w, to, at, &padded);
    seen += l->pads ? padded : k >= 0;
    if (k < 0) continue;
    double v = host_number(l->x, from + k);
    if (l->fn == FN_MAX && (*best < 0 || isnan(v) || v > r)) r = v, *best = k;
    if (l->fn != FN_MAX) r += l->fn == FN_POW ? pow(fabs(v), l->p) : v;
  }
  return l->fn == FN_MAX ? r : l->fn == FN_POW ? pow(r, 1 / l->p) : r / (double)MAX(seen, 1);
}

// In column-major order the index counts columns first.
static int64_t index_of(const struct pooling *l, int64_t k, bool columns)
{
  int64_t at[MAX_DIMS], r = 0;
  struct shape s = {.n = l->w.n};
  if (!columns) return k;
  memcpy(s.d, l->w.in, sizeof *s.d * (size_t)s.n);
  host_place(&s, k, at);
  for (int i = s.n - 1; i >= 0; i--) r = r * s.d[i] + at[i];
  return r;
}

static void run(struct onnx_host *h, const struct pooling *l)
{
  struct shape s = window_shape(&l->w, l->x->shape.d[0], l->x->shape.d[1]);
  bool columns = onnx_attr_int(h->n, "storage_order", 0), indices = h->n->nout > 1 && *h->n->out_name[1];
  struct onnx_cells *y = host_out(h, 0, l->x->type, &s), *where = indices ? host_out(h, 1, ONNX_INT64, &s) : NULL;
  int64_t in = window_product(l->w.in, l->w.n), out = window_product(l->w.out, l->w.n), to[MOST_SPACE] = {0}, best;
  for (int64_t i = 0, n = onnx_elements(&s); i < n && !h->failed && y->p; i++, window_next(to, l->w.out, l->w.n)) {
    host_store(y, i, pooled(l, i / out * in, to, &best));
    if (where) where->i[i] = i / out * in + index_of(l, best, columns);
  }
}

void host_pool(struct onnx_host *h)
{
  struct pooling l = {.x = host_in(h, 0),
                      .fn = (enum host_fn)h->row->fn,
                      .pads = onnx_attr_int(h->n, "count_include_pad", 0),
                      .p = (double)onnx_attr_int(h->n, "p", 2)};
  const struct onnx_attr *size = onnx_attr(h->n, "kernel_shape");
  if (h->failed || !size || size->ints.n != l.x->shape.n - 2 || !onnx_elements(&l.x->shape)) return host_fail(h, "its shapes do not fit");
  if (l.fn != FN_MAX && !host_real(h, 0)) return;
  if (l.fn != FN_MAX && h->n->nout > 1) return host_fail(h, "it has no indices");
  if (l.fn == FN_POW && l.p < 1) return host_fail(h, "p is %g", l.p);
  if (window_of(h, &l.x->shape, size->ints.v, &l.w)) run(h, &l);
}

void host_global_pool(struct onnx_host *h)
{
  struct pooling l = {.x = host_in(h, 0), .fn = (enum host_fn)h->row->fn, .p = (double)onnx_attr_int(h->n, "p", 2)};
  const struct shape *s = &l.x->shape;
  if (!host_real(h, 0)) return;
  if (s->n < 3 || !onnx_elements(s) || (l.fn == FN_POW && l.p < 1)) return host_fail(h, "its shape does not fit");
  if (window_of(h, s, s->d + 2, &l.w)) run(h, &l);
}

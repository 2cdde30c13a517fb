// Reductions on cells, by the rows of fold.def. A reduction over no elements gives the start value.
#include "onnx/onnx_host.h"

#include <math.h>
#include <string.h>

// log(exp(a) + exp(x))
static double log_add(double a, double x)
{
  double most = fmax(a, x);
  if (isnan(a) || isnan(x)) return NAN;
  return isinf(most) ? most : most + log1p(exp(-fabs(a - x)));
}

#define NO_INTEGERS 0
#define WRAPS __attribute__((no_sanitize("signed-integer-overflow")))
#define FOLD(type, start, step, end, wstart, wstep, wend)                              \
  static double step_##type(double a, double x) { return step; }                       \
  static double end_##type(double a, double n) { return (void)n, (end); }              \
  WRAPS static int64_t wstep_##type(int64_t a, int64_t x) { return (void)x, (wstep); } \
  static int64_t wend_##type(int64_t a, int64_t n) { return (void)a, (void)n, (wend); }
#include "onnx/fold.def"
#undef FOLD

static const struct fold_row {
  const char *type;
  double start;
  double (*step)(double a, double x), (*end)(double a, double n);
  int64_t wstart;
  int64_t (*wstep)(int64_t a, int64_t x), (*wend)(int64_t a, int64_t n);
  const char *integers;
} rows[] = {
#define FOLD(type, start, step, end, wstart, wstep, wend) {#type, start, step_##type, end_##type, wstart, wstep_##type, wend_##type, #wend},
#include "onnx/fold.def"
#undef FOLD
};

static const struct fold_row *row_of(struct onnx_host *h)
{
  for (size_t i = 0; i < COUNT(rows); i++)
    if (!strcmp(rows[i].type, h->row->type)) return &rows[i];
  host_fail(h, "it has no row among the reductions");
  return NULL;
}

// The reduced axes, the shape with extents of 1 for them, and the result's shape.
static bool shapes(struct onnx_host *h, const struct shape *a, struct shape *kept, struct shape *s)
{
  struct onnx_ints axes;
  bool cut[MAX_DIMS] = {false}, given = host_list(h, "axes", 1, &axes) && axes.n;
  int axis;
  *kept = *a, *s = (struct shape){0};
  for (int i = 0; i < a->n; i++) cut[i] = !given;
  for (int i = 0; i < axes.n && given; i++)
    if (host_axis(h, axes.v[i], a->n, &axis)) cut[axis] = true;
  for (int i = 0; i < a->n; i++) {
    if (cut[i]) kept->d[i] = 1;
    if (!cut[i] || onnx_attr_int(h->n, "keepdims", 1)) s->d[s->n++] = kept->d[i];
  }
  return !h->failed;
}

static void fold(const struct fold_row *r, struct onnx_cells *out, const struct onnx_cells *a, const struct shape *kept)
{
  int64_t to[MAX_DIMS], at[MAX_DIMS], n = onnx_elements(&a->shape), each = onnx_elements(kept) ? n / onnx_elements(kept) : 0;
  bool real = onnx_type_kind(a->type) == REAL;
  int64_t most = onnx_type_most(a->type), least = onnx_type_least(a->type);
  for (int64_t i = 0; i < onnx_elements(kept); i++) {
    if (real)
      out->f[i] = r->start;
    else
      out->i[i] = MAX(MIN(r->wstart, most), least);
  }
  host_spread(kept, &a->shape, to);
  for (int64_t i = 0; i < n; i++) {
    int64_t k = 0;
    host_place(&a->shape, i, at);
    for (int d = 0; d < a->shape.n; d++) k += at[d] * to[d];
    if (real)
      out->f[k] = r->step(out->f[k], a->f[i]);
    else
      out->i[k] = r->wstep(out->i[k], a->i[i]);
  }
  for (int64_t i = 0; i < onnx_elements(kept); i++) {
    if (real)
      out->f[i] = r->end(out->f[i], (double)each);
    else
      out->i[i] = r->wend(out->i[i], MAX(each, 1));
  }
}

void host_reduce(struct onnx_host *h)
{
  const struct onnx_cells *a = host_in(h, 0);
  const struct fold_row *r = row_of(h);
  struct shape kept, s;
  struct onnx_ints axes;
  bool given = host_list(h, "axes", 1, &axes) && axes.n;
  if (h->failed || !shapes(h, &a->shape, &kept, &s)) return;
  if (onnx_type_kind(a->type) == WHOLE && !strcmp(r->integers, "NO_INTEGERS")) return host_fail(h, "it does not take %s", onnx_type_name(a->type));
  if (!given && onnx_attr_int(h->n, "noop_with_empty_axes", 0)) kept = s = a->shape; // each element is reduced alone
  struct onnx_cells *out = host_out(h, 0, a->type, &s);
  if (!h->failed && out->p) fold(r, out, a, &kept);
}

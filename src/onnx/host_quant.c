// Quantization on cells: one scale, one for each index of an axis, or one for each block of an axis.
#include "onnx/onnx_host.h"

#include <math.h>
#include <string.h>

struct scales {
  const struct onnx_cells *scale, *zero;
  struct shape of; // shape of the scales' tensor
  int axis;
  int64_t block; // elements of the axis that share a scale; 0: all, or one each if `by_axis`
  bool one, by_axis;
};

static bool scales_of(struct onnx_host *h, const struct shape *s, struct scales *q)
{
  *q = (struct scales){.scale = host_in(h, 1), .zero = host_has(h, 2) ? h->in[2] : NULL, .of = *s, .block = onnx_attr_int(h->n, "block_size", 0)};
  const struct shape *t = &q->scale->shape;
  if (h->failed || !host_real(h, 1)) return false;
  if (q->zero && !shape_eq(&q->zero->shape, t) && !(onnx_elements(t) == 1 && onnx_elements(&q->zero->shape) == 1))
    return host_fail(h, "its zero points do not fit its scales"), false;
  q->one = onnx_elements(t) == 1 && !q->block;
  if (q->one) return true;
  if (!host_axis(h, onnx_attr_int(h->n, "axis", 1), s->n, &q->axis)) return false;
  q->by_axis = t->n == 1 && t->d[0] == s->d[q->axis] && !q->block;
  if (q->by_axis) return true;
  bool fits = t->n == s->n && t->d[q->axis] > 0;
  for (int i = 0; i < s->n && fits; i++) fits = i == q->axis || t->d[i] == s->d[i];
  if (fits && !q->block) q->block = (s->d[q->axis] + t->d[q->axis] - 1) / t->d[q->axis];
  fits = fits && q->block > 0 && t->d[q->axis] == (s->d[q->axis] + q->block - 1) / q->block;
  return fits ? true : (host_fail(h, "its scales do not fit"), false);
}

// The scale of element i.
static int64_t scale_at(const struct scales *q, int64_t i)
{
  int64_t at[MAX_DIMS], k = 0;
  if (q->one) return 0;
  host_place(&q->of, i, at);
  if (q->by_axis) return at[q->axis];
  at[q->axis] /= q->block;
  for (int d = 0; d < q->of.n; d++) k = k * q->scale->shape.d[d] + at[d];
  return k;
}

static double rounded_to(int type, double x)
{
  struct onnx_cells c = {.type = type, .f = &x};
  onnx_cells_round(&c);
  return x;
}

void host_quantize(struct onnx_host *h)
{
  const struct onnx_cells *x = host_in(h, 0);
  struct scales q;
  if (h->failed || !scales_of(h, &x->shape, &q)) return;
  int said = (int)onnx_attr_int(h->n, "output_dtype", 0), type = q.zero ? q.zero->type : said ? said : ONNX_UINT8;
  int precision = (int)onnx_attr_int(h->n, "precision", 0);
  bool saturate = onnx_attr_int(h->n, "saturate", 1);
  if (said && said != type) return host_fail(h, "output_dtype is not the type of its zero points");
  if (onnx_type_kind(type) == NEITHER) return host_fail(h, "it makes %s", onnx_type_name(type));
  if (!precision) precision = q.scale->type;
  if (onnx_type_kind(precision) != REAL) return host_fail(h, "its precision is %s", onnx_type_name(precision));
  struct onnx_cells *y = host_out(h, 0, type, &x->shape);
  for (int64_t i = 0, n = onnx_elements(&x->shape); i < n && !h->failed && y->p; i++) {
    int64_t k = scale_at(&q, i);
    double v = rounded_to(precision, host_number(x, i) / q.scale->f[k]), zero = q.zero ? host_number(q.zero, k) : 0;
    if (onnx_small(type))
      y->f[i] = onnx_small_round(type, v + zero, saturate, ROUND_NEAREST);
    else
      host_store(y, i, onnx_type_kind(type) == WHOLE ? nearbyint(v) + zero : v + zero);
  }
}

void host_dequantize(struct onnx_host *h)
{
  const struct onnx_cells *x = host_in(h, 0);
  struct scales q;
  if (h->failed || !scales_of(h, &x->shape, &q)) return;
  int said = (int)onnx_attr_int(h->n, "output_dtype", 0), type = said ? said : q.scale->type;
  if (onnx_type_kind(type) != REAL) return host_fail(h, "it makes %s", onnx_type_name(type));
  struct onnx_cells *y = host_out(h, 0, type, &x->shape);
  for (int64_t i = 0, n = onnx_elements(&x->shape); i < n && !h->failed && y->p; i++) {
    int64_t k = scale_at(&q, i);
    y->f[i] = (host_number(x, i) - (q.zero ? host_number(q.zero, k) : 0)) * q.scale->f[k];
  }
}

// Quantizes to uint8; scale and zero point are computed from the range of x, extended to include 0.
void host_dynamic_quantize(struct onnx_host *h)
{
  const struct onnx_cells *x = host_in(h, 0);
  struct shape scalar = {0};
  if (!host_real(h, 0)) return;
  struct onnx_cells *y = host_out(h, 0, ONNX_UINT8, &x->shape), *scale = host_out(h, 1, ONNX_FLOAT, &scalar),
                    *zero = host_out(h, 2, ONNX_UINT8, &scalar);
  if (h->failed || !y->p) return;
  double lo = 0, hi = 0;
  int64_t n = onnx_elements(&x->shape);
  for (int64_t i = 0; i < n; i++) lo = fmin(lo, x->f[i]), hi = fmax(hi, x->f[i]);
  scale->f[0] = rounded_to(ONNX_FLOAT, (hi - lo) / 255);
  double z = scale->f[0] == 0 ? 0 : fmin(fmax(nearbyint(rounded_to(ONNX_FLOAT, -lo / scale->f[0])), 0), 255);
  zero->i[0] = (int64_t)z;
  for (int64_t i = 0; i < n; i++) host_store(y, i, scale->f[0] == 0 ? z : nearbyint(rounded_to(ONNX_FLOAT, x->f[i] / scale->f[0])) + z);
}

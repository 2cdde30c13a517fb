// Activations on cells, by the rows of act.def.
#include "onnx/onnx_host.h"

#include <math.h>
#include <string.h>
#include <strings.h>

#define ACT(type, a1, d1, a2, d2, expr) \
  static double act_##type(double x, double a, double b) { return (void)a, (void)b, (expr); }
#include "onnx/act.def"
#undef ACT

static const struct host_act rows[] = {
#define ACT(type, a1, d1, a2, d2, expr) {#type, a1, a2, d1, d2, act_##type},
#include "onnx/act.def"
#undef ACT
};

const struct host_act *host_act_find(const char *type)
{
  for (size_t i = 0; i < COUNT(rows); i++)
    if (!strcasecmp(rows[i].type, type)) return &rows[i];
  return NULL;
}

void host_activation(struct onnx_host *h)
{
  const struct host_act *row = host_act_find(h->row->type);
  const struct onnx_cells *x = host_in(h, 0);
  if (!row) return host_fail(h, "it has no row among the activations");
  double a = onnx_attr_real(h->n, row->first, row->a), b = onnx_attr_real(h->n, row->second, row->b);
  struct onnx_cells *y = host_out(h, 0, x->type, &x->shape);
  for (int64_t i = 0, n = onnx_elements(&x->shape); i < n && !h->failed && y->p; i++) host_store(y, i, row->f(host_number(x, i), a, b));
}

// x, or slope * x for negative x.
void host_prelu(struct onnx_host *h)
{
  const struct onnx_cells *x = host_in(h, 0), *slope = host_in(h, 1);
  struct shape s;
  int64_t step[MAX_DIMS], at[MAX_DIMS];
  if (h->failed || !host_broadcast(h, &x->shape, &slope->shape, &s)) return;
  if (!shape_eq(&s, &x->shape) || x->type != slope->type) return host_fail(h, "its slopes do not fit");
  struct onnx_cells *y = host_out(h, 0, x->type, &s);
  host_spread(&slope->shape, &s, step);
  for (int64_t i = 0, n = onnx_elements(&s); i < n && !h->failed && y->p; i++) {
    int64_t p = 0;
    host_place(&s, i, at);
    for (int d = 0; d < s.n; d++) p += at[d] * step[d];
    host_store(y, i, host_number(x, i) * (host_number(x, i) < 0 ? host_number(slope, p) : 1));
  }
}

void host_is_inf(struct onnx_host *h)
{
  const struct onnx_cells *x = host_in(h, 0);
  bool minus = onnx_attr_int(h->n, "detect_negative", 1), plus = onnx_attr_int(h->n, "detect_positive", 1);
  if (!host_real(h, 0)) return;
  struct onnx_cells *y = host_out(h, 0, ONNX_BOOL, &x->shape);
  for (int64_t i = 0, n = onnx_elements(&x->shape); i < n && !h->failed && y->p; i++) y->i[i] = isinf(x->f[i]) && (x->f[i] < 0 ? minus : plus);
}

// ---- windows of signals ----

// a - b cos(2 pi i / n) + c cos(4 pi i / n)
static void window(struct onnx_host *h, double a, double b, double c)
{
  int type = (int)onnx_attr_int(h->n, "output_datatype", ONNX_FLOAT);
  double n = host_scalar(h, 0, 0);
  if (onnx_type_kind(type) == NEITHER) host_fail(h, "it makes %s", onnx_type_name(type));
  if (!h->failed && !(n >= 0 && n < 0x1p40)) host_fail(h, "a window of %g", n);
  if (h->failed) return;
  double length = onnx_attr_int(h->n, "periodic", 1) ? n : n - 1, turn = 2 * 3.14159265358979323846 / MAX(length, 1);
  struct onnx_cells *y = host_out(h, 0, type, &(struct shape){.n = 1, .d = {(int64_t)n}});
  for (int64_t i = 0; i < (int64_t)n && !h->failed && y->p; i++) host_store(y, i, a - b * cos(turn * (double)i) + c * cos(2 * turn * (double)i));
}

void host_hann(struct onnx_host *h) { window(h, 0.5, 0.5, 0); }
void host_hamming(struct onnx_host *h) { window(h, 25.0 / 46, 21.0 / 46, 0); }
void host_blackman(struct onnx_host *h) { window(h, 0.42, 0.5, 0.08); }

// Convolutions on cells, in plain loops: real, integer with zero points, quantized, deformable.
#include "onnx/window.h"

#include <math.h>
#include <string.h>

struct conv { // a zero point is one number, or one for each filter
  const struct onnx_cells *x, *k, *bias, *xz, *kz, *offset, *mask;
  int64_t groups, shifts; // shifts: number of channel groups that share offsets
  struct window w;
};

static double zero_at(const struct onnx_cells *z, int64_t f) { return z ? host_number(z, onnx_elements(&z->shape) == 1 ? 0 : f) : 0; }

// The element of channel p at a fractional position; 0 outside.
static double between(const struct conv *c, const double *p, const double *at, int i, int64_t offset)
{
  if (i == c->w.n) return p[offset];
  double sum = 0, low = floor(at[i]), part = at[i] - low;
  for (int k = 0; k < 2; k++) {
    double weight = k ? part : 1 - part, j = low + k;
    if (weight != 0 && j >= 0 && j < (double)c->w.in[i]) sum += weight * between(c, p, at, i + 1, offset * c->w.in[i] + (int64_t)j);
  }
  return sum;
}

static double deformed(const struct conv *c, int64_t image, int64_t channel, const int64_t *to, int64_t o, const int64_t *at, int64_t e)
{
  int64_t in = window_product(c->w.in, c->w.n), out = window_product(c->w.out, c->w.n), size = window_product(c->w.size, c->w.n);
  int64_t channels = c->x->shape.d[1], group = channel / (channels / c->shifts);
  double p[MOST_SPACE];
  for (int i = 0; i < c->w.n; i++) {
    double shift = c->offset->f[(((image * c->shifts + group) * size + e) * c->w.n + i) * out + o];
    p[i] = (double)(to[i] * c->w.step[i] + at[i] * c->w.gap[i] - c->w.before[i]) + shift;
    if (!(fabs(p[i]) < 0x1p40)) return NAN;
  }
  double m = c->mask ? c->mask->f[((image * c->shifts + group) * size + e) * out + o] : 1;
  return m * between(c, c->x->f + (image * channels + channel) * in, p, 0, 0);
}

static double filtered(const struct conv *c, int64_t image, int64_t f, const int64_t *to, int64_t o)
{
  int64_t in = window_product(c->w.in, c->w.n), size = window_product(c->w.size, c->w.n), m = c->k->shape.d[0], part = c->k->shape.d[1];
  int64_t channels = c->x->shape.d[1], first = f / (m / c->groups) * part, at[MOST_SPACE] = {0};
  double sum = 0, xz = zero_at(c->xz, 0), kz = zero_at(c->kz, f);
  bool padded;
  for (int64_t e = 0; e < size; e++, window_next(at, c->w.size, c->w.n)) {
    int64_t p = window_element(&c->w, to, at, &padded);
    for (int64_t i = 0; i < part && (p >= 0 || c->offset); i++) {
      double x = c->offset ? deformed(c, image, first + i, to, o, at, e) : host_number(c->x, (image * channels + first + i) * in + p) - xz;
      sum += x * (host_number(c->k, (f * part + i) * size + e) - kz);
    }
  }
  return sum;
}

// Converts y from doubles; the bias is real.
static void convolve(const struct conv *c, double *y)
{
  int64_t out = window_product(c->w.out, c->w.n), m = c->k->shape.d[0];
  for (int64_t row = 0; row < c->x->shape.d[0] * m; row++) {
    int64_t to[MOST_SPACE] = {0};
    for (int64_t o = 0; o < out; o++, window_next(to, c->w.out, c->w.n))
      y[row * out + o] = (c->bias ? host_number(c->bias, row % m) : 0) + filtered(c, row / m, row % m, to, o);
  }
}

static bool conv_of(struct onnx_host *h, int x, int k, int bias, struct conv *c)
{
  *c = (struct conv){
      .x = host_in(h, x), .k = host_in(h, k), .bias = host_has(h, bias) ? h->in[bias] : NULL, .groups = onnx_attr_int(h->n, "group", 1)};
  const struct shape *xs = &c->x->shape, *ks = &c->k->shape;
  bool fits =
      !h->failed && onnx_type_kind(c->x->type) == onnx_type_kind(c->k->type) && xs->n == ks->n && xs->n > 2 && onnx_elements(ks) && onnx_elements(xs);
  if (!fits || c->groups < 1 || c->groups > xs->d[1] || ks->d[0] % c->groups || ks->d[1] * c->groups != xs->d[1])
    return host_fail(h, "its shapes do not fit"), false;
  if (c->bias && onnx_elements(&c->bias->shape) != ks->d[0]) return host_fail(h, "its bias does not fit"), false;
  return window_of(h, xs, ks->d + 2, &c->w);
}

static bool zero_fits(struct onnx_host *h, const struct onnx_cells *z, int64_t n)
{
  if (z && onnx_elements(&z->shape) != 1 && onnx_elements(&z->shape) != n) host_fail(h, "a zero point or scale does not fit");
  return !h->failed;
}

void host_conv(struct onnx_host *h)
{
  struct conv c;
  if (!host_real(h, 0) || !host_real(h, 1) || !conv_of(h, 0, 1, 2, &c)) return;
  if (c.x->type != c.k->type || (c.bias && c.bias->type != c.x->type)) return host_fail(h, "its types differ");
  struct shape s = window_shape(&c.w, c.x->shape.d[0], c.k->shape.d[0]);
  struct onnx_cells *y = host_out(h, 0, c.x->type, &s);
  if (!h->failed && y->p) convolve(&c, y->f);
}

void host_deform_conv(struct onnx_host *h)
{
  struct conv c;
  if (!host_real(h, 0) || !host_real(h, 1) || !host_real(h, 2) || !host_real(h, 4) || !conv_of(h, 0, 1, 3, &c)) return;
  int64_t out = window_product(c.w.out, c.w.n), size = window_product(c.w.size, c.w.n), n = c.x->shape.d[0];
  c.offset = host_in(h, 2), c.mask = host_has(h, 4) ? h->in[4] : NULL, c.shifts = onnx_attr_int(h->n, "offset_group", 1);
  struct shape offsets = {.n = 5, .d = {n, c.shifts, size, c.w.n, out}}, masks = {.n = 4, .d = {n, c.shifts, size, out}};
  bool fits = c.shifts > 0 && c.shifts <= c.x->shape.d[1] && c.x->shape.d[1] % c.shifts == 0;
  if (!fits || onnx_elements(&c.offset->shape) != onnx_elements(&offsets) || (c.mask && onnx_elements(&c.mask->shape) != onnx_elements(&masks)))
    return host_fail(h, "its offsets or mask do not fit");
  struct shape s = window_shape(&c.w, n, c.k->shape.d[0]);
  struct onnx_cells *y = host_out(h, 0, c.x->type, &s);
  if (!h->failed && y->p) convolve(&c, y->f);
}

void host_conv_integer(struct onnx_host *h)
{
  struct conv c;
  if (!host_whole(h, 0) || !host_whole(h, 1) || !conv_of(h, 0, 1, MAX_DIMS, &c)) return;
  c.xz = host_has(h, 2) ? h->in[2] : NULL, c.kz = host_has(h, 3) ? h->in[3] : NULL;
  if (!zero_fits(h, c.xz, 1) || !zero_fits(h, c.kz, c.k->shape.d[0])) return;
  struct shape s = window_shape(&c.w, c.x->shape.d[0], c.k->shape.d[0]);
  struct onnx_cells *y = host_out(h, 0, ONNX_INT32, &s);
  int64_t n = onnx_elements(&s);
  if (h->failed || !y->p) return;
  double *sums = arena_alloc(h->mem, 8 * (size_t)MAX(n, 1));
  convolve(&c, sums);
  for (int64_t i = 0; i < n; i++) host_store(y, i, sums[i]);
}

// Inputs: x, its scale and zero point; the filters, their scale and zero point; scale and zero point of the result; an integer bias.
void host_qlinear_conv(struct onnx_host *h)
{
  struct conv c;
  const struct onnx_cells *in[8];
  for (int k = 0; k < 8; k++) in[k] = host_in(h, k);
  if (h->failed || !host_whole(h, 0) || !host_whole(h, 3) || !conv_of(h, 0, 3, 8, &c)) return;
  c.xz = in[2], c.kz = in[5];
  int64_t m = c.k->shape.d[0];
  if (!zero_fits(h, in[1], 1) || !zero_fits(h, in[2], 1) || !zero_fits(h, in[4], m) || !zero_fits(h, in[5], m) || !zero_fits(h, in[6], 1) ||
      !zero_fits(h, in[7], 1))
    return;
  struct shape s = window_shape(&c.w, c.x->shape.d[0], m);
  struct onnx_cells *y = host_out(h, 0, in[7]->type, &s);
  int64_t n = onnx_elements(&s), out = window_product(c.w.out, c.w.n);
  if (h->failed || !y->p) return;
  double *sums = arena_alloc(h->mem, 8 * (size_t)MAX(n, 1));
  convolve(&c, sums);
  for (int64_t i = 0; i < n; i++) {
    double scale = host_number(in[1], 0) * zero_at(in[4], i / out % m) / host_number(in[6], 0);
    host_store(y, i, nearbyint(sums[i] * scale) + host_number(in[7], 0));
  }
}

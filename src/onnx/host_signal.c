// Fourier transforms by their definition, and weights of mel scales.
#include "onnx/onnx_host.h"

#include <math.h>
#include <string.h>

static const double pi = 3.14159265358979323846;

struct fourier {
  int64_t n, out; // length; number of results
  bool inverse;
  const double *cosine, *sine; // of 2 pi k / n
};

static bool fourier_of(struct onnx_host *h, int64_t n, int64_t out, bool inverse, struct fourier *f)
{
  if (n < 1 || n > 1 << 16) return host_fail(h, "a transform of %lld", (long long)n), false;
  double *t = arena_alloc(h->mem, 16 * (size_t)n);
  for (int64_t k = 0; k < n; k++) t[k] = cos(2 * pi * (double)k / (double)n), t[n + k] = (inverse ? 1 : -1) * sin(2 * pi * (double)k / (double)n);
  *f = (struct fourier){n, out, inverse, t, t + n};
  return true;
}

// Computes y[k] from x; both are pairs of doubles.
static void transform(const struct fourier *f, const double *x, double *y)
{
  for (int64_t k = 0; k < f->out; k++) {
    double re = 0, im = 0;
    for (int64_t i = 0; i < f->n; i++) {
      double c = f->cosine[i * k % f->n], s = f->sine[i * k % f->n];
      re += x[2 * i] * c - x[2 * i + 1] * s, im += x[2 * i] * s + x[2 * i + 1] * c;
    }
    y[2 * k] = f->inverse ? re / (double)f->n : re, y[2 * k + 1] = f->inverse ? im / (double)f->n : im;
  }
}

// Completes a one-sided transform: the missing half is the mirrored conjugate.
static void mirror(double *x, int64_t have, int64_t n)
{
  for (int64_t i = have; i < n; i++) x[2 * i] = x[2 * (n - i)], x[2 * i + 1] = -x[2 * (n - i) + 1];
}

void host_dft(struct onnx_host *h)
{
  const struct onnx_cells *x = host_in(h, 0);
  bool inverse = onnx_attr_int(h->n, "inverse", 0), half = onnx_attr_int(h->n, "onesided", 0), old = h->n->opset < 20;
  int64_t said = old ? onnx_attr_int(h->n, "axis", 1) : host_integer(h, 2, -2);
  struct fourier f;
  int axis, rank = x->shape.n;
  if (!host_real(h, 0) || !host_axis(h, said, rank, &axis)) return;
  if (rank < 2 || axis == rank - 1 || x->shape.d[rank - 1] < 1 || x->shape.d[rank - 1] > 2)
    return host_fail(h, "its signal is no real or complex one");
  int64_t parts = x->shape.d[rank - 1], have = x->shape.d[axis];
  double length = host_scalar(h, 1, inverse && half ? 2 * ((double)have - 1) : (double)have);
  if (!(length >= 1 && length <= 1 << 16)) return host_fail(h, "a transform of %g", length);
  int64_t n = (int64_t)length;
  bool to_real = inverse && half;
  if (!fourier_of(h, n, half && !inverse ? n / 2 + 1 : n, inverse, &f)) return;
  struct shape s = host_shape_with(&x->shape, axis, f.out), lanes = x->shape;
  s.d[rank - 1] = to_real ? 1 : 2;
  struct onnx_cells *y = host_out(h, 0, x->type, &s);
  if (h->failed || !y->p) return;
  lanes.n--;
  struct shape to_lanes = s;
  to_lanes.n--;
  struct host_lanes from = host_lanes(&lanes, axis), to = host_lanes(&to_lanes, axis);
  double *in = arena_alloc(h->mem, 16 * (size_t)n), *out = arena_alloc(h->mem, 16 * (size_t)n);
  for (int64_t lane = 0; lane < from.n; lane++) {
    memset(in, 0, 16 * (size_t)n);
    for (int64_t i = 0; i < MIN(have, n); i++)
      for (int64_t p = 0; p < parts; p++) in[2 * i + p] = x->f[(host_lane(&from, lane) + i * from.step) * parts + p];
    if (to_real) mirror(in, MIN(n / 2 + 1, n), n);
    transform(&f, in, out);
    for (int64_t k = 0; k < f.out; k++)
      for (int64_t p = 0; p < s.d[rank - 1]; p++) y->f[(host_lane(&to, lane) + k * to.step) * s.d[rank - 1] + p] = out[2 * k + p];
  }
}

// Transforms of frames of the signal, each multiplied by the window.
void host_stft(struct onnx_host *h)
{
  const struct onnx_cells *x = host_in(h, 0), *window = host_has(h, 2) ? h->in[2] : NULL;
  bool half = onnx_attr_int(h->n, "onesided", 1);
  struct fourier f;
  if (!host_real(h, 0) || !host_real(h, 2)) return;
  if (x->shape.n < 2 || x->shape.n > 3 || (x->shape.n == 3 && (x->shape.d[2] < 1 || x->shape.d[2] > 2)))
    return host_fail(h, "its signal is no real or complex one");
  int64_t parts = x->shape.n == 3 ? x->shape.d[2] : 1, all = x->shape.d[1], step = host_integer(h, 1, 0);
  int64_t n = host_integer(h, 3, window ? onnx_elements(&window->shape) : all);
  if (h->failed) return;
  if (step < 1 || n < 1 || n > all || (window && onnx_elements(&window->shape) != n)) return host_fail(h, "its frames do not fit");
  if (!fourier_of(h, n, half ? n / 2 + 1 : n, false, &f)) return;
  struct shape s = {.n = 4, .d = {x->shape.d[0], (all - n) / step + 1, f.out, 2}};
  struct onnx_cells *y = host_out(h, 0, x->type, &s);
  if (h->failed || !y->p) return;
  double *in = arena_alloc(h->mem, 16 * (size_t)n);
  for (int64_t frame = 0; frame < s.d[0] * s.d[1]; frame++) {
    int64_t first = frame / s.d[1] * all + frame % s.d[1] * step;
    for (int64_t i = 0; i < n; i++)
      for (int64_t p = 0; p < parts; p++) in[2 * i + p] = x->f[(first + i) * parts + p] * (window ? window->f[i] : 1);
    transform(&f, in, y->f + frame * f.out * 2);
  }
}

static double mel(double hertz) { return 2595 * log10(1 + hertz / 700); }

// Triangles of equal width on the mel scale, by the bins of a spectrum.
void host_mel_weights(struct onnx_host *h)
{
  int type = (int)onnx_attr_int(h->n, "output_datatype", ONNX_FLOAT);
  double said[5];
  for (int k = 0; k < 5; k++) host_in(h, k), said[k] = host_scalar(h, k, 0);
  if (h->failed || onnx_type_kind(type) == NEITHER || !(said[0] >= 1 && said[0] < 1 << 16 && said[1] >= 1 && said[1] < 1 << 24 && said[2] > 0))
    return host_fail(h, "its numbers make no matrix");
  int64_t bins = (int64_t)said[0], rows = (int64_t)said[1] / 2 + 1;
  double lo = mel(said[3]), step = (mel(said[4]) - lo) / (double)(bins + 2);
  struct onnx_cells *y = host_out(h, 0, type, &(struct shape){.n = 2, .d = {rows, bins}});
  for (int64_t c = 0; c < bins && !h->failed && y->p; c++) {
    double at[3];
    for (int k = 0; k < 3; k++) at[k] = floor((said[1] + 1) * (700 * (pow(10, ((double)(c + k) * step + lo) / 2595) - 1)) / said[2]);
    for (int64_t r = 0; r < rows; r++) {
      double x = (double)r, up = at[1] == at[0] ? x == at[1] : (x - at[0]) / (at[1] - at[0]), down = (at[2] - x) / (at[2] - at[1]);
      bool rises = at[1] == at[0] ? x == at[1] : x >= at[0] && x <= at[1];
      host_store(y, r * bins + c, rises ? up : x >= at[1] && x < at[2] ? down : 0);
    }
  }
}

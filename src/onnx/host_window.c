// Convolutions and pooling on cells: windows that slide over the dimensions in space of [N, C, ...], in plain loops.
#include "onnx/onnx_host.h"

#include <math.h>
#include <string.h>

enum { MOST_SPACE = MAX_DIMS - 2 };

struct window {
  int n; // dimensions in space
  int64_t size[MOST_SPACE], step[MOST_SPACE], gap[MOST_SPACE], before[MOST_SPACE], after[MOST_SPACE];
  int64_t in[MOST_SPACE], out[MOST_SPACE];
};

static void list(struct onnx_host *h, const char *name, int n, int64_t otherwise, int64_t least, int64_t *to)
{
  const struct onnx_attr *a = onnx_attr(h->n, name);
  for (int i = 0; i < n; i++) {
    to[i] = a && i < a->ints.n ? a->ints.v[i] : otherwise;
    if (to[i] < least || to[i] > 1 << 20) host_fail(h, "%s: %lld", name, (long long)to[i]);
  }
  if (a && a->ints.n != n) host_fail(h, "%s has %d entries", name, a->ints.n);
}

// Padding so that there is an output for every step, more of it behind (SAME_UPPER) or before (SAME_LOWER).
static void same(struct window *w, int i, bool lower)
{
  int64_t outs = (w->in[i] + w->step[i] - 1) / w->step[i], need = (outs - 1) * w->step[i] + (w->size[i] - 1) * w->gap[i] + 1 - w->in[i];
  need = MAX(need, 0);
  w->before[i] = lower ? need - need / 2 : need / 2, w->after[i] = need - w->before[i];
}

static bool window_of(struct onnx_host *h, const struct shape *x, const int64_t *size, struct window *w)
{
  const char *automatic = onnx_attr_text(h->n, "auto_pad", "NOTSET");
  int64_t pads[2 * MOST_SPACE];
  w->n = x->n - 2;
  if (x->n < 3) return host_fail(h, "it has no dimensions in space"), false;
  list(h, "strides", w->n, 1, 1, w->step), list(h, "dilations", w->n, 1, 1, w->gap), list(h, "pads", 2 * w->n, 0, 0, pads);
  if (onnx_attr_int(h->n, "ceil_mode", 0)) host_fail(h, "ceil_mode is not done");
  for (int i = 0; i < w->n && !h->failed; i++) {
    w->in[i] = x->d[i + 2], w->size[i] = size[i];
    if (size[i] < 1 || size[i] > 1 << 20 || w->in[i] > (int64_t)1 << 31) return host_fail(h, "a window of %lld", (long long)size[i]), false;
    w->before[i] = pads[i], w->after[i] = pads[w->n + i];
    if (!strncmp(automatic, "SAME", 4)) same(w, i, !strcmp(automatic, "SAME_LOWER"));
    int64_t room = w->in[i] + w->before[i] + w->after[i] - (w->size[i] - 1) * w->gap[i] - 1;
    if (room < 0) return host_fail(h, "its windows are larger than the input"), false;
    w->out[i] = room / w->step[i] + 1;
  }
  return !h->failed;
}

// The element of the input that element `at` of the window at output `to` is, in space; -1: padding.
static int64_t element_at(const struct window *w, const int64_t *to, const int64_t *at)
{
  int64_t p = 0;
  for (int i = 0; i < w->n; i++) {
    int64_t x = to[i] * w->step[i] + at[i] * w->gap[i] - w->before[i];
    if (x < 0 || x >= w->in[i]) return -1;
    p = p * w->in[i] + x;
  }
  return p;
}

static bool next(int64_t *at, const int64_t *extent, int n)
{
  for (int i = n - 1; i >= 0; i--) {
    if (++at[i] < extent[i]) return true;
    at[i] = 0;
  }
  return false;
}

static int64_t product(const int64_t *d, int n)
{
  int64_t p = 1;
  for (int i = 0; i < n; i++) p *= d[i];
  return p;
}

static struct shape shape_of(const struct window *w, int64_t n, int64_t c)
{
  struct shape s = {.n = 2 + w->n, .d = {n, c}};
  memcpy(s.d + 2, w->out, sizeof *w->out * (size_t)w->n);
  return s;
}

// ---- convolution ----

static void convolve(const struct window *w, const struct onnx_cells *x, const struct onnx_cells *k, const struct onnx_cells *bias,
                     struct onnx_cells *y)
{
  int64_t in = product(w->in, w->n), out = product(w->out, w->n), size = product(w->size, w->n), m = k->shape.d[0], c = k->shape.d[1],
          channels = x->shape.d[1];
  for (int64_t row = 0; row < x->shape.d[0] * m; row++) {
    int64_t to[MOST_SPACE] = {0}, image = row / m, f = row % m, first = f / (m / (channels / c)) * c;
    for (int64_t o = 0; o < out; o++, next(to, w->out, w->n)) {
      double sum = bias ? bias->f[f] : 0;
      int64_t at[MOST_SPACE] = {0};
      for (int64_t e = 0; e < size; e++, next(at, w->size, w->n)) {
        int64_t p = element_at(w, to, at);
        for (int64_t i = 0; i < c && p >= 0; i++) sum += x->f[(image * channels + first + i) * in + p] * k->f[(f * c + i) * size + e];
      }
      y->f[row * out + o] = sum;
    }
  }
}

void host_conv(struct onnx_host *h)
{
  const struct onnx_cells *x = host_in(h, 0), *k = host_in(h, 1), *bias = host_has(h, 2) ? h->in[2] : NULL;
  struct window w;
  int64_t groups = onnx_attr_int(h->n, "group", 1);
  bool fits = !h->failed && x->type == k->type && onnx_type_kind(x->type) == REAL && x->shape.n == k->shape.n && x->shape.n > 2;
  if (!fits || !onnx_elements(&k->shape) || !onnx_elements(&x->shape) || groups < 1 || groups > x->shape.d[1] || k->shape.d[0] % groups ||
      k->shape.d[1] * groups != x->shape.d[1])
    return host_fail(h, "its shapes do not fit");
  if (bias && (bias->type != x->type || onnx_elements(&bias->shape) != k->shape.d[0])) return host_fail(h, "its bias does not fit");
  if (!window_of(h, &x->shape, k->shape.d + 2, &w)) return;
  struct shape s = shape_of(&w, x->shape.d[0], k->shape.d[0]);
  struct onnx_cells *y = host_out(h, 0, x->type, &s);
  if (!h->failed && y->p) convolve(&w, x, k, bias, y);
}

// ---- pooling ----

void host_pool(struct onnx_host *h)
{
  const struct onnx_cells *x = host_in(h, 0);
  const struct onnx_attr *size = onnx_attr(h->n, "kernel_shape");
  bool most = h->row->fn == FN_MAX, all = onnx_attr_int(h->n, "count_include_pad", 0);
  struct window w;
  if (h->failed || onnx_type_kind(x->type) != REAL || !size || size->ints.n != x->shape.n - 2 || !onnx_elements(&x->shape))
    return host_fail(h, "its shapes do not fit");
  if (h->n->nout > 1 && h->n->out[1] >= 0) return host_fail(h, "its indices are read");
  if (!window_of(h, &x->shape, size->ints.v, &w)) return;
  struct shape s = shape_of(&w, x->shape.d[0], x->shape.d[1]);
  struct onnx_cells *y = host_out(h, 0, x->type, &s);
  if (h->failed || !y->p) return;
  int64_t in = product(w.in, w.n), out = product(w.out, w.n), each = product(w.size, w.n), to[MOST_SPACE] = {0};
  for (int64_t i = 0, n = onnx_elements(&s); i < n; i++, next(to, w.out, w.n)) {
    double r = most ? -INFINITY : 0;
    int64_t at[MOST_SPACE] = {0}, seen = 0;
    for (int64_t e = 0; e < each; e++, next(at, w.size, w.n)) {
      int64_t p = element_at(&w, to, at);
      if (p < 0) continue;
      double v = x->f[i / out * in + p];
      r = !most ? r + v : isnan(v) || v > r ? v : r, seen++;
    }
    y->f[i] = most ? r : r / (double)(all ? each : MAX(seen, 1));
  }
}

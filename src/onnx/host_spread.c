// Operators that write windows: ConvTranspose, Col2Im, MaxUnpool.
#include "onnx/window.h"

#include <string.h>

// Extents and pads of a transposed convolution: from output_shape, auto_pad, or pads.
static bool transposed_of(struct onnx_host *h, const struct shape *x, const struct shape *k, struct window *w)
{
  const struct onnx_attr *to = onnx_attr(h->n, "output_shape");
  const char *automatic = onnx_attr_text(h->n, "auto_pad", "NOTSET");
  int64_t pads[2 * MOST_SPACE], more[MOST_SPACE];
  w->n = x->n - 2;
  window_list(h, "strides", w->n, 1, 1, w->step), window_list(h, "dilations", w->n, 1, 1, w->gap), window_list(h, "pads", 2 * w->n, 0, 0, pads);
  window_list(h, "output_padding", w->n, 0, 0, more);
  bool same = !strncmp(automatic, "SAME", 4);
  if (to && to->ints.n != w->n && to->ints.n != w->n + 2) host_fail(h, "its output_shape does not fit");
  for (int i = 0; i < w->n && !h->failed; i++) {
    w->out[i] = x->d[i + 2], w->size[i] = k->d[i + 2], w->before[i] = pads[i], w->after[i] = pads[w->n + i]; // windows are placed by the input
    int64_t full = (w->out[i] - 1) * w->step[i] + more[i] + (w->size[i] - 1) * w->gap[i] + 1;
    int64_t want = to ? to->ints.v[to->ints.n - w->n + i] : same ? w->out[i] * w->step[i] : -1;
    if (want >= 0) {
      int64_t cut = full - want, half = cut >> 1; // negative: padding is added
      w->before[i] = strcmp(automatic, "SAME_UPPER") ? cut - half : half, w->after[i] = cut - w->before[i];
    }
    w->in[i] = full - w->before[i] - w->after[i];
    if (w->in[i] < 0 || w->in[i] > (int64_t)1 << 31) host_fail(h, "an extent would be %lld", (long long)w->in[i]);
  }
  return !h->failed;
}

void host_conv_transpose(struct onnx_host *h)
{
  const struct onnx_cells *x = host_in(h, 0), *k = host_in(h, 1), *bias = host_has(h, 2) ? h->in[2] : NULL;
  int64_t groups = onnx_attr_int(h->n, "group", 1);
  struct window w;
  if (!host_real(h, 0) || !host_real(h, 1) || !host_real(h, 2)) return;
  if (x->shape.n < 3 || k->shape.n != x->shape.n || x->type != k->type || k->shape.d[0] != x->shape.d[1] || groups < 1 || x->shape.d[1] % groups ||
      !onnx_elements(&k->shape) || (bias && onnx_elements(&bias->shape) != groups * k->shape.d[1]))
    return host_fail(h, "its shapes do not fit");
  if (!transposed_of(h, &x->shape, &k->shape, &w)) return;
  int64_t part = k->shape.d[1], m = groups * part, c = x->shape.d[1], many = window_product(w.out, w.n), pixels = window_product(w.in, w.n),
          size = window_product(w.size, w.n);
  struct shape s = {.n = x->shape.n, .d = {x->shape.d[0], m}};
  memcpy(s.d + 2, w.in, sizeof *w.in * (size_t)w.n);
  struct onnx_cells *y = host_out(h, 0, x->type, &s);
  if (h->failed || !y->p) return;
  for (int64_t i = 0, n = onnx_elements(&s); i < n && bias; i++) y->f[i] = bias->f[i / pixels % m];
  for (int64_t row = 0; row < x->shape.d[0] * c; row++) {
    int64_t to[MOST_SPACE] = {0}, image = row / c, from = row % c, first = from / (c / groups) * part;
    for (int64_t o = 0; o < many; o++, window_next(to, w.out, w.n)) {
      int64_t at[MOST_SPACE] = {0};
      bool padded;
      for (int64_t e = 0; e < size; e++, window_next(at, w.size, w.n)) {
        int64_t p = window_element(&w, to, at, &padded);
        for (int64_t f = 0; f < part && p >= 0; f++)
          y->f[(image * m + first + f) * pixels + p] += x->f[row * many + o] * k->f[(from * part + f) * size + e];
      }
    }
  }
}

// Adds columns of windows into an image.
void host_col_to_image(struct onnx_host *h)
{
  const struct onnx_cells *x = host_in(h, 0);
  struct shape image, block;
  struct window w;
  if (!host_real(h, 0) || !host_shape_of(h, 1, &image) || !host_shape_of(h, 2, &block)) return;
  int64_t size = onnx_elements(&block);
  if (image.n < 1 || image.n > MOST_SPACE || block.n != image.n || x->shape.n != 3 || size < 1 || x->shape.d[1] % size)
    return host_fail(h, "its shapes do not fit");
  struct shape s = {.n = image.n + 2, .d = {x->shape.d[0], x->shape.d[1] / size}};
  memcpy(s.d + 2, image.d, sizeof *image.d * (size_t)image.n);
  if (!window_of(h, &s, block.d, &w)) return;
  int64_t many = window_product(w.out, w.n), pixels = window_product(w.in, w.n);
  if (many != x->shape.d[2]) return host_fail(h, "it has %lld columns of %lld", (long long)x->shape.d[2], (long long)many);
  struct onnx_cells *y = host_out(h, 0, x->type, &s);
  for (int64_t row = 0; row < s.d[0] * s.d[1] && !h->failed && y->p; row++) {
    int64_t at[MOST_SPACE] = {0};
    bool padded;
    for (int64_t e = 0; e < size; e++, window_next(at, w.size, w.n)) {
      int64_t to[MOST_SPACE] = {0};
      for (int64_t o = 0; o < many; o++, window_next(to, w.out, w.n)) {
        int64_t p = window_element(&w, to, at, &padded);
        if (p >= 0) y->f[row * pixels + p] += x->f[(row * size + e) * many + o];
      }
    }
  }
}

// Writes elements to the positions that MaxPool took them from. The indices refer to the extents that the node's own windows give.
void host_max_unpool(struct onnx_host *h)
{
  const struct onnx_cells *x = host_in(h, 0), *at = host_in(h, 1);
  const struct onnx_attr *kernel = onnx_attr(h->n, "kernel_shape");
  struct shape s = x->shape, plain = x->shape;
  int64_t step[MOST_SPACE], pads[2 * MOST_SPACE], place[MAX_DIMS], own[MAX_DIMS];
  int n = x->shape.n - 2;
  if (!host_whole(h, 1)) return;
  if (n < 1 || !kernel || kernel->ints.n != n || !shape_eq(&x->shape, &at->shape)) return host_fail(h, "its shapes do not fit");
  window_list(h, "strides", n, 1, 1, step), window_list(h, "pads", 2 * n, 0, 0, pads);
  for (int i = 0; i < n; i++)
    if (kernel->ints.v[i] < 1 || kernel->ints.v[i] > 1 << 20) host_fail(h, "a window of %lld", (long long)kernel->ints.v[i]);
  for (int i = 0; i < n && !h->failed; i++) plain.d[i + 2] = (x->shape.d[i + 2] - 1) * step[i] + kernel->ints.v[i] - pads[i] - pads[n + i];
  s = plain;
  if (host_has(h, 2) && !host_shape_of(h, 2, &s)) return;
  for (int i = 0; i < plain.n && !h->failed; i++)
    if (s.n != plain.n || plain.d[i] < 0 || s.d[i] < plain.d[i]) return host_fail(h, "its result does not fit");
  struct onnx_cells *y = host_out(h, 0, x->type, &s);
  host_strides(&s, own);
  for (int64_t i = 0, all = onnx_elements(&x->shape); i < all && !h->failed && y->p; i++) {
    int64_t to = 0;
    if (at->i[i] < 0 || at->i[i] >= onnx_elements(&plain)) return host_fail(h, "index %lld", (long long)at->i[i]);
    host_place(&plain, at->i[i], place);
    for (int d = 0; d < s.n; d++) to += place[d] * own[d];
    y->i[to] = x->i[i];
  }
}

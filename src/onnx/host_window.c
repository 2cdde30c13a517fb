// Positions of windows that slide over the spatial dimensions of [N, C, ...].
#include "onnx/window.h"

#include <string.h>

void window_list(struct onnx_host *h, const char *name, int n, int64_t otherwise, int64_t least, int64_t *to)
{
  const struct onnx_attr *a = onnx_attr(h->n, name);
  for (int i = 0; i < n; i++) {
    to[i] = a && i < a->ints.n ? a->ints.v[i] : otherwise;
    if (to[i] < least || to[i] > 1 << 20) host_fail(h, "%s: %lld", name, (long long)to[i]);
  }
  if (a && a->ints.n != n) host_fail(h, "%s has %d entries", name, a->ints.n);
}

// Padding that gives one output for every step. The larger part is at the end (SAME_UPPER) or at the start (SAME_LOWER).
static void same(struct window *w, int i, bool lower)
{
  int64_t outs = (w->in[i] + w->step[i] - 1) / w->step[i], need = (outs - 1) * w->step[i] + (w->size[i] - 1) * w->gap[i] + 1 - w->in[i];
  need = MAX(need, 0);
  w->before[i] = lower ? need - need / 2 : need / 2, w->after[i] = need - w->before[i];
}

bool window_of(struct onnx_host *h, const struct shape *x, const int64_t *size, struct window *w)
{
  const char *automatic = onnx_attr_text(h->n, "auto_pad", "NOTSET");
  int64_t pads[2 * MOST_SPACE];
  bool up = onnx_attr_int(h->n, "ceil_mode", 0);
  w->n = x->n - 2;
  if (x->n < 3) return host_fail(h, "it has no dimensions in space"), false;
  window_list(h, "strides", w->n, 1, 1, w->step), window_list(h, "dilations", w->n, 1, 1, w->gap), window_list(h, "pads", 2 * w->n, 0, 0, pads);
  for (int i = 0; i < w->n && !h->failed; i++) {
    w->in[i] = x->d[i + 2], w->size[i] = size[i];
    if (size[i] < 1 || size[i] > 1 << 20 || w->in[i] > (int64_t)1 << 31) return host_fail(h, "a window of %lld", (long long)size[i]), false;
    w->before[i] = pads[i], w->after[i] = pads[w->n + i];
    if (!strcmp(automatic, "VALID")) w->before[i] = w->after[i] = 0;
    if (!strncmp(automatic, "SAME", 4)) same(w, i, !strcmp(automatic, "SAME_LOWER"));
    int64_t room = w->in[i] + w->before[i] + w->after[i] - (w->size[i] - 1) * w->gap[i] - 1;
    if (room < 0) return host_fail(h, "its windows are larger than the input"), false;
    w->out[i] = (room + (up ? w->step[i] - 1 : 0)) / w->step[i] + 1;
    if (up && (w->out[i] - 1) * w->step[i] >= w->in[i] + w->before[i]) w->out[i]--; // the last window must begin inside
  }
  return !h->failed;
}

int64_t window_element(const struct window *w, const int64_t *to, const int64_t *at, bool *padded)
{
  int64_t p = 0;
  bool inside = true;
  *padded = true;
  for (int i = 0; i < w->n; i++) {
    int64_t x = to[i] * w->step[i] + at[i] * w->gap[i] - w->before[i];
    inside &= x >= 0 && x < w->in[i], *padded &= x < w->in[i] + w->after[i];
    p = p * w->in[i] + x;
  }
  return inside ? p : -1;
}

bool window_next(int64_t *at, const int64_t *extent, int n)
{
  for (int i = n - 1; i >= 0; i--) {
    if (++at[i] < extent[i]) return true;
    at[i] = 0;
  }
  return false;
}

int64_t window_product(const int64_t *d, int n)
{
  int64_t p = 1;
  for (int i = 0; i < n; i++)
    if (__builtin_mul_overflow(p, d[i], &p)) return (int64_t)1 << 40; // more than any tensor has
  return p;
}

struct shape window_shape(const struct window *w, int64_t n, int64_t c)
{
  struct shape s = {.n = 2 + w->n, .d = {n, c}};
  memcpy(s.d + 2, w->out, sizeof *w->out * (size_t)w->n);
  return s;
}

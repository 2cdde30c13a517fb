// Converts blocks of pixels to channels and back; crops and pads around the centre.
#include "onnx/onnx_host.h"

#include <string.h>

// Copies a, viewed as shape s with its dimensions permuted, to output 0 of shape `as`.
static void permuted(struct onnx_host *h, const struct onnx_cells *a, const struct shape *s, const int *perm, const struct shape *as)
{
  struct shape to = {.n = s->n};
  int64_t own[MAX_DIMS], stride[MAX_DIMS];
  host_strides(s, own);
  for (int i = 0; i < s->n; i++) to.d[i] = s->d[perm[i]], stride[i] = own[perm[i]];
  struct onnx_cells *y = host_out(h, 0, a->type, as);
  if (!h->failed && y->p) host_copy(y->p, a->p, &to, 0, stride);
}

void host_depth_to_space(struct onnx_host *h)
{
  const struct onnx_cells *a = host_in(h, 0);
  const struct shape *s = &a->shape;
  int64_t b = onnx_attr_int(h->n, "blocksize", 0);
  bool rows = !strcmp(onnx_attr_text(h->n, "mode", "DCR"), "DCR");
  if (h->failed || s->n != 4 || b < 1 || b > 1 << 10 || s->d[1] % (b * b)) return host_fail(h, "blocks of %lld do not fit", (long long)b);
  int64_t c = s->d[1] / (b * b);
  struct shape as = {.n = 4, .d = {s->d[0], c, s->d[2] * b, s->d[3] * b}};
  struct shape depth = {.n = 6, .d = {s->d[0], b, b, c, s->d[2], s->d[3]}}, column = {.n = 6, .d = {s->d[0], c, b, b, s->d[2], s->d[3]}};
  permuted(h, a, rows ? &depth : &column, rows ? (int[]){0, 3, 4, 1, 5, 2} : (int[]){0, 1, 4, 2, 5, 3}, &as);
}

void host_space_to_depth(struct onnx_host *h)
{
  const struct onnx_cells *a = host_in(h, 0);
  const struct shape *s = &a->shape;
  int64_t b = onnx_attr_int(h->n, "blocksize", 0);
  bool rows = !strcmp(onnx_attr_text(h->n, "mode", "DCR"), "DCR");
  if (h->failed || s->n != 4 || b < 1 || b > 1 << 10 || s->d[2] % b || s->d[3] % b) return host_fail(h, "blocks of %lld do not fit", (long long)b);
  struct shape as = {.n = 4, .d = {s->d[0], s->d[1] * b * b, s->d[2] / b, s->d[3] / b}};
  struct shape cut = {.n = 6, .d = {s->d[0], s->d[1], s->d[2] / b, b, s->d[3] / b, b}};
  permuted(h, a, &cut, rows ? (int[]){0, 3, 5, 1, 2, 4} : (int[]){0, 1, 3, 5, 2, 4}, &as);
}

// Crops extents that are too long around the centre, and pads short ones with zeros on both sides. The smaller part is in front.
void host_center_crop_pad(struct onnx_host *h)
{
  const struct onnx_cells *a = host_in(h, 0);
  struct onnx_ints to, axes;
  struct shape s = a->shape;
  int64_t own[MAX_DIMS], at[MAX_DIMS], shift[MAX_DIMS] = {0};
  int axis;
  bool some = host_list(h, "axes", MAX_DIMS, &axes);
  if (!host_list(h, "shape", 1, &to)) return host_fail(h, "its shape is missing");
  if (to.n != (some ? axes.n : s.n)) return host_fail(h, "its shape does not fit");
  for (int i = 0; i < to.n; i++) {
    if (!host_axis(h, some ? axes.v[i] : i, s.n, &axis)) return;
    if (to.v[i] < 0 || to.v[i] >= (int64_t)1 << 40) return host_fail(h, "an extent would be %lld", (long long)to.v[i]);
    int64_t d = a->shape.d[axis];
    s.d[axis] = to.v[i], shift[axis] = to.v[i] < d ? (d - to.v[i]) / 2 : -((to.v[i] - d) / 2);
  }
  struct onnx_cells *y = host_out(h, 0, a->type, &s);
  host_strides(&a->shape, own);
  for (int64_t i = 0, n = onnx_elements(&s); i < n && !h->failed && y->p; i++) {
    int64_t from = 0;
    bool inside = true;
    host_place(&s, i, at);
    for (int d = 0; d < s.n; d++) inside &= at[d] + shift[d] >= 0 && at[d] + shift[d] < a->shape.d[d], from += (at[d] + shift[d]) * own[d];
    if (inside) y->i[i] = a->i[from];
  }
}

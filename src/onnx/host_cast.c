// Type conversions: by value, or by bits.
#include "onnx/onnx_host.h"

#include <math.h>
#include <string.h>

static enum onnx_rounding rounding_of(struct onnx_host *h)
{
  const char *said = onnx_attr_text(h->n, "round_mode", "up");
  if (strcmp(said, "up") && strcmp(said, "down") && strcmp(said, "nearest")) host_fail(h, "round_mode is `%.60s`, which is not known", said);
  return !strcmp(said, "up") ? ROUND_UP : !strcmp(said, "down") ? ROUND_DOWN : ROUND_NEAREST;
}

static int64_t to_whole(double x) { return x > -0x1p63 && x < 0x1p63 ? (int64_t)x : INT64_MIN; }

static void cast(struct onnx_host *h, int type)
{
  const struct onnx_cells *a = host_in(h, 0);
  enum onnx_rounding rounding = rounding_of(h);
  bool saturate = onnx_attr_int(h->n, "saturate", 1), small = onnx_small(type), from = onnx_type_kind(a->type) == REAL;
  if (!h->failed && onnx_type_kind(type) == NEITHER) host_fail(h, "it makes %s", onnx_type_name(type));
  if (h->failed) return;
  struct onnx_cells *out = host_out(h, 0, type, &a->shape);
  for (int64_t i = 0, n = onnx_elements(&a->shape); i < n && out->p && !h->failed; i++) {
    double x = host_number(a, i);
    if (small)
      out->f[i] = onnx_small_round(type, x, saturate, rounding);
    else if (onnx_type_kind(type) == REAL)
      out->f[i] = x;
    else if (type == ONNX_BOOL)
      out->i[i] = x != 0;
    else
      out->i[i] = from ? to_whole(x) : a->i[i];
  }
}

void host_cast(struct onnx_host *h) { cast(h, (int)onnx_attr_int(h->n, "to", 0)); }
void host_cast_like(struct onnx_host *h) { cast(h, host_in(h, 1)->type); }

void host_bit_cast(struct onnx_host *h)
{
  const struct onnx_cells *a = host_in(h, 0);
  int type = (int)onnx_attr_int(h->n, "to", 0);
  if (!h->failed && (onnx_type_kind(type) == NEITHER || onnx_type_bits(type) != onnx_type_bits(a->type)))
    host_fail(h, "%s does not have the bits of %s", onnx_type_name(type), onnx_type_name(a->type));
  if (h->failed) return;
  struct onnx_cells *out = host_out(h, 0, type, &a->shape);
  for (int64_t i = 0, n = onnx_elements(&a->shape); i < n && out->p && !h->failed; i++) onnx_cells_from_bits(out, i, onnx_cells_bits(a, i));
}

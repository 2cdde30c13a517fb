// Padding: constant, edge, reflect or wrap; negative pads crop.
#include "onnx/onnx_host.h"

#include <string.h>

enum pad_mode { CONSTANT, REFLECT, EDGE, WRAP };
static const char *const modes[] = {"constant", "reflect", "edge", "wrap"};

static bool mode_of(struct onnx_host *h, enum pad_mode *mode)
{
  const char *said = onnx_attr_text(h->n, "mode", modes[0]);
  for (int i = 0; i < (int)COUNT(modes); i++)
    if (!strcmp(said, modes[i])) return *mode = (enum pad_mode)i, true;
  return host_fail(h, "its mode is not known"), false;
}

// Index of the element among d that position i (possibly outside) reads; -1: none.
static int64_t source(enum pad_mode mode, int64_t i, int64_t d)
{
  if (i >= 0 && i < d) return i;
  if (mode == CONSTANT || !d) return -1;
  if (mode == EDGE) return i < 0 ? 0 : d - 1;
  int64_t turn = mode == WRAP ? d : MAX(2 * (d - 1), 1);
  i = (i % turn + turn) % turn;
  return i < d ? i : turn - i;
}

// Pads of every dimension, at its start and its end.
static bool pads_of(struct onnx_host *h, const struct shape *s, int64_t pads[2 * MAX_DIMS])
{
  struct onnx_ints list, axes = {0};
  bool some = host_list(h, "axes", 3, &axes);
  int axis;
  if (!host_list(h, "pads", 1, &list)) return host_fail(h, "its pads are missing"), false;
  int n = some ? axes.n : s->n;
  if (list.n != 2 * n || n > s->n) return host_fail(h, "its pads do not fit"), false;
  memset(pads, 0, sizeof *pads * 2 * MAX_DIMS);
  for (int i = 0; i < n; i++) {
    if (!host_axis(h, some ? axes.v[i] : i, s->n, &axis)) return false;
    pads[axis] = list.v[i], pads[MAX_DIMS + axis] = list.v[n + i];
    for (int k = 0; k < 2; k++)
      if (pads[k * MAX_DIMS + axis] > 1 << 30 || pads[k * MAX_DIMS + axis] < -(1 << 30)) host_fail(h, "its pads are too large");
  }
  return !h->failed;
}

void host_pad(struct onnx_host *h)
{
  const struct onnx_cells *a = host_in(h, 0), *value = host_has(h, 2) ? h->in[2] : NULL;
  struct shape s = a->shape;
  int64_t pads[2 * MAX_DIMS], own[MAX_DIMS], at[MAX_DIMS];
  enum pad_mode mode;
  if (h->failed || !mode_of(h, &mode) || !pads_of(h, &s, pads)) return;
  int64_t cut[MAX_DIMS], rest[MAX_DIMS]; // elements cropped at the start; elements left
  for (int i = 0; i < s.n; i++) {
    cut[i] = MAX(-pads[i], 0), rest[i] = MAX(s.d[i] - cut[i] - MAX(-pads[MAX_DIMS + i], 0), 0);
    s.d[i] += pads[i] + pads[MAX_DIMS + i];
    if (s.d[i] < 0 || (mode != CONSTANT && !rest[i] && s.d[i]))
      return host_fail(h, "its pads do not fit an extent of %lld", (long long)a->shape.d[i]);
  }
  if (value && (value->type != a->type || onnx_elements(&value->shape) != 1)) return host_fail(h, "what it pads with is no element");
  struct onnx_cells *out = host_out(h, 0, a->type, &s);
  double plain = onnx_attr_real(h->n, "value", 0);
  host_strides(&a->shape, own);
  for (int64_t k = 0, n = onnx_elements(&s); k < n && !h->failed && out->p; k++) {
    int64_t from = 0;
    bool inside = true;
    host_place(&s, k, at);
    for (int d = 0; d < s.n; d++) {
      int64_t i = source(mode, at[d] - MAX(pads[d], 0), rest[d]);
      inside &= i >= 0, from += (i + cut[d]) * own[d];
    }
    if (inside)
      out->i[k] = a->i[from];
    else if (value)
      out->i[k] = value->i[0];
    else
      host_store(out, k, plain);
  }
}

// Elementwise operators on cells, by the functions of fn.def; comparisons.
#include "onnx/onnx_host.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NO_INTEGERS 0
#define NO_REALS 0
static int64_t whole_power(int64_t x, int64_t y)
{
  uint64_t r = 1, b = (uint64_t)x;
  if (y < 0) return x == 1 ? 1 : x == -1 ? (y % 2 ? -1 : 1) : 0;
  for (uint64_t k = (uint64_t)y; k; k >>= 1, b *= b)
    if (k & 1) r *= b;
  return (int64_t)r;
}

// The remainder of x, with the sign of y.
static double floor_mod(double x, double y)
{
  double r = fmod(x, y);
  return r == 0 ? copysign(r, y) : (r < 0) != (y < 0) ? r + y : r;
}

#define FN(id, real, whole)                                                                \
  static double real_##id(double x, double y) { return (void)x, (void)y, (double)(real); } \
  static int64_t whole_##id(int64_t x, int64_t y) { return (void)x, (void)y, (int64_t)(whole); }
#include "onnx/fn.def"
#undef FN

static const struct {
  double (*real)(double x, double y);
  int64_t (*whole)(int64_t x, int64_t y);
  const char *of_reals, *of_integers; // text of the functions
} fns[FNS] = {
#define FN(id, real, whole) {real_##id, whole_##id, #real, #whole},
#include "onnx/fn.def"
#undef FN
};

static bool typed(struct onnx_host *h, int type, int fn)
{
  bool real = onnx_type_kind(type) == REAL;
  if (!strcmp(real ? fns[fn].of_reals : fns[fn].of_integers, real ? "NO_REALS" : "NO_INTEGERS"))
    host_fail(h, "it does not take %s", onnx_type_name(type));
  return !h->failed;
}

// Computes one element of out from cell x of a and cell y of b.
static void element(int fn, struct onnx_cells *out, int64_t i, const struct onnx_cells *a, int64_t x, const struct onnx_cells *b, int64_t y)
{
  bool real = onnx_type_kind(a->type) == REAL, into_real = onnx_type_kind(out->type) == REAL;
  double r = 0;
  int64_t w = 0;
  if (real)
    r = fns[fn].real(a->f[x], b->f[y]), w = into_real ? 0 : r != 0;
  else
    w = fns[fn].whole(a->i[x], b->i[y]), r = (double)w;
  if (into_real)
    out->f[i] = r;
  else
    out->i[i] = w;
}

static void pairwise(struct onnx_host *h, int fn, struct onnx_cells *out, const struct onnx_cells *a, const struct onnx_cells *b)
{
  struct onnx_cells places[2];
  int64_t stride[MAX_DIMS], n = onnx_elements(&out->shape);
  const struct onnx_cells *side[] = {a, b};
  for (int k = 0; k < 2; k++) { // broadcasts both operands
    int64_t size = MAX(onnx_elements(&side[k]->shape), 1), *iota = arena_alloc(h->mem, 8 * (size_t)size);
    for (int64_t i = 0; i < size; i++) iota[i] = i;
    places[k] = (struct onnx_cells){.p = arena_alloc(h->mem, 8 * (size_t)MAX(n, 1))};
    host_spread(&side[k]->shape, &out->shape, stride);
    host_copy(places[k].p, iota, &out->shape, 0, stride);
  }
  for (int64_t i = 0; i < n; i++) element(fn, out, i, a, places[0].i[i], b, places[1].i[i]);
}

// Cells hold uint64 as int64_t. Operators that depend on order refuse values in the upper half.
static bool ordered(struct onnx_host *h, int fn, const struct onnx_cells *a)
{
  static const int any[] = {FN_ADD, FN_SUB, FN_MUL, FN_EQUAL, FN_AND, FN_OR, FN_XOR, FN_BIT_AND, FN_BIT_OR, FN_BIT_XOR, FN_SHIFT_LEFT};
  for (size_t i = 0; i < COUNT(any); i++)
    if (fn == any[i]) return true;
  for (int64_t i = 0, n = a->type == ONNX_UINT64 && a->p ? onnx_elements(&a->shape) : 0; i < n; i++)
    if (a->i[i] < 0) return host_fail(h, "a uint64 of 2^63 or more is not computed with"), false;
  return true;
}

static struct onnx_cells *joined(struct onnx_host *h, int fn, const struct onnx_cells *a, const struct onnx_cells *b, int type)
{
  struct shape s;
  if (a->type != b->type) host_fail(h, "it takes %s and %s", onnx_type_name(a->type), onnx_type_name(b->type));
  if (h->failed || !typed(h, a->type, fn) || !ordered(h, fn, a) || !ordered(h, fn, b) || !host_broadcast(h, &a->shape, &b->shape, &s)) return NULL;
  struct onnx_cells *out = host_out(h, 0, type, &s);
  if (!h->failed && out->p) pairwise(h, fn, out, a, b);
  return h->failed ? NULL : out;
}

void host_unary(struct onnx_host *h)
{
  const struct onnx_cells *a = host_in(h, 0);
  int type = h->row->fn == FN_ISNAN ? ONNX_BOOL : a->type;
  if (h->failed || !typed(h, a->type, h->row->fn)) return;
  struct onnx_cells *out = host_out(h, 0, type, &a->shape);
  for (int64_t i = 0, n = onnx_elements(&a->shape); i < n && out->p && !h->failed; i++) element(h->row->fn, out, i, a, i, a, i);
}

void host_binary(struct onnx_host *h)
{
  const struct onnx_cells *a = host_in(h, 0), *b = host_in(h, 1);
  // before set 28, reals are always truncated
  bool truncates = onnx_attr_int(h->n, "fmod", 0) || (onnx_type_kind(a->type) == REAL && h->n->opset < 28);
  int fn = h->row->fn == FN_MOD && truncates ? FN_FMOD : h->row->fn;
  joined(h, fn, a, b, a->type);
}

// The exponent has its own type.
void host_power(struct onnx_host *h)
{
  const struct onnx_cells *a = host_in(h, 0), *b = host_in(h, 1);
  struct shape s;
  int64_t x[MAX_DIMS], y[MAX_DIMS], at[MAX_DIMS];
  if (h->failed || !host_broadcast(h, &a->shape, &b->shape, &s)) return;
  struct onnx_cells *out = host_out(h, 0, a->type, &s);
  bool whole = onnx_type_kind(a->type) == WHOLE && onnx_type_kind(b->type) == WHOLE;
  host_spread(&a->shape, &s, x), host_spread(&b->shape, &s, y);
  for (int64_t i = 0, n = onnx_elements(&s); i < n && !h->failed && out->p; i++) {
    int64_t p = 0, q = 0;
    host_place(&s, i, at);
    for (int d = 0; d < s.n; d++) p += at[d] * x[d], q += at[d] * y[d];
    if (whole)
      out->i[i] = whole_power(a->i[p], b->i[q]);
    else
      host_store(out, i, pow(host_number(a, p), host_number(b, q)));
  }
}

// Shifts bits left or right; types are unsigned, so zeros are shifted in.
void host_bit_shift(struct onnx_host *h)
{
  const char *way = onnx_attr_text(h->n, "direction", "");
  bool left = !strcmp(way, "LEFT");
  if (!left && strcmp(way, "RIGHT")) host_fail(h, "its direction is neither LEFT nor RIGHT");
  joined(h, left ? FN_SHIFT_LEFT : FN_SHIFT_RIGHT, host_in(h, 0), host_in(h, 1), host_in(h, 0)->type);
}

void host_compare(struct onnx_host *h) { joined(h, h->row->fn, host_in(h, 0), host_in(h, 1), ONNX_BOOL); }

void host_variadic(struct onnx_host *h)
{
  const struct onnx_cells *a = host_in(h, 0);
  if (h->nin == 1) host_identity(h);
  for (int k = 1; k < h->nin && !h->failed; k++) {
    a = joined(h, h->row->fn, a, host_in(h, k), host_in(h, 0)->type);
    if (!a) return;
  }
  struct onnx_cells *out = h->out[0];
  if (h->row->fn == FN_MEAN && !h->failed && out->p)
    for (int64_t i = 0, n = onnx_elements(&out->shape); i < n; i++) out->f[i] /= h->nin;
}

// A bound: an attribute before operator set 11, an input from then on.
static double bound(struct onnx_host *h, const char *name, int k, double otherwise)
{
  if (!host_has(h, k)) return onnx_attr_real(h->n, name, otherwise);
  const struct onnx_cells *c = h->in[k];
  if (!c->p || onnx_elements(&c->shape) != 1) return otherwise;
  return onnx_type_kind(c->type) == REAL ? c->f[0] : (double)c->i[0];
}

void host_clip(struct onnx_host *h)
{
  const struct onnx_cells *a = host_in(h, 0);
  struct onnx_cells *out = host_out(h, 0, a->type, &a->shape);
  double lo = bound(h, "min", 1, -INFINITY), hi = bound(h, "max", 2, INFINITY);
  if (host_has(h, 1) && onnx_elements(&h->in[1]->shape) != 1) host_fail(h, "its min is not one number");
  if (host_has(h, 2) && onnx_elements(&h->in[2]->shape) != 1) host_fail(h, "its max is not one number");
  bool real = onnx_type_kind(a->type) == REAL;
  for (int64_t i = 0, n = onnx_elements(&a->shape); i < n && out->p && !h->failed; i++) {
    if (real)
      out->f[i] = isnan(a->f[i]) ? a->f[i] : fmin(fmax(a->f[i], lo), hi);
    else
      out->i[i] = (double)a->i[i] < lo ? (int64_t)lo : (double)a->i[i] > hi ? (int64_t)hi : a->i[i];
  }
}

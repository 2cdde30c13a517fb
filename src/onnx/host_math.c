// Elementwise nodes on cells, by the functions of fn.def; comparisons; sums and maxima along dimensions.
#include "onnx/onnx_host.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NO_INTEGERS 0
static int64_t whole_power(int64_t x, int64_t y)
{
  uint64_t r = 1, b = (uint64_t)x;
  if (y < 0) return x == 1 ? 1 : x == -1 ? (y % 2 ? -1 : 1) : 0;
  for (uint64_t k = (uint64_t)y; k; k >>= 1, b *= b)
    if (k & 1) r *= b;
  return (int64_t)r;
}

#define FN(id, real, whole)                                                                \
  static double real_##id(double x, double y) { return (void)x, (void)y, (double)(real); } \
  static int64_t whole_##id(int64_t x, int64_t y) { return (void)x, (void)y, (int64_t)(whole); }
#include "onnx/fn.def"
#undef FN

static const struct {
  double (*real)(double x, double y);
  int64_t (*whole)(int64_t x, int64_t y);
  const char *text; // of the function of integers
} fns[FNS] = {
#define FN(id, real, whole) {real_##id, whole_##id, #whole},
#include "onnx/fn.def"
#undef FN
};

static bool typed(struct onnx_host *h, int type, int fn)
{
  bool none = onnx_type_kind(type) == WHOLE && !strcmp(fns[fn].text, "0") && fn != FN_ISNAN;
  if (none) host_fail(h, "it takes no integers");
  return !h->failed;
}

// One element of out from cell x of a and cell y of b.
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
  for (int k = 0; k < 2; k++) { // which element each of the result reads
    int64_t size = MAX(onnx_elements(&side[k]->shape), 1), *iota = arena_alloc(h->mem, 8 * (size_t)size);
    for (int64_t i = 0; i < size; i++) iota[i] = i;
    places[k] = (struct onnx_cells){.p = arena_alloc(h->mem, 8 * (size_t)MAX(n, 1))};
    host_spread(&side[k]->shape, &out->shape, stride);
    host_copy(places[k].p, iota, &out->shape, 0, stride);
  }
  for (int64_t i = 0; i < n; i++) element(fn, out, i, a, places[0].i[i], b, places[1].i[i]);
}

static struct onnx_cells *joined(struct onnx_host *h, int fn, const struct onnx_cells *a, const struct onnx_cells *b, int type)
{
  struct shape s;
  if (a->type != b->type) host_fail(h, "it takes %s and %s", onnx_type_name(a->type), onnx_type_name(b->type));
  if (h->failed || !typed(h, a->type, fn) || !host_broadcast(h, &a->shape, &b->shape, &s)) return NULL;
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
  int fn = h->row->fn == FN_MOD && (onnx_attr_int(h->n, "fmod", 0) || onnx_type_kind(a->type) == REAL) ? FN_FMOD : h->row->fn;
  struct onnx_cells as;
  if (fn == FN_POW && a->type != b->type && a->p && b->p && onnx_type_kind(a->type) == REAL) { // the exponent has a type of its own
    as = *onnx_cells_new(h->mem, a->type, &b->shape);
    for (int64_t i = 0, n = onnx_elements(&b->shape); i < n; i++) as.f[i] = onnx_type_kind(b->type) == REAL ? b->f[i] : (double)b->i[i];
    b = &as;
  }
  joined(h, fn, a, b, a->type);
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

// A bound: an attribute before operator set 11, an input since.
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
  bool real = onnx_type_kind(a->type) == REAL;
  for (int64_t i = 0, n = onnx_elements(&a->shape); i < n && out->p && !h->failed; i++) {
    if (real)
      out->f[i] = isnan(a->f[i]) ? a->f[i] : fmin(fmax(a->f[i], lo), hi);
    else
      out->i[i] = (double)a->i[i] < lo ? (int64_t)lo : (double)a->i[i] > hi ? (int64_t)hi : a->i[i];
  }
}

// ---- along dimensions ----

static int64_t before(const struct shape *s, int axis)
{
  struct shape t = *s;
  t.n = axis;
  return onnx_elements(&t);
}

static int64_t after(const struct shape *s, int axis)
{
  int64_t n = 1;
  for (int i = axis + 1; i < s->n; i++) n *= s->d[i];
  return n;
}

void host_cumsum(struct onnx_host *h)
{
  const struct onnx_cells *a = host_in(h, 0), *at = host_in(h, 1);
  int axis = 0;
  if (onnx_attr_int(h->n, "exclusive", 0) || onnx_attr_int(h->n, "reverse", 0)) host_fail(h, "exclusive and reverse sums are not computed");
  if (h->failed || (at->p && (onnx_type_kind(at->type) != WHOLE || onnx_elements(&at->shape) != 1))) return host_fail(h, "its axis is no integer");
  struct onnx_cells *out = host_out(h, 0, a->type, &a->shape);
  if (h->failed || !out->p || !host_axis(h, at->i[0], a->shape.n, &axis)) return;
  bool real = onnx_type_kind(a->type) == REAL;
  int64_t step = after(&a->shape, axis), n = onnx_elements(&a->shape);
  for (int64_t i = 0; i < n; i++) {
    bool first = i / step % a->shape.d[axis] == 0;
    if (real)
      out->f[i] = a->f[i] + (first ? 0 : out->f[i - step]);
    else
      out->i[i] = (int64_t)((uint64_t)a->i[i] + (uint64_t)(first ? 0 : out->i[i - step]));
  }
}

static void fold_one(struct onnx_cells *out, int64_t to, const struct onnx_cells *a, int64_t from, int fn, bool first)
{
  if (first && onnx_type_kind(a->type) == REAL)
    out->f[to] = a->f[from];
  else if (first)
    out->i[to] = a->i[from];
  else
    element(fn, out, to, out, to, a, from);
}

// Sums, means, maxima, minima and products of integers or of what is known.
void host_reduce(struct onnx_host *h)
{
  const struct onnx_cells *a = host_in(h, 0);
  struct onnx_ints axes;
  struct shape kept = a->shape, s = {0};
  bool cut[MAX_DIMS] = {false}, given = host_list(h, "axes", 1, &axes) && axes.n;
  int fn = h->row->fn == FN_MEAN ? FN_ADD : h->row->fn, axis;
  if (!given && onnx_attr_int(h->n, "noop_with_empty_axes", 0)) return host_identity(h);
  for (int i = 0; i < a->shape.n; i++) cut[i] = !given;
  for (int i = 0; i < axes.n && given; i++)
    if (host_axis(h, axes.v[i], a->shape.n, &axis)) cut[axis] = true;
  for (int i = 0; i < a->shape.n; i++) {
    if (cut[i]) kept.d[i] = 1;
    if (!cut[i] || onnx_attr_int(h->n, "keepdims", 1)) s.d[s.n++] = kept.d[i];
  }
  if (!h->failed && !onnx_elements(&a->shape)) host_fail(h, "it folds no elements");
  if (h->failed || !typed(h, a->type, h->row->fn)) return;
  struct onnx_cells *out = host_out(h, 0, a->type, &s);
  if (h->failed || !out->p) return;
  int64_t own[MAX_DIMS], to[MAX_DIMS], n = onnx_elements(&a->shape), each = n / onnx_elements(&kept);
  bool *seen = arena_alloc(h->mem, (size_t)onnx_elements(&kept));
  host_strides(&a->shape, own), host_spread(&kept, &a->shape, to);
  for (int64_t i = 0; i < n; i++) {
    int64_t at = 0;
    for (int d = 0; d < a->shape.n; d++) at += i / own[d] % a->shape.d[d] * to[d];
    fold_one(out, at, a, i, fn, !seen[at]), seen[at] = true;
  }
  for (int64_t i = 0; i < n / each && h->row->fn == FN_MEAN; i++) out->f[i] /= (double)each;
}

void host_arg_max(struct onnx_host *h)
{
  const struct onnx_cells *a = host_in(h, 0);
  int axis;
  if (onnx_attr_int(h->n, "select_last_index", 0)) host_fail(h, "select_last_index is not computed");
  if (h->failed || !host_axis(h, onnx_attr_int(h->n, "axis", 0), a->shape.n, &axis)) return;
  struct shape s = a->shape;
  s.d[axis] = 1;
  if (!onnx_attr_int(h->n, "keepdims", 1)) {
    memmove(s.d + axis, s.d + axis + 1, sizeof *s.d * (size_t)(s.n - axis - 1));
    s.n--;
  }
  struct onnx_cells *out = host_out(h, 0, ONNX_INT64, &s);
  if (h->failed || !out->p) return;
  if (!onnx_elements(&a->shape)) return host_fail(h, "it chooses of no elements");
  int64_t step = after(&a->shape, axis), d = a->shape.d[axis];
  for (int64_t i = 0, n = before(&a->shape, axis) * step; i < n; i++)
    for (int64_t k = 1, at = i / step * step * d + i % step; k < d; k++) {
      int64_t x = at + k * step, best = at + out->i[i] * step;
      bool more = onnx_type_kind(a->type) == REAL ? a->f[x] > a->f[best] : a->i[x] > a->i[best];
      if (more) out->i[i] = k;
    }
}

struct host_math_pick {
  double f;
  int64_t i, at; // f of reals, i of integers; where it stands
};

static int larger_first(const void *a, const void *b)
{
  const struct host_math_pick *x = a, *y = b;
  if (x->f != y->f) return x->f > y->f ? -1 : 1;
  if (x->i != y->i) return x->i > y->i ? -1 : 1;
  return x->at < y->at ? -1 : x->at > y->at;
}

static int smaller_first(const void *a, const void *b)
{
  const struct host_math_pick *x = a, *y = b;
  if (x->f == y->f && x->i == y->i) return x->at < y->at ? -1 : x->at > y->at;
  return larger_first(y, x);
}

// The k largest or smallest along an axis, in order, and where they stand; of equal ones the first.
void host_top_k(struct onnx_host *h)
{
  const struct onnx_cells *a = host_in(h, 0);
  const struct onnx_attr *said = onnx_attr(h->n, "k");
  struct onnx_ints list = {0};
  int axis;
  if (!said && (!host_list(h, "K", 1, &list) || list.n != 1)) return host_fail(h, "its k is not known");
  if (!host_axis(h, onnx_attr_int(h->n, "axis", -1), a->shape.n, &axis)) return;
  int64_t k = said ? said->i : list.v[0], d = a->shape.d[axis];
  if (k < 0 || k > d) return host_fail(h, "%lld of %lld elements", (long long)k, (long long)d);
  struct shape s = a->shape;
  s.d[axis] = k;
  struct onnx_cells *out = host_out(h, 0, a->type, &s), *at = h->n->nout > 1 ? host_out(h, 1, ONNX_INT64, &s) : NULL;
  if (h->failed || !out->p) return;
  struct host_math_pick *all = arena_alloc(h->mem, sizeof *all * (size_t)MAX(d, 1));
  int64_t step = after(&a->shape, axis);
  for (int64_t lane = 0, n = onnx_elements(&s) ? before(&a->shape, axis) * step : 0; lane < n; lane++) {
    int64_t from = lane / step * step * d + lane % step, to = lane / step * step * k + lane % step;
    for (int64_t i = 0; i < d; i++)
      all[i] = onnx_type_kind(a->type) == REAL ? (struct host_math_pick){.f = a->f[from + i * step], .at = i}
                                               : (struct host_math_pick){.i = a->i[from + i * step], .at = i};
    qsort(all, (size_t)d, sizeof *all, onnx_attr_int(h->n, "largest", 1) ? larger_first : smaller_first);
    for (int64_t i = 0; i < k; i++) {
      if (onnx_type_kind(a->type) == REAL)
        out->f[to + i * step] = all[i].f;
      else
        out->i[to + i * step] = all[i].i;
      if (at) at->i[to + i * step] = all[i].at;
    }
  }
}

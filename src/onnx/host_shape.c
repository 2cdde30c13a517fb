// Operators that change only shape or type, and operators without tensor inputs.
#include "onnx/onnx_host.h"

#include <math.h>
#include <string.h>

static void same(struct onnx_host *h, const struct shape *s)
{
  const struct onnx_cells *a = host_in(h, 0);
  if (!h->failed && onnx_elements(&a->shape) != onnx_elements(s))
    host_fail(h, "%lld elements do not become %lld", (long long)onnx_elements(&a->shape), (long long)onnx_elements(s));
  if (h->failed) return;
  struct onnx_cells *out = host_out(h, 0, a->type, s);
  if (!h->failed && out->p) memcpy(out->p, a->p, 8 * (size_t)onnx_elements(s));
}

void host_identity(struct onnx_host *h)
{
  same(h, &host_in(h, 0)->shape);
  if (h->n->nout > 1 && *h->n->out_name[1]) host_fail(h, "its second output is not computed");
}

// Dropout is the identity outside of training, or with ratio 0. Otherwise it is random, so no fixed result would be right, and it is refused.
void host_dropout(struct onnx_host *h)
{
  const struct onnx_cells *ratio = host_has(h, 1) ? host_in(h, 1) : NULL, *training = host_has(h, 2) ? host_in(h, 2) : NULL;
  if (training && (onnx_type_kind(training->type) != WHOLE || onnx_elements(&training->shape) != 1)) host_fail(h, "its training_mode is no bool");
  if (ratio && (onnx_type_kind(ratio->type) != REAL || onnx_elements(&ratio->shape) != 1)) host_fail(h, "its ratio is no number");
  bool trains = !h->failed && training && training->p && training->i[0], keeps = !h->failed && ratio && (!ratio->p || ratio->f[0] == 0);
  if (trains && !keeps) host_fail(h, "it is in training, and drops elements at random");
  same(h, &host_in(h, 0)->shape);
  if (h->failed || h->n->nout < 2 || !*h->n->out_name[1]) return;
  struct onnx_cells *mask = host_out(h, 1, ONNX_BOOL, &host_in(h, 0)->shape);
  for (int64_t i = 0, n = onnx_elements(&mask->shape); i < n && !h->failed && mask->p; i++) mask->i[i] = 1;
}

void host_shape(struct onnx_host *h)
{
  const struct onnx_cells *a = host_in(h, 0);
  int64_t n = a->shape.n, start = onnx_attr_int(h->n, "start", 0), end = onnx_attr_int(h->n, "end", n);
  start = MAX(MIN(start < 0 ? start + n : start, n), 0), end = MAX(MIN(end < 0 ? end + n : end, n), 0);
  struct shape s = {.n = 1, .d = {MAX(end - start, 0)}};
  if (h->failed || h->n->nout < 1) return;
  struct onnx_cells *out = h->out[0] = onnx_cells_new(h->mem, ONNX_INT64, &s); // known before the elements are
  for (int64_t i = 0; i < s.d[0]; i++) out->i[i] = a->shape.d[start + i];
}

void host_size(struct onnx_host *h)
{
  const struct onnx_cells *a = host_in(h, 0);
  if (h->failed || h->n->nout < 1) return;
  h->out[0] = onnx_cells_new(h->mem, ONNX_INT64, &(struct shape){0});
  h->out[0]->i[0] = onnx_elements(&a->shape);
}

static bool extent_ok(struct onnx_host *h, int64_t d)
{
  if (d < 0 || d >= (int64_t)1 << 40) host_fail(h, "an extent would be %lld", (long long)d);
  return !h->failed;
}

void host_reshape(struct onnx_host *h)
{
  const struct onnx_cells *a = host_in(h, 0);
  struct onnx_ints to;
  struct shape s = {0};
  int open = -1;
  if (!host_list(h, "shape", 1, &to)) return host_fail(h, "its new shape is missing");
  if (to.n > MAX_DIMS) return host_fail(h, "it makes %d dimensions", to.n);
  for (int i = 0; i < to.n; i++) {
    s.d[i] = to.v[i], s.n = i + 1;
    if (!s.d[i] && !onnx_attr_int(h->n, "allowzero", 0)) s.d[i] = i < a->shape.n ? a->shape.d[i] : 0;
    if (s.d[i] != -1)
      extent_ok(h, s.d[i]);
    else if (open >= 0)
      host_fail(h, "two extents are -1");
    else
      open = i, s.d[i] = 1;
  }
  if (h->failed) return;
  int64_t known = onnx_elements(&s);
  if (open >= 0) s.d[open] = known ? onnx_elements(&a->shape) / known : 0;
  same(h, &s);
}

void host_squeeze(struct onnx_host *h)
{
  const struct onnx_cells *a = host_in(h, 0);
  struct onnx_ints axes;
  struct shape s = {0};
  bool cut[MAX_DIMS] = {false}, given = host_list(h, "axes", 1, &axes);
  int axis;
  for (int i = 0; i < axes.n; i++)
    if (host_axis(h, axes.v[i], a->shape.n, &axis)) cut[axis] = true;
  for (int i = 0; i < a->shape.n; i++) {
    bool gone = given ? cut[i] : a->shape.d[i] == 1;
    if (gone && a->shape.d[i] != 1) return host_fail(h, "dimension %d has extent %lld", i, (long long)a->shape.d[i]);
    if (!gone) s.d[s.n++] = a->shape.d[i];
  }
  same(h, &s);
}

void host_unsqueeze(struct onnx_host *h)
{
  const struct onnx_cells *a = host_in(h, 0);
  struct onnx_ints axes;
  struct shape s = {0};
  bool added[MAX_DIMS] = {false};
  int axis;
  if (!host_list(h, "axes", 1, &axes)) return host_fail(h, "its axes are missing");
  if (axes.n + a->shape.n > MAX_DIMS) return host_fail(h, "it makes %d dimensions", axes.n + a->shape.n);
  for (int i = 0; i < axes.n; i++) {
    if (!host_axis(h, axes.v[i], axes.n + a->shape.n, &axis)) return;
    if (added[axis]) return host_fail(h, "axis %d is given twice", axis);
    added[axis] = true;
  }
  for (int i = 0; s.n < axes.n + a->shape.n;) {
    s.d[s.n] = added[s.n] ? 1 : a->shape.d[i++];
    s.n++;
  }
  same(h, &s);
}

void host_flatten(struct onnx_host *h)
{
  const struct onnx_cells *a = host_in(h, 0);
  int64_t axis = onnx_attr_int(h->n, "axis", 1);
  struct shape s = {.n = 2, .d = {1, 1}};
  if (axis < 0) axis += a->shape.n;
  if (axis < 0 || axis > a->shape.n) return host_fail(h, "axis %lld of %d dimensions", (long long)axis, a->shape.n);
  for (int i = 0; i < a->shape.n; i++) s.d[i >= axis] *= a->shape.d[i];
  same(h, &s);
}

// ---- tensors made from attributes and shapes ----

static void from_tensor(struct onnx_host *h, const struct onnx_tensor *t)
{
  if (onnx_type_kind(t->type) == NEITHER) return host_fail(h, "it holds %s", onnx_type_name(t->type));
  struct onnx_cells *out = host_out(h, 0, t->type, &t->shape);
  if (!h->failed && onnx_elements(&t->shape)) onnx_cells_read(out, t->raw);
}

void host_constant(struct onnx_host *h)
{
  const struct onnx_attr *t = onnx_attr(h->n, "value"), *f = onnx_attr(h->n, "value_float"), *i = onnx_attr(h->n, "value_int");
  const struct onnx_attr *fs = onnx_attr(h->n, "value_floats"), *is = onnx_attr(h->n, "value_ints");
  struct shape s = {0};
  if (t && t->t) return from_tensor(h, t->t);
  if (fs || is) s = (struct shape){.n = 1, .d = {fs ? fs->nfloats : is->ints.n}};
  if (!f && !i && !fs && !is) return host_fail(h, "its value is not one that is read");
  struct onnx_cells *out = host_out(h, 0, f || fs ? ONNX_FLOAT : ONNX_INT64, &s);
  if (h->failed) return;
  if (f)
    out->f[0] = f->f;
  else if (i)
    out->i[0] = i->i;
  else if (fs)
    for (int k = 0; k < fs->nfloats; k++) out->f[k] = fs->floats[k];
  else
    for (int k = 0; k < is->ints.n; k++) out->i[k] = is->ints.v[k];
}

bool host_shape_of(struct onnx_host *h, int k, struct shape *s)
{
  struct onnx_ints to;
  *s = (struct shape){0};
  if (!host_list(h, "shape", k, &to))
    host_fail(h, "its shape is missing");
  else if (to.n > MAX_DIMS)
    host_fail(h, "it makes %d dimensions", to.n);
  for (int i = 0; i < to.n && !h->failed; i++)
    if (extent_ok(h, to.v[i])) s->d[s->n++] = to.v[i];
  return !h->failed;
}

void host_constant_of_shape(struct onnx_host *h)
{
  const struct onnx_attr *a = onnx_attr(h->n, "value");
  struct shape s;
  struct onnx_cells one = {.type = ONNX_FLOAT}, *value = onnx_cells_new(h->mem, ONNX_FLOAT, &one.shape);
  if (!host_shape_of(h, 0, &s)) return;
  if (a && a->t) {
    if (onnx_elements(&a->t->shape) != 1 || onnx_type_kind(a->t->type) == NEITHER)
      return host_fail(h, "its value is not one element of a type that is read");
    value = onnx_cells_new(h->mem, a->t->type, &a->t->shape);
    onnx_cells_read(value, a->t->raw);
  }
  struct onnx_cells *out = host_out(h, 0, value->type, &s);
  for (int64_t i = 0, n = onnx_elements(&s); i < n && !h->failed && out->p; i++) out->i[i] = value->i[0];
}

static double end_of(const struct onnx_cells *c) { return onnx_type_kind(c->type) == REAL ? c->f[0] : (double)c->i[0]; }

void host_range(struct onnx_host *h)
{
  const struct onnx_cells *c[3];
  for (int k = 0; k < 3; k++) {
    c[k] = host_in(h, k);
    if (!h->failed && (onnx_elements(&c[k]->shape) != 1 || c[k]->type != c[0]->type)) return host_fail(h, "its ends are no numbers of one type");
    if (!h->failed && !c[k]->p) return host_late(h, "one of its ends");
  }
  if (h->failed) return;
  double from = end_of(c[0]), to = end_of(c[1]), step = end_of(c[2]), n = ceil((to - from) / step);
  if (step == 0 || !isfinite(n) || n >= 0x1p40) return host_fail(h, "it makes no list that ends");
  struct onnx_cells *out = host_out(h, 0, c[0]->type, &(struct shape){.n = 1, .d = {(int64_t)MAX(n, 0)}});
  for (int64_t i = 0; !h->failed && i < out->shape.d[0]; i++) {
    if (onnx_type_kind(out->type) == REAL)
      out->f[i] = from + (double)i * step;
    else
      out->i[i] = (int64_t)((uint64_t)c[0]->i[0] + (uint64_t)i * (uint64_t)c[2]->i[0]);
  }
}

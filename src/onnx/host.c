// Shared by host_*.c. A function is called twice. When a model is planned, its inputs may have only type and shape. When the model runs, they have
// elements. Both times it sets type and shape of its outputs, and their elements if those of the inputs are known.
#include "onnx/onnx_host.h"

#include <math.h>
#include <string.h>

void host_fail(struct onnx_host *h, const char *fmt, ...)
{
  if (h->failed) return;
  h->failed = true;
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(h->why, sizeof h->why, fmt, ap);
  va_end(ap);
}

void host_late(struct onnx_host *h, const char *what)
{
  if (!h->failed) h->late = true;
  host_fail(h, "%s is computed when the model runs, so the shape of the result is not known", what);
}

const struct onnx_cells *host_in(struct onnx_host *h, int k)
{
  static const struct onnx_cells nothing = {.type = ONNX_FLOAT};
  if (k < h->nin && h->in[k]) return h->in[k];
  host_fail(h, "input %d is missing", k);
  return &nothing;
}

bool host_has(const struct onnx_host *h, int k) { return k < h->nin && h->in[k]; }

bool host_ready(const struct onnx_host *h)
{
  for (int k = 0; k < h->nin; k++)
    if (h->in[k] && !h->in[k]->p) return false;
  return !h->failed;
}

struct onnx_cells *host_out(struct onnx_host *h, int k, int type, const struct shape *s)
{
  int64_t n = onnx_elements(s);
  if (k >= h->n->nout) host_fail(h, "it should have more outputs");
  if (host_ready(h) && n > h->most) host_fail(h, "it would make %lld elements", (long long)n);
  if (n >= (int64_t)1 << 40) host_fail(h, "it would make 2^40 elements or more");
  if (h->failed) return NEW(h->mem, struct onnx_cells); // without elements
  struct onnx_cells *c = host_ready(h) ? onnx_cells_new(h->mem, type, s) : NEW(h->mem, struct onnx_cells);
  if (!host_ready(h)) *c = (struct onnx_cells){.type = type, .shape = *s};
  return h->out[k] = c;
}

bool host_axis(struct onnx_host *h, int64_t axis, int n, int *out)
{
  *out = (int)(axis < 0 ? axis + n : axis);
  if (axis >= -n && axis < n) return true;
  host_fail(h, "axis %lld of %d dimensions", (long long)axis, n);
  *out = 0;
  return false;
}

bool host_list(struct onnx_host *h, const char *name, int k, struct onnx_ints *out)
{
  const struct onnx_attr *a = onnx_attr(h->n, name);
  *out = (struct onnx_ints){0};
  if (h->failed) return false;
  if (a) return *out = a->ints, true;
  if (!host_has(h, k)) return false;
  const struct onnx_cells *c = h->in[k];
  if (onnx_type_kind(c->type) != WHOLE) return host_fail(h, "input %d (%s) should hold integers", k, name), false;
  if (!c->p) return host_late(h, arena_printf(h->mem, "input %d (%s)", k, name)), false;
  int64_t n = onnx_elements(&c->shape);
  if (n > 1 << 16) return host_fail(h, "input %d (%s) is too long", k, name), false;
  *out = (struct onnx_ints){c->i, (int)n, (int)n};
  return true;
}

// ---- regions of cells ----

void host_strides(const struct shape *s, int64_t stride[MAX_DIMS])
{
  int64_t n = 1;
  for (int i = s->n - 1; i >= 0; i--) stride[i] = n, n *= s->d[i];
}

void host_copy(void *to, const void *from, const struct shape *s, int64_t start, const int64_t *stride)
{
  int64_t at[MAX_DIMS] = {0}, n = onnx_elements(s), offset = start;
  int64_t *out = to;
  const int64_t *in = from;
  for (int64_t i = 0; i < n; i++) {
    out[i] = in[offset];
    for (int d = s->n - 1; d >= 0; d--) {
      offset += stride[d];
      if (++at[d] < s->d[d]) break;
      offset -= at[d] * stride[d], at[d] = 0;
    }
  }
}

// Strides that broadcast a tensor of shape s to shape `to`, right-aligned; dimensions of extent 1 get stride 0.
void host_spread(const struct shape *s, const struct shape *to, int64_t stride[MAX_DIMS])
{
  int64_t own[MAX_DIMS];
  host_strides(s, own);
  for (int i = 0; i < to->n; i++) {
    int k = i - (to->n - s->n);
    stride[i] = k < 0 || s->d[k] == 1 ? 0 : own[k];
  }
}

bool host_broadcast(struct onnx_host *h, const struct shape *a, const struct shape *b, struct shape *out)
{
  *out = (struct shape){.n = MAX(a->n, b->n)};
  for (int i = 1; i <= out->n; i++) {
    int64_t x = i <= a->n ? a->d[a->n - i] : 1, y = i <= b->n ? b->d[b->n - i] : 1;
    if (x != y && x != 1 && y != 1) return host_fail(h, "shapes do not broadcast: extents %lld and %lld", (long long)x, (long long)y), false;
    out->d[out->n - i] = x == 1 ? y : x;
  }
  return true;
}

// ---- elements of any type ----

double host_number(const struct onnx_cells *c, int64_t i) { return onnx_type_kind(c->type) == REAL ? c->f[i] : (double)c->i[i]; }

void host_store(struct onnx_cells *c, int64_t i, double x)
{
  if (onnx_type_kind(c->type) == REAL)
    c->f[i] = x;
  else
    c->i[i] = isnan(x)                                ? 0
              : x >= (double)onnx_type_most(c->type)  ? onnx_type_most(c->type)
              : x <= (double)onnx_type_least(c->type) ? onnx_type_least(c->type)
                                                      : (int64_t)x;
}

// Input k as one number; `otherwise` if it is absent. Fails if its value is not known yet.
double host_scalar(struct onnx_host *h, int k, double otherwise)
{
  if (!host_has(h, k)) return otherwise;
  const struct onnx_cells *c = h->in[k];
  if (onnx_elements(&c->shape) != 1) return host_fail(h, "input %d should be one number", k), otherwise;
  if (!c->p) return host_late(h, arena_printf(h->mem, "input %d", k)), otherwise;
  return host_number(c, 0);
}

int64_t host_integer(struct onnx_host *h, int k, int64_t otherwise)
{
  double x = host_scalar(h, k, (double)otherwise);
  return isnan(x) ? 0 : (int64_t)fmin(fmax(x, -0x1p62), 0x1p62);
}

bool host_real(struct onnx_host *h, int k)
{
  if (host_has(h, k) && onnx_type_kind(h->in[k]->type) != REAL) host_fail(h, "input %d is %s", k, onnx_type_name(h->in[k]->type));
  return !h->failed;
}

bool host_whole(struct onnx_host *h, int k)
{
  if (host_has(h, k) && onnx_type_kind(h->in[k]->type) != WHOLE) host_fail(h, "input %d is %s", k, onnx_type_name(h->in[k]->type));
  return !h->failed;
}

struct host_lanes host_lanes(const struct shape *s, int axis)
{
  struct host_lanes l = {1, s->n ? s->d[axis] : 1, 1};
  for (int i = 0; i < s->n; i++) {
    if (i < axis) l.before *= s->d[i];
    if (i > axis) l.step *= s->d[i];
  }
  l.n = l.before * l.step;
  return l;
}

int64_t host_lane(const struct host_lanes *l, int64_t i) { return i / l->step * l->step * l->d + i % l->step; }

void host_place(const struct shape *s, int64_t i, int64_t at[MAX_DIMS])
{
  for (int d = s->n - 1; d >= 0; d--) at[d] = i % s->d[d], i /= s->d[d];
}

struct shape host_shape_with(const struct shape *s, int axis, int64_t extent)
{
  struct shape t = *s;
  t.d[axis] = extent;
  return t;
}

bool onnx_host_run(struct onnx_host *h)
{
  if (!h->row || !h->row->host) return host_fail(h, "it has no simple function"), false;
  for (int k = 0; k < h->nin; k++)
    if (h->in[k] && onnx_type_kind(h->in[k]->type) == NEITHER) host_fail(h, "input %d is %s", k, onnx_type_name(h->in[k]->type));
  if (!h->failed) h->row->host(h);
  for (int k = 0; k < h->n->nout && !h->failed; k++)
    if (*h->n->out_name[k] && !h->out[k]) host_fail(h, "its output %d is not computed", k);
  for (int k = 0; k < h->n->nout && !h->failed; k++)
    if (h->out[k] && h->out[k]->p && h->row->fn >= 0) onnx_cells_round(h->out[k]);
  return !h->failed;
}

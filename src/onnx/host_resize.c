// Resize and Upsample on cells, one dimension after the other. Each element is a weighted sum of input elements along that dimension.
#include "onnx/onnx_host.h"
#include "onnx/sample.h"

#include <math.h>
#include <string.h>

enum where { HALF_PIXEL, HALF_PIXEL_SYMMETRIC, PYTORCH_HALF_PIXEL, ALIGN_CORNERS, ASYMMETRIC, CROP, TF_HALF_PIXEL };
static const char *const places[] = {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel",  "align_corners",
                                     "asymmetric", "tf_crop_and_resize",   "tf_half_pixel_for_nn"};
enum nearest { PREFER_FLOOR, PREFER_CEIL, FLOOR, CEIL };
static const char *const roundings[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};
enum mode { NEAREST, LINEAR, CUBIC };
static const char *const modes[] = {"nearest", "linear", "cubic"};

struct resize {
  enum where where;
  enum nearest nearest;
  enum mode mode;
  bool antialias, exclude;
  double a, outside;
};
struct resize_dim {
  int64_t in, out;
  double scale, from, to; // from, to: the region, as fractions of the extent
};

static int word(struct onnx_host *h, const char *attr, const char *otherwise, const char *const *names, int n)
{
  const char *said = onnx_attr_text(h->n, attr, otherwise);
  for (int i = 0; i < n; i++)
    if (!strcmp(said, names[i])) return i;
  host_fail(h, "%s is `%.60s`, which is not known", attr, said);
  return 0;
}

// The input coordinate of element i of the result.
static double place_of(const struct resize *r, const struct resize_dim *d, int64_t i)
{
  double x = (double)i, in = (double)d->in, length = d->scale * in;
  if (r->where == ALIGN_CORNERS) return length == 1 ? 0 : x * (in - 1) / (length - 1);
  if (r->where == ASYMMETRIC) return x / d->scale;
  if (r->where == TF_HALF_PIXEL) return (x + 0.5) / d->scale;
  if (r->where == CROP)
    return d->out > 1 ? d->from * (in - 1) + x * (d->to - d->from) * (in - 1) / (double)(d->out - 1) : 0.5 * (d->from + d->to) * (in - 1);
  if (r->where == PYTORCH_HALF_PIXEL && d->out == 1) return -0.5;
  double half = (x + 0.5) / d->scale - 0.5;
  return r->where == HALF_PIXEL_SYMMETRIC ? in / 2 * (1 - (double)d->out / length) + half : half;
}

static double rounded(enum nearest how, double x)
{
  return how == PREFER_FLOOR ? ceil(x - 0.5) : how == PREFER_CEIL ? floor(x + 0.5) : how == FLOOR ? floor(x) : ceil(x);
}

static int64_t inside(double x, int64_t d) { return x < 0 ? 0 : x > (double)(d - 1) ? d - 1 : (int64_t)x; }

// Element i of a lane of the result; x[k * step] is the input lane.
static double element(const struct resize *r, const struct resize_dim *d, const double *x, int64_t step, int64_t i)
{
  double p = place_of(r, d, i), sum = 0, all = 0, narrow = r->antialias && d->scale < 1 ? fmax(d->scale, 0.25 / (double)d->in) : 1;
  if (r->where == CROP && (p < 0 || p > (double)(d->in - 1))) return r->outside;
  if (r->mode == NEAREST) return x[inside(rounded(r->nearest, p), d->in) * step];
  double reach = (r->mode == CUBIC ? 2 : 1) / narrow;
  for (double k = floor(p - reach) + 1; k < p + reach; k++) {
    double w = r->mode == CUBIC ? sample_cubic((k - p) * narrow, r->a) : sample_linear((k - p) * narrow);
    if (r->exclude && (k < 0 || k > (double)(d->in - 1))) continue;
    sum += w * x[inside(k, d->in) * step], all += w;
  }
  return all == 0 ? 0 : sum / all;
}

static struct onnx_cells *along(struct onnx_host *h, const struct resize *r, const struct resize_dim *d, const struct onnx_cells *x, int axis)
{
  struct shape s = host_shape_with(&x->shape, axis, d->out);
  struct onnx_cells *y = onnx_cells_new(h->mem, ONNX_DOUBLE, &s);
  struct host_lanes from = host_lanes(&x->shape, axis), to = host_lanes(&s, axis);
  for (int64_t lane = 0; lane < to.n; lane++)
    for (int64_t i = 0; i < d->out; i++) y->f[host_lane(&to, lane) + i * to.step] = element(r, d, x->f + host_lane(&from, lane), from.step, i);
  return y;
}

// ---- extents ----

static const struct onnx_cells *list(struct onnx_host *h, int k)
{
  if (!host_has(h, k) || !onnx_elements(&h->in[k]->shape)) return NULL;
  if (!h->in[k]->p) host_late(h, arena_printf(h->mem, "input %d", k));
  return h->failed ? NULL : h->in[k];
}

struct resize_to {
  const struct onnx_cells *scales, *sizes, *roi;
  const struct onnx_attr *attr; // scales of Upsample before operator set 9
  int n, axes[MAX_DIMS];
};

static bool sizes_of(struct onnx_host *h, const struct shape *s, struct resize_to *z)
{
  bool old = h->n->opset < 11 || !strcmp(h->row->type, "Upsample");
  const struct onnx_attr *axes = onnx_attr(h->n, "axes");
  *z = (struct resize_to){.attr = onnx_attr(h->n, "scales"), .n = s->n};
  z->scales = list(h, old ? 1 : 2), z->sizes = old ? NULL : list(h, 3), z->roi = old ? NULL : list(h, 1);
  for (int i = 0; i < s->n; i++) z->axes[i] = i;
  if (axes && axes->ints.n > s->n) return host_fail(h, "it has too many axes"), false;
  for (int i = 0; axes && i < axes->ints.n; i++)
    if (!host_axis(h, axes->ints.v[i], s->n, &z->axes[i])) return false;
  if (axes) z->n = axes->ints.n;
  if (h->failed) return false;
  bool fits = z->sizes    ? onnx_elements(&z->sizes->shape) == z->n
              : z->scales ? onnx_elements(&z->scales->shape) == z->n
                          : z->attr && z->attr->nfloats == z->n;
  return fits ? true : (host_fail(h, "its scales or sizes do not fit"), false);
}

static void dims_of(struct onnx_host *h, const struct resize *r, const struct resize_to *z, struct resize_dim *dims)
{
  const char *policy = onnx_attr_text(h->n, "keep_aspect_ratio_policy", "stretch");
  bool stretch = !z->sizes || !strcmp(policy, "stretch"), most = !strcmp(policy, "not_smaller");
  double all = most ? 0 : INFINITY;
  if (!stretch && !most && strcmp(policy, "not_larger")) return host_fail(h, "its policy is not known");
  for (int i = 0; i < z->n; i++) {
    struct resize_dim *d = &dims[z->axes[i]];
    if (r->where == CROP) {
      if (!z->roi || onnx_elements(&z->roi->shape) != 2 * z->n) return host_fail(h, "its region does not fit");
      d->from = host_number(z->roi, i), d->to = host_number(z->roi, z->n + i);
    }
    d->scale = z->sizes ? host_number(z->sizes, i) / (double)d->in : z->scales ? host_number(z->scales, i) : z->attr->floats[i];
    if (!(d->scale > 0 && d->scale < 0x1p30)) return host_fail(h, "a scale of %g", d->scale);
    all = most ? fmax(all, d->scale) : fmin(all, d->scale);
    double out = z->sizes ? host_number(z->sizes, i) : floor((double)d->in * (d->to - d->from) * d->scale);
    if (!(out >= 0 && out < 0x1p40)) return host_fail(h, "an extent would be %g", out);
    d->out = (int64_t)out;
  }
  for (int i = 0; i < z->n && !stretch; i++) dims[z->axes[i]].scale = all, dims[z->axes[i]].out = (int64_t)(all * (double)dims[z->axes[i]].in + 0.5);
}

void host_resize(struct onnx_host *h)
{
  const struct onnx_cells *x = host_in(h, 0);
  bool old = h->n->opset < 11 || !strcmp(h->row->type, "Upsample");
  struct resize r = {.antialias = onnx_attr_int(h->n, "antialias", 0),
                     .exclude = onnx_attr_int(h->n, "exclude_outside", 0),
                     .a = onnx_attr_real(h->n, "cubic_coeff_a", -0.75),
                     .outside = onnx_attr_real(h->n, "extrapolation_value", 0)};
  r.mode = (enum mode)word(h, "mode", "nearest", modes, COUNT(modes));
  r.where = (enum where)word(h, "coordinate_transformation_mode", old ? "asymmetric" : "half_pixel", places, COUNT(places));
  r.nearest = (enum nearest)word(h, "nearest_mode", old ? "floor" : "round_prefer_floor", roundings, COUNT(roundings));
  struct resize_dim dims[MAX_DIMS];
  struct resize_to z;
  struct shape s = x->shape;
  for (int i = 0; i < s.n; i++) dims[i] = (struct resize_dim){s.d[i], s.d[i], 1, 0, 1};
  if (!h->failed && !onnx_elements(&s)) host_fail(h, "it resizes no elements");
  if (h->failed || !sizes_of(h, &s, &z)) return;
  dims_of(h, &r, &z, dims);
  for (int i = 0; i < s.n; i++) s.d[i] = dims[i].out;
  struct onnx_cells *y = host_out(h, 0, x->type, &s);
  if (h->failed || !y->p) return;
  struct onnx_cells *t = onnx_cells_new(h->mem, ONNX_DOUBLE, &x->shape);
  for (int64_t i = 0, n = onnx_elements(&x->shape); i < n; i++) t->f[i] = host_number(x, i);
  for (int i = 0; i < z.n; i++) {
    struct shape next = host_shape_with(&t->shape, z.axes[i], dims[z.axes[i]].out);
    if (onnx_elements(&next) > h->most) return host_fail(h, "it would make %lld elements on the way", (long long)onnx_elements(&next));
    t = along(h, &r, &dims[z.axes[i]], t, z.axes[i]);
  }
  for (int64_t i = 0, n = onnx_elements(&s); i < n; i++) host_store(y, i, t->f[i]);
}

// Sampling at computed positions: GridSample, AffineGrid, RoiAlign.
#include "onnx/onnx_host.h"
#include "onnx/sample.h"

#include <math.h>
#include <string.h>

enum { MOST_SPACE = MAX_DIMS - 2 };
enum grid_mode { LINEAR, NEAREST, CUBIC };
enum grid_padding { ZEROS, BORDER, REFLECTION };
struct grid {
  enum grid_mode mode;
  enum grid_padding padding;
  bool corners;
  int n;
  int64_t d[MOST_SPACE];
};

static double reflected(double x, double lo, double hi)
{
  double range = hi - lo, past = x < lo ? lo - x : x > hi ? x - hi : 0;
  if (past == 0 || range == 0) return past == 0 ? x : lo;
  double turns = trunc(past / range), rest = past - turns * range;
  bool even = fmod(turns, 2) == 0;
  return (x < lo) == even ? lo + rest : hi - rest;
}

// Maps a coordinate into the input by the padding mode. NaN: it is outside and has no element.
static double folded(const struct grid *g, double x, int i)
{
  double d = (double)g->d[i], lo = g->corners ? 0 : -0.5, hi = g->corners ? d - 1 : d - 0.5;
  if (g->padding == BORDER) return fmin(fmax(x, 0), d - 1);
  return g->padding == REFLECTION ? reflected(x, lo, hi) : x;
}

// The weighted sum over dimensions from i on, at offset p in the earlier ones.
static double sampled(const struct grid *g, const double *x, const double *at, int i, int64_t p)
{
  if (i == g->n) return x[p];
  int reach = g->mode == CUBIC ? 2 : 1;
  double sum = 0, first = g->mode == NEAREST ? at[i] : floor(at[i]) - reach + 1;
  for (double k = first; k < first + (g->mode == NEAREST ? 1 : 2 * reach); k++) {
    double w = g->mode == NEAREST ? 1 : g->mode == CUBIC ? sample_cubic(k - at[i], -0.75) : sample_linear(k - at[i]);
    double j = g->padding == ZEROS ? k : fmin(fmax(rint(folded(g, k, i)), 0), (double)g->d[i] - 1);
    if (w != 0 && j >= 0 && j < (double)g->d[i]) sum += w * sampled(g, x, at, i + 1, p * g->d[i] + (int64_t)j);
  }
  return sum;
}

static int word(struct onnx_host *h, const char *attr, const char *const *names, int n)
{
  const char *said = onnx_attr_text(h->n, attr, names[0]);
  for (int i = 0; i < n; i++)
    if (!strcmp(said, names[i])) return i;
  host_fail(h, "%s is `%.60s`, which is not known", attr, said);
  return 0;
}

void host_grid_sample(struct onnx_host *h)
{
  static const char *const modes[] = {"linear", "nearest", "cubic", "bilinear", "bicubic"}, *const paddings[] = {"zeros", "border", "reflection"};
  const struct onnx_cells *x = host_in(h, 0), *grid = host_in(h, 1);
  int mode = word(h, "mode", modes, COUNT(modes));
  struct grid g = {mode == 3   ? LINEAR
                   : mode == 4 ? CUBIC
                               : (enum grid_mode)mode,
                   (enum grid_padding)word(h, "padding_mode", paddings, COUNT(paddings)),
                   onnx_attr_int(h->n, "align_corners", 0),
                   x->shape.n - 2,
                   {0}};
  if (!host_real(h, 0) || !host_real(h, 1)) return;
  if (g.n < 1 || grid->shape.n != x->shape.n || grid->shape.d[g.n + 1] != g.n || grid->shape.d[0] != x->shape.d[0] || !onnx_elements(&x->shape))
    return host_fail(h, "its grid does not fit");
  struct shape s = {.n = x->shape.n, .d = {x->shape.d[0], x->shape.d[1]}};
  int64_t in = 1, out = 1;
  for (int i = 0; i < g.n; i++) in *= g.d[i] = x->shape.d[i + 2], out *= s.d[i + 2] = grid->shape.d[i + 1];
  struct onnx_cells *y = host_out(h, 0, x->type, &s);
  for (int64_t e = 0, n = onnx_elements(&s); e < n && !h->failed && y->p; e++) {
    double at[MOST_SPACE];
    int64_t image = e / out / s.d[1];
    bool number = true;
    for (int i = 0; i < g.n; i++) {
      double v = grid->f[(image * out + e % out) * g.n + g.n - 1 - i], d = (double)g.d[i];
      v = g.corners ? (v + 1) / 2 * (d - 1) : ((v + 1) * d - 1) / 2;
      number &= isfinite(v) && fabs(v) < 0x1p40;
      at[i] = folded(&g, g.mode == NEAREST ? rint(v) : v, i);
      if (g.mode == NEAREST) at[i] = rint(at[i]);
    }
    y->f[e] = number ? sampled(&g, x->f + e / out * in, at, 0, 0) : 0;
  }
}

// The grid of an affine map of [-1, 1]^n.
void host_affine_grid(struct onnx_host *h)
{
  const struct onnx_cells *theta = host_in(h, 0);
  bool corners = onnx_attr_int(h->n, "align_corners", 0);
  struct shape size;
  if (h->failed || !host_real(h, 0) || !host_shape_of(h, 1, &size)) return;
  int n = size.n - 2;
  if ((n != 2 && n != 3) || theta->shape.n != 3 || theta->shape.d[0] != size.d[0] || theta->shape.d[1] != n || theta->shape.d[2] != n + 1)
    return host_fail(h, "its matrices do not fit");
  struct shape s = {.n = n + 2, .d = {size.d[0]}};
  for (int i = 0; i < n; i++) s.d[i + 1] = size.d[i + 2];
  s.d[n + 1] = n;
  struct onnx_cells *y = host_out(h, 0, theta->type, &s);
  for (int64_t e = 0, all = onnx_elements(&s); e < all && !h->failed && y->p; e++) {
    int64_t at[MAX_DIMS];
    host_place(&s, e, at);
    const double *row = theta->f + (at[0] * n + at[n + 1]) * (n + 1);
    double sum = row[n];
    for (int i = 0; i < n; i++) { // x is the image's last dimension
      double d = (double)s.d[n - i], k = (double)at[n - i];
      sum += row[i] * (corners ? (d > 1 ? 2 * k / (d - 1) - 1 : -1) : (2 * k + 1) / d - 1);
    }
    y->f[e] = sum;
  }
}

// ---- regions ----

struct region {
  const double *x; // one channel
  int64_t rows, cols;
  bool most;
};

static double region_at(const struct region *r, double row, double col)
{
  if (row < -1 || row > (double)r->rows || col < -1 || col > (double)r->cols) return 0;
  row = fmin(fmax(row, 0), (double)r->rows - 1), col = fmin(fmax(col, 0), (double)r->cols - 1);
  int64_t i = (int64_t)row, j = (int64_t)col, i2 = MIN(i + 1, r->rows - 1), j2 = MIN(j + 1, r->cols - 1);
  double a = row - (double)i, b = col - (double)j, part[4];
  part[0] = (1 - a) * (1 - b) * r->x[i * r->cols + j], part[1] = (1 - a) * b * r->x[i * r->cols + j2];
  part[2] = a * (1 - b) * r->x[i2 * r->cols + j], part[3] = a * b * r->x[i2 * r->cols + j2];
  return r->most ? fmax(fmax(part[0], part[1]), fmax(part[2], part[3])) : part[0] + part[1] + part[2] + part[3];
}

static double bin(const struct region *r, double row, double col, double high, double wide, int64_t down, int64_t right)
{
  double all = r->most ? -INFINITY : 0;
  for (int64_t i = 0; i < down; i++)
    for (int64_t j = 0; j < right; j++) {
      double v = region_at(r, row + ((double)i + 0.5) * high / (double)down, col + ((double)j + 0.5) * wide / (double)right);
      all = r->most ? fmax(all, v) : all + v / (double)(down * right);
    }
  return all;
}

void host_roi_align(struct onnx_host *h)
{
  const struct onnx_cells *x = host_in(h, 0), *rois = host_in(h, 1), *which = host_in(h, 2);
  int64_t rows = onnx_attr_int(h->n, "output_height", 1), cols = onnx_attr_int(h->n, "output_width", 1),
          ratio = onnx_attr_int(h->n, "sampling_ratio", 0);
  double scale = onnx_attr_real(h->n, "spatial_scale", 1);
  bool half = !strcmp(onnx_attr_text(h->n, "coordinate_transformation_mode", h->n->opset < 16 ? "output_half_pixel" : "half_pixel"), "half_pixel");
  struct region r = {.most = !strcmp(onnx_attr_text(h->n, "mode", "avg"), "max")};
  if (!host_real(h, 0) || !host_real(h, 1) || !host_whole(h, 2)) return;
  if (x->shape.n != 4 || rois->shape.n != 2 || rois->shape.d[1] != 4 || onnx_elements(&which->shape) != rois->shape.d[0] || rows < 1 || cols < 1 ||
      rows > 1 << 15 || cols > 1 << 15 || ratio < 0 || ratio > 1 << 10 || !onnx_elements(&x->shape))
    return host_fail(h, "its regions do not fit");
  struct shape s = {.n = 4, .d = {rois->shape.d[0], x->shape.d[1], rows, cols}};
  struct onnx_cells *y = host_out(h, 0, x->type, &s);
  r.rows = x->shape.d[2], r.cols = x->shape.d[3];
  for (int64_t e = 0, n = onnx_elements(&s); e < n && !h->failed && y->p; e++) {
    int64_t at[MAX_DIMS];
    host_place(&s, e, at);
    int64_t image = which->i[at[0]];
    const double *box = rois->f + at[0] * 4;
    if (image < 0 || image >= x->shape.d[0]) return host_fail(h, "a region is of image %lld", (long long)image);
    double off = half ? 0.5 : 0, x0 = box[0] * scale - off, y0 = box[1] * scale - off, wide = box[2] * scale - off - x0,
           high = box[3] * scale - off - y0;
    if (!half) wide = fmax(wide, 1), high = fmax(high, 1);
    wide /= (double)cols, high /= (double)rows;
    if (!(fabs(wide) < 1 << 10 && fabs(high) < 1 << 10)) return host_fail(h, "a region is too large");
    int64_t down = ratio ? ratio : MAX((int64_t)ceil(high), 1), right = ratio ? ratio : MAX((int64_t)ceil(wide), 1);
    r.x = x->f + (image * s.d[1] + at[1]) * r.rows * r.cols;
    y->f[e] = bin(&r, y0 + (double)at[2] * high, x0 + (double)at[3] * wide, high, wide, down, right);
  }
}

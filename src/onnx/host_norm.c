// Softmax and its variants, and norms, on cells.
#include "onnx/onnx_host.h"

#include <math.h>
#include <string.h>

// Softmax, LogSoftmax and Hardmax. Before operator set 13 they work on a matrix whose columns are all dimensions from the axis on.
void host_softmax(struct onnx_host *h)
{
  const struct onnx_cells *x = host_in(h, 0);
  bool flat = h->n->opset < 13, hard = !strcmp(h->row->type, "Hardmax"), logs = !strcmp(h->row->type, "LogSoftmax");
  int axis;
  if (!host_real(h, 0) || !host_axis(h, onnx_attr_int(h->n, "axis", flat ? 1 : -1), x->shape.n, &axis)) return;
  struct host_lanes l = host_lanes(&x->shape, axis);
  if (flat) l = (struct host_lanes){l.before, l.d * l.step, 1, l.before};
  struct onnx_cells *y = host_out(h, 0, x->type, &x->shape);
  for (int64_t lane = 0; lane < l.n && !h->failed && y->p; lane++) {
    int64_t from = host_lane(&l, lane), best = 0;
    double most = -INFINITY, sum = 0;
    for (int64_t k = 0; k < l.d; k++)
      if (x->f[from + k * l.step] > most || isnan(x->f[from + k * l.step])) most = x->f[from + k * l.step], best = k;
    for (int64_t k = 0; k < l.d; k++) sum += exp(x->f[from + k * l.step] - most);
    for (int64_t k = 0; k < l.d; k++) {
      double d = x->f[from + k * l.step] - most;
      y->f[from + k * l.step] = hard ? k == best : logs ? d - log(sum) : exp(d) / sum;
    }
  }
}

// Divides each lane by its norm; a lane of zeros stays zero.
void host_lp_norm(struct onnx_host *h)
{
  const struct onnx_cells *x = host_in(h, 0);
  int64_t p = onnx_attr_int(h->n, "p", 2);
  int axis;
  if (p != 1 && p != 2) host_fail(h, "p is %lld", (long long)p);
  if (!host_real(h, 0) || !host_axis(h, onnx_attr_int(h->n, "axis", -1), x->shape.n, &axis)) return;
  struct host_lanes l = host_lanes(&x->shape, axis);
  struct onnx_cells *y = host_out(h, 0, x->type, &x->shape);
  for (int64_t lane = 0; lane < l.n && !h->failed && y->p; lane++) {
    int64_t from = host_lane(&l, lane);
    double sum = 0;
    for (int64_t k = 0; k < l.d; k++) sum += pow(fabs(x->f[from + k * l.step]), (double)p);
    if (p == 2) sum = sqrt(sum);
    for (int64_t k = 0; k < l.d; k++) y->f[from + k * l.step] = sum == 0 ? 0 : x->f[from + k * l.step] / sum;
  }
}

// Sums of x and of its squares over `axes`, into arrays indexed by the other dimensions.
static void moments(const struct onnx_cells *x, const bool *cut, double *mean, double *variance, int64_t *where)
{
  int64_t at[MAX_DIMS], n = onnx_elements(&x->shape), kept = 1;
  for (int d = 0; d < x->shape.n; d++) kept *= cut[d] ? 1 : x->shape.d[d];
  for (int64_t k = 0; k < kept; k++) mean[k] = variance[k] = 0;
  for (int64_t i = 0; i < n; i++) {
    where[i] = 0;
    host_place(&x->shape, i, at);
    for (int d = 0; d < x->shape.n; d++)
      if (!cut[d]) where[i] = where[i] * x->shape.d[d] + at[d];
    mean[where[i]] += x->f[i] * (double)kept / (double)n;
  }
  for (int64_t i = 0; i < n; i++) variance[where[i]] += (x->f[i] - mean[where[i]]) * (x->f[i] - mean[where[i]]) * (double)kept / (double)n;
}

void host_mean_variance(struct onnx_host *h)
{
  const struct onnx_cells *x = host_in(h, 0);
  static const int64_t plain[] = {0, 2, 3};
  const struct onnx_attr *a = onnx_attr(h->n, "axes");
  bool cut[MAX_DIMS] = {false};
  int axis;
  for (int i = 0; i < (a ? a->ints.n : 3); i++)
    if (host_axis(h, a ? a->ints.v[i] : plain[i], x->shape.n, &axis)) cut[axis] = true;
  if (!host_real(h, 0)) return;
  struct onnx_cells *y = host_out(h, 0, x->type, &x->shape);
  if (h->failed || !y->p) return;
  int64_t n = onnx_elements(&x->shape), *where = arena_alloc(h->mem, 8 * (size_t)MAX(n, 1));
  double *mean = arena_alloc(h->mem, 8 * (size_t)MAX(n, 1)), *variance = arena_alloc(h->mem, 8 * (size_t)MAX(n, 1));
  moments(x, cut, mean, variance, where);
  for (int64_t i = 0; i < n; i++) y->f[i] = (x->f[i] - mean[where[i]]) / (sqrt(variance[where[i]]) + 1e-9);
}

// Normalizes by channel. In training it uses the moments of the batch, and running moments are outputs.
void host_batch_norm(struct onnx_host *h)
{
  const struct onnx_cells *x = host_in(h, 0), *in[5] = {NULL};
  bool training = onnx_attr_int(h->n, "training_mode", 0), cut[MAX_DIMS] = {false};
  double eps = onnx_attr_real(h->n, "epsilon", 1e-5), keep = onnx_attr_real(h->n, "momentum", 0.9);
  if (h->n->opset < 9 && !onnx_attr_int(h->n, "spatial", 1)) host_fail(h, "its statistics are not by channel");
  if (!h->failed && x->shape.n < 2) host_fail(h, "it has no channels");
  for (int k = 0; k < 5 && !h->failed; k++) {
    in[k] = host_in(h, k);
    if (host_real(h, k) && k && onnx_elements(&in[k]->shape) != x->shape.d[1]) host_fail(h, "input %d is not by channel", k);
  }
  if (!training && h->n->nout > 1 && *h->n->out_name[1]) host_fail(h, "its statistics are read");
  if (h->failed) return;
  struct onnx_cells *y = host_out(h, 0, x->type, &x->shape), *stat[2] = {NULL, NULL};
  for (int k = 0; k < 2 && k + 1 < h->n->nout && training; k++) stat[k] = host_out(h, k + 1, in[3 + k]->type, &in[3 + k]->shape);
  if (h->failed || !y->p) return;
  int64_t n = onnx_elements(&x->shape), c = x->shape.d[1], *where = arena_alloc(h->mem, 8 * (size_t)MAX(n, 1));
  double *m[2] = {arena_alloc(h->mem, 8 * (size_t)MAX(n, c)), arena_alloc(h->mem, 8 * (size_t)MAX(n, c))};
  for (int d = 0; d < x->shape.n; d++) cut[d] = d != 1;
  moments(x, cut, m[0], m[1], where);
  for (int k = 0; k < 2; k++)
    for (int64_t i = 0; i < c; i++) {
      if (stat[k]) stat[k]->f[i] = in[3 + k]->f[i] * keep + m[k][i] * (1 - keep);
      if (!training) m[k][i] = in[3 + k]->f[i];
    }
  for (int64_t i = 0; i < n; i++) {
    int64_t k = where[i];
    y->f[i] = (x->f[i] - m[0][k]) / sqrt(m[1][k] + eps) * in[1]->f[k] + in[2]->f[k];
  }
}

// x / (bias + alpha / size * the sum of squares over neighbouring channels)^beta
void host_lrn(struct onnx_host *h)
{
  const struct onnx_cells *x = host_in(h, 0);
  int64_t size = onnx_attr_int(h->n, "size", 0);
  double alpha = onnx_attr_real(h->n, "alpha", 1e-4), beta = onnx_attr_real(h->n, "beta", 0.75), bias = onnx_attr_real(h->n, "bias", 1);
  if (!h->failed && (x->shape.n < 2 || size < 1 || size > 1 << 20)) host_fail(h, "%lld channels of %d dimensions", (long long)size, x->shape.n);
  if (!host_real(h, 0)) return;
  struct onnx_cells *y = host_out(h, 0, x->type, &x->shape);
  struct host_lanes l = host_lanes(&x->shape, 1);
  for (int64_t lane = 0; lane < l.n && !h->failed && y->p; lane++)
    for (int64_t k = 0, from = host_lane(&l, lane); k < l.d; k++) {
      double sum = 0;
      for (int64_t j = MAX(k - (size - 1) / 2, 0); j <= MIN(k + size / 2, l.d - 1); j++) sum += x->f[from + j * l.step] * x->f[from + j * l.step];
      y->f[from + k * l.step] = x->f[from + k * l.step] / pow(bias + alpha / (double)size * sum, beta);
    }
}

// Matrix products on cells: real, integer with zero points, quantized; determinants.
#include "onnx/onnx_host.h"

#include <math.h>
#include <string.h>

struct matrices { // [batch..., rows, inner] by [batch..., inner, cols]
  struct shape a, b, batch, out;
  int64_t rows, inner, cols;
  bool row, col; // the operand is a vector
};

static bool shapes_of(struct onnx_host *h, const struct shape *a, const struct shape *b, struct matrices *p)
{
  *p = (struct matrices){.a = *a, .b = *b, .row = a->n == 1, .col = b->n == 1};
  if (a->n < 1 || b->n < 1) return host_fail(h, "it multiplies no scalars"), false;
  if (p->row) p->a = (struct shape){.n = 2, .d = {1, a->d[0]}};
  if (p->col) p->b = (struct shape){.n = 2, .d = {b->d[0], 1}};
  p->rows = p->a.d[p->a.n - 2], p->inner = p->a.d[p->a.n - 1], p->cols = p->b.d[p->b.n - 1];
  if (p->inner != p->b.d[p->b.n - 2])
    return host_fail(h, "its inner extents are %lld and %lld", (long long)p->inner, (long long)p->b.d[p->b.n - 2]), false;
  p->a.n -= 2, p->b.n -= 2;
  if (!host_broadcast(h, &p->a, &p->b, &p->batch)) return false;
  p->out = p->batch;
  if (!p->row) p->out.d[p->out.n++] = p->rows;
  if (!p->col) p->out.d[p->out.n++] = p->cols;
  return true;
}

struct matrix_side { // an operand, with zero points for each row or column
  const struct onnx_cells *x, *zero;
  bool columns;
};

static double real_at(const struct matrix_side *s, int64_t i, int64_t line)
{
  double z = s->zero ? host_number(s->zero, onnx_elements(&s->zero->shape) == 1 ? 0 : line) : 0;
  return host_number(s->x, i) - z;
}

static void multiply(struct onnx_cells *y, const struct matrix_side *a, const struct matrix_side *b, const struct matrices *p)
{
  int64_t at[MAX_DIMS], sa[MAX_DIMS], sb[MAX_DIMS], n = onnx_elements(&p->batch);
  bool exact = onnx_type_kind(y->type) == WHOLE && !a->zero && !b->zero;
  host_spread(&p->a, &p->batch, sa), host_spread(&p->b, &p->batch, sb);
  for (int64_t e = 0; e < n * p->rows * p->cols; e++) {
    int64_t batch = e / (p->rows * p->cols), r = e / p->cols % p->rows, c = e % p->cols, pa = 0, pb = 0;
    host_place(&p->batch, batch, at);
    for (int d = 0; d < p->batch.n; d++) pa += at[d] * sa[d], pb += at[d] * sb[d];
    double sum = 0;
    uint64_t whole = 0;
    for (int64_t k = 0; k < p->inner; k++) {
      int64_t i = (pa * p->rows + r) * p->inner + k, j = (pb * p->inner + k) * p->cols + c;
      if (exact)
        whole += (uint64_t)a->x->i[i] * (uint64_t)b->x->i[j];
      else
        sum += real_at(a, i, r) * real_at(b, j, c);
    }
    if (exact)
      y->i[e] = (int64_t)whole;
    else
      host_store(y, e, sum);
  }
}

void host_matmul(struct onnx_host *h)
{
  const struct onnx_cells *a = host_in(h, 0), *b = host_in(h, 1);
  struct matrices p;
  if (!h->failed && a->type != b->type) host_fail(h, "it takes %s and %s", onnx_type_name(a->type), onnx_type_name(b->type));
  if (h->failed || !shapes_of(h, &a->shape, &b->shape, &p)) return;
  struct onnx_cells *y = host_out(h, 0, a->type, &p.out);
  if (!h->failed && y->p) multiply(y, &(struct matrix_side){.x = a}, &(struct matrix_side){.x = b}, &p);
}

static bool zero_fits(struct onnx_host *h, int k, int64_t lines)
{
  if (!host_has(h, k)) return true;
  int64_t n = onnx_elements(&h->in[k]->shape);
  if (n != 1 && n != lines) host_fail(h, "input %d, a zero point or scale, does not fit", k);
  return !h->failed;
}

void host_matmul_integer(struct onnx_host *h)
{
  const struct onnx_cells *a = host_in(h, 0), *b = host_in(h, 1), *az = host_has(h, 2) ? h->in[2] : NULL, *bz = host_has(h, 3) ? h->in[3] : NULL;
  struct matrices p;
  if (!host_whole(h, 0) || !host_whole(h, 1) || !shapes_of(h, &a->shape, &b->shape, &p)) return;
  if (!zero_fits(h, 2, p.rows) || !zero_fits(h, 3, p.cols)) return;
  struct onnx_cells *y = host_out(h, 0, ONNX_INT32, &p.out);
  if (!h->failed && y->p) multiply(y, &(struct matrix_side){a, az, false}, &(struct matrix_side){b, bz, true}, &p);
}

// saturate((a - az) (b - bz) as bs / ys + yz)
void host_qlinear_matmul(struct onnx_host *h)
{
  const struct onnx_cells *in[8];
  struct matrices p;
  for (int k = 0; k < 8; k++) in[k] = host_in(h, k);
  if (h->failed || !shapes_of(h, &in[0]->shape, &in[3]->shape, &p)) return;
  if (!zero_fits(h, 1, p.rows) || !zero_fits(h, 2, p.rows) || !zero_fits(h, 4, p.cols) || !zero_fits(h, 5, p.cols) || !zero_fits(h, 6, 1) ||
      !zero_fits(h, 7, 1))
    return;
  struct onnx_cells *y = host_out(h, 0, in[7]->type, &p.out), sums = {.type = ONNX_DOUBLE, .shape = p.out};
  if (h->failed || !y->p) return;
  int64_t n = onnx_elements(&p.out);
  sums.p = arena_alloc(h->mem, 8 * (size_t)MAX(n, 1));
  multiply(&sums, &(struct matrix_side){in[0], in[2], false}, &(struct matrix_side){in[3], in[5], true}, &p);
  for (int64_t i = 0; i < n; i++) {
    int64_t r = i / p.cols % p.rows, c = i % p.cols;
    double scale = host_number(in[1], onnx_elements(&in[1]->shape) == 1 ? 0 : r) * host_number(in[4], onnx_elements(&in[4]->shape) == 1 ? 0 : c);
    host_store(y, i, nearbyint(sums.f[i] * scale / host_number(in[6], 0)) + host_number(in[7], 0));
  }
}

// alpha A B + beta C, with optional transposes.
void host_gemm(struct onnx_host *h)
{
  const struct onnx_cells *a = host_in(h, 0), *b = host_in(h, 1), *c = host_has(h, 2) ? h->in[2] : NULL;
  bool ta = onnx_attr_int(h->n, "transA", 0), tb = onnx_attr_int(h->n, "transB", 0);
  double alpha = onnx_attr_real(h->n, "alpha", 1), beta = onnx_attr_real(h->n, "beta", 1);
  if (h->failed || a->shape.n != 2 || b->shape.n != 2 || a->type != b->type || (c && c->type != a->type))
    return host_fail(h, "it multiplies matrices only");
  struct shape s = {.n = 2, .d = {a->shape.d[ta], b->shape.d[!tb]}}, both;
  int64_t inner = a->shape.d[!ta], step[MAX_DIMS] = {0};
  if (inner != b->shape.d[tb]) return host_fail(h, "its inner extents differ");
  if (c && (!host_broadcast(h, &c->shape, &s, &both) || !shape_eq(&both, &s))) return host_fail(h, "what it adds does not fit");
  struct onnx_cells *y = host_out(h, 0, a->type, &s);
  if (h->failed || !y->p) return;
  if (c) host_spread(&c->shape, &s, step);
  for (int64_t i = 0; i < onnx_elements(&s); i++) {
    int64_t r = i / s.d[1], col = i % s.d[1];
    double sum = 0;
    for (int64_t k = 0; k < inner; k++)
      sum += host_number(a, ta ? k * s.d[0] + r : r * inner + k) * host_number(b, tb ? col * inner + k : k * s.d[1] + col);
    host_store(y, i, alpha * sum + (c ? beta * host_number(c, r * step[0] + col * step[1]) : 0));
  }
}

static double determinant(double *m, int64_t n)
{
  double det = 1;
  for (int64_t c = 0; c < n; c++) {
    int64_t best = c;
    for (int64_t r = c; r < n; r++)
      if (fabs(m[r * n + c]) > fabs(m[best * n + c])) best = r;
    if (m[best * n + c] == 0) return 0;
    for (int64_t k = 0; k < n && best != c; k++) {
      double t = m[c * n + k];
      m[c * n + k] = m[best * n + k], m[best * n + k] = t;
    }
    det *= best == c ? m[c * n + c] : -m[c * n + c];
    for (int64_t r = c + 1; r < n; r++)
      for (int64_t k = n - 1; k >= c; k--) m[r * n + k] -= m[r * n + c] / m[c * n + c] * m[c * n + k];
  }
  return det;
}

void host_det(struct onnx_host *h)
{
  const struct onnx_cells *x = host_in(h, 0);
  struct shape s = x->shape;
  if (!host_real(h, 0)) return;
  if (s.n < 2 || s.d[s.n - 1] != s.d[s.n - 2]) return host_fail(h, "it takes square matrices");
  int64_t d = s.d[s.n - 1];
  s.n -= 2;
  struct onnx_cells *y = host_out(h, 0, x->type, &s);
  double *m = arena_alloc(h->mem, 8 * (size_t)MAX(d * d, 1));
  for (int64_t i = 0; i < onnx_elements(&s) && !h->failed && y->p; i++) memcpy(m, x->f + i * d * d, 8 * (size_t)(d * d)), y->f[i] = determinant(m, d);
}

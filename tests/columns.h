// A library of matrix products that multiplies column-major fp32 matrices as its descriptions say, in place of
// cuBLASLt.
#ifndef TESTS_COLUMNS_H
#define TESTS_COLUMNS_H

#include "cuda/blas.h"

#include <stdlib.h>
#include <string.h>

struct description {         // of a matrix, or of a product
  int type, op[2], epilogue; // epilogue 0: none was set
  int64_t rows, cols, ld, stride;
  int32_t batch;
  const float *bias;
};
static int alive;

static int make(blas_object *out, struct description d)
{
  struct description *p = malloc(sizeof *p);
  *p = d, alive++;
  return *out = p, 0;
}
static int destroy(blas_object p) { return free(p), alive--, 0; }
static int create(blas_object *h) { return make(h, (struct description){0}); }
static int desc_create(blas_object *d, int compute, int scale) { return compute == 68 && scale == 0 ? make(d, (struct description){0}) : 7; }
static int desc_set(blas_object d, int id, const void *p, size_t n)
{
  struct description *x = d;
  if (n == 8 && id == 8) return memcpy(&x->bias, p, n), 0;
  if (n == 8 && id == 10) return memcpy(&x->stride, p, n), 0;
  if (n == 4 && id == 7) return memcpy(&x->epilogue, p, n), 0;
  return n == 4 && (id == 3 || id == 4) ? memcpy(&x->op[id - 3], p, n), 0 : 7;
}
static int layout_create(blas_object *l, int type, uint64_t rows, uint64_t cols, int64_t ld)
{
  const struct description d = {.type = type, .rows = (int64_t)rows, .cols = (int64_t)cols, .ld = ld, .batch = 1};
  return ld < d.rows ? 7 : make(l, d);
}
static int layout_set(blas_object l, int id, const void *p, size_t n)
{
  struct description *d = l;
  if (id == 5 && n == 4) return memcpy(&d->batch, p, n), 0;
  return id == 6 && n == 8 ? memcpy(&d->stride, p, n), 0 : 7;
}
static int preference_set(blas_object p, int id, const void *v, size_t n) { return (void)p, (void)v, id == 1 && n == 8 ? 0 : 7; }

static int heuristic(blas_object h, blas_object desc, blas_object a, blas_object b, blas_object c, blas_object d, blas_object p, int most,
                     struct blas_heuristic *out, int *n)
{
  (void)h, (void)desc, (void)a, (void)b, (void)c, (void)d, (void)p;
  for (*n = 0; *n < MIN(most, 4); ++*n)
    out[*n] = (struct blas_heuristic){.algorithm = {(uint64_t)*n}, .workspace = *n == 1 ? 1000 : 0, .state = *n == 2 ? 15 : 0};
  return 0;
}

static double element(const float *x, const struct description *d, int op, int64_t batch, int64_t i, int64_t j)
{
  return (double)x[batch * d->stride + (op ? j + i * d->ld : i + j * d->ld)];
}

// 4 is a bias along the rows, 2 relu.
static double ended(const struct description *p, double x, int64_t batch, int64_t row)
{
  if (p->epilogue & 4) x += (double)p->bias[batch * p->stride + row];
  return p->epilogue & 2 && x < 0 ? 0 : x;
}

static bool fit(const struct description *p, const struct description *x, const struct description *y, const struct description *c,
                const struct description *z)
{
  return (p->op[0] ? x->cols : x->rows) == z->rows && (p->op[1] ? y->cols : y->rows) == (p->op[0] ? x->rows : x->cols) &&
         (p->op[1] ? y->rows : y->cols) == z->cols && c->rows == z->rows && c->cols == z->cols && c->type == z->type;
}

static int matmul(blas_object h, blas_object desc, const void *alpha, const void *a, blas_object al, const void *b, blas_object bl, const void *beta,
                  const void *c, blas_object cl, void *d, blas_object dl, const uint64_t *algorithm, void *workspace, size_t bytes, cu_stream s)
{
  const struct description *p = desc, *x = al, *y = bl, *w = cl, *z = dl;
  const double times = (double)*(const float *)alpha, more = (double)*(const float *)beta;
  (void)h, (void)workspace, (void)bytes, (void)s, (void)algorithm;
  if (!fit(p, x, y, w, z)) return 7;
  int64_t k = p->op[0] ? x->rows : x->cols;
  for (int64_t t = 0; t < z->batch; t++)
    for (int64_t i = 0; i < z->rows; i++)
      for (int64_t j = 0; j < z->cols; j++) {
        double sum = 0;
        for (int64_t l = 0; l < k; l++) sum += element(a, x, p->op[0], t, i, l) * element(b, y, p->op[1], t, l, j);
        sum *= times;
        if (more != 0) sum += more * element(c, w, 0, t, i, j);
        ((float *)d)[t * z->stride + i + j * z->ld] = (float)ended(p, sum, t, i);
      }
  return 0;
}
static const char *status_name(int code) { return code == 7 ? "INVALID_VALUE" : "OTHER"; }

static struct gpu none;
static struct blas library = {.g = &none,
                              .create = create,
                              .destroy = destroy,
                              .desc_create = desc_create,
                              .desc_destroy = destroy,
                              .desc_set = desc_set,
                              .layout_create = layout_create,
                              .layout_destroy = destroy,
                              .layout_set = layout_set,
                              .preference_create = create,
                              .preference_destroy = destroy,
                              .preference_set = preference_set,
                              .heuristic = heuristic,
                              .matmul = matmul,
                              .status_name = status_name};

#endif

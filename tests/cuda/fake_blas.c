// A replacement of cuBLASLt without a GPU. It multiplies column-major fp32 matrices in host memory by three loops. api/test_module.c compiles it as
// libcublasLt.so.13, with the driver of fake.c. For each product it proposes three algorithms, which do the same.
#include "cuda/blas.h"

#include <stdlib.h>
#include <string.h>

#define FUNCTION(field, symbol, parameters) __attribute__((visibility("default"))) int fake_blas_##field parameters __asm__(symbol);
BLAS_FUNCTIONS
#undef FUNCTION
__attribute__((visibility("default"))) size_t cublasLtGetVersion(void);
__attribute__((visibility("default"))) const char *cublasLtGetStatusName(int code);
__attribute__((visibility("default"))) int fake_blas_last = -1; // the algorithm of the last product
__attribute__((visibility("default"))) int fake_blas_open;      // objects that are not destroyed

enum { BAD = 7, WORKSPACE = 1024, ALGORITHMS = 3 };
struct desc {
  int32_t transposed[2], epilogue;
  const float *bias;
};
struct layout {
  int64_t rows, cols, ld, batch_stride;
  int32_t batch;
};

static int give(blas_object *to, size_t bytes) { return fake_blas_open++, *to = calloc(1, bytes), 0; }
static int take(blas_object x) { return fake_blas_open--, free(x), 0; }

size_t cublasLtGetVersion(void) { return 130000; }
const char *cublasLtGetStatusName(int code) { return (void)code, "FAKE"; }
int fake_blas_create(blas_object *h) { return give(h, 1); }
int fake_blas_destroy(blas_object h) { return take(h); }
int fake_blas_desc_create(blas_object *d, int compute, int scale) { return (void)compute, (void)scale, give(d, sizeof(struct desc)); }
int fake_blas_desc_destroy(blas_object d) { return take(d); }
int fake_blas_desc_set(blas_object d, int id, const void *p, size_t n)
{
  struct desc *x = d;
  void *to = id == DESC_TRANSA     ? &x->transposed[0]
             : id == DESC_TRANSB   ? &x->transposed[1]
             : id == DESC_EPILOGUE ? (void *)&x->epilogue
                                   : (void *)&x->bias;
  return id == DESC_BIAS_BATCH_STRIDE ? BAD : (memcpy(to, p, n), 0);
}
int fake_blas_layout_create(blas_object *l, int type, uint64_t rows, uint64_t cols, int64_t ld)
{
  if (type != REAL_32F) return BAD;
  give(l, sizeof(struct layout));
  *(struct layout *)*l = (struct layout){(int64_t)rows, (int64_t)cols, ld, 0, 1};
  return 0;
}
int fake_blas_layout_destroy(blas_object l) { return take(l); }
int fake_blas_layout_set(blas_object l, int id, const void *p, size_t n)
{
  struct layout *x = l;
  return memcpy(id == LAYOUT_BATCH ? (void *)&x->batch : (void *)&x->batch_stride, p, n), 0;
}
int fake_blas_preference_create(blas_object *p) { return give(p, 1); }
int fake_blas_preference_destroy(blas_object p) { return take(p); }
int fake_blas_preference_set(blas_object p, int id, const void *value, size_t n) { return (void)p, (void)id, (void)value, (void)n, 0; }
int fake_blas_heuristic(blas_object h, blas_object desc, blas_object a, blas_object b, blas_object c, blas_object d, blas_object preference, int most,
                        struct blas_heuristic *out, int *n)
{
  (void)h, (void)desc, (void)a, (void)b, (void)c, (void)d, (void)preference;
  for (*n = 0; *n < MIN(most, ALGORITHMS); ++*n) out[*n] = (struct blas_heuristic){.algorithm = {(uint64_t)*n}, .workspace = WORKSPACE};
  return 0;
}

static float at(const float *p, const struct layout *l, bool transposed, int64_t row, int64_t col)
{
  return p[transposed ? row * l->ld + col : col * l->ld + row];
}

int fake_blas_matmul(blas_object h, blas_object desc, const void *alpha, const void *a, blas_object al, const void *b, blas_object bl,
                     const void *beta, const void *c, blas_object cl, void *d, blas_object dl, const uint64_t *algorithm, void *workspace,
                     size_t bytes, cu_stream s)
{
  const struct desc *x = desc;
  const struct layout *la = al, *lb = bl, *lc = cl, *ld = dl;
  const int64_t inner = x->transposed[0] ? la->rows : la->cols;
  (void)h, (void)s;
  if (bytes != WORKSPACE || ld->batch != 1) return BAD;
  memset(workspace, 0xff, bytes); // what algorithms do with it
  for (int64_t j = 0; j < ld->cols; j++)
    for (int64_t i = 0; i < ld->rows; i++) {
      float sum = 0;
      for (int64_t k = 0; k < inner; k++) sum += at(a, la, x->transposed[0], i, k) * at(b, lb, x->transposed[1], k, j);
      sum = *(const float *)alpha * sum + *(const float *)beta * ((const float *)c)[j * lc->ld + i];
      if (x->epilogue & 4) sum += x->bias[i];
      ((float *)d)[j * ld->ld + i] = x->epilogue & 2 && sum < 0 ? 0 : sum;
    }
  return fake_blas_last = (int)algorithm[0], 0;
}

// Products of matrices by cuBLASLt, found by dlopen like the other libraries (blas.h).
//
// The library counts columns first. A row-major D = A B is to it the column-major product D' = B' A': operands change
// places, rows and columns too, and what is contiguous along the other dimension is `transposed`. Inputs of 16 bits and
// of 32 bits are both multiplied as the library does by default for sums in fp32; no fp32 input is rounded to fewer
// bits.
#include "cuda/blas.h"
#include "cuda/library.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static const struct {
  const char *name;
  size_t at;
} symbols[] = {
#define FUNCTION(field, symbol, parameters) {symbol, offsetof(struct blas, field)},
    BLAS_FUNCTIONS
#undef FUNCTION
    {"cublasLtGetVersion", offsetof(struct blas, version)},
    {"cublasLtGetStatusName", offsetof(struct blas, status_name)},
};

struct blas_plan {
  struct blas *b;
  bool swapped; // the library's a is our b
  blas_object desc, layout[3], preference;
};

static const char *const library_names[] = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"};
static const char *const library_folders[] = {"/usr/local/cuda/lib64/libcublasLt.so.1[23]",
                                              "/usr/local/cuda*/lib64/libcublasLt.so.1[23]",
                                              "/opt/cuda/lib64/libcublasLt.so.1[23]"};
static int blas_check(const struct blas *b, int code, struct err *e, const char *what)
{
  return code ? err_set(e, ERR_GPU, NOWHERE, "%s: cuBLASLt says %s (%d)", what, b->status_name(code), code) : OK;
}

static int find(struct blas *b, struct err *e)
{
  b->so = cuda_library(COUNT(library_names), library_names, COUNT(library_folders), library_folders);
  if (!b->so) {
    err_set(e, ERR_LIBRARY, NOWHERE,
            "cuBLASLt, NVIDIA's library of matrix products (libcublasLt.so.12 or .13), was not found");
    err_hint(e, "install the CUDA toolkit's cublas package, or set LD_LIBRARY_PATH to the folder of libcublasLt.so");
    return e->status;
  }
  for (size_t i = 0; i < COUNT(symbols); i++) {
    void *f = dlsym(b->so, symbols[i].name);
    if (!f)
      return err_set(e, ERR_LIBRARY, NOWHERE, "cuBLASLt has no function %s: a version before 11?", symbols[i].name);
    memcpy((char *)b + symbols[i].at, &f, sizeof f);
  }
  return OK;
}

int blas_open(struct gpu *g, struct blas **out, struct err *e)
{
  struct blas *b = calloc(1, sizeof *b);
  CHECK(b);
  *out = NULL;
  b->g = g;
  int status = find(b, e);
  if (status == OK) status = blas_check(b, b->create(&b->handle), e, "starting");
  if (status != OK)
    blas_close(b);
  else
    *out = b;
  return status;
}

void blas_close(struct blas *b)
{
  if (!b) return;
  if (b->handle) b->destroy(b->handle);
  if (b->so) dlclose(b->so);
  free(b);
}

int blas_version(const struct blas *b) { return (int)b->version(); }

// ---- a product in the library's terms ----

struct matrix {                  // column-major
  int type;                      // REAL_*
  int64_t rows, cols, ld, batch; // as it lies in memory; elements
  bool transposed;               // what is multiplied is its transpose
};

static int real_type(enum tile_type t) // -1: none
{
  return t == TT_F16 ? REAL_16F : t == TT_BF16 ? REAL_16BF : t == TT_F32 ? REAL_32F : -1;
}

// Our rows x cols with these strides: row-major is its transpose, column-major. False where neither stride is 1.
static bool place(enum tile_type t, int64_t rows, int64_t cols, const int64_t *stride, struct matrix *out)
{
  bool row_major = cols == 1 || stride[2] == 1, col_major = rows == 1 || stride[1] == 1;
  bool by_rows = row_major && (rows == 1 || stride[1] >= cols || !col_major);
  if (!by_rows && !col_major) return false;
  *out = (struct matrix){.type = real_type(t), .batch = stride[0], .transposed = !by_rows};
  if (by_rows)
    out->rows = cols, out->cols = rows, out->ld = rows == 1 ? cols : stride[1];
  else
    out->rows = rows, out->cols = cols, out->ld = cols == 1 ? rows : stride[2];
  return out->type >= 0 && out->ld >= out->rows;
}

static int refuse(const struct blas_product *p, struct err *e)
{
  return err_set(
      e, ERR_TARGET, NOWHERE,
      "cuBLASLt takes no product [%lld, %lld] x [%lld, %lld] with rows %lld, %lld, %lld and columns %lld, %lld, "
      "%lld elements apart",
      (long long)p->m, (long long)p->k, (long long)p->k, (long long)p->n, (long long)p->stride[0][1],
      (long long)p->stride[1][1], (long long)p->stride[2][1], (long long)p->stride[0][2], (long long)p->stride[1][2],
      (long long)p->stride[2][2]);
}

static int make_layout(struct blas *b, const struct matrix *x, int64_t batch, blas_object *out, struct err *e)
{
  int32_t count = (int32_t)batch;
  if (blas_check(b, b->layout_create(out, x->type, (uint64_t)x->rows, (uint64_t)x->cols, x->ld), e,
                 "describing a matrix"))
    return e->status;
  if (batch == 1) return OK;
  if (blas_check(b, b->layout_set(*out, LAYOUT_BATCH, &count, sizeof count), e, "describing a batch")) return e->status;
  return blas_check(b, b->layout_set(*out, LAYOUT_BATCH_STRIDE, &x->batch, sizeof x->batch), e, "describing a batch");
}

static int describe(struct blas_plan *plan, const struct matrix *x, int64_t batch, struct err *e)
{
  struct blas *b = plan->b;
  int32_t op[2] = {x[0].transposed ? OP_TRANSPOSED : OP_NORMAL, x[1].transposed ? OP_TRANSPOSED : OP_NORMAL};
  if (blas_check(b, b->desc_create(&plan->desc, COMPUTE_32F, REAL_32F), e, "describing a product")) return e->status;
  if (blas_check(b, b->desc_set(plan->desc, DESC_TRANSA, &op[0], sizeof op[0]), e, "describing a product"))
    return e->status;
  if (blas_check(b, b->desc_set(plan->desc, DESC_TRANSB, &op[1], sizeof op[1]), e, "describing a product"))
    return e->status;
  for (int i = 0; i < 3; i++)
    if (make_layout(b, &x[i], batch, &plan->layout[i], e)) return e->status;
  return blas_check(b, b->preference_create(&plan->preference), e, "describing a product");
}

// Both products are tried: D by rows, and where D lies by columns the product as it stands.
static bool arrange(const struct blas_product *p, struct matrix x[3])
{
  struct matrix a, b, d;
  if (p->batch < 1 || p->batch > INT32_MAX) return false;
  if (!place(p->type[0], p->m, p->k, p->stride[0], &a) || !place(p->type[1], p->k, p->n, p->stride[1], &b) ||
      !place(p->type[2], p->m, p->n, p->stride[2], &d))
    return false;
  if (d.transposed) { // column-major: D = A B as the library counts
    x[0] = a, x[1] = b;
    x[0].transposed = !a.transposed, x[1].transposed = !b.transposed;
  } else {
    x[0] = b, x[1] = a;
  }
  x[2] = d;
  return true;
}

int blas_plan(struct blas *b, const struct blas_product *p, struct blas_plan **out, struct err *e)
{
  struct matrix x[3];
  *out = NULL;
  if (!arrange(p, x)) return refuse(p, e);
  struct blas_plan *plan = calloc(1, sizeof *plan);
  CHECK(plan);
  plan->b = b;
  plan->swapped = !x[2].transposed;
  int status = describe(plan, x, p->batch, e);
  if (status != OK)
    blas_plan_close(plan);
  else
    *out = plan;
  return status;
}

void blas_plan_close(struct blas_plan *p)
{
  if (!p) return;
  if (p->preference) p->b->preference_destroy(p->preference);
  for (int i = 0; i < 3; i++)
    if (p->layout[i]) p->b->layout_destroy(p->layout[i]);
  if (p->desc) p->b->desc_destroy(p->desc);
  free(p);
}

int blas_algorithms(const struct blas_plan *p, size_t workspace, int most, struct blas_algorithm *out, int *n,
                    struct err *e)
{
  struct blas *b = p->b;
  struct blas_heuristic *r = calloc((size_t)most + 1, sizeof *r);
  CHECK(r);
  int got = 0;
  *n = 0;
  uint64_t bytes = workspace;
  int status =
      blas_check(b, b->preference_set(p->preference, PREFERENCE_WORKSPACE, &bytes, sizeof bytes), e, "choosing");
  if (status == OK)
    status = blas_check(b,
                        b->heuristic(b->handle, p->desc, p->layout[0], p->layout[1], p->layout[2], p->layout[2],
                                     p->preference, most, r, &got),
                        e, "choosing an algorithm");
  for (int i = 0; i < got && status == OK; i++) {
    if (r[i].state || r[i].workspace > workspace) continue;
    memcpy(out[*n].words, r[i].algorithm, sizeof r[i].algorithm);
    out[(*n)++].workspace = r[i].workspace;
  }
  free(r);
  if (status == OK && !*n) status = err_set(e, ERR_TARGET, NOWHERE, "cuBLASLt has no algorithm for the product");
  return status;
}

int blas_run(const struct blas_plan *p, const struct blas_algorithm *how, gpu_address a, gpu_address b, gpu_address d,
             gpu_address workspace, struct err *e)
{
  static const float one = 1, zero = 0;
  const void *first = (const void *)(uintptr_t)(p->swapped ? b : a);
  const void *second = (const void *)(uintptr_t)(p->swapped ? a : b);
  void *to = (void *)(uintptr_t)d;
  return blas_check(p->b,
                    p->b->matmul(p->b->handle, p->desc, &one, first, p->layout[0], second, p->layout[1], &zero, to,
                                 p->layout[2], to, p->layout[2], how->words, (void *)(uintptr_t)workspace,
                                 how->workspace, p->b->g->stream),
                    e, "multiplying");
}

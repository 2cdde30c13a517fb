// Products of matrices by cuBLASLt, found by dlopen like the other libraries (blas.h).
//
// Sums are in fp32, for inputs of 16 bits and of 32 bits. The library's default keeps fp32 inputs at full precision.
#include "cuda/blas.h"
#include "base/memory.h"
#include "cuda/library.h"

#include <dlfcn.h>
#include <string.h>

static const struct {
  const char *name;
  size_t at;
} symbols[] = {
#define FUNCTION(field, symbol, parameters) {symbol, offsetof(struct blas, field)},
    BLAS_FUNCTIONS
#undef FUNCTION
    {"cublasLtGetStatusName", offsetof(struct blas, status_name)},
};

struct blas_plan {
  struct blas *b;
  struct blas_product mul;
  bool swapped;                            // the library's a is the product's B
  blas_object desc, layout[4], preference; // layouts of a, b, d, c
};

static int blas_check(const struct blas *b, int code, struct err *e, const char *what)
{
  return code ? err_set(e, ERR_GPU, NOWHERE, "%s: cuBLASLt says %s (%d)", what, b->status_name(code), code) : OK;
}

static int find(struct blas *b, struct err *e)
{
  b->so = cuda_library(LIBRARY_CUBLASLT, NULL, e);
  if (!b->so) return (int)e->status;
  for (size_t i = 0; i < COUNT(symbols); i++) {
    void *f = dlsym(b->so, symbols[i].name);
    if (!f) return err_set(e, ERR_LIBRARY, NOWHERE, "cuBLASLt has no function %s: a version before 11?", symbols[i].name);
    memcpy((char *)b + symbols[i].at, &f, sizeof f);
  }
  return OK;
}

int blas_open(struct gpu *g, struct blas **out, struct err *e)
{
  struct blas *b = mem_lasting(sizeof *b);
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
  mem_free(b);
}

// ---- the description of a product ----

static int refuse(const struct blas_product *p, struct err *e)
{
  return err_set(e, ERR_TARGET, NOWHERE,
                 "cuBLASLt takes no product [%lld, %lld] x [%lld, %lld] with rows %lld, %lld, %lld and columns %lld, %lld, "
                 "%lld elements apart",
                 (long long)p->m, (long long)p->k, (long long)p->k, (long long)p->n, (long long)p->stride[0][1], (long long)p->stride[1][1],
                 (long long)p->stride[2][1], (long long)p->stride[0][2], (long long)p->stride[1][2], (long long)p->stride[2][2]);
}

static int make_layout(struct blas *b, const struct blas_matrix *x, int64_t batch, blas_object *out, struct err *e)
{
  int32_t count = (int32_t)batch;
  if (blas_check(b, b->layout_create(out, tile_types[x->type].blas, (uint64_t)x->rows, (uint64_t)x->cols, x->ld), e, "describing a matrix"))
    return e->status;
  if (batch == 1) return OK;
  if (blas_check(b, b->layout_set(*out, LAYOUT_BATCH, &count, sizeof count), e, "describing a batch")) return e->status;
  return blas_check(b, b->layout_set(*out, LAYOUT_BATCH_STRIDE, &x->batch, sizeof x->batch), e, "describing a batch");
}

static int set(struct blas_plan *plan, int id, const void *p, size_t n, struct err *e)
{
  return blas_check(plan->b, plan->b->desc_set(plan->desc, id, p, n), e, "describing a product");
}

// The heuristic takes the alignment of the bias from its address, which is known only when the product runs. An aligned placeholder stands for it.
static int describe_epilogue(struct blas_plan *plan, struct err *e)
{
  static void *const aligned = (void *)(uintptr_t)256;
  const struct blas_product *p = &plan->mul;
  int32_t number = blas_epilogue_number(p->epilogue);
  if (p->epilogue == EPILOGUE_SUM) return OK;
  int status = set(plan, DESC_EPILOGUE, &number, sizeof number, e);
  if (status != OK || !blas_has(p, BLAS_BIAS)) return status;
  status = set(plan, DESC_BIAS_POINTER, &aligned, sizeof aligned, e);
  if (status != OK || p->batch == 1) return status;
  return set(plan, DESC_BIAS_BATCH_STRIDE, &p->stride[BLAS_BIAS][0], sizeof p->stride[BLAS_BIAS][0], e);
}

static int describe(struct blas_plan *plan, const struct blas_matrix *x, struct err *e)
{
  struct blas *b = plan->b;
  int32_t op[2] = {x[0].transposed ? OP_TRANSPOSED : OP_NORMAL, x[1].transposed ? OP_TRANSPOSED : OP_NORMAL};
  if (blas_check(b, b->desc_create(&plan->desc, COMPUTE_32F, REAL_32F), e, "describing a product")) return e->status;
  if (set(plan, DESC_TRANSA, &op[0], sizeof op[0], e) || set(plan, DESC_TRANSB, &op[1], sizeof op[1], e)) return e->status;
  if (describe_epilogue(plan, e)) return e->status;
  for (int i = 0; i < 4; i++)
    if (make_layout(b, &x[i], plan->mul.batch, &plan->layout[i], e)) return e->status;
  return blas_check(b, b->preference_create(&plan->preference), e, "describing a product");
}

int blas_plan(struct blas *b, const struct blas_product *p, struct blas_plan **out, struct err *e)
{
  struct blas_arranged x;
  *out = NULL;
  if (!blas_arrange(p, &x)) return refuse(p, e);
  struct blas_plan *plan = mem_lasting(sizeof *plan);
  plan->b = b, plan->mul = *p, plan->swapped = x.swapped;
  int status = describe(plan, x.x, e);
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
  for (int i = 0; i < 4; i++)
    if (p->layout[i]) p->b->layout_destroy(p->layout[i]);
  if (p->desc) p->b->desc_destroy(p->desc);
  mem_free(p);
}

int blas_algorithms(const struct blas_plan *p, size_t workspace, int most, struct blas_algorithm *out, int *n, struct err *e)
{
  struct blas *b = p->b;
  struct blas_heuristic *r = MEM_NEWS(struct blas_heuristic, most + 1);
  int got = 0;
  *n = 0;
  uint64_t bytes = workspace;
  int status = blas_check(b, b->preference_set(p->preference, PREFERENCE_WORKSPACE, &bytes, sizeof bytes), e, "choosing");
  if (status == OK)
    status = blas_check(b, b->heuristic(b->handle, p->desc, p->layout[0], p->layout[1], p->layout[3], p->layout[2], p->preference, most, r, &got), e,
                        "choosing an algorithm");
  for (int i = 0; i < got && status == OK; i++) {
    if (r[i].state || r[i].workspace > workspace) continue;
    memcpy(out[*n].words, r[i].algorithm, sizeof r[i].algorithm);
    out[(*n)++].workspace = r[i].workspace;
  }
  mem_free(r);
  if (status == OK && !*n) status = err_set(e, ERR_TARGET, NOWHERE, "cuBLASLt has no algorithm for the product");
  return status;
}

static void *at(gpu_address a) { return (void *)(uintptr_t)a; }

int blas_run(const struct blas_plan *p, const struct blas_algorithm *how, const gpu_address *operand, gpu_address workspace, struct err *e)
{
  const struct blas *b = p->b;
  const int at_bias = blas_index(&p->mul, BLAS_BIAS), at_c = blas_index(&p->mul, BLAS_C);
  const void *bias = at_bias < 0 ? NULL : at(operand[at_bias]), *c = at(operand[at_c < 0 ? BLAS_D : at_c]);
  const void *first = at(operand[p->swapped ? BLAS_B : BLAS_A]), *second = at(operand[p->swapped ? BLAS_A : BLAS_B]);
  if (bias && blas_check(b, b->desc_set(p->desc, DESC_BIAS_POINTER, &bias, sizeof bias), e, "multiplying")) return e->status;
  return blas_check(b,
                    b->matmul(b->handle, p->desc, &p->mul.alpha, first, p->layout[0], second, p->layout[1], &p->mul.beta, c, p->layout[3],
                              at(operand[BLAS_D]), p->layout[2], how->words, at(workspace), how->workspace, b->g->stream),
                    e, "multiplying");
}

// blas: the functions of cuBLASLt that Mica calls, by their names in the library. Prototypes, attribute numbers and the
// layout of the heuristic's result follow its documented binary interface. `int` stands for cublasStatus_t and other
// enumerations.
#ifndef MICA_CUDA_BLAS_H
#define MICA_CUDA_BLAS_H

#include "cuda/driver.h"

typedef void *blas_object;
struct blas_heuristic { // cublasLtMatmulHeuristicResult_t
  uint64_t algorithm[8];
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
};
_Static_assert(sizeof(struct blas_heuristic) == 96, "as in the library");

// FUNCTION(field, symbol, parameters)
#define BLAS_FUNCTIONS                                                                                                                               \
  FUNCTION(create, "cublasLtCreate", (blas_object * handle))                                                                                         \
  FUNCTION(destroy, "cublasLtDestroy", (blas_object handle))                                                                                         \
  FUNCTION(desc_create, "cublasLtMatmulDescCreate", (blas_object * d, int compute, int scale))                                                       \
  FUNCTION(desc_destroy, "cublasLtMatmulDescDestroy", (blas_object d))                                                                               \
  FUNCTION(desc_set, "cublasLtMatmulDescSetAttribute", (blas_object d, int id, const void *p, size_t n))                                             \
  FUNCTION(layout_create, "cublasLtMatrixLayoutCreate", (blas_object * l, int type, uint64_t rows, uint64_t cols, int64_t ld))                       \
  FUNCTION(layout_destroy, "cublasLtMatrixLayoutDestroy", (blas_object l))                                                                           \
  FUNCTION(layout_set, "cublasLtMatrixLayoutSetAttribute", (blas_object l, int id, const void *p, size_t n))                                         \
  FUNCTION(preference_create, "cublasLtMatmulPreferenceCreate", (blas_object * p))                                                                   \
  FUNCTION(preference_destroy, "cublasLtMatmulPreferenceDestroy", (blas_object p))                                                                   \
  FUNCTION(preference_set, "cublasLtMatmulPreferenceSetAttribute", (blas_object p, int id, const void *value, size_t n))                             \
  FUNCTION(heuristic, "cublasLtMatmulAlgoGetHeuristic",                                                                                              \
           (blas_object handle, blas_object desc, blas_object a, blas_object b, blas_object c, blas_object d, blas_object preference, int most,      \
            struct blas_heuristic *out, int *n))                                                                                                     \
  FUNCTION(matmul, "cublasLtMatmul",                                                                                                                 \
           (blas_object handle, blas_object desc, const void *alpha, const void *a, blas_object al, const void *b, blas_object bl, const void *beta, \
            const void *c, blas_object cl, void *d, blas_object dl, const uint64_t *algorithm, void *workspace, size_t bytes, cu_stream s))

struct blas {
  struct gpu *g;
  void *so;
#define FUNCTION(field, symbol, parameters) int(*field) parameters;
  BLAS_FUNCTIONS
#undef FUNCTION
  const char *(*status_name)(int code);
  blas_object handle;
};

enum { COMPUTE_32F = 68, REAL_32F = 0, OP_NORMAL = 0, OP_TRANSPOSED = 1 };
enum { DESC_TRANSA = 3, DESC_TRANSB = 4, DESC_EPILOGUE = 7, DESC_BIAS_POINTER = 8, DESC_BIAS_BATCH_STRIDE = 10 };
enum { LAYOUT_BATCH = 5, LAYOUT_BATCH_STRIDE = 6, PREFERENCE_WORKSPACE = 1 };

#endif

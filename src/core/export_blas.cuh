// Products by cuBLASLt, row by row, fp32 inside.
struct matrix {
  cudaDataType type;
  uint64_t rows, cols;
  int64_t batch, row, col; // strides in elements
};

static cublasLtMatrixLayout_t layout(const matrix *m, int batches)
{
  cublasLtMatrixLayout_t l = nullptr;
  cublasLtOrder_t order = m->col == 1 ? CUBLASLT_ORDER_ROW : CUBLASLT_ORDER_COL;
  cublasLtMatrixLayoutCreate(&l, m->type, m->rows, m->cols, m->col == 1 ? m->row : m->col);
  cublasLtMatrixLayoutSetAttribute(l, CUBLASLT_MATRIX_LAYOUT_ORDER, &order, sizeof order);
  cublasLtMatrixLayoutSetAttribute(l, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batches, sizeof batches);
  cublasLtMatrixLayoutSetAttribute(l, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &m->batch, sizeof m->batch);
  return l;
}

static cublasLtHandle_t open_blas()
{
  cublasLtHandle_t h = nullptr;
  cublasLtCreate(&h);
  return h;
}

static int multiply(const matrix m[3], int batches, const void *a, const void *b, void *d, cudaStream_t stream)
{
  static const cublasLtHandle_t blas = open_blas();
  cublasLtMatmulDesc_t op = nullptr;
  cublasLtMatmulPreference_t any = nullptr;
  cublasLtMatmulHeuristicResult_t best;
  const float one = 1, zero = 0;
  int n = 0;
  if (!blas) return (int)cudaErrorInitializationError;
  cublasLtMatrixLayout_t l[3] = {layout(&m[0], batches), layout(&m[1], batches), layout(&m[2], batches)};
  cublasLtMatmulDescCreate(&op, CUBLAS_COMPUTE_32F, CUDA_R_32F);
  cublasLtMatmulPreferenceCreate(&any);
  cublasStatus_t s = cublasLtMatmulAlgoGetHeuristic(blas, op, l[0], l[1], l[2], l[2], any, 1, &best, &n);
  if (s == CUBLAS_STATUS_SUCCESS && n)
    s = cublasLtMatmul(blas, op, &one, a, l[0], b, l[1], &zero, d, l[2], d, l[2], &best.algo, nullptr, 0, stream);
  cublasLtMatmulPreferenceDestroy(any);
  cublasLtMatmulDescDestroy(op);
  for (int i = 0; i < 3; i++) cublasLtMatrixLayoutDestroy(l[i]);
  return s == CUBLAS_STATUS_SUCCESS && n ? 0 : (int)cudaErrorUnknown;
}

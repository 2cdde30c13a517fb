// Products by cuBLASLt, fp32 inside: d = epilogue(alpha a b + beta c + bias), columns first.
struct matrix {
  cudaDataType type;
  cublasOperation_t op; // of a, b
  uint64_t rows, cols;
  int64_t ld, batch; // elements
};
struct product {
  int batches;
  cublasLtEpilogue_t epilogue;
  float alpha, beta;
  int64_t bias; // elements from batch to batch
  matrix m[4];  // a, b, d, c
};

static cublasLtMatrixLayout_t layout(const matrix *m, int batches)
{
  cublasLtMatrixLayout_t l = nullptr;
  cublasLtMatrixLayoutCreate(&l, m->type, m->rows, m->cols, m->ld);
  cublasLtMatrixLayoutSetAttribute(l, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batches, sizeof batches);
  cublasLtMatrixLayoutSetAttribute(l, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &m->batch, sizeof m->batch);
  return l;
}

static cublasLtMatmulDesc_t description(const product *p, const void *bias)
{
  cublasLtMatmulDesc_t op = nullptr;
  cublasLtMatmulDescCreate(&op, CUBLAS_COMPUTE_32F, CUDA_R_32F);
  cublasLtMatmulDescSetAttribute(op, CUBLASLT_MATMUL_DESC_TRANSA, &p->m[0].op, sizeof p->m[0].op);
  cublasLtMatmulDescSetAttribute(op, CUBLASLT_MATMUL_DESC_TRANSB, &p->m[1].op, sizeof p->m[1].op);
  cublasLtMatmulDescSetAttribute(op, CUBLASLT_MATMUL_DESC_EPILOGUE, &p->epilogue, sizeof p->epilogue);
  if (!bias) return op;
  cublasLtMatmulDescSetAttribute(op, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
  if (p->batches > 1) cublasLtMatmulDescSetAttribute(op, CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, &p->bias, sizeof p->bias);
  return op;
}

static cublasLtHandle_t open_blas()
{
  cublasLtHandle_t h = nullptr;
  cublasLtCreate(&h);
  return h;
}

// Among the algorithms that the library proposes, the one of that number; the first if there are fewer.
static bool choose(cublasLtHandle_t blas, cublasLtMatmulDesc_t op, const cublasLtMatrixLayout_t l[4], int number, cublasLtMatmulHeuristicResult_t *best)
{
  cublasLtMatmulHeuristicResult_t r[PROPOSED];
  cublasLtMatmulPreference_t any = nullptr;
  uint64_t bytes = WORKSPACE;
  int got = 0, n = 0;
  cublasLtMatmulPreferenceCreate(&any);
  cublasLtMatmulPreferenceSetAttribute(any, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof bytes);
  if (cublasLtMatmulAlgoGetHeuristic(blas, op, l[0], l[1], l[3], l[2], any, PROPOSED, r, &got) != CUBLAS_STATUS_SUCCESS) got = 0;
  cublasLtMatmulPreferenceDestroy(any);
  for (int i = 0; i < got; i++) {
    if (r[i].state != CUBLAS_STATUS_SUCCESS || r[i].workspaceSize > bytes) continue;
    if (!n || n == number) *best = r[i];
    n++;
  }
  return n > 0;
}

static int multiply(const product *p, int number, const void *a, const void *b, const void *bias, const void *c, void *d, void *work, cudaStream_t stream)
{
  static const cublasLtHandle_t blas = open_blas();
  cublasLtMatmulHeuristicResult_t best;
  if (!blas) return (int)cudaErrorInitializationError;
  cublasLtMatmulDesc_t op = description(p, bias);
  cublasLtMatrixLayout_t l[4];
  for (int i = 0; i < 4; i++) l[i] = layout(&p->m[i], p->batches);
  bool done = choose(blas, op, l, number, &best) && cublasLtMatmul(blas, op, &p->alpha, a, l[0], b, l[1], &p->beta, c, l[3], d, l[2], &best.algo,
                                                                   work, best.workspaceSize, stream) == CUBLAS_STATUS_SUCCESS;
  cublasLtMatmulDescDestroy(op);
  for (int i = 0; i < 4; i++) cublasLtMatrixLayoutDestroy(l[i]);
  return done ? 0 : (int)cudaErrorUnknown;
}

// Tensor maps, by a function of the driver that the run-time library finds.
typedef CUresult encoder(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *, const cuuint64_t *,
                         const cuuint32_t *, const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle,
                         CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

static encoder *find_encoder()
{
  void *f = nullptr;
  cudaDriverEntryPointQueryResult found;
#if CUDART_VERSION >= 12050
  cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &f, 12000, cudaEnableDefault, &found);
#else
  cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &f, cudaEnableDefault, &found);
#endif
  return (encoder *)f;
}

struct map_shape {
  CUtensorMapDataType type;
  unsigned rank;
  cuuint64_t size[5], stride[5]; // elements; bytes
  cuuint32_t box[5];
  CUtensorMapSwizzle swizzle;
};

static int make_map(const map_shape *s, const void *base, CUtensorMap *out)
{
  static encoder *const encode = find_encoder();
  const cuuint32_t ones[5] = {1, 1, 1, 1, 1};
  if (!encode) return (int)cudaErrorSymbolNotFound;
  return encode(out, s->type, s->rank, (void *)base, s->size, s->stride + 1, s->box, ones, CU_TENSOR_MAP_INTERLEAVE_NONE, s->swizzle,
                CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS
             ? 0
             : (int)cudaErrorInvalidValue;
}

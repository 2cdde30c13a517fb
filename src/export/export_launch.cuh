// The launch of one kernel; `dependent`: before the one ahead of it has ended.
static int launch(const void *kernel, int64_t blocks, int threads, size_t shared, bool dependent, void **args, cudaStream_t stream)
{
  cudaLaunchAttribute early;
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t c = {};
  c.gridDim = dim3((unsigned)blocks), c.blockDim = dim3((unsigned)threads), c.dynamicSmemBytes = shared;
  c.stream = stream, c.attrs = &early, c.numAttrs = dependent;
  return (int)cudaLaunchKernelExC(&c, kernel, args);
}

// The notes' generated CUDA C++ of their simple GEMM, without its pragmas (65536 unrolled products take a compiler long).
extern "C" __global__ void __launch_bounds__(256) gemm(const __half *__restrict__ A, const __half *__restrict__ B, __half *__restrict__ C)
{
  int bid_m = (blockIdx.x % 8);
  int bid_n = ((blockIdx.x / 8) % 8);
  int tid_m = (threadIdx.x % 16);
  int tid_n = ((threadIdx.x / 16) % 16);
  for (int k = 0; k < 1024; k += 1) {
    for (int m = 0; m < 8; m += 1) {
      for (int n = 0; n < 8; n += 1) {
        C[(((bid_m * 128) + (bid_n * 131072)) + (((tid_m * 8) + (tid_n * 8192)) + (m + (n * 1024))))] =
            __hfma(A[((bid_m * 128) + ((tid_m * 8) + (m + (k * 1024))))], B[((bid_n * 131072) + ((tid_n * 8192) + (k + (n * 1024))))],
                   C[(((bid_m * 128) + (bid_n * 131072)) + (((tid_m * 8) + (tid_n * 8192)) + (m + (n * 1024))))]);
      }
    }
  }
}

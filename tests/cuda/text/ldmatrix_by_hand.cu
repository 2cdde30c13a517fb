// The notes' hand-written data movement by ldmatrix, in a kernel that fills its source and stores its result.
struct __align__(2) half { unsigned short w; };
typedef unsigned int uint32_t;
extern "C" __global__ void __launch_bounds__(32) ldmatrix_store(const half *__restrict__ in, half *__restrict__ out)
{
  __shared__ __align__(16) half smem[256];
  alignas(16) half regs[8];
  *(uint4 *)&smem[(threadIdx.x / 2) * 16 + (threadIdx.x % 2) * 8] = *(const uint4 *)&in[threadIdx.x * 8];
  __syncwarp();
  // Reshape the warp into 2x2 groups of 8 threads
  int thr_grp_m = ((threadIdx.x / 16) % 2);
  int thr_grp_n = ((threadIdx.x / 8) % 2);
  int grp_local_idx = (threadIdx.x % 8);
  // Tile and map shared mem (see a) - also convert pointer
  uint32_t src_ptr;
  void *dst_ptr = (void *)&smem[(thr_grp_m * 128 + thr_grp_n * 8 + grp_local_idx * 16)];
  asm volatile("{ .reg .u64 src_ptr; cvta.to.shared.u64 src_ptr, %1; cvt.u32.u64 %0, src_ptr; }\n" : "=r"(src_ptr) : "l"(dst_ptr));
  // Each thread receives 8 vals (2 vals per 8x8 tile) - see b
  int *dst = (int *)&regs[0]; // dst[x] points to two fp16 vals
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(dst[0]), "=r"(dst[1]), "=r"(dst[2]), "=r"(dst[3])
               : "r"(src_ptr));
  *(uint4 *)&out[threadIdx.x * 8] = *(uint4 *)&regs[0];
}

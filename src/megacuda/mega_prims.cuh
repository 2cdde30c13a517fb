// Machine primitives of the kernel: threads, barriers, memory operations. mega_shim.h has the same primitives for a CPU.
#define DEV __device__ __forceinline__
// All bodies are inlined into one function: a call would spill registers to memory, and the pipeline leaves no L1 cache. APART functions are not
// inlined: the watchdog, the loops of the single threads, and sampling, which runs once per step and would take registers from the products.
#define BODY __device__ __forceinline__
#define APART __device__ __noinline__
#define PLAIN __device__
#define HOST_TOO __host__ __device__
#define GLOBAL __constant__
#define PER_RANK(type, name) __constant__ type name
#define RANK (PEERS.rank)
#define TID thread_now()
#define WORKER ((int)blockIdx.x)
#define KERNEL extern "C" __global__ void __launch_bounds__(BLOCK_THREADS, 1)

// The thread's number, read again at each use. Otherwise the compiler would compute values from it before all loops and spill them.
DEV int thread_now()
{
  int t;
  asm volatile("mov.u32 %0, %tid.x;" : "=r"(t));
  return t;
}

extern __shared__ __align__(512) char mega_raw[];
#define SHARED(type) (*(type *)mega_raw) // a macro instead of a reference, so that the compiler knows that it is shared memory

DEV u32 shared_at(const void *p) { return (u32)__cvta_generic_to_shared(p); }

// Cache policy for data that blocks exchange or that all blocks read: they are small and must stay in L2. Otherwise weights evict them, and the next
// access queues behind the loads of all pipelines.
#define STAY "l"(0x14F0000000000000ull)

// The next launch of the stream may begin when all blocks of this one have called this function.
DEV void launch_dependents() { asm volatile("griddepcontrol.launch_dependents;"); }
// Waits until the previous launch has ended and its writes are visible.
DEV void wait_for_previous_launch() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

// ---- words with epochs: relaxed accesses, because the epoch in a word shows that its data are valid ----
// A word is read and written by one access of 128 bits. The compiler would omit unused numbers of a word and read the others one by one, so a word
// could be torn. Therefore the tag depends on all of them, through a mask that is zero. The compiler does not know the mask.
struct bits128 {
  u64 low, high;
};
GLOBAL u32 NO_BITS;
DEV bits128 bits_of(uint4 v) { return {v.x | (u64)v.y << 32, v.z | (u64)v.w << 32}; }
DEV uint4 word_of(bits128 b)
{
  u32 x = (u32)b.low, y = (u32)(b.low >> 32), z = (u32)b.high;
  return make_uint4(x, y, z, (u32)(b.high >> 32) ^ ((x ^ y ^ z) & NO_BITS));
}

DEV void store_word(uint4 *p, uint4 v)
{
  bits128 b = bits_of(v);
  asm volatile("{.reg .b128 t;\nmov.b128 t, {%1, %2};\nst.relaxed.gpu.global.L2::cache_hint.b128 [%0], t, %3;}" ::"l"(p), "l"(b.low), "l"(b.high),
               STAY
               : "memory");
}
DEV uint4 load_word(const uint4 *p)
{
  bits128 b;
  asm volatile("{.reg .b128 t;\nld.relaxed.gpu.global.L2::cache_hint.b128 t, [%2], %3;\nmov.b128 {%0, %1}, t;}"
               : "=l"(b.low), "=l"(b.high)
               : "l"(p), STAY
               : "memory");
  return word_of(b);
}

// The same if the writer or the reader is another GPU.
DEV void store_peer_word(uint4 *p, uint4 v, int)
{
  bits128 b = bits_of(v);
  asm volatile("{.reg .b128 t;\nmov.b128 t, {%1, %2};\nst.relaxed.sys.global.b128 [%0], t;}" ::"l"(p), "l"(b.low), "l"(b.high) : "memory");
}
DEV uint4 load_peer_word(const uint4 *p)
{
  bits128 b;
  asm volatile("{.reg .b128 t;\nld.relaxed.sys.global.b128 t, [%2];\nmov.b128 {%0, %1}, t;}" : "=l"(b.low), "=l"(b.high) : "l"(p) : "memory");
  return word_of(b);
}
DEV void store_signal(u32 *p, u32 v) { asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory"); }
DEV u32 load_signal(const u32 *p)
{
  u32 v;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}

// ---- counters and flags ----
DEV u32 acquire(const u32 *p)
{
  u32 v;
  asm volatile("ld.acquire.gpu.global.L2::cache_hint.u32 %0, [%1], %2;" : "=r"(v) : "l"(p), STAY : "memory");
  return v;
}
DEV void release_add(u32 *p, u32 v) { asm volatile("red.release.gpu.global.add.L2::cache_hint.u32 [%0], %1, %2;" ::"l"(p), "r"(v), STAY : "memory"); }
DEV void release_set(u32 *p, u32 v) { asm volatile("st.release.gpu.global.L2::cache_hint.u32 [%0], %1, %2;" ::"l"(p), "r"(v), STAY : "memory"); }
DEV void fence_proxy() { asm volatile("fence.proxy.async;" ::: "memory"); }

// ---- data that other blocks write within the launch: relaxed accesses in L2, never constant loads ----
DEV float4 load4_relaxed(const void *p)
{
  float4 v;
  asm volatile("ld.relaxed.gpu.global.L2::cache_hint.v4.f32 {%0, %1, %2, %3}, [%4], %5;"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "l"(p), STAY
               : "memory");
  return v;
}
DEV float load_relaxed(const float *p)
{
  float v;
  asm volatile("ld.relaxed.gpu.global.L2::cache_hint.f32 %0, [%1], %2;" : "=f"(v) : "l"(p), STAY : "memory");
  return v;
}
DEV int load_relaxed(const int *p)
{
  int v;
  asm volatile("ld.relaxed.gpu.global.L2::cache_hint.s32 %0, [%1], %2;" : "=r"(v) : "l"(p), STAY : "memory");
  return v;
}
DEV float load_relaxed(const bf16 *p)
{
  unsigned short v;
  asm volatile("ld.relaxed.gpu.global.L2::cache_hint.u16 %0, [%1], %2;" : "=h"(v) : "l"(p), STAY : "memory");
  return __uint_as_float((u32)v << 16);
}
DEV void store_relaxed(bf16 *p, bf16 v)
{
  asm volatile("st.relaxed.gpu.global.L2::cache_hint.u16 [%0], %1, %2;" ::"l"(p), "h"(v.bits), STAY : "memory");
}
DEV void store_relaxed(float *p, float v)
{
  asm volatile("st.relaxed.gpu.global.L2::cache_hint.f32 [%0], %1, %2;" ::"l"(p), "f"(v), STAY : "memory");
}
DEV void store4_relaxed(void *p, uint4 v)
{
  asm volatile("st.relaxed.gpu.global.L2::cache_hint.v4.u32 [%0], {%1, %2, %3, %4}, %5;" ::"l"(p), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w), STAY
               : "memory");
}

// ---- constants that all blocks read ----
DEV float constant(const float *p)
{
  float v;
  asm("ld.global.L2::cache_hint.f32 %0, [%1], %2;" : "=f"(v) : "l"(p), STAY);
  return v;
}
DEV float2 constant(const float2 *p)
{
  float2 v;
  asm("ld.global.L2::cache_hint.v2.f32 {%0, %1}, [%2], %3;" : "=f"(v.x), "=f"(v.y) : "l"(p), STAY);
  return v;
}
DEV float constant(const bf16 *p)
{
  unsigned short v;
  asm("ld.global.L2::cache_hint.u16 %0, [%1], %2;" : "=h"(v) : "l"(p), STAY);
  return __uint_as_float((u32)v << 16);
}

// ---- the watchdog ----
DEV u64 now_ns()
{
  u64 t;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
  return t;
}
DEV u32 look(const u32 *p) { return *(const volatile u32 *)p; }
DEV bool claim(u32 *p) { return atomicCAS(p, 0u, 1u) == 0; }

// ---- stages ----
typedef u64 stage_barrier;
DEV void stage_init(stage_barrier *b, int n) { asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_at(b)), "r"(n) : "memory"); }
DEV void stage_inits_end() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
DEV bool stage_passed(stage_barrier *b, u32 parity)
{
  u32 done;
  asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
               : "=r"(done)
               : "r"(shared_at(b)), "r"(parity)
               : "memory");
  return done;
}
DEV void stage_arrive(stage_barrier *b) { asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(shared_at(b)) : "memory"); }
DEV void stage_expect(stage_barrier *b, int bytes)
{
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(shared_at(b)), "r"(bytes) : "memory");
}
// `once`: no other block reads these bytes.
DEV void stage_copy(void *to, const void *from, int bytes, stage_barrier *b, bool once)
{
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(shared_at(to)),
               "l"(from), "r"(bytes), "r"(shared_at(b)), "l"(once ? 0x12F0000000000000ull : 0x1000000000000000ull)
               : "memory");
}

// Prefetches bytes into L2.
DEV void prefetch_l2(const void *from, int bytes)
{
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes) : "memory");
}

// ---- a counter of the block ----
DEV void done_add(u32 *p, u32 v) { asm volatile("red.release.cta.shared.add.u32 [%0], %1;" ::"r"(shared_at(p)), "r"(v) : "memory"); }
DEV u32 done_look(const u32 *p)
{
  u32 v;
  asm volatile("ld.acquire.cta.shared.u32 %0, [%1];" : "=r"(v) : "r"(shared_at(p)) : "memory");
  return v;
}
DEV void sleep_briefly() { asm volatile("nanosleep.u32 40;"); }

// ---- threads of a block ----
DEV void sync_block() { __syncthreads(); }
DEV void sync_consumers() { asm volatile("bar.sync 1, %0;" ::"n"(THREADS) : "memory"); }
DEV void sync_warp() { __syncwarp(); }
DEV float shuffle_xor(float x, int mask) { return __shfl_xor_sync(~0u, x, mask); }
DEV int shuffle_xor(int x, int mask) { return __shfl_xor_sync(~0u, x, mask); }
DEV int uniform(int x) { return __shfl_sync(~0u, x, 0); } // a number that is the same in all threads of a warp, so that the compiler knows it
DEV bool any_of_warp(bool x) { return __any_sync(~0u, x); }

// ---- tensor cores: c[16][8] += a[16][16] b[16][8], bf16; fragments of mma.m16n8k16 ----
DEV void mma(float (&c)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1)
{
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// ---- products by four warps together: wgmma, with both operands in shared memory ----
// An operand has rows of 64 bytes, 32 along k, in the 64-byte swizzle. It begins at a multiple of 512 bytes.
DEV u64 operand_of(const char *p) { return (shared_at(p) & 0x3ffffu) >> 4 | 1ull << 16 | 32ull << 32 | 2ull << 62; }
DEV void wgmma(float (&c)[2][1][4], u64 a, u64 b)
{
  asm volatile("wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7}, %8, %9, 1, 1, 1, 0, 0;"
               : "+f"(c[0][0][0]), "+f"(c[0][0][1]), "+f"(c[0][0][2]), "+f"(c[0][0][3]), "+f"(c[1][0][0]), "+f"(c[1][0][1]), "+f"(c[1][0][2]),
                 "+f"(c[1][0][3])
               : "l"(a), "l"(b));
}
DEV void wgmma(float (&c)[4][1][4], u64 a, u64 b)
{
  asm volatile("wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, %16, "
               "%17, 1, 1, 1, 0, 0;"
               : "+f"(c[0][0][0]), "+f"(c[0][0][1]), "+f"(c[0][0][2]), "+f"(c[0][0][3]), "+f"(c[1][0][0]), "+f"(c[1][0][1]), "+f"(c[1][0][2]),
                 "+f"(c[1][0][3]), "+f"(c[2][0][0]), "+f"(c[2][0][1]), "+f"(c[2][0][2]), "+f"(c[2][0][3]), "+f"(c[3][0][0]), "+f"(c[3][0][1]),
                 "+f"(c[3][0][2]), "+f"(c[3][0][3])
               : "l"(a), "l"(b));
}
DEV void wgmma(float (&c)[6][1][4], u64 a, u64 b)
{
  asm volatile("wgmma.mma_async.sync.aligned.m64n48k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, "
               "%17, %18, %19, %20, %21, %22, %23}, %24, %25, 1, 1, 1, 0, 0;"
               : "+f"(c[0][0][0]), "+f"(c[0][0][1]), "+f"(c[0][0][2]), "+f"(c[0][0][3]), "+f"(c[1][0][0]), "+f"(c[1][0][1]), "+f"(c[1][0][2]),
                 "+f"(c[1][0][3]), "+f"(c[2][0][0]), "+f"(c[2][0][1]), "+f"(c[2][0][2]), "+f"(c[2][0][3]), "+f"(c[3][0][0]), "+f"(c[3][0][1]),
                 "+f"(c[3][0][2]), "+f"(c[3][0][3]), "+f"(c[4][0][0]), "+f"(c[4][0][1]), "+f"(c[4][0][2]), "+f"(c[4][0][3]), "+f"(c[5][0][0]),
                 "+f"(c[5][0][1]), "+f"(c[5][0][2]), "+f"(c[5][0][3])
               : "l"(a), "l"(b));
}
DEV void wgmma_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEV void wgmma_end() { asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory"); }
// Adds the products of 64 rows of x and N columns of w, along half `half` of 32 of k. A thread has elements 0 and 1 of row LANE / 4, and 2 and 3 of
// the row eight further, of each eight columns; a warp has sixteen rows.
template <int N> DEV void multiply_wide(float (&c)[N / 8][1][4], const char *x, const char *w, int half)
{
  u64 a = operand_of(x) + half * 2, b = operand_of(w) + half * 2;
  if constexpr (N == 48) return wgmma(c, a, b);
#pragma unroll
  for (int j = 0; j + 4 <= N / 8; j += 4) wgmma(*(float (*)[4][1][4])c[j], a, b + j * 32);
  if (N % 32 >= 16) wgmma(*(float (*)[2][1][4])c[N / 32 * 4], a, b + N / 32 * 128);
}

// Loads four matrices of 8 x 8 bf16 from shared memory, transposed. Lane i gives the address of row i % 8 of matrix i / 8. A thread
// gets rows LANE % 4 * 2 and LANE % 4 * 2 + 1 of column LANE / 4 of each matrix.
DEV void load_transposed(u32 (&v)[4], const void *row)
{
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
               : "r"(shared_at(row))
               : "memory");
}

// ---- numbers ----
typedef float f32;
DEV float bits_float(u32 u) { return __uint_as_float(u); }
DEV u32 float_bits(float x) { return __float_as_uint(x); }
DEV float exp2_of(float x)
{
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
DEV float exp_of(float x) { return exp2_of(x * 1.44269504f); }
DEV float ratio(float x, float y) { return __fdividef(x, y); }
DEV float inverse_sqrt(float x) { return rsqrtf(x); }
DEV float to_float(float x) { return x; }
DEV float to_float(bf16 x) { return __uint_as_float((u32)x.bits << 16); }
DEV void store_as(float *p, float x) { *p = x; }
// Two numbers as bf16, x in the lower half. Converting them one by one would be slower.
DEV u32 pair_of(float x, float y)
{
  u32 pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(y), "f"(x));
  return pair;
}
DEV void store_as(bf16 *p, float x) { p->bits = (unsigned short)pair_of(x, 0); }

// Facts on which the design of the megakernel rests: latency of events between persistent blocks, rate of shared-memory pipelines,
// whether relaxed words of 16 bytes are torn, launch and first fill of a cooperative kernel.
//
//   nvcc -O3 -std=c++17 -gencode=arch=compute_90a,code=sm_90a -o facts bench/mega/facts.cu && ./facts
//
// Each line of the output is a row of bench/mega/facts_h200.csv: what, setting, median, least, most, unit, repeats. A poll that does not
// see its word within 2^26 tries ends the kernel with a trap.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <algorithm>
#include <functional>
#include <vector>

#define MUST(x)                                                       \
  do {                                                                \
    cudaError_t e_ = (x);                                             \
    if (e_ != cudaSuccess) {                                          \
      fprintf(stderr, "facts: %s: %s\n", #x, cudaGetErrorString(e_)); \
      exit(3);                                                        \
    }                                                                 \
  } while (0)

enum { THREADS = 256, WARPS = THREADS / 32, ROUNDS = 2000, REPEATS = 15, MOST_BLOCKS = 256 };

// ---- memory operations -----------------------------------------------------------------------------

__device__ void add_release(unsigned *p) { asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(p) : "memory"); }
__device__ void store_release(unsigned *p, unsigned v) { asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory"); }
__device__ unsigned load_acquire(const unsigned *p)
{
  unsigned v;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}
__device__ void store_relaxed(uint2 *p, uint2 v)
{
  asm volatile("st.relaxed.gpu.global.v2.u32 [%0], {%1, %2};" ::"l"(p), "r"(v.x), "r"(v.y) : "memory");
}
__device__ uint2 load_relaxed(const uint2 *p)
{
  uint2 v;
  asm volatile("ld.relaxed.gpu.global.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(p) : "memory");
  return v;
}
__device__ void store_relaxed(uint4 *p, uint4 v)
{
  asm volatile("st.relaxed.gpu.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}
__device__ uint4 load_relaxed(const uint4 *p)
{
  uint4 v;
  asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p) : "memory");
  return v;
}
__device__ void store_data(float *p, float v) { asm volatile("st.global.f32 [%0], %1;" ::"l"(p), "f"(v) : "memory"); }
__device__ float4 load_data(const float4 *p)
{
  float4 v;
  asm volatile("ld.global.cg.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(p) : "memory");
  return v;
}
__device__ void give_up(int tries)
{
  if (tries > 1 << 26) asm volatile("trap;");
}
__device__ uint64_t now()
{
  uint64_t t;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
  return t;
}

// ---- events ----------------------------------------------------------------------------------------

enum kind { COUNTER, FLAG, TAGGED8, TAGGED16, KINDS };
static const char *const kind_names[KINDS] = {"counter", "flag", "tagged data of 8 bytes", "tagged data of 16 bytes"};

struct wires {
  unsigned *counter; // one, on a line of its own
  unsigned *flag;    // by block: one word each, side by side
  float *data;       // two versions
  uint2 *tagged8;    // two versions; a value and its epoch
  uint4 *tagged16;   // two versions; three values and their epoch
  float *sink;
};

template <kind K> __device__ void publish(const wires &w, int n, unsigned epoch, int lo, int hi, float value)
{
  int version = epoch & 1;
  if (K == TAGGED8) {
    for (int i = lo + threadIdx.x; i < hi; i += THREADS) store_relaxed(&w.tagged8[version * n + i], make_uint2(__float_as_uint(value), epoch));
    return;
  }
  if (K == TAGGED16) {
    uint4 word = make_uint4(__float_as_uint(value), __float_as_uint(value), __float_as_uint(value), epoch);
    for (int i = lo / 3 + threadIdx.x; i < hi / 3; i += THREADS) store_relaxed(&w.tagged16[version * (n / 3) + i], word);
    return;
  }
  for (int i = lo + threadIdx.x; i < hi; i += THREADS) store_data(&w.data[version * n + i], value);
  __syncthreads();
  if (threadIdx.x == 0) K == COUNTER ? add_release(w.counter) : store_release(&w.flag[blockIdx.x], epoch);
}

template <kind K> __device__ float consume(const wires &w, int n, unsigned epoch, float *tile)
{
  int version = epoch & 1, tries = 0;
  float sum = 0;
  if (K == TAGGED8) {
    for (int i = threadIdx.x; i < n; i += THREADS) {
      uint2 v = load_relaxed(&w.tagged8[version * n + i]);
      while (v.y != epoch) give_up(++tries), v = load_relaxed(&w.tagged8[version * n + i]);
      sum += __uint_as_float(v.x);
    }
  } else if (K == TAGGED16) {
    for (int i = threadIdx.x; i < n / 3; i += THREADS) {
      uint4 v = load_relaxed(&w.tagged16[version * (n / 3) + i]);
      while (v.w != epoch) give_up(++tries), v = load_relaxed(&w.tagged16[version * (n / 3) + i]);
      sum += __uint_as_float(v.x) + __uint_as_float(v.y) + __uint_as_float(v.z);
    }
  } else {
    if (K == COUNTER && threadIdx.x == 0)
      while (load_acquire(w.counter) < epoch * gridDim.x) give_up(++tries);
    if (K == FLAG && threadIdx.x < gridDim.x)
      while ((int)(load_acquire(&w.flag[threadIdx.x]) - epoch) < 0) give_up(++tries);
    __syncthreads();
    for (int i = threadIdx.x; i < n / 4; i += THREADS) {
      float4 v = load_data((const float4 *)&w.data[version * n] + i);
      sum += v.x + v.y + v.z + v.w;
    }
  }
  tile[threadIdx.x] = sum; // every thread of the consumer needs all: one trip through shared memory
  __syncthreads();
  return tile[(threadIdx.x * 7) % THREADS];
}

// Each round every block publishes its share of n values and waits for all n: a chain of as many dependencies as rounds.
template <kind K> __global__ void __launch_bounds__(THREADS) events(wires w, int n, int rounds)
{
  __shared__ float tile[THREADS];
  int unit = K == TAGGED16 ? 3 : 1, each = (n / unit + gridDim.x - 1) / gridDim.x * unit;
  int lo = min(n, (int)blockIdx.x * each), hi = min(n, lo + each);
  float value = 1;
  for (unsigned epoch = 1; epoch <= (unsigned)rounds; epoch++) {
    publish<K>(w, n, epoch, lo, hi, value);
    value = consume<K>(w, n, epoch, tile) * 1e-6f;
    __syncthreads();
  }
  if (threadIdx.x == 0) w.sink[blockIdx.x] = value;
}

// ---- timing ----------------------------------------------------------------------------------------

static cudaEvent_t begin_event, end_event;

static float timed(const std::function<void()> &work)
{
  float ms;
  MUST(cudaEventRecord(begin_event));
  work();
  MUST(cudaEventRecord(end_event));
  MUST(cudaEventSynchronize(end_event));
  MUST(cudaGetLastError());
  MUST(cudaEventElapsedTime(&ms, begin_event, end_event));
  return ms;
}

static void row(const char *what, const char *setting, std::vector<double> v, const char *unit)
{
  std::sort(v.begin(), v.end());
  printf("%s,%s,%.4g,%.4g,%.4g,%s,%zu\n", what, setting, v[v.size() / 2], v.front(), v.back(), unit, v.size());
  fflush(stdout);
}

template <kind K> static void measure_events(wires w, int blocks, int n)
{
  std::vector<double> us;
  char setting[96];
  for (int r = 0; r < REPEATS + 2; r++) {
    int rounds = ROUNDS;
    MUST(cudaMemset(w.counter, 0, 128));
    MUST(cudaMemset(w.flag, 0, MOST_BLOCKS * 4));
    MUST(cudaMemset(w.tagged8, 0, 2 * 8 * (size_t)n));
    MUST(cudaMemset(w.tagged16, 0, 2 * 16 * (size_t)(n / 3 + 1)));
    void *args[] = {&w, &n, &rounds};
    float ms = timed([&] { MUST(cudaLaunchCooperativeKernel((const void *)events<K>, dim3(blocks), dim3(THREADS), args, 0, nullptr)); });
    if (r >= 2) us.push_back(1e3 * ms / rounds);
  }
  snprintf(setting, sizeof setting, "%s; %d blocks to %d; %d values", kind_names[K], blocks, blocks, n);
  row("event", setting, us, "us");
}

static void all_events(int blocks)
{
  const int sizes[] = {3 * 132, 2048 / 12 * 12, 4096 / 12 * 12, 8192 / 12 * 12};
  wires w;
  MUST(cudaMalloc(&w.counter, 128));
  MUST(cudaMalloc(&w.flag, MOST_BLOCKS * 4));
  MUST(cudaMalloc(&w.data, 2 * 4 * 8192));
  MUST(cudaMalloc(&w.tagged8, 2 * 8 * 8192));
  MUST(cudaMalloc(&w.tagged16, 2 * 16 * 8192));
  MUST(cudaMalloc(&w.sink, MOST_BLOCKS * 4));
  for (int n : sizes) {
    measure_events<COUNTER>(w, blocks, n);
    measure_events<FLAG>(w, blocks, n);
    measure_events<TAGGED8>(w, blocks, n);
    measure_events<TAGGED16>(w, blocks, n);
  }
}

// ---- pipelines -------------------------------------------------------------------------------------

__device__ uint32_t shared_of(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }
__device__ void barrier_init(uint64_t *b, int count)
{
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_of(b)), "r"(count) : "memory");
}
__device__ void barrier_wait(uint64_t *b, unsigned parity)
{
  uint32_t done = 0;
  for (int tries = 0; !done; give_up(++tries))
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done)
                 : "r"(shared_of(b)), "r"(parity)
                 : "memory");
}
__device__ void barrier_arrive(uint64_t *b) { asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(shared_of(b)) : "memory"); }
__device__ void bulk_load(void *to, const void *from, uint32_t bytes, uint64_t *b)
{
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(shared_of(b)), "r"(bytes) : "memory");
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared_of(to)), "l"(from), "r"(bytes),
               "r"(shared_of(b))
               : "memory");
}

enum { MOST_STAGES = 64 };

// One producer thread, and warps that read every byte of each stage once. Block b takes pieces b, b + blocks, ... of `pieces`.
__global__ void __launch_bounds__(THREADS + 32)
    pipeline(const char *from, int64_t pieces, int stage_bytes, int stages, unsigned *sink, uint64_t *first)
{
  extern __shared__ __align__(128) char shared[];
  __shared__ uint64_t full[MOST_STAGES], empty[MOST_STAGES];
  uint64_t begin = now();
  if (threadIdx.x == 0) {
    for (int i = 0; i < stages; i++) barrier_init(&full[i], 1), barrier_init(&empty[i], WARPS);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  int64_t mine = (pieces - blockIdx.x + gridDim.x - 1) / gridDim.x;
  if (threadIdx.x >= THREADS) {
    if (threadIdx.x != THREADS) return;
    for (int64_t i = 0; i < mine; i++) {
      int s = (int)(i % stages);
      if (i >= stages) barrier_wait(&empty[s], (unsigned)(i / stages - 1) & 1);
      bulk_load(shared + (size_t)s * stage_bytes, from + (blockIdx.x + i * gridDim.x) * stage_bytes, (uint32_t)stage_bytes, &full[s]);
    }
    return;
  }
  unsigned x = 0;
  for (int64_t i = 0; i < mine; i++) {
    int s = (int)(i % stages);
    barrier_wait(&full[s], (unsigned)(i / stages) & 1);
    if (i == 0 && first && threadIdx.x == 0) first[blockIdx.x] = now() - begin;
    const uint4 *p = (const uint4 *)(shared + (size_t)s * stage_bytes);
    for (int k = threadIdx.x; k < stage_bytes / 16; k += THREADS) x ^= p[k].x ^ p[k].y ^ p[k].z ^ p[k].w;
    __syncwarp();
    if (threadIdx.x % 32 == 0) barrier_arrive(&empty[s]);
  }
  if (x == 0x12345678) sink[0] = x;
}

static void all_pipelines(int blocks)
{
  const size_t bytes = (size_t)2 << 30;
  char *from;
  unsigned *sink;
  MUST(cudaMalloc(&from, bytes));
  MUST(cudaMalloc(&sink, 128));
  MUST(cudaMemset(from, 0x5a, bytes));
  MUST(cudaFuncSetAttribute(pipeline, cudaFuncAttributeMaxDynamicSharedMemorySize, 224 * 1024));
  for (int kb : {32, 64, 96, 128, 160, 192})
    for (int stage : {4, 8, 16, 32}) {
      std::vector<double> rate;
      char setting[96];
      if (kb / stage < 2 || kb / stage > MOST_STAGES) continue;
      for (int r = 0; r < REPEATS + 2; r++) {
        float ms = timed(
            [&] { pipeline<<<blocks, THREADS + 32, kb * 1024>>>(from, (int64_t)(bytes / (stage * 1024)), stage * 1024, kb / stage, sink, nullptr); });
        if (r >= 2) rate.push_back(bytes / (ms * 1e-3) / 1e12);
      }
      snprintf(setting, sizeof setting, "%d KB in stages of %d KB", kb, stage);
      row("pipeline", setting, rate, "TB/s");
    }
  std::vector<double> copy;
  for (int r = 0; r < REPEATS + 2; r++) {
    float ms = timed([&] { MUST(cudaMemcpyAsync(from, from + bytes / 2, bytes / 2, cudaMemcpyDeviceToDevice)); });
    if (r >= 2) copy.push_back(bytes / (ms * 1e-3) / 1e12);
  }
  row("copy", "cudaMemcpy, bytes read and written", copy, "TB/s");
}

// ---- torn words ------------------------------------------------------------------------------------

// Even blocks write words whose four parts are equal; odd blocks read them and count those whose parts differ.
__global__ void __launch_bounds__(THREADS)
    torn(uint4 *word, int words, int rounds, unsigned long long *read, unsigned long long *differ, unsigned *changes)
{
  unsigned long long bad = 0;
  unsigned seen = 0, last = 0;
  if (blockIdx.x % 2 == 0) {
    for (int r = 1; r <= rounds; r++)
      for (int i = threadIdx.x % words; i < words; i += THREADS) {
        unsigned v = (unsigned)r * gridDim.x + blockIdx.x;
        store_relaxed(&word[i], make_uint4(v, v, v, v));
      }
    return;
  }
  for (int r = 0; r < rounds; r++) {
    uint4 v = load_relaxed(&word[(threadIdx.x + r) % words]);
    bad += v.x != v.y || v.x != v.z || v.x != v.w;
    seen += v.x != last, last = v.x;
  }
  atomicAdd(read, (unsigned long long)rounds), atomicAdd(differ, bad), atomicAdd(changes, seen);
}

static void all_torn(int blocks)
{
  uint4 *word;
  unsigned long long *count, host[2];
  unsigned *changes, seen;
  MUST(cudaMalloc(&word, 16 * 256));
  MUST(cudaMalloc(&count, 16));
  MUST(cudaMalloc(&changes, 4));
  for (int words : {1, 8, 64, 256}) {
    char setting[128];
    MUST(cudaMemset(word, 0, 16 * 256));
    MUST(cudaMemset(count, 0, 16));
    MUST(cudaMemset(changes, 0, 4));
    torn<<<blocks, THREADS>>>(word, words, 40000, count, count + 1, changes);
    MUST(cudaGetLastError());
    MUST(cudaDeviceSynchronize());
    MUST(cudaMemcpy(host, count, 16, cudaMemcpyDeviceToHost));
    MUST(cudaMemcpy(&seen, changes, 4, cudaMemcpyDeviceToHost));
    snprintf(setting, sizeof setting, "16-byte relaxed words; %d words; %llu reads; %u changes seen", words, host[0], seen);
    row("torn", setting, {(double)host[1]}, "words");
  }
}

// ---- launch ----------------------------------------------------------------------------------------

__global__ void __launch_bounds__(THREADS + 32) nothing(unsigned *sink)
{
  if (sink && threadIdx.x > 4096) sink[0] = 1;
}

static void all_launches(int blocks)
{
  char *from;
  unsigned *sink;
  uint64_t *first, host[MOST_BLOCKS];
  std::vector<double> plain, cooperative, fill;
  MUST(cudaMalloc(&from, 64 << 20));
  MUST(cudaMalloc(&sink, 128));
  MUST(cudaMalloc(&first, 8 * MOST_BLOCKS));
  MUST(cudaFuncSetAttribute(nothing, cudaFuncAttributeMaxDynamicSharedMemorySize, 200 * 1024));
  MUST(cudaFuncSetAttribute(pipeline, cudaFuncAttributeMaxDynamicSharedMemorySize, 224 * 1024));
  for (int r = 0; r < 20 * REPEATS; r++) {
    void *args[] = {&sink};
    const int n = 20;
    float a = timed([&] {
      for (int i = 0; i < n; i++) nothing<<<blocks, THREADS + 32, 200 * 1024>>>(sink);
    });
    float b = timed([&] {
      for (int i = 0; i < n; i++)
        MUST(cudaLaunchCooperativeKernel((const void *)nothing, dim3(blocks), dim3(THREADS + 32), args, 200 * 1024, nullptr));
    });
    if (r > 20) plain.push_back(1e3 * a / n), cooperative.push_back(1e3 * b / n);
  }
  for (int r = 0; r < 5 * REPEATS; r++) {
    MUST(cudaMemset(from, r, 64 << 20)); // the caches hold other lines
    pipeline<<<blocks, THREADS + 32, 160 * 1024>>>(from, blocks * 10, 16384, 10, sink, first);
    MUST(cudaGetLastError());
    MUST(cudaMemcpy(host, first, 8 * (size_t)blocks, cudaMemcpyDeviceToHost));
    uint64_t most = *std::max_element(host, host + blocks);
    if (r > 4) fill.push_back(1e-3 * (double)most);
  }
  row("launch", "empty kernel of 200 KB, one after the other", plain, "us");
  row("launch", "the same, cooperative", cooperative, "us");
  row("first fill", "from the start of the last block to its first stage of 16 KB, of a pipeline of 160 KB", fill, "us");
}

int main()
{
  cudaDeviceProp p;
  MUST(cudaGetDeviceProperties(&p, 0));
  MUST(cudaEventCreate(&begin_event));
  MUST(cudaEventCreate(&end_event));
  printf("# %s, %d multiprocessors\n", p.name, p.multiProcessorCount);
  printf("what,setting,median,least,most,unit,repeats\n");
  all_events(p.multiProcessorCount);
  all_pipelines(p.multiProcessorCount);
  all_torn(p.multiProcessorCount);
  all_launches(p.multiProcessorCount);
  return 0;
}

// All-reduce of a vector of bf16 inside a persistent kernel, over peer memory: words of 16 bytes hold six values and their epoch, each rank
// pushes its words into a slot on every rank, and every rank adds the slots in rank order. So all ranks get the same bits.
//
//   nvcc -O3 -std=c++17 -gencode=arch=compute_90a,code=sm_90a -o all_reduce bench/mega/all_reduce.cu && ./all_reduce [--gpus N] [--checked ROUNDS]
//
// First each form runs `--checked` rounds (100,000 unless given), and every value that a thread gets is compared with the sum of the values
// that all ranks had to send; a torn word would show there. Then it is timed. Each line of the output is what, setting, median, least, most,
// unit, repeats. A poll that sees no word for two seconds ends the kernel, and the program.
#include <cuda_bf16.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define MUST(x)                                                            \
  do {                                                                     \
    cudaError_t e_ = (x);                                                  \
    if (e_ != cudaSuccess) {                                               \
      fprintf(stderr, "all_reduce: %s: %s\n", #x, cudaGetErrorString(e_)); \
      exit(3);                                                             \
    }                                                                      \
  } while (0)

enum { THREADS = 256, MOST_RANKS = 8, PER_WORD = 6, ROUNDS = 5000, REPEATS = 9, AT_ONCE = 4 };
const unsigned long long PATIENCE = 2000000000ull; // nanoseconds

// ---- words -----------------------------------------------------------------------------------------

__device__ void push(uint4 *p, uint4 v)
{
  asm volatile("st.relaxed.sys.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}
__device__ uint4 look(const uint4 *p)
{
  uint4 v;
  asm volatile("ld.relaxed.sys.global.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p) : "memory");
  return v;
}
__device__ unsigned long long now()
{
  unsigned long long t;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
  return t;
}

struct wires {                                  // what a rank knows of all ranks
  uint4 *slot[MOST_RANKS], *result[MOST_RANKS]; // [version][source][word]; [version][word]
  uint4 *local;                                 // [version][word], of this rank alone
  unsigned *failed[MOST_RANKS];                 // a poll was late
  unsigned *digest;                             // [block][thread]
  unsigned long long *wrong;                    // values that are not what they had to be
  int rank, words;
};

__device__ uint4 poll(const wires &w, const uint4 *p, uint4 v, unsigned epoch)
{
  unsigned long long since = 0;
  for (int tries = 1; v.w != epoch; tries++, v = look(p)) {
    if (tries % 256) continue;
    if (!since) since = now();
    if (now() - since < PATIENCE && !*(volatile unsigned *)w.failed[w.rank]) continue;
    for (int r = 0; r < MOST_RANKS && w.failed[r]; r++) *(volatile unsigned *)w.failed[r] = 1;
    return v;
  }
  return v;
}

// Two values of a rank in a round: signs and mantissas as they come, sizes from 1/128 to 2.
__device__ unsigned two_values(int rank, int word, unsigned epoch, int part)
{
  unsigned h = ((unsigned)rank * 0x9e3779b9u ^ (unsigned)(word * 3 + part) * 0x85ebca6bu) + epoch * 0xc2b2ae35u;
  h ^= h >> 15, h *= 0x2c1b3c6du, h ^= h >> 12;
  return (h & 0x83ff83ffu) | 0x3c003c00u;
}
__device__ uint4 word_of(int rank, int word, unsigned epoch)
{
  return make_uint4(two_values(rank, word, epoch, 0), two_values(rank, word, epoch, 1), two_values(rank, word, epoch, 2), epoch);
}

__device__ float low(unsigned u) { return __uint_as_float(u << 16); }
__device__ float high(unsigned u) { return __uint_as_float(u & 0xffff0000u); }

template <int RANKS> __device__ unsigned sum_of_part(const unsigned (&u)[RANKS])
{
  float a = low(u[0]), b = high(u[0]);
#pragma unroll
  for (int r = 1; r < RANKS; r++) a += low(u[r]), b += high(u[r]);
  __nv_bfloat162 s = __floats2bfloat162_rn(a, b);
  return *(unsigned *)&s;
}
template <int RANKS> __device__ uint4 sum_of(const uint4 (&v)[RANKS], unsigned epoch)
{
  unsigned x[RANKS], y[RANKS], z[RANKS];
#pragma unroll
  for (int r = 0; r < RANKS; r++) x[r] = v[r].x, y[r] = v[r].y, z[r] = v[r].z;
  return make_uint4(sum_of_part(x), sum_of_part(y), sum_of_part(z), epoch);
}

struct seen { // by a thread
  unsigned digest;
  unsigned long long wrong;
};
template <int RANKS, bool CHECK> __device__ void take(seen &s, uint4 got, int word, unsigned epoch)
{
  s.digest = (s.digest ^ got.x ^ got.y * 3 ^ got.z * 5) * 0x01000193u;
  if constexpr (CHECK) {
    uint4 all[RANKS];
#pragma unroll
    for (int r = 0; r < RANKS; r++) all[r] = word_of(r, word, epoch);
    uint4 want = sum_of<RANKS>(all, epoch);
    s.wrong += (got.x != want.x) + (got.y != want.y) + (got.z != want.z);
  }
}

template <int RANKS> __device__ uint4 *slot_at(const wires &w, int rank, int source, unsigned epoch)
{
  return w.slot[rank] + (size_t)((epoch & 1) * RANKS + source) * w.words;
}
template <int RANKS> __device__ void push_to_all(const wires &w, int i, unsigned epoch)
{
  uint4 v = word_of(w.rank, i, epoch);
#pragma unroll
  for (int r = 0; r < RANKS; r++) push(slot_at<RANKS>(w, (w.rank + 1 + r) % RANKS, w.rank, epoch) + i, v);
}
template <int RANKS> __device__ uint4 sum_at(const wires &w, int i, unsigned epoch)
{
  uint4 v[RANKS];
#pragma unroll
  for (int r = 0; r < RANKS; r++) v[r] = look(slot_at<RANKS>(w, w.rank, r, epoch) + i);
#pragma unroll
  for (int r = 0; r < RANKS; r++) v[r] = poll(w, slot_at<RANKS>(w, w.rank, r, epoch) + i, v[r], epoch);
  return sum_of<RANKS>(v, epoch);
}

// ---- forms -----------------------------------------------------------------------------------------

// SLICE: a thread sends some words and needs the sums of these. TWO_SHOT: the same; a rank adds the words of its part, and sends the sums.
// FULL: every block sends some words and needs all sums, and adds all slots itself. HOPS: the same; the sender's block adds its words, and
// the others of its rank poll the sums. There every block sends something: that orders the reuse of its two versions.
enum form { SLICE, TWO_SHOT, FULL, HOPS, FORMS };
static const char *const form_names[FORMS] = {"one-shot, each thread its words", "two-shot, each thread its words",
                                              "one-shot, all blocks need all and add the slots",
                                              "one-shot, a block adds, all blocks of the rank poll the sums"};

template <int RANKS, bool CHECK> __device__ void slice_round(const wires &w, unsigned epoch, seen &s)
{
  for (int i = blockIdx.x * THREADS + threadIdx.x; i < w.words; i += gridDim.x * THREADS) push_to_all<RANKS>(w, i, epoch);
  for (int i = blockIdx.x * THREADS + threadIdx.x; i < w.words; i += gridDim.x * THREADS)
    take<RANKS, CHECK>(s, sum_at<RANKS>(w, i, epoch), i, epoch);
}

template <int RANKS, bool CHECK> __device__ void two_shot_round(const wires &w, unsigned epoch, seen &s)
{
  int part = (w.words + RANKS - 1) / RANKS;
  size_t version = (size_t)(epoch & 1) * w.words;
  for (int i = blockIdx.x * THREADS + threadIdx.x; i < w.words; i += gridDim.x * THREADS)
    push(slot_at<RANKS>(w, i / part, w.rank, epoch) + i, word_of(w.rank, i, epoch));
  for (int i = blockIdx.x * THREADS + threadIdx.x; i < w.words; i += gridDim.x * THREADS) {
    if (i / part != w.rank) continue;
    uint4 sum = sum_at<RANKS>(w, i, epoch);
#pragma unroll
    for (int r = 0; r < RANKS; r++) push(w.result[(w.rank + 1 + r) % RANKS] + version + i, sum);
  }
  for (int i = blockIdx.x * THREADS + threadIdx.x; i < w.words; i += gridDim.x * THREADS) {
    const uint4 *p = w.result[w.rank] + version + i;
    take<RANKS, CHECK>(s, poll(w, p, look(p), epoch), i, epoch);
  }
}

template <int RANKS, bool CHECK> __device__ void full_round(const wires &w, unsigned epoch, seen &s, bool hops)
{
  int lo = w.words * (int)blockIdx.x / (int)gridDim.x, hi = w.words * (int)(blockIdx.x + 1) / (int)gridDim.x;
  uint4 *local = w.local + (size_t)(epoch & 1) * w.words;
  for (int i = lo + threadIdx.x; i < hi; i += THREADS) push_to_all<RANKS>(w, i, epoch);
  for (int i = lo + threadIdx.x; i < hi && hops; i += THREADS) push(local + i, sum_at<RANKS>(w, i, epoch));
  for (int i = threadIdx.x; i < w.words; i += AT_ONCE * THREADS) {
    uint4 v[AT_ONCE][RANKS];
#pragma unroll
    for (int k = 0; k < AT_ONCE; k++)
#pragma unroll
      for (int r = 0; r < RANKS; r++)
        if (i + k * THREADS < w.words && (r == 0 || !hops))
          v[k][r] = look((hops ? local : slot_at<RANKS>(w, w.rank, r, epoch)) + i + k * THREADS);
#pragma unroll
    for (int k = 0; k < AT_ONCE; k++) {
      int at = i + k * THREADS;
      if (at >= w.words) continue;
#pragma unroll
      for (int r = 0; r < RANKS; r++)
        if (r == 0 || !hops) v[k][r] = poll(w, (hops ? local : slot_at<RANKS>(w, w.rank, r, epoch)) + at, v[k][r], epoch);
      take<RANKS, CHECK>(s, hops ? v[k][0] : sum_of<RANKS>(v[k], epoch), at, epoch);
    }
  }
  __syncthreads(); // all that a block needs is there
}

template <int RANKS, int FORM, bool CHECK> __global__ void __launch_bounds__(THREADS, 1) reduce(wires w, unsigned first, int rounds)
{
  seen s = {0, 0};
  __shared__ int dead;
  if (threadIdx.x == 0) dead = 0;
  __syncthreads();
  for (int r = 0; r < rounds && !dead; r++) {
    unsigned epoch = first + (unsigned)r;
    if (FORM == SLICE) slice_round<RANKS, CHECK>(w, epoch, s);
    if (FORM == TWO_SHOT) two_shot_round<RANKS, CHECK>(w, epoch, s);
    if (FORM == FULL || FORM == HOPS) full_round<RANKS, CHECK>(w, epoch, s, FORM == HOPS);
    if (r % 1024 == 1023) {
      __syncthreads();
      if (threadIdx.x == 0) dead = *(volatile unsigned *)w.failed[w.rank];
      __syncthreads();
    }
  }
  w.digest[blockIdx.x * THREADS + threadIdx.x] = s.digest;
  if (s.wrong) atomicAdd(w.wrong, s.wrong);
}

// ---- the host --------------------------------------------------------------------------------------

static int ranks, blocks_of_all;
static wires wire[MOST_RANKS];
static unsigned epoch = 1;
static bool fine = true;

template <class T> static T *zeroed(size_t n)
{
  T *p;
  MUST(cudaMalloc(&p, n * sizeof(T)));
  MUST(cudaMemset(p, 0, n * sizeof(T)));
  return p;
}

static void connect(int most_words)
{
  for (int i = 0; i < ranks; i++) {
    MUST(cudaSetDevice(i));
    for (int k = 0; k < ranks; k++) {
      int can = i == k;
      if (i != k) MUST(cudaDeviceCanAccessPeer(&can, i, k));
      if (!can) fprintf(stderr, "all_reduce: GPU %d cannot access memory of GPU %d\n", i, k), exit(3);
      if (i != k) MUST(cudaDeviceEnablePeerAccess(k, 0));
    }
    uint4 *slot = zeroed<uint4>((size_t)2 * ranks * most_words), *result = zeroed<uint4>((size_t)2 * most_words);
    unsigned *failed = zeroed<unsigned>(32);
    for (int k = 0; k < ranks; k++) wire[k].slot[i] = slot, wire[k].result[i] = result, wire[k].failed[i] = failed;
    wire[i].local = zeroed<uint4>((size_t)2 * most_words), wire[i].digest = zeroed<unsigned>((size_t)blocks_of_all * THREADS);
    wire[i].wrong = zeroed<unsigned long long>(1), wire[i].rank = i;
  }
}

// Words are forgotten, because another size puts them elsewhere.
static void forget(int words)
{
  for (int i = 0; i < ranks; i++) {
    MUST(cudaSetDevice(i));
    MUST(cudaMemset(wire[i].slot[i], 0, sizeof(uint4) * 2 * ranks * words));
    MUST(cudaMemset(wire[i].result[i], 0, sizeof(uint4) * 2 * words));
    MUST(cudaMemset(wire[i].local, 0, sizeof(uint4) * 2 * words));
    MUST(cudaMemset(wire[i].wrong, 0, 8));
    MUST(cudaDeviceSynchronize());
    wire[i].words = words;
  }
}

template <int RANKS, int FORM, bool CHECK> static float run_all(int blocks, int rounds)
{
  cudaEvent_t a, b;
  float ms = 0;
  for (int i = 0; i < ranks; i++) {
    MUST(cudaSetDevice(i));
    if (i == 0) MUST(cudaEventCreate(&a));
    if (i == 0) MUST(cudaEventCreate(&b));
    if (i == 0) MUST(cudaEventRecord(a));
    void *args[] = {&wire[i], &epoch, &rounds};
    MUST(cudaLaunchCooperativeKernel((const void *)reduce<RANKS, FORM, CHECK>, dim3(blocks), dim3(THREADS), args, 0, nullptr));
    if (i == 0) MUST(cudaEventRecord(b));
  }
  for (int i = 0; i < ranks; i++) {
    unsigned failed = 0;
    MUST(cudaSetDevice(i));
    MUST(cudaDeviceSynchronize());
    MUST(cudaMemcpy(&failed, wire[i].failed[i], 4, cudaMemcpyDeviceToHost));
    if (failed) fprintf(stderr, "all_reduce: a word did not come on GPU %d: %s\n", i, form_names[FORM]), exit(1);
  }
  MUST(cudaSetDevice(0));
  MUST(cudaEventElapsedTime(&ms, a, b));
  MUST(cudaEventDestroy(a));
  MUST(cudaEventDestroy(b));
  epoch += (unsigned)rounds;
  return ms;
}

template <int RANKS, int FORM> static void check(int blocks, int rounds, const char *setting)
{
  size_t n = (size_t)blocks * THREADS;
  std::vector<unsigned> digest[2];
  unsigned long long wrong = 0;
  bool same = true;
  run_all<RANKS, FORM, true>(blocks, rounds);
  for (int i = 0; i < ranks; i++) {
    unsigned long long x;
    std::vector<unsigned> &d = digest[i > 0];
    d.resize(n);
    MUST(cudaSetDevice(i));
    MUST(cudaMemcpy(&x, wire[i].wrong, 8, cudaMemcpyDeviceToHost));
    MUST(cudaMemcpy(d.data(), wire[i].digest, n * 4, cudaMemcpyDeviceToHost));
    wrong += x, same &= d == digest[0];
  }
  printf("checked,\"%s; %d rounds; %s\",%llu,%llu,%llu,wrong values,1\n", setting, rounds, same ? "the same bits on all ranks" : "OTHER BITS", wrong, wrong,
         wrong);
  fine &= same && !wrong;
}

template <int RANKS, int FORM> static void measure(int words, const char *what, int blocks, int checked)
{
  char setting[200];
  std::vector<double> us;
  snprintf(setting, sizeof setting, "%d GPUs; %s; %s; %d blocks", ranks, what, form_names[FORM], blocks);
  forget(words);
  check<RANKS, FORM>(blocks, checked, setting);
  for (int r = 0; r < REPEATS + 2; r++) {
    float ms = run_all<RANKS, FORM, false>(blocks, ROUNDS);
    if (r >= 2) us.push_back(1e3 * ms / ROUNDS);
  }
  std::sort(us.begin(), us.end());
  printf("all-reduce,\"%s\",%.3f,%.3f,%.3f,us,%zu\n", setting, us[us.size() / 2], us.front(), us.back(), us.size());
  fflush(stdout);
}

template <int RANKS> static void all(int checked)
{
  const struct {
    int rows, words;
    const char *what;
  } sizes[] = {{0, 1, "one word"}, {1, 683, "1 x 4096 bf16"}, {1, 1366, "1 x 4096 f32 (as many words)"}, {4, 2731, "4 x 4096 bf16"},
               {8, 5462, "8 x 4096 bf16"}, {64, 43691, "64 x 4096 bf16"}};
  for (auto &s : sizes) {
    int few = std::min(blocks_of_all, (s.words + THREADS - 1) / THREADS), spread = std::min(blocks_of_all, (s.words + 31) / 32);
    measure<RANKS, SLICE>(s.words, s.what, few, s.rows == 1 ? checked : checked / 10);
    if (spread != few) measure<RANKS, SLICE>(s.words, s.what, spread, checked / 10);
    if (s.rows) measure<RANKS, TWO_SHOT>(s.words, s.what, few, s.rows == 1 ? checked : checked / 10);
    if (s.rows != 1) continue;
    measure<RANKS, FULL>(s.words, s.what, blocks_of_all, checked / 2);
    measure<RANKS, HOPS>(s.words, s.what, blocks_of_all, checked / 2);
  }
}

int main(int argc, char **argv)
{
  int checked = 100000, all_gpus = 0;
  cudaDeviceProp prop;
  MUST(cudaGetDeviceCount(&all_gpus));
  ranks = std::min(all_gpus, (int)MOST_RANKS);
  for (int i = 1; i + 1 < argc; i += 2) {
    if (!strcmp(argv[i], "--gpus")) ranks = atoi(argv[i + 1]);
    else if (!strcmp(argv[i], "--checked")) checked = atoi(argv[i + 1]);
    else return fprintf(stderr, "%s: options are --gpus N and --checked ROUNDS\n", argv[0]), 2;
  }
  if (ranks > all_gpus || (ranks != 2 && ranks != 4 && ranks != 8) || checked < 10)
    return fprintf(stderr, "%s: 2, 4 or 8 GPUs, and there are %d; at least 10 rounds\n", argv[0], all_gpus), 2;
  MUST(cudaGetDeviceProperties(&prop, 0));
  blocks_of_all = prop.multiProcessorCount;
  connect(43691);
  printf("# %d x %s\nwhat,setting,median,least,most,unit,repeats\n", ranks, prop.name);
  if (ranks == 2) all<2>(checked);
  if (ranks == 4) all<4>(checked);
  if (ranks == 8) all<8>(checked);
  return !fine;
}

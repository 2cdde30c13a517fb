// Machine primitives of the kernel for a CPU. Each thread of each block is a fiber. All fibers are alive at once, and a seed determines their order.
// This checks the logic of the kernel. It says nothing about speed, and does not detect missing fences.
#include <algorithm>
#include <functional>
#include <memory>
#include <time.h>
#include <type_traits>

#define GLOBAL static
#define PER_RANK(type, name) static type name##_of[WORLD]
#define M M_of[RANK]
#define PEERS PEERS_of[RANK]
#define BY_NCCL BY_NCCL_of[RANK]
#define RANK (shim_me ? shim_me->block / WORKERS : shim_rank)
#define DEV inline
#define BODY static
#define APART static
#define PLAIN inline
#define HOST_TOO inline
#define KERNEL static void
#define TID (shim_me->tid)
#define WORKER (shim_me->block % WORKERS)
#define SHARED(type) (*(type *)shim_me->shared)

struct float2 {
  float x, y;
};
struct float4 {
  float x, y, z, w;
};
struct uint4 {
  u32 x, y, z, w;
};
static inline float2 make_float2(float x, float y) { return {x, y}; }
static inline uint4 make_uint4(u32 x, u32 y, u32 z, u32 w) { return {x, y, z, w}; }
using std::max;
using std::min;

// ---- fibers ----

struct shim_gate { // a barrier, which opens when all of its fibers have arrived; then the next round begins
  int come;
  u64 round;
};
struct shim_warp {
  shim_gate gate;
  u32 slot[2][32], part[2][32][6];
  const unsigned short *row[2][32];
};
struct shim_block {
  shim_gate consumers, all;
  std::vector<shim_warp> warps;
  std::vector<char> room;
};
struct shim_fiber : fiber {
  int tid, block;
  char *shared;
  shim_block *of;
  const shim_gate *at; // the gate at which the fiber waits for the end of `round`; or NULL
  u64 round;
};
static shim_fiber *shim_me;
static int shim_rank; // the rank that the host is working for
static std::function<void()> shim_kernel;

static inline void shim_yield() { fiber_yield(*shim_me); }
static inline void shim_pass(shim_gate &g, int want)
{
  if (++g.come == want) {
    g.come = 0, g.round++;
    return;
  }
  shim_me->at = &g, shim_me->round = g.round;
  while (g.round == shim_me->round) shim_yield();
  shim_me->at = NULL;
}
static void shim_begin()
{
  shim_kernel();
  shim_me->done = true;
  for (;;) shim_yield();
}

static u64 shim_random(u64 &s)
{
  s += 0x9e3779b97f4a7c15u;
  u64 z = (s ^ s >> 30) * 0xbf58476d1ce4e5b9u;
  return z ^ z >> 31;
}

// Words in flight to other ranks. They arrive in a random order, but words to one address keep their order.
struct shim_word {
  uint4 *to, v;
};
static std::vector<shim_word> shim_in_flight;

static void shim_arrive(size_t i)
{
  for (size_t k = 0; k < i; k++)
    if (shim_in_flight[k].to == shim_in_flight[i].to) i = k;
  *shim_in_flight[i].to = shim_in_flight[i].v;
  shim_in_flight.erase(shim_in_flight.begin() + (long)i);
}
static void shim_arrive_all()
{
  while (!shim_in_flight.empty()) shim_arrive(0);
}

// Stacks are reused between runs and not cleared.
static char *shim_stack(size_t i, size_t bytes)
{
  static std::vector<std::unique_ptr<char[]>> stacks;
  while (stacks.size() <= i) stacks.emplace_back(new char[bytes]);
  return stacks[i].get();
}

static void shim_run(int blocks, int threads, size_t bytes, std::function<void()> kernel)
{
  static u64 seed = getenv("MEGA_SHIM_SEED") ? strtoull(getenv("MEGA_SHIM_SEED"), NULL, 10) : 1;
  std::vector<shim_block> b((size_t)blocks);
  std::vector<shim_fiber> f((size_t)(blocks * threads));
  size_t left = f.size();
  shim_kernel = kernel;
  for (auto &x : b) x.consumers = x.all = {0, 0}, x.warps.resize((size_t)threads / 32), x.room.assign(bytes + 256, (char)0xa5);
  for (size_t i = 0; i < f.size(); i++) {
    shim_fiber &x = f[i];
    shim_block &of = b[i / (size_t)threads];
    x.tid = (int)(i % (size_t)threads), x.block = (int)(i / (size_t)threads), x.of = &of, x.at = NULL;
    x.shared = (char *)(((uintptr_t)of.room.data() + 127) / 128 * 128);
    fiber_open(x, shim_stack(i, 1 << 17), 1 << 17, shim_begin);
  }
  while (left) {
    size_t from = shim_random(seed) % f.size(), late = shim_in_flight.empty() ? 0 : shim_random(seed) % (shim_in_flight.size() + 1);
    for (size_t k = 0; k < late; k++) shim_arrive(shim_random(seed) % shim_in_flight.size());
    for (size_t k = 0; k < f.size(); k++) {
      shim_fiber &x = f[(from + k) % f.size()];
      if (x.done || (x.at && x.at->round == x.round)) continue;
      shim_me = &x;
      fiber_resume(x);
      left -= x.done;
    }
  }
  shim_me = NULL;
  shim_arrive_all();
}

// ---- the machine ----

static inline void store_word(uint4 *p, uint4 v) { *p = v; }
static inline uint4 load_word(const uint4 *p) { return shim_yield(), *p; }
static inline void store_peer_word(uint4 *p, uint4 v, int rank)
{
  if (rank == RANK)
    *p = v;
  else
    shim_in_flight.push_back({p, v});
}
static inline uint4 load_peer_word(const uint4 *p) { return load_word(p); }
static inline void store_signal(u32 *p, u32 v) { shim_arrive_all(), *p = v; }
static inline u32 load_signal(const u32 *p) { return shim_yield(), *p; }
static inline u32 acquire(const u32 *p) { return shim_yield(), *p; }
static inline void release_add(u32 *p, u32 v) { *p += v; }
static inline void release_set(u32 *p, u32 v) { *p = v; }
static inline void fence_proxy() {}
static inline void done_add(u32 *p, u32 v) { *p += v; }
static inline u32 done_look(const u32 *p) { return *p; }
static inline void sleep_briefly() { shim_yield(); }
static inline void launch_dependents() {}
static inline void wait_for_previous_launch() {}
static inline float4 load4_relaxed(const void *p)
{
  float4 v;
  memcpy(&v, p, sizeof v);
  return v;
}
static inline float load_relaxed(const float *p) { return *p; }
static inline int load_relaxed(const int *p) { return *p; }
static inline void store_relaxed(float *p, float v) { *p = v; }
static inline void store_relaxed(bf16 *p, bf16 v) { *p = v; }
static inline void store4_relaxed(void *p, uint4 v) { memcpy(p, &v, sizeof v); }
static inline u64 now_ns()
{
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); // processor time, so that deadlines also work on a busy machine
  return (u64)t.tv_sec * 1000000000u + (u64)t.tv_nsec;
}
static inline u32 look(const u32 *p) { return *p; }
static inline bool claim(u32 *p) { return *p ? false : (*p = 1, true); }

struct stage_barrier { // of the same size as on a GPU
  unsigned char want, come;
  unsigned short phase;
  int bytes;
};
static inline void shim_turn(stage_barrier *b)
{
  if (b->come == b->want && !b->bytes) b->come = 0, b->phase++;
}
static inline void stage_init(stage_barrier *b, int n) { *b = {(unsigned char)n, 0, 0, 0}; }
static inline void stage_inits_end() {}
static inline bool stage_passed(stage_barrier *b, u32 parity)
{
  if ((b->phase & 1) != parity) return true;
  return shim_yield(), (b->phase & 1) != parity;
}
static inline void stage_arrive(stage_barrier *b) { b->come++, shim_turn(b); }
static inline void stage_expect(stage_barrier *b, int bytes) { b->come++, b->bytes += bytes, shim_turn(b); }
static inline void stage_copy(void *to, const void *from, int bytes, stage_barrier *b, bool)
{
  if (((uintptr_t)to | (uintptr_t)from | (uintptr_t)bytes) & 15) fprintf(stderr, "a copy of %d bytes is not aligned\n", bytes), abort();
  memcpy(to, from, (size_t)bytes);
  b->bytes -= bytes, shim_turn(b);
}

static inline void prefetch_l2(const void *from, int bytes)
{
  if (((uintptr_t)from | (uintptr_t)bytes) & 15) fprintf(stderr, "%d bytes to fetch early are not aligned\n", bytes), abort();
}

static inline void sync_block() { shim_pass(shim_me->of->all, BLOCK_THREADS); }
static inline void sync_consumers() { shim_pass(shim_me->of->consumers, THREADS); }
static inline void sync_warp() { shim_pass(shim_me->of->warps[(size_t)TID / 32].gate, 32); }
static inline u32 shim_across(u32 x, int mask)
{
  shim_warp &w = shim_me->of->warps[(size_t)TID / 32];
  u64 half = w.gate.round & 1;
  w.slot[half][TID % 32] = x;
  shim_pass(w.gate, 32);
  return w.slot[half][(TID % 32) ^ mask];
}
static inline int shuffle_xor(int x, int mask) { return (int)shim_across((u32)x, mask); }
static inline float bits_float(u32 u)
{
  float x;
  memcpy(&x, &u, 4);
  return x;
}
static inline u32 float_bits(float x)
{
  u32 u;
  memcpy(&u, &x, 4);
  return u;
}
static inline float shuffle_xor(float x, int mask) { return bits_float(shim_across(float_bits(x), mask)); }

static inline int uniform(int x) { return x; }
static inline bool any_of_warp(bool x)
{
  int any = x;
  for (int m = 16; m; m /= 2) any |= shuffle_xor(any, m);
  return any;
}

static inline float shim_part(u32 pair, int half) { return bits_float(half ? pair & 0xffff0000u : pair << 16); }
static inline void mma(float (&c)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1)
{
  shim_warp &w = shim_me->of->warps[(size_t)TID / 32];
  auto &part = w.part[w.gate.round & 1];
  u32 mine[6] = {a0, a1, a2, a3, b0, b1};
  int lane = (int)TID % 32;
  memcpy(part[lane], mine, sizeof mine);
  shim_pass(w.gate, 32);
  for (int i = 0; i < 4; i++) { // rows lane / 4 and lane / 4 + 8, columns lane % 4 * 2 and the next
    const u32 *x = &part[lane / 4 * 4][i / 2], *y = &part[(lane % 4 * 2 + i % 2) * 4][4];
    float sum = c[i];
    for (int k = 0; k < 2; k++, x += 2, y++)
      for (int at = 0; at < 4 * 6; at += 6) // the words of four lanes
        if (x[at]) sum += shim_part(x[at], 0) * shim_part(y[at], 0) + shim_part(x[at], 1) * shim_part(y[at], 1);
    c[i] = sum;
  }
}

static inline void load_transposed(u32 (&v)[4], const void *row)
{
  shim_warp &w = shim_me->of->warps[(size_t)TID / 32];
  u64 half = w.gate.round & 1;
  int lane = (int)TID % 32;
  w.row[half][lane] = (const unsigned short *)row;
  if ((uintptr_t)row & 15) fprintf(stderr, "a row of a matrix is not aligned\n"), abort();
  shim_pass(w.gate, 32);
  for (int i = 0; i < 4; i++) {
    const unsigned short *const *r = &w.row[half][i * 8 + lane % 4 * 2];
    v[i] = r[0][lane / 4] | (u32)r[1][lane / 4] << 16;
  }
}

typedef float f32;
static inline float exp2_of(float x) { return exp2f(x); }
static inline float exp_of(float x) { return expf(x); }
static inline float ratio(float x, float y) { return x / y; }
static inline float inverse_sqrt(float x) { return 1 / sqrtf(x); }
static inline float to_float(float x) { return x; }
static inline float to_float(bf16 x) { return bits_float((u32)x.bits << 16); }
static inline float load_relaxed(const bf16 *p) { return to_float(*p); }
static inline float constant(const float *p) { return *p; }
static inline float2 constant(const float2 *p) { return *p; }
static inline float constant(const bf16 *p) { return to_float(*p); }
static inline void store_as(float *p, float x) { *p = x; }
static inline void store_as(bf16 *p, float x)
{
  u32 u = float_bits(x);
  p->bits = (unsigned short)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}
static inline u32 pair_of(float x, float y)
{
  bf16 a, b;
  store_as(&a, x), store_as(&b, y);
  return a.bits | (u32)b.bits << 16;
}

// ---- products by four warps together ----
static inline void wgmma_begin() {}
static inline void wgmma_end() {}
template <int N> static inline void multiply_wide(float (&c)[N / 8][1][4], const char *x, const char *w, int half)
{
  int lane = TID % 128, first = lane / 32 * 16 + lane % 32 / 4;
  auto at = [&](const char *p, int row, int k) {
    return bits_float((u32)((const bf16 *)(p + row * 64 + ((half * 2 + k / 8) ^ (row / 2 % 4)) * 16))[k % 8].bits << 16);
  };
  for (int j = 0; j < N / 8; j++)
    for (int i = 0; i < 4; i++)
      for (int k = 0; k < 16; k++) c[j][0][i] += at(x, first + i / 2 * 8, k) * at(w, j * 8 + lane % 4 * 2 + i % 2, k);
}

// ---- the host's side ----

template <class F> static void each(long long n, F f)
{
  for (long long i = 0; i < n; i++) f(i);
}
static inline void *device_room(size_t n) { return aligned_alloc(128, (n + 255) / 128 * 128); }
static inline void to_device(void *to, const void *from, size_t n) { memcpy(to, from, n); }
static inline void from_device(void *to, const void *from, size_t n) { memcpy(to, from, n); }
static inline void copy_device(void *to, const void *from, size_t n) { memcpy(to, from, n); }
static inline void zero_device(void *to, size_t n) { memset(to, 0, n); }
static inline void begin_device() {}
static inline void use_rank(int rank) { shim_rank = rank; }

// One launch for whole decode steps of Llama-3.2-1B, batch 1: a prototype of the megakernel with hand-written task bodies. It measures what
// the design can reach, and holds logits and tokens against plain kernels.
//
//   nvcc -O3 -std=c++17 -gencode=arch=compute_90a,code=sm_90a -o decode bench/mega/decode.cu && [TRACE=FILE] ./decode [context [steps]]
//
// Weights are bf16, drawn by a hash of their place. Each worker (block) has its own stream of weights in the order in which it consumes
// them, in stages of 16 KB: four rows of 2,048 columns, or one row of 8,192. One producer thread copies the stream into a ring in shared
// memory, and never waits for anything but room. Eight consumer warps multiply; each has an eighth of the columns. Results go from worker to worker as tagged
// words of 16 bytes (facts.cu), of which the last four bytes are the epoch. Every poll has a limit.
#include <cuda_bf16.h>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define MUST(x)                                                        \
  do {                                                                 \
    cudaError_t e_ = (x);                                              \
    if (e_ != cudaSuccess) {                                           \
      fprintf(stderr, "decode: %s: %s\n", #x, cudaGetErrorString(e_)); \
      exit(3);                                                         \
    }                                                                  \
  } while (0)

// ---- the model -------------------------------------------------------------------------------------

constexpr int HIDDEN = 2048, LAYERS = 16, HEADS = 32, KV_HEADS = 8, HEAD = 64, INNER = 8192, VOCAB = 128256, MOST_CONTEXT = 256;
constexpr float EPS = 1e-5f, THETA = 500000.f;
enum op { QKV, OUT, GATE_UP, DOWN, LOGITS, OPS };
constexpr int QKV_STAGES = (HEADS + 2 * KV_HEADS) * HEAD / 4, OUT_STAGES = HIDDEN / 4, GATE_STAGES = INNER / 2, DOWN_STAGES = HIDDEN,
              LOGITS_STAGES = VOCAB / 4;

__host__ __device__ constexpr int stages_of(int o)
{
  return o == QKV ? QKV_STAGES : o == OUT ? OUT_STAGES : o == GATE_UP ? GATE_STAGES : o == DOWN ? DOWN_STAGES : LOGITS_STAGES;
}

__host__ __device__ inline uint32_t mix(uint32_t x)
{
  x ^= x >> 16, x *= 0x7feb352du, x ^= x >> 15, x *= 0x846ca68bu, x ^= x >> 16;
  return x;
}

// A weight: the sum of two uniform numbers, of the variance 1 / columns.
__device__ inline __nv_bfloat16 weight(int o, int layer, int row, int k)
{
  uint32_t r = mix(mix(mix((uint32_t)(o * 64 + layer)) + (uint32_t)row) * 16384u + (uint32_t)k);
  float u = (float)(r & 0xffff) / 65536.f + (float)(r >> 16) / 65536.f - 1.f, scale = o == DOWN ? 0.027063f : 0.054127f;
  return __float2bfloat16(u * scale);
}
__device__ inline __nv_bfloat16 gamma_of(int norm, int k)
{
  return __float2bfloat16(1.f + 0.1f * ((float)(mix((uint32_t)(norm * 4096 + k)) & 0xffff) / 65536.f - 0.5f));
}

// Row r (0 to 3) of a stage: which row of the operator's matrix. Rotated pairs and gate with up are neighbours.
__host__ __device__ inline int row_of(int o, int stage, int r)
{
  if (o == QKV) return stage / 16 * HEAD + stage % 16 * 2 + r / 2 + r % 2 * 32;
  if (o == GATE_UP) return stage * 2 + r / 2 + r % 2 * INNER;
  return o == DOWN ? stage : stage * 4 + r;
}

// ---- placement -------------------------------------------------------------------------------------

// Stages [first, first + count) of an operator for worker w of n. The workers with one stage more differ by operator and layer.
struct share {
  int first, count;
};
constexpr unsigned WORKERS = 132; // multiprocessors of an H100 and an H200
__host__ __device__ inline share share_of(int o, int layer, int w)
{
  unsigned turned = (unsigned)w + (unsigned)(o * 26), n = (unsigned)stages_of(o);
  if (turned >= WORKERS) turned -= WORKERS;
  unsigned lo = turned * n / WORKERS, hi = (turned + 1) * n / WORKERS;
  return {(int)lo, (int)(hi - lo)};
}

constexpr int STAGE = 16384, RING = 11, WARPS = 8, THREADS = WARPS * 32;
constexpr int H_WORDS = 6, ACT_CHUNKS = 4, ACT_WORDS = 3 * ACT_CHUNKS, ATT_WORDS = 11;

struct memory {
  const char *stream; // of worker w: stream + w * stride
  int64_t stride;
  uint4 *qkv, *att, *hidden, *act, *best; // tagged words
  __nv_bfloat16 *keys, *values;           // [layer][kv head][position][HEAD]
  const __nv_bfloat16 *gamma;             // [2 * LAYERS + 1][HIDDEN]
  const float2 *turn;                     // [position][HEAD / 2]: cosine, sine
  const int64_t *logits_at;               // of a worker: byte offset of its logits stages
  float *logits;
  int *tokens;
  long long *trace;
};

// ---- memory operations -----------------------------------------------------------------------------

__device__ inline void put(uint4 *p, uint4 v)
{
  asm volatile("st.relaxed.gpu.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}
__device__ inline uint4 get(const uint4 *p)
{
  uint4 v;
  asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p) : "memory");
  return v;
}
__device__ inline uint4 await(const uint4 *p, unsigned epoch, uint4 v)
{
  for (int tries = 0; v.w != epoch; v = get(p))
    if (++tries > 1 << 24) asm volatile("trap;");
  return v;
}
__device__ inline long long now()
{
  long long t;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
  return t;
}
__device__ inline uint32_t shared_of(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }
__device__ inline void barrier_init(uint64_t *b, int n) { asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_of(b)), "r"(n) : "memory"); }
__device__ inline void barrier_wait(uint64_t *b, unsigned parity)
{
  uint32_t done = 0;
  for (int tries = 0; !done;) {
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done)
                 : "r"(shared_of(b)), "r"(parity)
                 : "memory");
    if (++tries > 1 << 24) asm volatile("trap;");
  }
}
__device__ inline void barrier_arrive(uint64_t *b) { asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(shared_of(b)) : "memory"); }
__device__ inline void bulk_load(void *to, const void *from, uint64_t *b)
{
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(shared_of(b)), "r"(STAGE) : "memory");
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(shared_of(to)),
               "l"(from), "r"(STAGE), "r"(shared_of(b)), "l"(0x12F0000000000000ull) // evict first
               : "memory");
}
__device__ inline void consumers() { asm volatile("bar.sync 1, 256;" ::: "memory"); }
__device__ inline float low(uint32_t u) { return __uint_as_float(u << 16); }
__device__ inline float high(uint32_t u) { return __uint_as_float(u & 0xffff0000u); }
__device__ inline uint32_t pair(float x, float y)
{
  __nv_bfloat162 v = __floats2bfloat162_rn(x, y);
  return *(uint32_t *)&v;
}

// ---- the kernel ------------------------------------------------------------------------------------

struct __align__(128) block_memory
{
  char ring[RING][STAGE];
  union {
    __nv_bfloat16 act[INNER];
    struct {
      __nv_bfloat16 value[MOST_CONTEXT][HEAD];
    } attend;
  };
  float hidden[HIDDEN];
  float part[2][WARPS][33];
  float query[HEAD], key[HEAD], fresh[HEAD], p[MOST_CONTEXT + 1], out[4][HEAD];
  float sum[WARPS], most[WARPS];
  unsigned long long bests[WARPS];
  uint64_t full[RING], empty[RING];
};

__constant__ memory M;
extern __shared__ __align__(128) char raw[];
#define S (*(block_memory *)raw) // not passed by reference: the compiler then knows that it is shared memory
#define WARP ((int)threadIdx.x / 32)
#define LANE ((int)threadIdx.x % 32)

struct progress {
  int stages; // of the stream that were consumed
  int chunk;  // which half of part[] is next
};

__device__ inline void dot8(float &acc, const uint4 &v, const float *x)
{
  acc = fmaf(low(v.x), x[0], acc), acc = fmaf(high(v.x), x[1], acc);
  acc = fmaf(low(v.y), x[2], acc), acc = fmaf(high(v.y), x[3], acc);
  acc = fmaf(low(v.z), x[4], acc), acc = fmaf(high(v.z), x[5], acc);
  acc = fmaf(low(v.w), x[6], acc), acc = fmaf(high(v.w), x[7], acc);
}

// Four lines of 2,048 columns of a stage.
__device__ inline void take_stage(int stage, uint4 line[4])
{
  unsigned slot = (unsigned)stage % RING, turn = (unsigned)stage / RING;
  barrier_wait(&S.full[slot], turn & 1);
  const char *p = S.ring[slot] + threadIdx.x * 16;
#pragma unroll
  for (int r = 0; r < 4; r++) line[r] = *(const uint4 *)(p + r * 4096);
  __syncwarp();
  if (threadIdx.x % 32 == 0) barrier_arrive(&S.empty[slot]);
}

// acc[i] for i < HALF ends with the sum of two lanes' acc[i], or acc[i + HALF] in the lanes with that bit. Templates, so that every index is known.
template <int HALF, int N> __device__ inline void halve(float (&acc)[N], int lane)
{
  bool upper = lane & HALF;
#pragma unroll
  for (int i = 0; i < HALF; i++) {
    float give = upper ? acc[i] : acc[i + HALF], keep = upper ? acc[i + HALF] : acc[i];
    acc[i] = keep + __shfl_xor_sync(~0u, give, HALF);
  }
  if constexpr (HALF > 1) halve<HALF / 2>(acc, lane);
}

// Lane i ends with the sum over lanes of acc[i % N].
template <int N> __device__ inline float reduce_rows(float (&acc)[N], int lane)
{
  halve<N / 2>(acc, lane);
  if constexpr (N == 16) acc[0] += __shfl_xor_sync(~0u, acc[0], 16);
  return acc[0];
}

// The sums of the chunk's rows over all warps, in the lanes of warp `who`; others get 0.
__device__ inline float join_warps(float mine, int half, int who)
{
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  float(*part)[33] = S.part[half];
  part[warp][lane] = mine;
  consumers();
  if (warp != who) return 0;
  float x = 0;
#pragma unroll
  for (int i = 0; i < WARPS; i++) x += part[i][lane];
  return x;
}

// Not inlined: registers that are live around the loop would be spilled in it, and no cache is left beside the ring.
__device__ __noinline__ float rows32_of(int from, int n, float4 a, float4 b, int half, int who)
{
  const float x[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
  float acc[32];
#pragma unroll
  for (int i = 0; i < 32; i++) acc[i] = 0;
#pragma unroll
  for (int k = 0; k < 8; k++)
    if (k < n) {
      uint4 line[4];
      take_stage(from + k, line);
#pragma unroll
      for (int r = 0; r < 4; r++) dot8(acc[k * 4 + r], line[r], x);
    }
  return join_warps(reduce_rows(acc, threadIdx.x % 32), half, who);
}

// Up to 8 stages of four rows.
__device__ inline float rows32(progress &t, int n, const float *x, int who)
{
  float y = rows32_of(t.stages, n, make_float4(x[0], x[1], x[2], x[3]), make_float4(x[4], x[5], x[6], x[7]), t.chunk, who);
  t.stages += n, t.chunk ^= 1;
  return y;
}

// Up to 16 stages of one row of 8,192 columns, which are in S.act.
__device__ __noinline__ float rows16_of(int from, int n, int half, int who)
{
  float x[4][8], acc[16];
#pragma unroll
  for (int r = 0; r < 4; r++) {
    uint4 u = *(const uint4 *)&S.act[r * 2048 + threadIdx.x * 8];
    x[r][0] = low(u.x), x[r][1] = high(u.x), x[r][2] = low(u.y), x[r][3] = high(u.y);
    x[r][4] = low(u.z), x[r][5] = high(u.z), x[r][6] = low(u.w), x[r][7] = high(u.w);
  }
#pragma unroll
  for (int k = 0; k < 16; k++) {
    acc[k] = 0;
    if (k < n) {
      uint4 line[4];
      float part[4] = {0, 0, 0, 0};
      take_stage(from + k, line);
#pragma unroll
      for (int r = 0; r < 4; r++) dot8(part[r], line[r], x[r]);
      acc[k] = part[0] + part[1] + (part[2] + part[3]);
    }
  }
  return join_warps(reduce_rows(acc, threadIdx.x % 32), half, who);
}

// The hidden state from all workers (rows of operator o); its norm's factor.
__device__ __noinline__ float receive_hidden(progress &t, int o, int layer, unsigned epoch)
{
  float square = 0;
  uint4 v[4];
#pragma unroll
  for (int k = 0; k < 4; k++) {
    int i = threadIdx.x + k * THREADS;
    if (i < H_WORDS * (int)WORKERS) v[k] = get(&M.hidden[i]);
  }
#pragma unroll
  for (int k = 0; k < 4; k++) {
    int i = threadIdx.x + k * THREADS;
    if (i >= H_WORDS * (int)WORKERS) continue;
    share a = share_of(o, layer, i / H_WORDS);
    int unit = o == DOWN ? 1 : 4, first = a.first * unit, rows = a.count * unit, at = i % H_WORDS * 3;
    if (at >= rows) continue;
    v[k] = await(&M.hidden[i], epoch, v[k]);
    float x[3] = {__uint_as_float(v[k].x), __uint_as_float(v[k].y), __uint_as_float(v[k].z)};
#pragma unroll
    for (int c = 0; c < 3; c++)
      if (at + c < rows) S.hidden[first + at + c] = x[c], square += x[c] * x[c];
  }
  for (int step = 16; step; step /= 2) square += __shfl_xor_sync(~0u, square, step);
  if (LANE == 0) S.sum[WARP] = square;
  consumers();
  square = 0;
  for (int i = 0; i < WARPS; i++) square += S.sum[i];
  return rsqrtf(square / HIDDEN + EPS);
}

// What this lane multiplies: its eight columns of the normalized hidden state, but for the norm's factor.
__device__ inline void take_hidden(progress &t, const uint4 &g, float *x)
{
  const float *h = &S.hidden[WARP * 256 + LANE * 8];
  float4 a = *(const float4 *)h, b = *(const float4 *)(h + 4);
  x[0] = a.x * low(g.x), x[1] = a.y * high(g.x), x[2] = a.z * low(g.y), x[3] = a.w * high(g.y);
  x[4] = b.x * low(g.z), x[5] = b.y * high(g.z), x[6] = b.z * low(g.w), x[7] = b.w * high(g.w);
}
__device__ inline uint4 gamma_at(progress &t, int norm) { return __ldg((const uint4 *)&M.gamma[norm * HIDDEN + WARP * 256 + LANE * 8]); }

// Row i of the chunk, in lane i of one warp, plus the residual: published three to a word. The residual of other rows stays.
__device__ inline void publish_hidden(progress &t, float x, int rows, int first, unsigned epoch)
{
  if (LANE < rows) x += S.hidden[first + LANE];
  float y = __shfl_sync(~0u, x, min(31, LANE * 3)), z = __shfl_sync(~0u, x, min(31, LANE * 3 + 1)), u = __shfl_sync(~0u, x, min(31, LANE * 3 + 2));
  if (LANE * 3 < rows)
    put(&M.hidden[(int)blockIdx.x * H_WORDS + LANE], make_uint4(__float_as_uint(y), __float_as_uint(z), __float_as_uint(u), epoch));
}

// ---- task bodies ----

__device__ __noinline__ void qkv_body(progress &t, int layer, int position, float factor, const uint4 &g, unsigned epoch)
{
  share a = share_of(QKV, layer, (int)blockIdx.x);
  float x[8];
  take_hidden(t, g, x);
  float y = rows32(t, a.count, x, 0) * factor;
  if (WARP) return;
  int stage = a.first + LANE / 4, i = stage % 16 * 2 + LANE / 2 % 2; // of the head's pairs
  float other = __shfl_xor_sync(~0u, y, 1);
  if (stage / 16 < HEADS + KV_HEADS) {
    float2 turn = M.turn[position * (HEAD / 2) + i];
    y = LANE % 2 ? y * turn.x + other * turn.y : y * turn.x - other * turn.y;
  }
  uint32_t both = pair(y, __shfl_down_sync(~0u, y, 1)), next = __shfl_down_sync(~0u, both, 2);
  if (LANE % 4 == 0 && LANE / 4 < a.count) put(&M.qkv[stage], make_uint4(both, next, 0, epoch));
}

// The cached values of the head that this worker attends with; the last reader of S.act has passed a barrier.
__device__ inline void fetch_values(int layer, int position)
{
  int64_t base = (((int64_t)layer * KV_HEADS + (int)blockIdx.x / 4 / (HEADS / KV_HEADS)) * MOST_CONTEXT) * HEAD;
  for (int i = threadIdx.x; i < position * 8; i += THREADS)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_of((uint4 *)S.attend.value + i)), "l"(&M.values[base + (int64_t)i * 8])
                 : "memory");
}

// One query head for each of the first HEADS * 4 workers whose number is divisible by four.
__device__ __noinline__ void attention_body(progress &t, int layer, int position, unsigned epoch)
{
  int head = (int)blockIdx.x / 4, kv = head / (HEADS / KV_HEADS), at = threadIdx.x;
  int64_t base = (((int64_t)layer * KV_HEADS + kv) * MOST_CONTEXT) * HEAD;
  uint4 k[8];
#pragma unroll
  for (int i = 0; i < 8; i++)
    if (at < position) k[i] = __ldcg((const uint4 *)&M.keys[base + (int64_t)at * HEAD + i * 8]);
  if (at < 48) {
    int which = at / 16, stage = (which == 0 ? head : which == 1 ? HEADS + kv : HEADS + KV_HEADS + kv) * 16 + at % 16;
    uint4 v = await(&M.qkv[stage], epoch, get(&M.qkv[stage]));
    float *to = which == 0 ? S.query : which == 1 ? S.key : S.fresh;
    int i = at % 16 * 2;
    to[i] = low(v.x), to[i + 32] = high(v.x), to[i + 1] = low(v.y), to[i + 33] = high(v.y);
  }
  asm volatile("cp.async.wait_all;" ::: "memory");
  consumers();
  float score = -INFINITY;
  if (at < position) {
    score = 0;
#pragma unroll
    for (int i = 0; i < 8; i++) dot8(score, k[i], &S.query[i * 8]);
  }
  float own = 0; // the score of this position with itself
  for (int i = LANE; i < HEAD; i += 32) own += S.query[i] * S.key[i];
  for (int step = 16; step; step /= 2) own += __shfl_xor_sync(~0u, own, step);
  score *= 0.125f, own *= 0.125f;
  float most = score;
  for (int step = 16; step; step /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, step));
  if (LANE == 0) S.most[WARP] = most;
  consumers();
  most = own;
  for (int i = 0; i < WARPS; i++) most = fmaxf(most, S.most[i]);
  float p = at < position ? __expf(score - most) : 0, sum = p, mine = __expf(own - most);
  S.p[at] = p;
  for (int step = 16; step; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
  if (LANE == 0) S.sum[WARP] = sum;
  consumers();
  sum = mine;
  for (int i = 0; i < WARPS; i++) sum += S.sum[i];
  int d = at % HEAD, part = at / HEAD;
  float o = part ? 0 : mine * S.fresh[d];
#pragma unroll 8
  for (int i = part; i < position; i += 4) o = fmaf(S.p[i], __bfloat162float(S.attend.value[i][d]), o);
  S.out[part][d] = o;
  consumers();
  if (WARP == 0 && LANE < ATT_WORDS) {
    float x[6];
#pragma unroll
    for (int c = 0; c < 6; c++) {
      int i = min(HEAD - 1, LANE * 6 + c);
      x[c] = (S.out[0][i] + S.out[1][i] + S.out[2][i] + S.out[3][i]) / sum;
    }
    put(&M.att[head * ATT_WORDS + LANE], make_uint4(pair(x[0], x[1]), pair(x[2], x[3]), pair(x[4], x[5]), epoch));
  }
  if (head % (HEADS / KV_HEADS) == 0 && at < HEAD) { // the cache of the next step
    M.keys[base + (int64_t)position * HEAD + at] = __float2bfloat16(S.key[at]);
    M.values[base + (int64_t)position * HEAD + at] = __float2bfloat16(S.fresh[at]);
    __threadfence();
  }
}

__device__ __noinline__ void out_body(progress &t, int layer, unsigned attended, unsigned epoch)
{
  share a = share_of(OUT, layer, (int)blockIdx.x);
  float x[8];
  uint4 v[2];
  // Lane: columns warp * 256 + lane * 8 .. + 7, of head column / 64; words of six.
  int column = WARP * 256 + LANE * 8, head = column / HEAD, in = column % HEAD, word = in / 6;
  const uint4 *p = &M.att[head * ATT_WORDS + word];
  v[0] = get(p), v[1] = get(p + 1);
  v[0] = await(p, attended, v[0]), v[1] = await(p + 1, attended, v[1]);
  uint32_t u[6] = {v[0].x, v[0].y, v[0].z, v[1].x, v[1].y, v[1].z};
  int skip = in % 6 / 2; // 0, 1 or 2 pairs
#pragma unroll
  for (int i = 0; i < 4; i++) {
    uint32_t q = skip == 0 ? u[i] : skip == 1 ? u[i + 1] : u[min(5, i + 2)];
    x[i * 2] = low(q), x[i * 2 + 1] = high(q);
  }
  float y = rows32(t, a.count, x, 0);
  if (WARP == 0) publish_hidden(t, y, a.count * 4, a.first * 4, epoch);
}

__device__ __noinline__ void gate_body(progress &t, int layer, float factor, const uint4 &g, unsigned epoch)
{
  share a = share_of(GATE_UP, layer, (int)blockIdx.x);
  float x[8];
  take_hidden(t, g, x);
  for (int c = 0; c < ACT_CHUNKS; c++) {
    int n = min(8, a.count - c * 8), who = c * 2 % WARPS;
    float y = rows32(t, n, x, who) * factor;
    if (WARP != who) continue;
    float up = __shfl_xor_sync(~0u, y, 1), act = y / (1 + __expf(-y)) * up; // of even lanes
    float z[6];
#pragma unroll
    for (int i = 0; i < 6; i++) z[i] = __shfl_sync(~0u, act, min(30, (LANE * 6 + i) * 2));
    if (LANE * 6 < n * 2)
      put(&M.act[((int)blockIdx.x * ACT_CHUNKS + c) * 3 + LANE], make_uint4(pair(z[0], z[1]), pair(z[2], z[3]), pair(z[4], z[5]), epoch));
  }
}

__device__ __noinline__ void down_body(progress &t, int layer, unsigned epoch)
{
  share a = share_of(DOWN, layer, (int)blockIdx.x);
  uint4 v[7];
#pragma unroll
  for (int k = 0; k < 7; k++) {
    int i = threadIdx.x + k * THREADS;
    if (i < ACT_WORDS * (int)WORKERS) v[k] = get(&M.act[i]);
  }
#pragma unroll
  for (int k = 0; k < 7; k++) {
    int i = threadIdx.x + k * THREADS;
    if (i >= ACT_WORDS * (int)WORKERS) continue;
    share b = share_of(GATE_UP, layer, i / ACT_WORDS);
    int c = i % ACT_WORDS / 3, n = min(8, b.count - c * 8) * 2, at = i % 3 * 6;
    if (at >= n) continue;
    v[k] = await(&M.act[i], epoch, v[k]);
    uint32_t u[3] = {v[k].x, v[k].y, v[k].z};
    uint32_t *to = (uint32_t *)&S.act[(b.first + c * 8) * 2 + at];
#pragma unroll
    for (int j = 0; j < 3; j++)
      if (at + j * 2 < n) to[j] = u[j];
  }
  consumers();
  float y = rows16_of(t.stages, a.count, t.chunk, 0);
  t.stages += a.count, t.chunk ^= 1;
  if (WARP == 0) publish_hidden(t, y, a.count, a.first, epoch);
}

__device__ inline unsigned long long keyed(float x, int row)
{
  uint32_t u = __float_as_uint(x);
  u = u & 0x80000000u ? ~u : u | 0x80000000u;
  return (unsigned long long)u << 32 | (uint32_t)~row;
}

// Logits, and the row of the largest of all.
__device__ __noinline__ int logits_body(progress &t, float factor, const uint4 &g, unsigned epoch)
{
  share a = share_of(LOGITS, 0, (int)blockIdx.x);
  float x[8];
  unsigned long long best = 0;
  take_hidden(t, g, x);
  for (int c = 0; c * 8 < a.count; c++) {
    int n = min(8, a.count - c * 8), who = c % WARPS;
    float y = rows32(t, n, x, who) * factor;
    if (WARP != who || LANE >= n * 4) continue;
    int row = (a.first + c * 8) * 4 + LANE;
    M.logits[row] = y;
    best = max(best, keyed(y, row));
  }
  for (int step = 16; step; step /= 2) best = max(best, __shfl_xor_sync(~0u, best, step));
  if (LANE == 0) S.bests[WARP] = best;
  consumers();
  if (threadIdx.x == 0) {
    for (int i = 1; i < WARPS; i++) best = max(best, S.bests[i]);
    put(&M.best[(int)blockIdx.x], make_uint4((uint32_t)(best >> 32), (uint32_t)best, 0, epoch));
  }
  consumers();
  best = 0;
  for (int i = threadIdx.x; i < WORKERS; i += THREADS) {
    uint4 v = await(&M.best[i], epoch, get(&M.best[i]));
    best = max(best, (unsigned long long)v.x << 32 | v.y);
  }
  for (int step = 16; step; step /= 2) best = max(best, __shfl_xor_sync(~0u, best, step));
  if (LANE == 0) S.bests[WARP] = best;
  consumers();
  for (int i = 0; i < WARPS; i++) best = max(best, S.bests[i]);
  return (int)~(uint32_t)best;
}

// The embedding of a token is the row of the logits' matrix.
__device__ __noinline__ float embed(progress &t, int token)
{
  int w = 0, stage = token / 4;
  consumers(); // bests[] of the step before were read
  for (int i = threadIdx.x; i < WORKERS; i += THREADS) {
    share a = share_of(LOGITS, 0, i);
    if (stage >= a.first && stage < a.first + a.count) S.bests[0] = (unsigned long long)i;
  }
  consumers();
  w = (int)S.bests[0];
  share a = share_of(LOGITS, 0, w);
  const char *row = M.stream + w * M.stride + M.logits_at[w] + (int64_t)(stage - a.first) * STAGE + token % 4 * 4096;
  uint4 v = __ldg((const uint4 *)row + threadIdx.x);
  float x[8] = {low(v.x), high(v.x), low(v.y), high(v.y), low(v.z), high(v.z), low(v.w), high(v.w)}, square = 0;
  for (int i = 0; i < 8; i++) S.hidden[threadIdx.x * 8 + i] = x[i], square += x[i] * x[i];
  for (int step = 16; step; step /= 2) square += __shfl_xor_sync(~0u, square, step);
  if (LANE == 0) S.sum[WARP] = square;
  consumers();
  square = 0;
  for (int i = 0; i < WARPS; i++) square += S.sum[i];
  return rsqrtf(square / HIDDEN + EPS);
}

__global__ void __launch_bounds__(THREADS + 32, 1) decode(int token, int position, int steps, unsigned epoch)
{
  if (threadIdx.x == 0) {
    for (int i = 0; i < RING; i++) barrier_init(&S.full[i], 1), barrier_init(&S.empty[i], WARPS);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  if (threadIdx.x >= THREADS) {
    if (threadIdx.x != THREADS) return;
    const char *from = M.stream + blockIdx.x * M.stride;
    int slot = 0;
    unsigned parity = 1; // the ring is empty at first
    int mine = 0;
    for (int l = 0; l < LAYERS; l++)
      for (int o = QKV; o <= DOWN; o++) mine += share_of(o, l, blockIdx.x).count;
    mine += share_of(LOGITS, 0, blockIdx.x).count;
    for (int step = 0; step < steps; step++)
      for (int i = 0; i < mine; i++) {
        barrier_wait(&S.empty[slot], parity);
        bulk_load(S.ring[slot], from + (int64_t)i * STAGE, &S.full[slot]);
        if (++slot == RING) slot = 0, parity ^= 1;
      }
    return;
  }
  progress t = {0, 0};
  int mark_at = 0;
#define MARK                                                                                                        \
  do {                                                                                                              \
    if (step == steps - 1 && threadIdx.x == 0 && mark_at < 256) M.trace[(int)blockIdx.x * 256 + mark_at++] = now(); \
  } while (0)
  for (int step = 0; step < steps; step++, position++) {
    MARK;
    float factor = embed(t, token);
    for (int l = 0; l < LAYERS; l++) {
      uint4 g = gamma_at(t, 2 * l), g2 = gamma_at(t, 2 * l + 1);
      if (blockIdx.x % 4 == 0 && blockIdx.x / 4 < HEADS) fetch_values(l, position);
      if (l) factor = receive_hidden(t, DOWN, l - 1, epoch);
      epoch += 2;
      MARK;
      qkv_body(t, l, position, factor, g, epoch);
      MARK;
      if ((int)blockIdx.x % 4 == 0 && (int)blockIdx.x / 4 < HEADS) attention_body(t, l, position, epoch);
      MARK;
      out_body(t, l, epoch, epoch - 1);
      MARK;
      factor = receive_hidden(t, OUT, l, epoch - 1);
      MARK;
      gate_body(t, l, factor, g2, epoch);
      MARK;
      down_body(t, l, epoch);
      MARK;
    }
    uint4 g = gamma_at(t, 2 * LAYERS);
    factor = receive_hidden(t, DOWN, LAYERS - 1, epoch);
    MARK;
    token = logits_body(t, factor, g, epoch);
    MARK;
    if ((int)blockIdx.x == 0 && threadIdx.x == 0) M.tokens[step] = token;
    epoch += 2;
  }
}

// ---- packing ---------------------------------------------------------------------------------------

__global__ void pack_worker(char *to, int o, int layer, int first, int count)
{
  for (int s = blockIdx.x; s < count; s += gridDim.x) {
    __nv_bfloat16 *p = (__nv_bfloat16 *)(to + (int64_t)s * STAGE);
    for (int i = threadIdx.x; i < STAGE / 2; i += blockDim.x)
      p[i] = o == DOWN ? weight(o, layer, first + s, i) : weight(o, layer, row_of(o, first + s, i / 2048), i % 2048);
  }
}
void pack_all(char *stream, int64_t stride, int workers)
{
  for (int w = 0; w < workers; w++) {
    int64_t at = 0;
    for (int l = 0; l <= LAYERS; l++)
      for (int o = QKV; o <= LOGITS; o++) {
        if ((l == LAYERS) != (o == LOGITS)) continue;
        share a = share_of(o, l == LAYERS ? 0 : l, w);
        pack_worker<<<256, 256>>>(stream + w * stride + at, o, l == LAYERS ? 0 : l, a.first, a.count);
        at += (int64_t)a.count * STAGE;
      }
  }
}
__global__ void fill_gamma(__nv_bfloat16 *g)
{
  for (int i = threadIdx.x; i < HIDDEN; i += blockDim.x) g[blockIdx.x * HIDDEN + i] = gamma_of(blockIdx.x, i);
}
__global__ void fill_turn(float2 *t)
{
  int p = blockIdx.x, i = threadIdx.x;
  float angle = (float)p * powf(THETA, -2.f * (float)i / HEAD);
  t[p * (HEAD / 2) + i] = make_float2(cosf(angle), sinf(angle));
}
__global__ void fill_cache(__nv_bfloat16 *c, int n, uint32_t seed)
{
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    c[i] = __float2bfloat16((float)(mix((uint32_t)i * 3 + seed) & 0xffff) / 32768.f - 1.f);
}

// ---- plain kernels, for comparison -----------------------------------------------------------------

__device__ float block_sum(float x)
{
  __shared__ float part[32];
  for (int step = 16; step; step /= 2) x += __shfl_xor_sync(~0u, x, step);
  __syncthreads();
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = x;
  __syncthreads();
  x = 0;
  for (int i = 0; i < (int)blockDim.x / 32; i++) x += part[i];
  return x;
}
__global__ void plain_product(int o, int layer, int columns, const float *x, const float *add, float *y)
{
  float sum = 0;
  for (int k = threadIdx.x; k < columns; k += blockDim.x) sum += __bfloat162float(weight(o, layer, blockIdx.x, k)) * x[k];
  sum = block_sum(sum);
  if (threadIdx.x == 0) y[blockIdx.x] = sum + (add ? add[blockIdx.x] : 0);
}
__global__ void plain_norm(const float *h, int norm, float *y)
{
  float sum = 0;
  for (int k = threadIdx.x; k < HIDDEN; k += blockDim.x) sum += h[k] * h[k];
  sum = rsqrtf(block_sum(sum) / HIDDEN + EPS);
  for (int k = threadIdx.x; k < HIDDEN; k += blockDim.x) y[k] = h[k] * sum * __bfloat162float(gamma_of(norm, k));
}
__global__ void plain_embed(int token, float *h)
{
  for (int k = threadIdx.x; k < HIDDEN; k += blockDim.x) h[k] = __bfloat162float(weight(LOGITS, 0, token, k));
}
__global__ void plain_turn(float *qkv, const float2 *turn, int position)
{
  int head = blockIdx.x, i = threadIdx.x;
  float2 t = turn[position * (HEAD / 2) + i];
  float a = qkv[head * HEAD + i], b = qkv[head * HEAD + i + 32];
  if (head < HEADS + KV_HEADS) qkv[head * HEAD + i] = a * t.x - b * t.y, qkv[head * HEAD + i + 32] = b * t.x + a * t.y;
}
__global__ void plain_attention(const float *qkv, __nv_bfloat16 *keys, __nv_bfloat16 *values, int layer, int position, float *out)
{
  __shared__ float p[MOST_CONTEXT + 1];
  int head = blockIdx.x, kv = head / (HEADS / KV_HEADS);
  int64_t base = (((int64_t)layer * KV_HEADS + kv) * MOST_CONTEXT) * HEAD;
  const float *q = qkv + head * HEAD, *k = qkv + (HEADS + kv) * HEAD, *v = qkv + (HEADS + KV_HEADS + kv) * HEAD;
  for (int j = threadIdx.x; j <= position; j += blockDim.x) {
    float s = 0;
    for (int d = 0; d < HEAD; d++) s += q[d] * (j == position ? k[d] : __bfloat162float(keys[base + (int64_t)j * HEAD + d]));
    p[j] = s * 0.125f;
  }
  __syncthreads();
  float most = -INFINITY, sum = 0;
  for (int j = 0; j <= position; j++) most = fmaxf(most, p[j]);
  for (int j = 0; j <= position; j++) sum += expf(p[j] - most);
  int d = threadIdx.x;
  if (d >= HEAD) return;
  float o = 0;
  for (int j = 0; j <= position; j++) o += expf(p[j] - most) * (j == position ? v[d] : __bfloat162float(values[base + (int64_t)j * HEAD + d]));
  out[head * HEAD + d] = o / sum;
}
__global__ void plain_cache(const float *qkv, __nv_bfloat16 *keys, __nv_bfloat16 *values, int layer, int position)
{
  int kv = blockIdx.x, d = threadIdx.x;
  int64_t at = (((int64_t)layer * KV_HEADS + kv) * MOST_CONTEXT + position) * HEAD + d;
  keys[at] = __float2bfloat16(qkv[(HEADS + kv) * HEAD + d]), values[at] = __float2bfloat16(qkv[(HEADS + KV_HEADS + kv) * HEAD + d]);
}
__global__ void plain_act(const float *x, float *y)
{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = x[i] / (1 + expf(-x[i])) * x[i + INNER];
}

static void plain_step(const memory &m, float *room, int token, int position, float *logits)
{
  float *h = room, *x = h + HIDDEN, *qkv = x + HIDDEN, *att = qkv + 4096, *both = att + HIDDEN, *act = both + 2 * INNER;
  plain_embed<<<1, 256>>>(token, h);
  for (int l = 0; l < LAYERS; l++) {
    plain_norm<<<1, 256>>>(h, 2 * l, x);
    plain_product<<<QKV_STAGES * 4, 256>>>(QKV, l, HIDDEN, x, nullptr, qkv);
    plain_turn<<<HEADS + 2 * KV_HEADS, HEAD / 2>>>(qkv, m.turn, position);
    plain_attention<<<HEADS, 128>>>(qkv, m.keys, m.values, l, position, att);
    plain_cache<<<KV_HEADS, HEAD>>>(qkv, m.keys, m.values, l, position);
    plain_product<<<HIDDEN, 256>>>(OUT, l, HIDDEN, att, h, h);
    plain_norm<<<1, 256>>>(h, 2 * l + 1, x);
    plain_product<<<2 * INNER, 256>>>(GATE_UP, l, HIDDEN, x, nullptr, both);
    plain_act<<<INNER / 256, 256>>>(both, act);
    plain_product<<<HIDDEN, 256>>>(DOWN, l, INNER, act, h, h);
  }
  plain_norm<<<1, 256>>>(h, 2 * LAYERS, x);
  plain_product<<<VOCAB, 256>>>(LOGITS, 0, HIDDEN, x, nullptr, logits);
}

// ---- host ------------------------------------------------------------------------------------------

int main(int argc, char **argv)
{
  int context = argc > 1 ? atoi(argv[1]) : 128, steps = argc > 2 ? atoi(argv[2]) : 32;
  if (context < 1 || steps < 1 || context + steps > MOST_CONTEXT)
    return fprintf(stderr, "decode: context and steps: together at most %d\n", MOST_CONTEXT), 2;
  cudaDeviceProp prop;
  MUST(cudaGetDeviceProperties(&prop, 0));
  const int workers = (int)WORKERS;
  if (prop.multiProcessorCount < workers)
    return fprintf(stderr, "decode: %s has %d multiprocessors, not %d\n", prop.name, prop.multiProcessorCount, workers), 3;
  std::vector<int64_t> logits_at(workers, 0);
  int64_t stride = 0;
  for (int w = 0; w < workers; w++) {
    int64_t n = 0;
    for (int l = 0; l < LAYERS; l++)
      for (int o = QKV; o <= DOWN; o++) n += share_of(o, l, w).count;
    logits_at[w] = n * STAGE;
    stride = std::max(stride, (n + share_of(LOGITS, 0, w).count) * (int64_t)STAGE);
  }
  memory m = {};
  char *stream;
  __nv_bfloat16 *gamma;
  float2 *turn;
  int64_t *at;
  const int cache = LAYERS * KV_HEADS * MOST_CONTEXT * HEAD;
  MUST(cudaMalloc(&stream, stride * workers));
  MUST(cudaMalloc(&gamma, (2 * LAYERS + 1) * HIDDEN * 2));
  MUST(cudaMalloc(&turn, MOST_CONTEXT * HEAD / 2 * 8));
  MUST(cudaMalloc(&at, 8 * workers));
  MUST(cudaMemcpy(at, logits_at.data(), 8 * workers, cudaMemcpyHostToDevice));
  m.stream = stream, m.stride = stride, m.gamma = gamma, m.turn = turn, m.logits_at = at;
  struct {
    uint4 **p;
    size_t n;
  } words[] = {{&m.qkv, QKV_STAGES},
               {&m.att, HEADS * ATT_WORDS + 1},
               {&m.hidden, (size_t)H_WORDS * workers},
               {&m.act, (size_t)ACT_WORDS * workers},
               {&m.best, (size_t)workers}};
  for (auto &w : words) {
    MUST(cudaMalloc(w.p, 16 * w.n));
    MUST(cudaMemset(*w.p, 0, 16 * w.n));
  }
  MUST(cudaMalloc(&m.keys, cache * 2));
  MUST(cudaMalloc(&m.values, cache * 2));
  MUST(cudaMalloc(&m.logits, VOCAB * 4));
  MUST(cudaMalloc(&m.tokens, 4 * MOST_CONTEXT));
  MUST(cudaMalloc(&m.trace, 8 * workers * 256));
  fill_gamma<<<2 * LAYERS + 1, 256>>>(gamma);
  fill_turn<<<MOST_CONTEXT, HEAD / 2>>>(turn);
  pack_all(stream, stride, workers);
  MUST(cudaDeviceSynchronize());

  auto start = [&] {
    fill_cache<<<256, 256>>>(m.keys, cache, 1);
    fill_cache<<<256, 256>>>(m.values, cache, 2);
  };
  unsigned epoch = 2;
  auto run = [&](int n, int token, int position) {
    void *args[] = {&token, &position, &n, &epoch};
    MUST(cudaLaunchCooperativeKernel((const void *)decode, dim3(workers), dim3(THREADS + 32), args, sizeof(block_memory), nullptr));
    epoch += (unsigned)n * (2 * LAYERS + 2);
  };
  MUST(cudaMemcpyToSymbol(M, &m, sizeof m));
  MUST(cudaFuncSetAttribute(decode, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(block_memory)));
  cudaFuncAttributes fa;
  MUST(cudaFuncGetAttributes(&fa, decode));
  printf("# %s, %d workers, %zu bytes of shared memory, %d registers, %zu bytes spilled, %.3f GB of weights\n", prop.name, workers,
         sizeof(block_memory), fa.numRegs, fa.localSizeBytes,
         1e-9 * 2 *
             ((double)LAYERS * ((QKV_STAGES + OUT_STAGES + GATE_STAGES) * 4. * HIDDEN + (double)DOWN_STAGES * INNER) + (double)VOCAB * HIDDEN));

  // Right: tokens and logits of each of a few steps.
  float *room, *logits;
  MUST(cudaMalloc(&room, 4 * 65536));
  MUST(cudaMalloc(&logits, VOCAB * 4));
  std::vector<float> a(VOCAB), b(VOCAB);
  std::vector<int> tokens(MOST_CONTEXT);
  const int checks = std::min(steps, 6), first = 4711;
  int token = first;
  double worst = 0;
  int agree = 0;
  for (int i = 0; i < checks; i++) {
    start();
    run(i + 1, first, context);
    MUST(cudaMemcpy(a.data(), m.logits, VOCAB * 4, cudaMemcpyDeviceToHost));
    MUST(cudaMemcpy(tokens.data(), m.tokens, 4 * (i + 1), cudaMemcpyDeviceToHost));
    start();
    token = first;
    for (int k = 0; k <= i; k++) {
      plain_step(m, room, token, context + k, logits);
      token = tokens[k]; // both go on with the same token
    }
    MUST(cudaMemcpy(b.data(), logits, VOCAB * 4, cudaMemcpyDeviceToHost));
    double diff = 0, norm = 0;
    for (int k = 0; k < VOCAB; k++) diff += (a[k] - b[k]) * (double)(a[k] - b[k]), norm += b[k] * (double)b[k];
    worst = std::max(worst, std::sqrt(diff / norm));
    agree += (int)(std::max_element(b.begin(), b.end()) - b.begin()) == tokens[i];
  }
  printf("# relative error of logits against plain kernels: at most %.3g; %d of %d tokens agree\n", worst, agree, checks);

  // Fast.
  cudaEvent_t e0, e1;
  MUST(cudaEventCreate(&e0));
  MUST(cudaEventCreate(&e1));
  std::vector<double> us, one;
  for (int r = 0; r < 25; r++) {
    float ms;
    start();
    MUST(cudaEventRecord(e0));
    run(steps, first, context);
    MUST(cudaEventRecord(e1));
    MUST(cudaEventSynchronize(e1));
    MUST(cudaEventElapsedTime(&ms, e0, e1));
    if (r >= 5) us.push_back(1e3 * ms / steps);
    MUST(cudaEventRecord(e0));
    run(1, first, context);
    MUST(cudaEventRecord(e1));
    MUST(cudaEventSynchronize(e1));
    MUST(cudaEventElapsedTime(&ms, e0, e1));
    if (r >= 5) one.push_back(1e3 * ms);
  }
  std::sort(us.begin(), us.end()), std::sort(one.begin(), one.end());
  if (const char *to = getenv("TRACE")) { // nanoseconds of the last step: of each worker the ends of its task bodies, 256 numbers a worker
    std::vector<long long> at(workers * 256);
    FILE *f = fopen(to, "wb");
    MUST(cudaMemcpy(at.data(), m.trace, 8 * at.size(), cudaMemcpyDeviceToHost));
    if (!f || fwrite(at.data(), 8, at.size(), f) != at.size() || fclose(f)) return fprintf(stderr, "decode: %s cannot be written\n", to), 3;
  }
  printf("what,context,steps,median us,least,most,repeats\n");
  printf("steps in one launch,%d,%d,%.1f,%.1f,%.1f,%zu\n", context, steps, us[us.size() / 2], us.front(), us.back(), us.size());
  printf("one step a launch,%d,1,%.1f,%.1f,%.1f,%zu\n", context, one[one.size() / 2], one.front(), one.back(), one.size());
  return worst < 0.03 ? 0 : 1;
}

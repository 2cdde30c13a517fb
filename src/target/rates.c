// Rates of the host, for the cost model: each is the best of a few short runs on all threads, because what disturbs
// a measurement only makes it slower. The kernels are those of generated code (mica_cpu.h), contracted into fused
// multiply-adds as that is and the rest of Mica is not.
#if defined(__clang__)
#pragma clang fp contract(fast)
#else
#pragma GCC optimize("fp-contract=fast")
#endif
#include "gen/mica_cpu.h"
#include "target/host.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { COPY = 48 << 20, ROUNDS = 3, FMA_STEPS = 400000, EXP_FLOATS = 4096, EXP_STEPS = 200, JOINS = 200 };

struct lab {
  const struct target *t;
  float *memory; // two stretches of COPY bytes
  double *sink;  // of results nobody reads, one a thread
  void (*work)(struct lab *, int worker);
};

static void job(void *arg, int i, int worker)
{
  (void)worker;
  struct lab *lab = arg;
  lab->work(lab, i);
}

// Seconds of the fastest of a few rounds in which every thread does its share of `work`.
static double fastest(struct lab *lab, void (*work)(struct lab *, int))
{
  double best = 1e9;
  lab->work = work;
  for (int i = 0; i < ROUNDS; i++) {
    double start = now_seconds();
    pool_run(lab->t->cores, lab->t->cores, job, lab);
    best = MIN(best, now_seconds() - start);
  }
  return MAX(best, 1e-9);
}

static void copy(struct lab *lab, int w)
{
  size_t n = COPY / 4, from = n * (size_t)w / (size_t)lab->t->cores, to = n * (size_t)(w + 1) / (size_t)lab->t->cores;
  for (size_t i = from / 16 * 16; i + M_W <= to; i += M_W) m_store(lab->memory + n + i, m_load(lab->memory + i));
}

static size_t cached_floats(const struct lab *lab) { return (size_t)lab->t->l2 / 2 / 64 * 16; }

static void read_cache(struct lab *lab, int w)
{
  size_t n = cached_floats(lab), all = 2 * (size_t)COPY / 4;
  const float *p = lab->memory + (size_t)w * n % (all - n);
  m_vec s[4] = {{0}, {0}, {0}, {0}};
  for (int k = 0; k < 32; k++)
    for (size_t i = 0; i + 4 * M_W <= n; i += 4 * M_W)
      for (int u = 0; u < 4; u++) s[u] += m_load(p + i + (size_t)u * M_W);
  lab->sink[w] = (double)m_hsum(s[0] + s[1] + s[2] + s[3]);
}

static void multiply_add(struct lab *lab, int w)
{
  enum { CHAINS = 12 };
  m_vec s[CHAINS], a = m_splat(0.999f), b = m_splat(0.001f), all = {0};
  for (int u = 0; u < CHAINS; u++) s[u] = m_splat((float)u);
  for (int k = 0; k < FMA_STEPS; k++) M_UNROLL
  for (int u = 0; u < CHAINS; u++) {
#if M_W == 16
    s[u] = (m_vec)_mm512_fmadd_ps((__m512)s[u], (__m512)a, (__m512)b);
#elif M_W == 8 && defined(__FMA__)
    s[u] = (m_vec)_mm256_fmadd_ps((__m256)s[u], (__m256)a, (__m256)b);
#else
    s[u] = s[u] * a + b;
#endif
  }
  for (int u = 0; u < CHAINS; u++) all += s[u];
  lab->sink[w] = (double)m_hsum(all);
}

static void exponential(struct lab *lab, int w)
{
  float *p = lab->memory + (size_t)w * EXP_FLOATS;
  m_vec s = {0};
  for (int k = 0; k < EXP_STEPS; k++)
    for (int i = 0; i < EXP_FLOATS; i += M_W) s += m_exp(m_load(p + i));
  lab->sink[w] = (double)m_hsum(s);
}

static void nothing(void *arg) { (void)arg; }

// One start and join of the OpenMP threads that generated code uses; its run time may be absent.
static double fork_join(const struct target *t)
{
  void *omp = dlopen("libgomp.so.1", RTLD_NOW | RTLD_NODELETE);
  void (*parallel)(void (*)(void *), void *, unsigned, unsigned) = NULL;
  if (omp) *(void **)&parallel = dlsym(omp, "GOMP_parallel");
  if (!parallel) return 5e-6;
  double best = 1e9;
  for (int k = 0; k < ROUNDS; k++) {
    double start = now_seconds();
    for (int i = 0; i < JOINS; i++) parallel(nothing, NULL, (unsigned)t->cores, 0);
    best = MIN(best, (now_seconds() - start) / JOINS);
  }
  return best;
}

void rates_measure(struct target *t)
{
  struct lab lab = {
      .t = t, .memory = aligned_alloc(4096, 2 * (size_t)COPY), .sink = calloc((size_t)t->cores, sizeof(double))};
  if (!lab.memory || !lab.sink) {
    free(lab.memory), free(lab.sink);
    rates_typical(t);
    return;
  }
  madvise(lab.memory, 2 * (size_t)COPY, MADV_HUGEPAGE);
  for (size_t i = 0; i < 2 * (size_t)COPY / 4; i++) lab.memory[i] = 0.5f;
  double cores = t->cores;
  t->bandwidth = 2.0 * COPY / fastest(&lab, copy);
  t->cache_bandwidth = cores * 32 * 4 * (double)cached_floats(&lab) / fastest(&lab, read_cache);
  t->flops = cores * FMA_STEPS * 12 * 2 * M_W / fastest(&lab, multiply_add);
  t->exp_rate = cores * (double)EXP_FLOATS * EXP_STEPS / fastest(&lab, exponential);
  t->launch = fork_join(t);
  free(lab.memory), free(lab.sink);
}

void rates_typical(struct target *t)
{
  double cores = t->cores, clock = 2.5e9;
  t->flops = cores * clock * 2 * t->lanes * (t->lanes == 16 ? 1 : 2);
  t->cache_bandwidth = cores * clock * 24; // of the second level
  t->bandwidth = MIN(cores, 4) * 10e9;
  t->exp_rate = cores * clock * t->lanes / 16;
  t->launch = 2e-6 + 0.5e-6 * cores;
}

// Rates of the host, for the cost model. Each is the best of a few short runs on all threads, because disturbances only make
// a run slower. The timed loops are in rates_work.inc.
#include "target/rates.h"
#include "base/memory.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { ROUNDS = 3, JOINS = 200 };

#if defined(__x86_64__)
// Bits of cpuid's leaf 7: the tiles of AMX and their products of bf16.
static bool has_amx(void)
{
  enum { BF16_BIT = 1 << 22, TILE_BIT = 1 << 24 };
  unsigned a, b, c, d;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & BF16_BIT) && (d & TILE_BIT);
}
#endif

const struct rates_work *rates_work(void)
{
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512bf16") && has_amx() && rates_tiles()) return &rates_amx;
  if (__builtin_cpu_supports("avx512bf16")) return &rates_bf16;
  if (__builtin_cpu_supports("avx512f")) return &rates_avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return &rates_avx2;
#endif
  return &rates_plain;
}

static void job(void *arg, int i, int worker)
{
  (void)worker;
  struct lab *lab = arg;
  lab->work(lab, i);
}

// Seconds of the fastest of ROUNDS rounds, in each of which every thread does its share of `work`.
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

static void nothing(void *arg) { (void)arg; }

// Seconds to start and join the OpenMP threads that generated code uses; a typical value if there is no OpenMP runtime.
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
  const struct rates_work *work = rates_work();
  struct lab lab = {.t = t, .sink = MEM_NEWS(double, t->cores), .memory = aligned_alloc(4096, 2 * (size_t)COPY)};
  if (!lab.memory) {
    mem_free(lab.sink);
    rates_typical(t);
    return;
  }
  struct undo undo;
  undo_push(&undo, free, lab.memory);
  madvise(lab.memory, 2 * (size_t)COPY, MADV_HUGEPAGE);
  for (size_t i = 0; i < 2 * (size_t)COPY / 4; i++) lab.memory[i] = 0.5f;
  double cores = t->cores;
  t->bandwidth = 2.0 * COPY / fastest(&lab, work->copy);
  t->cache_bandwidth = cores * CACHE_ROUNDS * 4 * (double)cached_floats(&lab) / fastest(&lab, work->read_cache);
  t->flops = cores * FMA_STEPS * FMA_CHAINS * 2 * work->lanes / fastest(&lab, work->multiply_add);
  if (work->multiply_pairs) t->pair_flops = cores * work->pair_operations / fastest(&lab, work->multiply_pairs);
  t->exp_rate = cores * (double)EXP_FLOATS * EXP_STEPS / fastest(&lab, work->exponential);
  t->launch = fork_join(t);
  t->link = t->bandwidth, t->meeting = t->launch;
  undo_pop(&undo);
  free(lab.memory), mem_free(lab.sink);
}

void rates_typical(struct target *t)
{
  double cores = t->cores, clock = 2.5e9;
  t->flops = cores * clock * 2 * t->lanes * (t->lanes == 16 ? 1 : 2);
  t->pair_flops = rates_work()->pair_rate * t->flops;
  t->cache_bandwidth = cores * clock * 24; // of the second level
  t->bandwidth = MIN(cores, 4) * 10e9;
  t->exp_rate = cores * clock * t->lanes / 16;
  t->launch = 2e-6 + 0.5e-6 * cores;
  t->link = t->bandwidth, t->meeting = t->launch;
}

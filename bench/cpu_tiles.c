// Time of passes over tiles on one core, by the size of the tiles. The cost model of the CPU (cost_cpu.c) derives from it the cost of tiles that do
// not fit the nearest cache. Columns: nanoseconds for each element, the best of many runs, and their ratio to the smallest tiles.
//
//   ninja -C build cpu_tiles && build/cpu_tiles >bench/cpu_tiles.csv
#include "base/base.h"
#include "target/mica_cpu.h"
#include "target/target.h"

#include <stdio.h>
#include <stdlib.h>

enum { LEAST = 8, SIZES = 7, MOST = LEAST << (SIZES - 1), RUNS = 2000, LONG = 256 }; // kilobytes of all tiles; runs; least kilobytes that a run reads

static float kept; // result of the passes, so that none is optimized away

static void sum(float *x, float *y, size_t n)
{
  m_vec a = {0}, b = {0};
  (void)y;
  for (size_t i = 0; i < n; i += 2 * M_W) a += m_load(x + i), b += m_load(x + i + M_W);
  kept += m_hsum(a + b);
}

static void add(float *x, float *y, size_t n)
{
  for (size_t i = 0; i < n; i += M_W) m_store(y + i, m_load(x + i) * 0.5f + m_load(y + i) * 0.5f);
}

static void exponential(float *x, float *y, size_t n)
{
  for (size_t i = 0; i < n; i += M_W) m_store(y + i, m_exp(m_load(x + i)));
}

static void exponential_and_sum(float *x, float *y, size_t n)
{
  m_vec s = {0};
  for (size_t i = 0; i < n; i += M_W) {
    m_vec e = m_exp(m_load(x + i));
    m_store(y + i, e), s += e;
  }
  kept += m_hsum(s);
}

static const struct {
  const char *name;
  void (*run)(float *x, float *y, size_t n);
  int tiles; // number of tiles that it accesses
} passes[] = {{"sum", sum, 1}, {"add", add, 2}, {"exp", exponential, 2}, {"exp and sum", exponential_and_sum, 2}};

static double seconds(int pass, float *memory, size_t n, size_t kilobytes)
{
  size_t times = 1 + LONG / kilobytes;
  for (size_t i = 0; i < (size_t)passes[pass].tiles * n; i++) memory[i] = 0.01f * (float)(i % 100);
  passes[pass].run(memory, memory + n, n);
  double start = now_seconds();
  for (size_t k = 0; k < times; k++) passes[pass].run(memory, memory + n, n);
  return (now_seconds() - start) / (double)times;
}

// Measures all sizes alternately, so that a change of the processor's clock affects all of them.
static void measure_pass(int pass, float *memory, const char *device)
{
  double ns[SIZES];
  for (int r = 0; r < RUNS; r++)
    for (int i = 0; i < SIZES; i++) {
      size_t kilobytes = (size_t)LEAST << i, n = (kilobytes << 10) / sizeof(float) / (size_t)passes[pass].tiles;
      double t = 1e9 * seconds(pass, memory, n, kilobytes) / (double)n;
      ns[i] = r ? MIN(ns[i], t) : t;
    }
  for (int i = 0; i < SIZES; i++) printf("%s,\"%s\",%d,%d,%.4f,%.2f\n", passes[pass].name, device, M_W, LEAST << i, ns[i], ns[i] / ns[0]);
}

int main(void)
{
  float *memory = aligned_alloc(4096, (size_t)MOST << 10);
  struct target t;
  struct err e = {0};
  if (!memory || target_open("cpu", 1, true, &t, &e) != OK) return 1;
  printf("pass,device,lanes,kilobytes,ns,times\n");
  for (int p = 0; p < (int)COUNT(passes); p++) measure_pass(p, memory, t.device);
  free(memory);
  return kept > 0 ? 0 : 2;
}

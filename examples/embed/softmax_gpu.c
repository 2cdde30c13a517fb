/* A program that Mica optimized for a GPU, called from C without Mica:
 *
 *   mica optimize examples/softmax.mica --target sm_90a --out build/softmax
 *   nvcc -O3 -gencode arch=compute_90a,code=sm_90a -c build/softmax/kernel.cu -o build/softmax/kernel.o
 *   cc -Ibuild/softmax -I/usr/local/cuda/include examples/embed/softmax_gpu.c build/softmax/kernel.o \
 *     -L/usr/local/cuda/lib64 -lcudart -lstdc++ -lm -o build/softmax/demo
 *   build/softmax/demo
 *
 * Prints by how much the sums of the rows differ from 1, and what a call takes. Exit status 1: more than rounding explains. */
#include "kernel.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 4096, COLS = 4096, CALLS = 100 };

static void check(cudaError_t e, const char *what)
{
  if (e == cudaSuccess) return;
  fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(e));
  exit(3);
}

/* IEEE half of a number that is a multiple of 1/64 below 4, and back. */
static uint16_t to_half(double x)
{
  int e;
  double m = frexp(fabs(x), &e);
  if (x == 0) return 0;
  return (uint16_t)((x < 0) << 15 | (e + 14) << 10 | ((int)(m * 2048) & 1023));
}

static double from_half(uint16_t h)
{
  int e = h >> 10 & 31, m = h & 1023;
  return ldexp(e ? 1024 + m : m, (e ? e : 1) - 25) * (h >> 15 ? -1 : 1);
}

static double time_calls(const void *const *in, void *const *out, void *work, cudaStream_t stream)
{
  cudaEvent_t from, to;
  float ms = 0;
  check(cudaEventCreate(&from), "event"), check(cudaEventCreate(&to), "event");
  check(cudaEventRecord(from, stream), "event");
  for (int i = 0; i < CALLS; i++) check((cudaError_t)softmax_run(in, out, work, stream), "softmax");
  check(cudaEventRecord(to, stream), "event");
  check(cudaEventSynchronize(to), "softmax");
  check(cudaEventElapsedTime(&ms, from, to), "event");
  return 1e3 * ms / CALLS;
}

int main(void)
{
  size_t bytes = sizeof(uint16_t) * ROWS * COLS;
  uint16_t *host = malloc(bytes);
  void *x, *y, *work;
  cudaStream_t stream;
  if (!host) return 3;
  for (int i = 0; i < ROWS * COLS; i++) host[i] = to_half((i * 37 % 257 - 128) / 64.0);
  check(cudaStreamCreate(&stream), "stream");
  check(cudaMalloc(&x, bytes), "memory"), check(cudaMalloc(&y, bytes), "memory");
  check(cudaMalloc(&work, softmax_workspace() + 1), "memory");
  check(cudaMemcpy(x, host, bytes, cudaMemcpyHostToDevice), "copy");
  check((cudaError_t)softmax_prepare(work, stream), "prepare");
  const void *in[] = {x};
  void *out[] = {y};
  double us = time_calls(in, out, work, stream), worst = 0;
  check(cudaMemcpy(host, y, bytes, cudaMemcpyDeviceToHost), "copy");
  for (int r = 0; r < ROWS; r++) {
    double sum = 0;
    for (int c = 0; c < COLS; c++) sum += from_half(host[r * COLS + c]);
    worst = fmax(worst, fabs(sum - 1));
  }
  printf("rows sum to 1 within %.1e; %.1f us a call\n", worst, us);
  return worst > 2e-3;
}

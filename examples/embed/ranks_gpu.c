/* A program of two devices that Mica optimized, called from C without Mica: one process, a GPU a rank.
 *
 *   mica optimize examples/world/row_sums.mica --target sm_90a --out build/rows
 *   nvcc -O3 -gencode arch=compute_90a,code=sm_90a -c build/rows/kernel.cu -o build/rows/kernel.o
 *   cc -Ibuild/rows -I/usr/local/cuda/include examples/embed/ranks_gpu.c build/rows/kernel.o \
 *     -L/usr/local/cuda/lib64 -lcudart -lstdc++ -lm -o build/rows/demo
 *   build/rows/demo
 *
 * Prints by how much the sums of the results differ from the squares of the sums. Exit status 1: more than rounding explains, or a rank did not come. */
#include "kernel.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { RANKS = 2, ROWS = 64, COLS = 8192 / RANKS, CALLS = 100 };

struct rank {
  void *x, *y, *work;
  unsigned *told; /* the GPU writes it after a failure */
  cudaStream_t stream;
};

static void check(cudaError_t e, const char *what)
{
  if (e == cudaSuccess) return;
  fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(e));
  exit(3);
}

static void *zeros(size_t bytes)
{
  void *p;
  check(cudaMalloc(&p, bytes ? bytes : 1), "memory");
  check(cudaMemset(p, 0, bytes), "memory");
  return p;
}

/* GPU r, with its columns of a whole tensor, and memory that the others may write. */
static void open_rank(struct rank *k, int r, void **exchange)
{
  const size_t bytes = sizeof(float) * ROWS * COLS;
  float *host = malloc(bytes);
  if (!host) exit(3);
  check(cudaSetDevice(r), "GPU");
  for (int other = 0; other < RANKS; other++)
    if (other != r) check(cudaDeviceEnablePeerAccess(other, 0), "peer access");
  for (int i = 0; i < ROWS * COLS; i++) host[i] = (float)(1 + sin(i * 0.37 + r));
  k->x = zeros(bytes), k->y = zeros(bytes), k->work = zeros(row_sums_workspace()), exchange[r] = zeros(row_sums_exchange());
  check(cudaMemcpy(k->x, host, bytes, cudaMemcpyHostToDevice), "copy");
  check(cudaMallocHost((void **)&k->told, sizeof *k->told), "memory of the host"), *k->told = 0;
  check(cudaStreamCreate(&k->stream), "stream");
  check((cudaError_t)row_sums_prepare(k->work, k->stream), "prepare");
  check(cudaStreamSynchronize(k->stream), "prepare");
  free(host);
}

/* To the sum of each row, of a whole tensor. */
static void add_up(const void *part, double *sum)
{
  static float host[ROWS * COLS];
  check(cudaMemcpy(host, part, sizeof host, cudaMemcpyDeviceToHost), "copy");
  for (int i = 0; i < ROWS; i++)
    for (int j = 0; j < COLS; j++) sum[i] += (double)host[i * COLS + j];
}

int main(void)
{
  static struct rank rank[RANKS];
  static double before[ROWS], after[ROWS];
  void *exchange[RANKS];
  double worst = 0;
  int gpus = 0;
  check(cudaGetDeviceCount(&gpus), "GPUs");
  if (gpus < row_sums_world()) return fprintf(stderr, "%d GPUs are needed, and there are %d\n", row_sums_world(), gpus), 3;
  for (int r = 0; r < RANKS; r++) open_rank(&rank[r], r, exchange);
  for (int i = 0; i < CALLS; i++)
    for (int r = 0; r < RANKS; r++) {
      struct rank *k = &rank[r];
      check(cudaSetDevice(r), "GPU");
      check((cudaError_t)row_sums_run(r, exchange, k->told, 10, (const void *const *)&k->x, &k->y, k->work, k->stream), "row_sums");
    }
  for (int r = 0; r < RANKS; r++) {
    check(cudaSetDevice(r), "GPU");
    check(cudaStreamSynchronize(rank[r].stream), "row_sums");
    if (*rank[r].told) return fprintf(stderr, "rank %d waited in vain\n", r), 1;
    add_up(rank[r].x, before), add_up(rank[r].y, after);
  }
  for (int i = 0; i < ROWS; i++) worst = fmax(worst, fabs(after[i] / (before[i] * before[i]) - 1));
  printf("sums of rows are right to %.2g after %d calls\n", worst, CALLS);
  return worst > 1e-4;
}

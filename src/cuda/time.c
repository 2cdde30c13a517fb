// Time of a kernel's launch. A graph of launches is replayed and timed by the device's clock, so calls on the host do not
// count. The launches use several sets of buffers in turn, together more than twice the L2 cache. So the data of a launch
// have left the cache before the same set is used again, as in a program of many kernels. If MOST_SETS sets are smaller
// than that, the buffers are so small that a program would find them in the cache as well.
#include "cuda/cuda.h"

#include <stdlib.h>

enum { MOST_SETS = 256, REPLAYS = 15, LAUNCHES = 64 };

static int by_value(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static int record(struct gpu *g, const struct gpu_launch *sets, int nsets, int launches, struct gpu_graph **graph, struct err *e)
{
  struct err second = {0}; // the recording must be ended after an error too; the first error is reported
  int status = gpu_record(g, e);
  for (int i = 0; i < launches && status == OK; i++) status = gpu_launch(g, &sets[i % nsets], e);
  int end = gpu_record_end(g, graph, status == OK ? e : &second);
  return status == OK ? end : status;
}

static int time_sets(struct gpu *g, const struct gpu_launch *sets, int nsets, struct cuda_time *out, struct err *e)
{
  int launches = (MAX(LAUNCHES, nsets) + nsets - 1) / nsets * nsets;
  struct gpu_graph *graph = NULL;
  double times[REPLAYS];
  int status = record(g, sets, nsets, launches, &graph, e);
  for (int i = 0; i < REPLAYS && status == OK; i++) status = gpu_time(g, graph, &times[i], e);
  gpu_graph_close(graph);
  if (status != OK) return status;
  qsort(times, REPLAYS, sizeof *times, by_value);
  out->median = times[REPLAYS / 2] / launches;
  out->least = times[0] / launches, out->most = times[REPLAYS - 1] / launches;
  return OK;
}

int cuda_time(struct gpu *g, struct arena *mem, const struct tile_program *p, const struct tile_kernel *k, const struct cuda_ready *r,
              const int64_t *sizes, void *const *host, const size_t *bytes, struct cuda_time *out, struct err *e)
{
  *out = (struct cuda_time){0};
  for (int i = 0; i < k->nbuffers; i++)
    if (k->buffers[i].mem == MEM_GL) out->bytes += (int64_t)bytes[i];
  int nsets = (int)MIN(2 * gpu_facts(g)->l2 / MAX(out->bytes, 1) + 2, MOST_SETS), status = OK;
  struct gpu_launch *sets = NEWS(mem, struct gpu_launch, nsets);
  gpu_address *a = NEWS(mem, gpu_address, (size_t)nsets * (size_t)(k->nbuffers + 1));
  for (int i = 0; i < nsets && status == OK; i++) {
    gpu_address *mine = a + (ptrdiff_t)i * k->nbuffers;
    status = cuda_upload(g, k, host, bytes, mine, e);
    if (status == OK) status = cuda_bind(g, mem, p, k, sizes, mine, &sets[i], e);
    sets[i].kernel = r->kernel;
  }
  out->sets = nsets;
  if (status == OK) status = time_sets(g, sets, nsets, out, e);
  for (int i = 0; i < nsets; i++) cuda_release(g, k, a + (ptrdiff_t)i * k->nbuffers);
  return status;
}

const char cuda_time_columns[] = "kernel,sizes,us median,us least,us most,bytes,GB/s,TFLOP/s";

void cuda_time_csv(const char *kernel, const char *sizes, const struct cuda_time *t, double flops, struct str *out)
{
  str_add(out, "%s,\"%s\",%.3f,%.3f,%.3f,%lld,%.1f,", kernel, sizes, 1e6 * t->median, 1e6 * t->least, 1e6 * t->most, (long long)t->bytes,
          1e-9 * (double)t->bytes / t->median);
  if (flops > 0) str_add(out, "%.1f", 1e-12 * flops / t->median);
}

// Seconds of the float64 reference of programs, on the CPU and on the GPU:
//   gpu_reference [--gpu-only] FILE[,NAME=VALUE]...
// One line a program, CSV: products (1e9 multiply-adds), seconds of inputs and reference on the CPU, the same on the GPU the first time (with its
// start and compiling) and once more, elements that the CPU checked, and the largest difference of outputs relative in the norm.
#include "base/memory.h"
#include "cuda/cuda.h"
#include "front/front.h"
#include "gpu/wire.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SET = 16 };

static int load(struct arena *mem, char *what, struct graph **g, struct err *e)
{
  const char *set[MOST_SET];
  int n = 0;
  char *rest = what, *file = strtok_r(what, ",", &rest), *word;
  while ((word = strtok_r(NULL, ",", &rest)) && n < MOST_SET) set[n++] = word;
  return load_file(mem, file, n, set, g, e);
}

static double distance(const struct problem *a, const struct problem *b)
{
  double most = 0;
  for (int i = 0; i < a->b->nout; i++) {
    const double *x = a->r.value[a->outs[i]], *y = b->r.value[b->outs[i]];
    double difference = 0, norm = 0;
    for (int64_t k = 0, n = shape_size(&a->g->tensors[a->outs[i]].shape); k < n; k++)
      difference += (x[k] - y[k]) * (x[k] - y[k]), norm += y[k] * y[k];
    most = fmax(most, norm > 0 ? sqrt(difference / norm) : sqrt(difference));
  }
  return most;
}

static int one(const char *name, const struct graph *g, struct gpu_forge *f, bool gpu_only)
{
  struct arena mem = {0};
  struct err e = {0};
  struct problem cpu = {0}, gpu = {0}, again = {0};
  struct gpu_evaluator *v = gpu_evaluator_open(&(struct gpu_evaluator_opts){.which = REFERENCE_GPU, .worker = "/proc/self/exe", .forge = f});
  const struct problem_wish by_cpu = {.seed = 1}, by_gpu = {1, NULL, gpu_evaluator_device(v)};
  int status = gpu_only ? OK : problem_open(&cpu, &mem, g, &by_cpu, &e);
  if (status == OK) status = problem_open(&gpu, &mem, g, &by_gpu, &e);
  if (status == OK) status = problem_open(&again, &mem, g, &by_gpu, &e);
  const struct gpu_evidence seen = gpu_evaluator_evidence(v);
  if (status == OK)
    printf("%s,%.2f,%.2f,%.2f,%.2f,%lld,%lld,%.1e,%s\n", name, 1e-9 * reference64_products(gpu.g), cpu.seconds, gpu.seconds, again.seconds,
           (long long)seen.checked, (long long)seen.differs, gpu_only ? 0 : distance(&gpu, &cpu), seen.why);
  else
    err_print(stderr, &e);
  fflush(stdout);
  problem_close(&cpu), problem_close(&gpu), problem_close(&again);
  gpu_evaluator_close(v), arena_close(&mem);
  return status;
}

int main(int argc, char **argv)
{
  if (argc == 3 && !strcmp(argv[1], "gpu-worker")) return gpu_worker_main(atoi(argv[2]));
  struct gpu_forge *f = gpu_forge_open(&(struct gpu_forge_opts){.worker = "/proc/self/exe"});
  int status = OK;
  bool gpu_only = false;
  printf("program,products_1e9,cpu_s,gpu_first_s,gpu_again_s,checked,differs,distance,why_cpu\n");
  for (int i = 1; i < argc && status == OK; i++) {
    struct arena mem = {0};
    struct err e = {0};
    struct graph *g;
    const char *name = arena_strdup(&mem, argv[i]);
    if (!strcmp(argv[i], "--gpu-only")) {
      gpu_only = true;
      continue;
    }
    status = load(&mem, argv[i], &g, &e);
    if (status == OK) status = one(name, g, f, gpu_only);
    if (e.status) err_print(stderr, &e);
    arena_close(&mem);
  }
  return gpu_forge_close(f), status;
}

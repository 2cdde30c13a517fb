// tile_gpu: runs tile kernels on this machine's GPU. One binary that needs only NVRTC and the driver:
//
//   tile_gpu [--time] [--no-check] [--kernel NAME] [--save FOLDER] FILE.tile[,NAME=VALUE...][,%BUFFER=SCALE...]...
//
// NAME is a size or a constant of the kernel; inputs are uniform in [-1, 1], times SCALE where one is given.
// For each file: the kernel is lowered for the device, printed as CUDA C++ and compiled; it runs on random inputs, and so
// does the interpreter; outputs are compared bit by bit and by the relative norm of their difference. With --time it is
// timed: a CUDA graph of launches over several sets of buffers, together more than twice the L2 cache, replayed; the
// median of a launch. --no-check leaves the interpreter out, for sizes that take it too long. Exit status 1: a kernel
// gave other numbers than the interpreter (relative norm above 1e-3), or the interpreter found an error in it.
#include "cuda/cuda.h"
#include "sim/number.h"
#include "sim/sim.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SETS = 256, REPLAYS = 15, LAUNCHES = 64, MAX_BUFFERS = 64, MAX_SETTINGS = 64 };
static const double TOLERANCE = 1e-3;

struct options {
  bool time, check;
  const char *kernel, *save;
};
struct scale {
  const char *buffer;
  double value;
};
struct job {
  struct arena *mem;
  const struct options *o;
  struct gpu *g;
  struct nvrtc *r;
  struct tile_program *p;
  struct tile_kernel *k;
  struct tile_setting set[MAX_SETTINGS];
  struct scale scale[MAX_BUFFERS];
  int nset, nscales;
  int64_t *sizes, total; // bytes of all global buffers
  size_t bytes[MAX_BUFFERS];
  void *start[MAX_BUFFERS], *gpu[MAX_BUFFERS], *sim[MAX_BUFFERS]; // host copies: before, after
  struct cuda_ready ready;
  struct err *e;
};

// ---- numbers ----

// Uniform in [-scale, scale], with 8 bits, as bfloat16 has; integers 0 to 7.
static void fill(enum tile_type t, void *p, int64_t n, double scale, struct rng *r)
{
  int bytes = tile_types[t].bytes;
  for (int64_t i = 0; i < n; i++) {
    double x = num_is_float(t) ? scale * ((double)rng_below(r, 257) - 128) / 128 : (double)rng_below(r, 8);
    num_set(t, x, (char *)p + i * bytes);
  }
}

// ---- a kernel at its sizes ----

// "NAME=VALUE,..." to settings: sizes, constants, and scales of buffers (%NAME).
static int read_words(struct job *j, char *words)
{
  for (char *rest = words, *word; (word = strtok_r(rest, ",", &rest));) {
    char *value = strchr(word, '='), *end = NULL;
    if (!value || j->nset == MAX_SETTINGS) return err_set(j->e, ERR_OPTION, NOWHERE, "%s is not NAME=VALUE", word);
    *value++ = 0;
    if (*word == '%') {
      j->scale[j->nscales] = (struct scale){word + 1, strtod(value, &end)}, j->nscales++;
      if (j->nscales == MAX_BUFFERS) return err_set(j->e, ERR_LIMIT, NOWHERE, "more than %d scales", MAX_BUFFERS);
    } else {
      j->set[j->nset++] = (struct tile_setting){word, strtoll(value, &end, 10), false};
    }
    if (*end || end == value) return err_set(j->e, ERR_OPTION, NOWHERE, "%s=%s: not a number", word, value);
  }
  return OK;
}

static int size_of(struct job *j)
{
  j->sizes = NEWS(j->mem, int64_t, j->k->nparams + 1);
  for (int i = 0; i < j->k->nparams; i++) {
    bool fixed = ex_is_const(j->k->params[i]);
    const char *name = fixed ? "" : ex_node(j->p->ex, j->k->params[i])->name;
    j->sizes[i] = fixed ? ex_value(j->k->params[i]) : -1;
    for (int s = 0; s < j->nset; s++)
      if (!strcmp(j->set[s].name, name)) j->sizes[i] = j->set[s].value;
    if (j->sizes[i] < 0)
      return err_set(j->e, ERR_OPTION, NOWHERE, "give the size %s of the kernel %s: FILE,%s=...", name, j->k->name, name);
  }
  return OK;
}

static double scale_of(const struct job *j, const char *buffer)
{
  for (int i = 0; i < j->nscales; i++)
    if (!strcmp(j->scale[i].buffer, buffer)) return j->scale[i].value;
  return 1;
}

// As aligned as memory of the device is.
static void *aligned(struct arena *mem, size_t bytes)
{
  uintptr_t at = (uintptr_t)arena_alloc(mem, bytes + 256);
  return (void *)((at + 255) & ~(uintptr_t)255);
}

static int host_buffers(struct job *j)
{
  struct rng r = {42};
  if (j->k->nbuffers > MAX_BUFFERS) return err_set(j->e, ERR_LIMIT, NOWHERE, "more than %d buffers", MAX_BUFFERS);
  for (int i = 0; i < j->k->nbuffers; i++) {
    const struct tile_buffer *b = &j->k->buffers[i];
    if (b->mem != MEM_GL) continue;
    int64_t n = cuda_elements(j->mem, j->p, j->k, i, j->sizes);
    if (n < 0) return err_set(j->e, ERR_LIMIT, NOWHERE, "%%%s is too large", b->name);
    j->bytes[i] = (size_t)n * (size_t)tile_types[b->type].bytes;
    j->total += (int64_t)j->bytes[i];
    j->start[i] = aligned(j->mem, j->bytes[i]);
    fill(b->type, j->start[i], n, scale_of(j, b->name), &r);
    j->gpu[i] = memcpy(aligned(j->mem, j->bytes[i]), j->start[i], j->bytes[i]);
    if (j->o->check) j->sim[i] = memcpy(aligned(j->mem, j->bytes[i]), j->start[i], j->bytes[i]);
  }
  return OK;
}

static int device_buffers(struct job *j, gpu_address *a)
{
  for (int i = 0; i < j->k->nbuffers; i++) {
    if (j->k->buffers[i].mem != MEM_GL) continue;
    if (gpu_alloc(j->g, j->bytes[i], &a[i], j->e) || gpu_write(j->g, a[i], j->start[i], j->bytes[i], j->e)) return j->e->status;
  }
  return OK;
}

static void device_free(struct job *j, gpu_address *a)
{
  for (int i = 0; i < j->k->nbuffers; i++) gpu_free(j->g, a[i]);
}

// ---- right? ----

static int run_sim(struct job *j)
{
  struct sim_buffer b[MAX_BUFFERS];
  struct sim_report report = {0};
  int n = 0;
  for (int i = 0; i < j->k->nbuffers; i++)
    if (j->k->buffers[i].mem == MEM_GL) b[n++] = (struct sim_buffer){j->sim[i], j->bytes[i], true};
  struct sim_input in = {.params = j->sizes, .buffers = b, .nbuffers = n};
  if (sim_run(j->mem, j->p, j->k, &in, &report, j->e)) return j->e->status;
  if (!report.found) return OK;
  struct str s = {0};
  sim_print_errors(&report, &s);
  printf("%s", str_text(&s));
  str_free(&s);
  return NO;
}

static int compare(struct job *j)
{
  int status = OK;
  for (int i = 0; i < j->k->nbuffers; i++) {
    const struct tile_buffer *b = &j->k->buffers[i];
    if (b->mem != MEM_GL || !b->written) continue;
    int64_t n = (int64_t)j->bytes[i] / tile_types[b->type].bytes;
    struct cuda_difference d = cuda_compare(b->type, j->gpu[i], j->sim[i], n);
    bool fine = d.relative <= TOLERANCE; // not a number is not fine, nor is infinite
    printf("  %%%s: %lld of %lld elements differ in bits, relative norm %.3g%s\n", b->name, (long long)d.other, (long long)n,
           d.relative, fine ? "" : "  WRONG");
    if (fine) continue;
    if (d.first >= 0) printf("    element %lld: the GPU has %g, the interpreter %g\n", (long long)d.first, d.a, d.b);
    status = NO;
  }
  return status;
}

// ---- fast? ----

static int by_value(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static int time_graph(struct job *j, struct gpu_launch *sets, int nsets)
{
  int launches = (MAX(LAUNCHES, nsets) + nsets - 1) / nsets * nsets;
  struct gpu_graph *graph = NULL;
  double times[REPLAYS];
  int status = gpu_record(j->g, j->e);
  for (int i = 0; i < launches && status == OK; i++) status = gpu_launch(j->g, &sets[i % nsets], j->e);
  struct err second = {0};
  int end = gpu_record_end(j->g, &graph, status == OK ? j->e : &second);
  if (status == OK) status = end;
  for (int i = 0; i < REPLAYS && status == OK; i++) status = gpu_time(j->g, graph, &times[i], j->e);
  if (status == OK) {
    qsort(times, REPLAYS, sizeof *times, by_value);
    double t = times[REPLAYS / 2] / launches;
    printf("  time %.3f us (least %.3f, most %.3f); %lld bytes of buffers, %.1f GB/s; %d sets\n", 1e6 * t,
           1e6 * times[0] / launches, 1e6 * times[REPLAYS - 1] / launches, (long long)j->total, 1e-9 * (double)j->total / t, nsets);
  }
  gpu_graph_close(graph);
  return status;
}

static int measure(struct job *j)
{
  int64_t wanted = 2 * gpu_facts(j->g)->l2 / MAX(j->total, 1) + 2;
  int nsets = (int)MIN(wanted, MAX_SETS), status = OK;
  struct gpu_launch *sets = NEWS(j->mem, struct gpu_launch, nsets);
  gpu_address(*a)[MAX_BUFFERS] = arena_alloc(j->mem, sizeof *a * (size_t)nsets);
  for (int i = 0; i < nsets && status == OK; i++) {
    status = device_buffers(j, a[i]);
    if (status == OK) status = cuda_bind(j->g, j->mem, j->p, j->k, j->sizes, a[i], &sets[i], j->e);
    sets[i].kernel = j->ready.kernel;
  }
  if (status == OK) status = time_graph(j, sets, nsets);
  for (int i = 0; i < nsets; i++) device_free(j, a[i]);
  return status;
}

// ---- files ----

static int one_kernel(struct job *j)
{
  if (size_of(j) || host_buffers(j)) return j->e->status;
  if (tile_lower(j->p, j->k, gpu_facts(j->g)->arch, j->e)) return j->e->status;
  if (cuda_prepare(j->g, j->r, j->mem, j->p, j->k, &j->ready, j->e)) return j->e->status;
  struct gpu_use use = gpu_use(j->ready.kernel);
  printf("%s: compiled in %.3f s; %d registers, %d bytes of local memory, %lld bytes of shared memory\n", j->k->name,
         j->ready.seconds, use.registers, use.local_bytes, (long long)j->k->shared_bytes);
  if (j->o->save) {
    const char *path = arena_printf(j->mem, "%s/%s.cu", j->o->save, cuda_kernel_name(j->mem, j->k));
    if (file_write(path, j->ready.source, strlen(j->ready.source), j->e)) return j->e->status;
  }
  if (cuda_once(j->g, j->mem, j->p, j->k, &j->ready, j->sizes, j->gpu, j->bytes, j->e)) return j->e->status;
  int answer = OK;
  if (j->o->check) {
    answer = run_sim(j);
    if (answer > NO) return answer;
    answer = MAX(answer, compare(j));
  }
  return j->o->time && measure(j) ? (int)j->e->status : answer;
}

static int one_file(const struct options *o, struct gpu *g, struct nvrtc *r, const char *word, struct err *e)
{
  struct arena mem = {0};
  char *path = arena_strdup(&mem, word), *sizes = strchr(path, ','), none[1] = "", *text;
  size_t n;
  if (sizes) *sizes++ = 0;
  struct job j = {.mem = &mem, .o = o, .g = g, .r = r, .e = e};
  int status = file_read(&mem, path, &text, &n, e);
  if (status == OK) status = read_words(&j, sizes ? sizes : none);
  if (status == OK) status = tile_parse_set(&mem, path, text, j.nset, j.set, &j.p, e);
  for (int i = 0; status == OK && i < j.p->nkernels; i++)
    if (!o->kernel || !strcmp(o->kernel, j.p->kernels[i]->name)) j.k = j.p->kernels[i];
  if (status == OK && !j.k) status = err_set(e, ERR_OPTION, NOWHERE, "%s has no kernel %s", path, o->kernel);
  if (status == OK) {
    printf("%s\n", word);
    status = one_kernel(&j);
  }
  gpu_unload(j.ready.module);
  arena_close(&mem);
  return status;
}

static int option(struct options *o, int argc, char **argv, int i)
{
  if (!strcmp(argv[i], "--time")) return o->time = true, 1;
  if (!strcmp(argv[i], "--no-check")) return o->check = false, 1;
  if (!strcmp(argv[i], "--kernel") && i + 1 < argc) return o->kernel = argv[i + 1], 2;
  if (!strcmp(argv[i], "--save") && i + 1 < argc) return o->save = argv[i + 1], 2;
  return 0;
}

int main(int argc, char **argv)
{
  struct options o = {.check = true};
  struct err e = {0};
  struct gpu *g = NULL;
  struct nvrtc *r = NULL;
  int status = gpu_open(0, &g, &e), answer = OK;
  if (status == OK) status = nvrtc_open(&r, &e);
  if (status == OK) printf("%s, %d multiprocessors, L2 of %lld bytes\n", gpu_facts(g)->name, gpu_facts(g)->processors, (long long)gpu_facts(g)->l2);
  for (int i = 1; i < argc && status == OK; i++) {
    int words = option(&o, argc, argv, i);
    i += words ? words - 1 : 0;
    if (words) continue;
    struct err mine = {0};
    int s = one_file(&o, g, r, argv[i], &mine);
    if (s > NO) err_print(stdout, &mine);
    answer = MAX(answer, s);
  }
  if (status != OK) err_print(stderr, &e);
  nvrtc_close(r);
  gpu_close(g);
  return status != OK ? status : answer;
}

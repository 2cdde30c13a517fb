// tile_gpu: runs tile kernels on this machine's GPU. One binary that needs only NVRTC and the driver:
//
//   tile_gpu [--time] [--no-check] [--kernel NAME] [--save FOLDER] [--csv FILE]
//            { FILE.tile[,NAME=VALUE...][,%BUFFER=SCALE...] [--against PROGRAM.mica[,NAME=VALUE...]] | FILE.list }...
//
// A list has such words, a kernel a line; # starts a comment.
// NAME is a size or a constant of the kernel; inputs are uniform in [-1, 1], times SCALE where one is given.
// For each file: the kernel is lowered for the device, printed as CUDA C++ and compiled; it runs on random inputs, and so
// does the interpreter; outputs are compared bit by bit and by the relative norm of their difference. With --time it is
// timed: a CUDA graph of launches over several sets of buffers, together more than twice the L2 cache, replayed; the
// median of a launch; --csv adds a line to a file. --no-check leaves the interpreter out, for sizes that take it too long.
// With --against, outputs are held against a tensor program in float64 too (core/against.h). Exit status 1: a kernel gave
// other numbers than the interpreter (relative norm above 1e-3) or than the program, or the interpreter found an error in
// it; 2: a kernel or a program could not be read; 3: there is no GPU.
#include "core/against.h"
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
  const char *kernel, *save, *csv;
};
struct row { // of the table at the end
  const char *word;
  int64_t elements, other; // of outputs; that differ from the interpreter's in bits
  double from_sim, from_program, us; // the largest relative norms; negative: not known
  int status;
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
  double flops; // of the program's products
  struct row *row;
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
static int read_settings(struct job *j, char *words)
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
    j->row->elements += n, j->row->other += d.other;
    bool fine = d.relative <= TOLERANCE; // not a number is not fine, nor is infinite
    j->row->from_sim = fine ? fmax(j->row->from_sim, d.relative) : d.relative;
    printf("  %%%s: %lld of %lld elements differ in bits, relative norm %.3g%s\n", b->name, (long long)d.other, (long long)n,
           d.relative, fine ? "" : "  WRONG");
    if (fine) continue;
    if (d.first >= 0) printf("    element %lld: the GPU has %g, the interpreter %g\n", (long long)d.first, d.a, d.b);
    status = NO;
  }
  return status;
}

static int against(struct job *j, const char *program)
{
  struct against a = {0};
  struct graph *g;
  int status = against_program(j->mem, program, &g, j->e), answer = OK;
  if (status == OK) status = against_open(&a, j->mem, g, j->p, j->k, j->sizes, j->start, j->e);
  if (status == OK) j->flops = 2 * reference64_products(a.g), printf("  against %s, %.2f s in float64\n", program, a.seconds);
  for (int i = 0; i < a.noutputs && status == OK; i++) {
    struct against_answer r;
    struct str s = {0};
    against_compare(&a, i, j->gpu[a.output[i]], &r);
    against_text(&r, &s);
    printf("  %s", str_text(&s));
    str_free(&s);
    j->row->from_program = fmax(j->row->from_program, r.relative);
    if (!r.fine || r.flat) answer = NO;
  }
  against_close(&a);
  return status != OK ? status : answer;
}

// ---- fast? ----

static int by_value(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

// kernel, sizes, median, least and most in us, bytes, GB/s, TFLOP/s
static int csv(struct job *j, double median, double least, double most)
{
  FILE *f = fopen(j->o->csv, "a");
  if (!f) return err_set(j->e, ERR_FILE, NOWHERE, "%s can not be written", j->o->csv);
  const char *sizes = strchr(j->row->word, ',');
  fprintf(f, "%s,\"%s\",%.3f,%.3f,%.3f,%lld,%.1f,", j->k->name, sizes ? sizes + 1 : "", 1e6 * median, 1e6 * least, 1e6 * most,
          (long long)j->total, 1e-9 * (double)j->total / median);
  if (j->flops > 0) fprintf(f, "%.1f", 1e-12 * j->flops / median);
  fprintf(f, "\n");
  return fclose(f) ? err_set(j->e, ERR_FILE, NOWHERE, "%s can not be written", j->o->csv) : OK;
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
    j->row->us = 1e6 * t;
    if (j->o->csv) status = csv(j, t, times[0] / launches, times[REPLAYS - 1] / launches);
  }
  gpu_graph_close(graph);
  return status;
}

static int time_kernel(struct job *j)
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

static int one_kernel(struct job *j, const char *program)
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
    int same = compare(j);
    answer = MAX(answer, same);
  }
  int right = program ? against(j, program) : OK;
  if (right > NO) return right;
  answer = MAX(answer, right);
  return j->o->time && time_kernel(j) ? (int)j->e->status : answer;
}

static int one_file(const struct options *o, struct gpu *g, struct nvrtc *r, const char *program, struct row *row, struct err *e)
{
  const char *word = row->word;
  struct arena mem = {0};
  char *path = arena_strdup(&mem, word), *sizes = strchr(path, ','), none[1] = "", *text;
  size_t n;
  if (sizes) *sizes++ = 0;
  struct job j = {.mem = &mem, .o = o, .g = g, .r = r, .row = row, .e = e};
  int status = file_read(&mem, path, &text, &n, e);
  if (status == OK) status = read_settings(&j, sizes ? sizes : none);
  if (status == OK) status = tile_parse_set(&mem, path, text, j.nset, j.set, &j.p, e);
  for (int i = 0; status == OK && i < j.p->nkernels; i++)
    if (!o->kernel || !strcmp(o->kernel, j.p->kernels[i]->name)) j.k = j.p->kernels[i];
  if (status == OK && !j.k) status = err_set(e, ERR_OPTION, NOWHERE, "%s has no kernel %s", path, o->kernel);
  if (status == OK) {
    printf("%s\n", word);
    status = one_kernel(&j, program);
  }
  gpu_unload(j.ready.module);
  arena_close(&mem);
  return status;
}

struct words {
  struct arena mem;
  const char **word;
  int n, cap;
};

// The arguments, with the words of lists in their places.
static int read_words(struct words *w, int argc, char **argv, struct err *e)
{
  for (int i = 1; i < argc; i++) {
    const char *dot = strrchr(argv[i], '.');
    char *text, *lines = NULL;
    size_t n;
    if (!dot || strcmp(dot, ".list") != 0) {
      PUSH(&w->mem, w->word, w->n, w->cap) = argv[i];
      continue;
    }
    if (file_read(&w->mem, argv[i], &text, &n, e)) return e->status;
    for (char *line = strtok_r(text, "\n", &lines); line; line = strtok_r(NULL, "\n", &lines)) {
      char *rest = NULL;
      line[strcspn(line, "#")] = 0;
      for (char *s = strtok_r(line, " \t", &rest); s; s = strtok_r(NULL, " \t", &rest)) PUSH(&w->mem, w->word, w->n, w->cap) = s;
    }
  }
  return OK;
}

static int option(struct options *o, int n, const char **word)
{
  const struct {
    const char *name;
    const char **to;
  } texts[] = {{"--kernel", &o->kernel}, {"--save", &o->save}, {"--csv", &o->csv}};
  if (!strcmp(*word, "--time")) return o->time = true, 1;
  if (!strcmp(*word, "--no-check")) return o->check = false, 1;
  for (size_t i = 0; i < COUNT(texts) && n > 1; i++)
    if (!strcmp(*word, texts[i].name)) return *texts[i].to = word[1], 2;
  return 0;
}

static void number(double x) { x < 0 ? printf(" %12s", "-") : printf(" %12.3g", x); }

static void table(const struct row *rows, int n)
{
  printf("\n%12s %12s %12s %12s  kernel\n", "other bits", "interpreter", "float64", "us");
  for (int i = 0; i < n; i++) {
    const struct row *r = &rows[i];
    number(r->from_sim < 0 || !r->elements ? -1 : (double)r->other / (double)r->elements);
    number(r->from_sim), number(r->from_program), number(r->us);
    printf("  %s%s\n", r->word, r->status == OK ? "" : r->status == NO ? "  WRONG" : "  ERROR");
  }
}

static int all(struct options *o, struct gpu *g, struct nvrtc *r, struct words *w)
{
  struct row *rows = NEWS(&w->mem, struct row, w->n + 1);
  int n = 0, answer = OK;
  for (int i = 0; i < w->n;) {
    int words = option(o, w->n - i, w->word + i);
    i += words;
    if (words) continue;
    rows[n] = (struct row){.word = w->word[i++], .from_sim = -1, .from_program = -1, .us = -1};
    bool given = i + 1 < w->n && !strcmp(w->word[i], "--against");
    struct err mine = {0};
    rows[n].status = one_file(o, g, r, given ? w->word[i + 1] : NULL, &rows[n], &mine);
    i += given ? 2 : 0;
    if (rows[n].status > NO) err_print(stdout, &mine);
    answer = MAX(answer, rows[n++].status);
    fflush(stdout);
  }
  table(rows, n);
  return answer;
}

int main(int argc, char **argv)
{
  struct options o = {.check = true};
  struct err e = {0};
  struct gpu *g = NULL;
  struct nvrtc *r = NULL;
  struct words w = {0};
  int status = read_words(&w, argc, argv, &e), answer = OK;
  if (status == OK) status = gpu_open(0, &g, &e);
  if (status == OK) status = nvrtc_open(&r, &e);
  if (status == OK) {
    printf("%s, %d multiprocessors, L2 of %lld bytes\n", gpu_facts(g)->name, gpu_facts(g)->processors, (long long)gpu_facts(g)->l2);
    answer = all(&o, g, r, &w);
  }
  if (status != OK) err_print(stderr, &e);
  nvrtc_close(r);
  gpu_close(g);
  arena_close(&w.mem);
  return status != OK ? status : answer;
}

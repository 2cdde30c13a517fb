// tile_gpu: runs tile kernels on this machine's GPU. One binary that needs only NVRTC and the driver:
//
//   tile_gpu [--time] [--no-check] [--kernel NAME] [--save FOLDER] [--csv FILE]
//            { FILE.tile[,NAME=VALUE...][,%BUFFER=SCALE...] [--against PROGRAM.mica[,NAME=VALUE...]] | FILE.list }...
//
// A list has such words, a kernel a line; # starts a comment.
// NAME is a size or a constant of the kernel; inputs are uniform in [-1, 1], times SCALE where one is given.
// For each file: the kernel is lowered for the device, printed as CUDA C++ and compiled; it runs on random inputs, and so
// does the interpreter; outputs are compared bit by bit and by the relative norm of their difference. With --time it is
// timed (src/cuda/time.c); --csv adds a line to a file. --no-check leaves the interpreter out, for sizes that take it too long.
// With --against, outputs are held against a tensor program in float64 too (sim/against.h). Exit status 1: a kernel gave
// other numbers than the interpreter (relative norm above 1e-3) or than the program, or the interpreter found an error in
// it, and then it is not timed; 2: a kernel or a program is not well-formed; 3: there is no GPU, or a file is missing.
#include "sim/against.h"
#include "sim/tile_host.h"
#include "cuda/cuda.h"
#include "sim/sim.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_BUFFERS = 64 };
static const double TOLERANCE = 1e-3;

struct options {
  bool time, check;
  const char *kernel, *save, *csv;
};
struct row { // of the summary table
  const char *word;
  int64_t elements, other;           // of outputs; those whose bits differ from the interpreter's
  double from_sim, from_program, us; // the largest relative norms; negative: unknown
  int status;
};
struct job {
  struct arena *mem;
  const struct options *o;
  struct gpu *g;
  struct nvrtc *r;
  struct tile_program *p;
  struct tile_kernel *k;
  struct tile_words words;
  struct tile_host host;                       // sizes, and buffers after the interpreter
  void *start[MAX_BUFFERS], *gpu[MAX_BUFFERS]; // initial contents; contents after the GPU
  struct cuda_ready ready;
  double flops; // of the program's products
  struct row *row;
  struct err *e;
};

// ---- a kernel at its sizes ----

static int host_buffers(struct job *j)
{
  if (j->k->nbuffers > MAX_BUFFERS) return err_set(j->e, ERR_LIMIT, NOWHERE, "more than %d buffers", MAX_BUFFERS);
  if (tile_host_fill(&j->host, 42, j->words.nfills, j->words.fills, j->e)) return j->e->status;
  for (int i = 0; i < j->k->nbuffers; i++) {
    if (!j->host.data[i]) continue;
    j->start[i] = arena_copy(j->mem, j->host.data[i], j->host.bytes[i]);
    j->gpu[i] = arena_copy(j->mem, j->host.data[i], j->host.bytes[i]);
  }
  return OK;
}

// ---- correctness ----

static int run_sim(struct job *j)
{
  struct sim_report report;
  if (tile_host_run(&j->host, &report, NULL, j->e)) return j->e->status;
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
    int64_t n = (int64_t)j->host.bytes[i] / tile_types[b->type].bytes;
    struct sim_difference d = sim_compare(b->type, j->gpu[i], j->host.data[i], n);
    j->row->elements += n, j->row->other += d.other;
    bool fine = d.relative <= TOLERANCE; // false for NaN and infinity
    j->row->from_sim = fine ? fmax(j->row->from_sim, d.relative) : d.relative;
    printf("  %%%s: %lld of %lld elements differ in bits, relative norm %.3g%s\n", b->name, (long long)d.other, (long long)n, d.relative,
           fine ? "" : "  WRONG");
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
  if (status == OK) status = against_open(&a, j->mem, g, j->p, j->k, j->host.params, j->start, j->e);
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

// ---- time ----

static int csv(struct job *j, const struct cuda_time *t)
{
  FILE *f = fopen(j->o->csv, "a");
  if (!f) return err_set(j->e, ERR_FILE, NOWHERE, "%s can not be written", j->o->csv);
  const char *sizes = strchr(j->row->word, ',');
  struct str s = {0};
  cuda_time_csv(j->k->name, sizes ? sizes + 1 : "", t, j->flops, &s);
  fprintf(f, "%s\n", str_text(&s));
  str_free(&s);
  return fclose(f) ? err_set(j->e, ERR_FILE, NOWHERE, "%s can not be written", j->o->csv) : OK;
}

static int time_kernel(struct job *j)
{
  struct cuda_time t;
  if (cuda_time(j->g, j->mem, j->p, j->k, &j->ready, j->host.params, j->start, j->host.bytes, &t, j->e)) return j->e->status;
  j->row->us = 1e6 * t.median;
  printf("  time %.3f us (least %.3f, most %.3f); %lld bytes of buffers, %.1f GB/s; %d sets\n", 1e6 * t.median, 1e6 * t.least, 1e6 * t.most,
         (long long)t.bytes, 1e-9 * (double)t.bytes / t.median, t.sets);
  return j->o->csv ? csv(j, &t) : OK;
}

// ---- files ----

static int one_kernel(struct job *j, const char *program)
{
  if (tile_host_open(&j->host, j->mem, j->p, j->k, j->words.nset, j->words.set, j->e) || host_buffers(j)) return j->e->status;
  if (tile_lower(j->p, j->k, gpu_facts(j->g)->arch, j->e)) return j->e->status;
  if (cuda_prepare(j->g, j->r, j->mem, j->p, j->k, &j->ready, j->e)) return j->e->status;
  struct gpu_use use = gpu_use(j->ready.kernel);
  printf("%s: compiled in %.3f s; %d registers, %d bytes of local memory, %lld bytes of shared memory\n", j->k->name, j->ready.seconds, use.registers,
         use.local_bytes, (long long)j->k->shared_bytes);
  if (j->o->save) {
    const char *path = arena_printf(j->mem, "%s/%s.cu", j->o->save, cuda_kernel_name(j->mem, j->k));
    if (file_write(path, j->ready.source, strlen(j->ready.source), j->e)) return j->e->status;
  }
  if (cuda_once(j->g, j->mem, j->p, j->k, &j->ready, j->host.params, j->gpu, j->host.bytes, j->e)) return j->e->status;
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
  return j->o->time && answer == OK && time_kernel(j) ? (int)j->e->status : answer;
}

static int one_file(const struct options *o, struct gpu *g, struct nvrtc *r, const char *program, struct row *row, struct err *e)
{
  struct arena mem = {0};
  char *text;
  size_t n;
  struct job j = {.mem = &mem, .o = o, .g = g, .r = r, .row = row, .e = e};
  int status = tile_host_words(&mem, row->word, &j.words, e);
  if (status == OK) status = file_read(&mem, j.words.path, &text, &n, e);
  if (status == OK) status = tile_parse_set(&mem, j.words.path, text, j.words.nset, j.words.set, &j.p, e);
  for (int i = 0; status == OK && i < j.p->nkernels; i++)
    if (!o->kernel || !strcmp(o->kernel, j.p->kernels[i]->name)) j.k = j.p->kernels[i];
  if (status == OK && !j.k) status = err_set(e, ERR_OPTION, NOWHERE, "%s has no kernel %s", j.words.path, o->kernel);
  if (status == OK) {
    printf("%s\n", row->word);
    status = one_kernel(&j, program);
  }
  if (status > NO) err_print(stdout, e); // before mem is freed, which has the place
  gpu_unload(j.ready.module);
  arena_close(&mem);
  return status;
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

static int all(struct options *o, struct gpu *g, struct nvrtc *r, struct arena *mem, const struct tile_list *w)
{
  struct row *rows = NEWS(mem, struct row, w->n + 1);
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
    answer = MAX(answer, rows[n].status), n++;
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
  struct arena mem = {0};
  struct tile_list w;
  int status = tile_host_list(&mem, argc - 1, (const char *const *)argv + 1, &w, &e), answer = OK;
  if (status == OK) status = gpu_open(0, &g, &e);
  if (status == OK) status = nvrtc_open(&r, &e);
  if (status == OK) {
    printf("%s, %d multiprocessors, L2 of %lld bytes\n", gpu_facts(g)->name, gpu_facts(g)->processors, (long long)gpu_facts(g)->l2);
    answer = all(&o, g, r, &mem, &w);
  }
  if (status != OK) err_print(stderr, &e);
  nvrtc_close(r);
  gpu_close(g);
  arena_close(&mem);
  return status != OK ? status : answer;
}

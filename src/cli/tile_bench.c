// mica tile bench: times of kernels on this machine's GPU (cuda/time.c). With --against, a kernel is timed only if its results equal a program's in
// float64. With --arch kernels are only compiled, which needs no GPU: registers, spills, shared memory. All arguments are checked before the GPU is
// opened, so their errors are reported on any machine. Exit status 1: results differ from the program's.
#include "cli/cli.h"
#include "sim/against.h"
#include "sim/tile_host.h"
#include "cuda/cuda.h"

#include <math.h>
#include <string.h>

struct row {
  const char *word, *program;
  struct arena mem; // of the buffers, while it is timed
  struct tile_words words;
  struct tile_program *p;
  struct tile_kernel *k;
  struct graph *g; // for --against, or NULL
  struct tile_host host;
  struct cuda_time t;
  double flops, off; // flops: of the program's products; off: largest relative norm
  bool timed;
};
struct bench {
  struct cli *c;
  struct row *rows;
  int n, arch; // arch: of --arch; 0: time
  struct gpu *g;
  struct nvrtc *r;
  char commit[48];
};

// ---- arguments ----

// Settings of the argument, and those of --set that it does not change.
static int settings(struct cli *c, struct tile_words *w)
{
  struct tile_setting *given, *set = NEWS(&c->mem, struct tile_setting, w->nset + c->nset + 1);
  int n = w->nset;
  TRY(cli_tile_settings(c, &given));
  memcpy(set, w->set, (size_t)n * sizeof *set);
  for (int i = 0; i < c->nset; i++) {
    bool changed = false;
    for (int j = 0; j < w->nset; j++) changed = changed || !strcmp(w->set[j].name, given[i].name);
    if (!changed) set[n++] = given[i];
  }
  w->set = set, w->nset = n;
  return OK;
}

static int read_row(struct bench *b, struct row *r)
{
  struct cli *c = b->c;
  TRY(tile_host_words(&c->mem, r->word, &r->words, &c->err));
  TRY(settings(c, &r->words));
  TRY(cli_load_tile_set(c, r->words.path, r->words.nset, r->words.set, &r->p));
  TRY(cli_tile_kernel(c, r->p, &r->k));
  TRY(tile_host_names(r->k, r->words.nfills, r->words.fills, &c->err));
  if (!b->arch) TRY(tile_host_open(&r->host, &r->mem, r->p, r->k, r->words.nset, r->words.set, &c->err));
  return r->program ? against_program(&c->mem, r->program, &r->g, &c->err) : OK;
}

// "FILE.tile[,...] [--against PROGRAM]" again and again.
static int read_rows(struct bench *b, int n, const char **words)
{
  struct cli *c = b->c;
  struct tile_list list;
  TRY(tile_host_list(&c->mem, n, words, &list, &c->err));
  b->rows = NEWS(&c->mem, struct row, list.n + 1);
  for (int i = 0; i < list.n; i++) {
    const char *word = list.word[i];
    if (strncmp(word, "--", 2) != 0)
      b->rows[b->n++] = (struct row){.word = word, .off = -1};
    else if (!strcmp(word, "--against") && i + 1 < list.n && b->n)
      b->rows[b->n - 1].program = list.word[++i];
    else
      return err_set(&c->err, ERR_OPTION, NOWHERE, "%.80s: a line of a list is FILE.tile[,NAME=VALUE]... [--against PROGRAM]", word);
  }
  if (!b->n) return err_set(&c->err, ERR_OPTION, NOWHERE, "the lists name no kernel");
  if (c->against && b->n > 1)
    return err_set(&c->err, ERR_OPTION, NOWHERE, "--against is of one kernel, and there are %d: a list has one for each", b->n);
  if (c->against) b->rows[0].program = c->against;
  for (int i = 0; i < b->n; i++) TRY(read_row(b, &b->rows[i]));
  return OK;
}

// ---- without a GPU ----

static int compile_row(struct bench *b, struct row *r, struct err *e)
{
  struct str text = {0};
  struct cubin cubin;
  TRY(tile_lower(r->p, r->k, b->arch, e));
  int status = cuda_print(r->p, r->k, b->arch, &text, e);
  if (status == OK) status = nvrtc_compile(b->r, &r->mem, r->k->name, str_text(&text), b->arch, &cubin, e);
  str_free(&text);
  if (status == OK && output_wants_text(b->c))
    printf("%10d %10d %10lld  %s\n", cubin.registers, cubin.spilled, (long long)r->k->shared_bytes, r->word);
  return status;
}

// ---- on the GPU ----

static int hold_outputs(struct row *r, const struct against *a, void *const *got)
{
  int answer = OK;
  for (int i = 0; i < a->noutputs; i++) {
    struct against_answer x;
    struct str s = {0};
    against_compare(a, i, got[a->output[i]], &x);
    r->off = fmax(r->off, x.relative);
    if (x.fine && !x.flat) continue;
    answer = NO;
    against_text(&x, &s);
    printf("%s: WRONG, not timed\n  %s", r->word, str_text(&s));
    str_free(&s);
  }
  return answer;
}

static int hold(struct bench *b, struct row *r, const struct cuda_ready *ready, struct err *e)
{
  struct tile_host *h = &r->host;
  struct against a = {0};
  void **got = NEWS(&r->mem, void *, h->k->nbuffers + 1);
  for (int i = 0; i < h->k->nbuffers; i++)
    if (h->data[i]) got[i] = arena_copy(&r->mem, h->data[i], h->bytes[i]);
  int status = against_open(&a, &r->mem, r->g, h->p, h->k, h->params, h->data, e);
  if (status == OK) status = cuda_once(b->g, &r->mem, h->p, h->k, ready, h->params, got, h->bytes, e);
  if (status == OK) r->flops = 2 * reference64_products(a.g);
  if (status == OK) status = hold_outputs(r, &a, got);
  against_close(&a);
  return status;
}

static void number(double x, int width, int places) { x > 0 ? printf(" %*.*f", width, places, x) : printf(" %*s", width, "-"); }

static void print_time(const struct row *r, struct gpu_use use)
{
  const struct cuda_time *t = &r->t;
  printf("%10.3f %10.3f %10.3f %8.1f", 1e6 * t->median, 1e6 * t->least, 1e6 * t->most, 1e-9 * (double)t->bytes / t->median);
  number(1e-12 * r->flops / t->median, 8, 1);
  r->off < 0 ? printf(" %9s", "-") : printf(" %9.2g", r->off);
  printf(" %9d %7d  %s\n", use.registers, use.local_bytes, r->word);
  fflush(stdout);
}

static int time_row(struct bench *b, struct row *r, struct err *e)
{
  struct tile_host *h = &r->host;
  struct cuda_ready ready;
  TRY(tile_lower(h->p, h->k, gpu_facts(b->g)->arch, e));
  TRY(tile_host_fill(h, b->c->seed, r->words.nfills, r->words.fills, e));
  TRY(cuda_prepare(b->g, b->r, &r->mem, h->p, h->k, &ready, e));
  int status = r->g ? hold(b, r, &ready, e) : OK;
  if (status == OK) status = cuda_time(b->g, &r->mem, h->p, h->k, &ready, h->params, h->data, h->bytes, &r->t, e);
  r->timed = status == OK;
  if (r->timed && output_wants_text(b->c)) print_time(r, gpu_use(ready.kernel));
  gpu_unload(ready.module);
  return status;
}

// ---- the table ----

static void head(const struct bench *b)
{
  if (!output_wants_text(b->c)) return;
  if (b->arch) {
    printf("compiled for %s; bytes\n\n%10s %10s %10s  kernel\n", cuda_arch_name(b->arch), "registers", "spilled", "shared");
    return;
  }
  const struct gpu_facts *f = gpu_facts(b->g);
  printf("%s, %d multiprocessors, L2 of %lld bytes\n", f->name, f->processors, (long long)f->l2);
  printf("us of a launch, in a graph of launches over buffers of more than twice the L2; off: relative norm, against "
         "float64\n\n");
  printf("%10s %10s %10s %8s %8s %9s %9s %7s  kernel\n", "median", "least", "most", "GB/s", "TFLOP/s", "off", "registers", "spilled");
}

// The first n rows: written again after each, so that an interrupted run keeps its measurements.
static int write_csv(const struct bench *b, int n)
{
  struct cli *c = b->c;
  if (!c->csv) return OK;
  struct str s = {0};
  str_add(&s, "%s,machine,commit\n", cuda_time_columns);
  for (int i = 0; i < n; i++) {
    const struct row *r = &b->rows[i];
    const char *sizes = strchr(r->word, ',');
    if (!r->timed) continue;
    cuda_time_csv(r->k->name, sizes ? sizes + 1 : "", &r->t, r->flops, &s);
    str_add(&s, ",%s,%s\n", gpu_facts(b->g)->name, b->commit);
  }
  int status = output_write(c->csv, str_text(&s), s.n, &c->err);
  str_free(&s);
  return status;
}

// A failure of one kernel does not stop the others; the command reports the first one.
static int all(struct bench *b)
{
  struct cli *c = b->c;
  int answer = OK;
  struct err first = {0};
  head(b);
  for (int i = 0; i < b->n; i++) {
    struct row *r = &b->rows[i];
    struct err e = {0};
    if (*cli_stop) return err_set(&c->err, ERR_STOPPED, NOWHERE, "stopped after %d of %d kernels", i, b->n);
    int status = b->arch ? compile_row(b, r, &e) : time_row(b, r, &e);
    arena_close(&r->mem);
    if (status > NO && b->n > 1) printf("%s: %s\n", r->word, e.text);
    if (status > NO && first.id == ERR_NONE) first = e;
    answer = MAX(answer, status);
    TRY(write_csv(b, i + 1));
  }
  c->err = first;
  return answer;
}

static int start(struct bench *b, int n, const char **words)
{
  struct cli *c = b->c;
  if (c->arch) TRY(cuda_arch_find(c->arch, &b->arch, &c->err));
  if (c->arch && (c->csv || c->against))
    return err_set(&c->err, ERR_OPTION, NOWHERE, "--arch compiles only: there is nothing for --%s", c->csv ? "csv" : "against");
  TRY(read_rows(b, n, words));
  if (!b->arch) TRY(gpu_open(0, &b->g, &c->err));
  TRY(nvrtc_open(&b->r, &c->err));
  output_revision(b->commit);
  return write_csv(b, 0);
}

int cli_tile_bench(struct cli *c, int nfiles, const char **files)
{
  struct bench b = {.c = c};
  int status = start(&b, nfiles, files);
  if (status == OK) status = all(&b);
  for (int i = 0; i < b.n; i++) arena_close(&b.rows[i].mem);
  nvrtc_close(b.r);
  gpu_close(b.g);
  return status;
}

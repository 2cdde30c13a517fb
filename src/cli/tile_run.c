// mica tile run: a kernel in the interpreter, on random or given inputs. Prints errors and costs. --against compares its results with a tensor
// program in float64, --gpu with the GPU's, and --cpu with those of the kernel printed as C. Exit status 1: the interpreter found an error, or
// results differ.
#include "cli/cli.h"
#include "sim/against.h"
#include "sim/tile_host.h"
#include "cuda/cuda.h"
#include "sim/number.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- inputs ----

static const char *given(const char *word, const char *name)
{
  size_t n = strlen(name);
  return !strncmp(word, name, n) && word[n] == '=' ? word + n + 1 : NULL;
}

static int unknown_word(struct cli *c, const char *word)
{
  int s = err_set(&c->err, ERR_OPTION, NOWHERE, "%.80s: give an argument of the kernel as NAME=FILE.npy, NAME=zero or NAME=random*SCALE", word);
  return err_hint(&c->err, "sizes and constants are given by --set NAME=VALUE"), s;
}

// Contents of buffers from arguments: a scale of random numbers, zeros, or an array.
static int read_words(struct cli *c, const struct tile_kernel *k, int n, const char **words, struct tile_fill *fill)
{
  for (int i = 0; i < n; i++) {
    const struct tile_buffer *b = NULL;
    const char *what = NULL;
    char *end = NULL;
    for (int j = 0; j < k->nbuffers && !b; j++)
      if (k->buffers[j].mem == MEM_GL && (what = given(words[i], k->buffers[j].name))) b = &k->buffers[j];
    if (!b) return unknown_word(c, words[i]);
    fill[i] = (struct tile_fill){.buffer = b->name, .scale = 1};
    if (!strcmp(what, "zero"))
      fill[i].scale = 0;
    else if (!strncmp(what, "random*", 7)) {
      fill[i].scale = strtod(what + 7, &end);
      if (*end || end == what + 7 || !isfinite(fill[i].scale)) return err_set(&c->err, ERR_OPTION, NOWHERE, "%.80s: not a number", words[i]);
    } else if (strcmp(what, "random") != 0) {
      struct shape shape;
      double *values;
      TRY(npy_read(&c->mem, what, &shape, &values, &c->err));
      fill[i].values = values, fill[i].n = shape_size(&shape);
    }
  }
  return OK;
}

// ---- results ----

static int save(struct cli *c, const struct tile_host *h)
{
  TRY(output_folder(c->out, &c->err));
  for (int b = 0; b < h->k->nbuffers; b++) {
    const struct tile_buffer *buf = &h->k->buffers[b];
    if (!h->data[b] || !buf->written) continue;
    int bytes = tile_types[buf->type].bytes;
    struct shape shape = {.n = 1, .d = {(int64_t)h->bytes[b] / bytes}};
    double *values = NEWS(&c->mem, double, shape.d[0] + 1);
    for (int64_t i = 0; i < shape.d[0]; i++) values[i] = num_one(buf->type, (const char *)h->data[b] + i * bytes);
    TRY(npy_write(arena_printf(&c->mem, "%s/%s.npy", c->out, buf->name), &shape, values, &c->err));
  }
  return OK;
}

static void show(struct cli *c, const struct tile_kernel *k, const struct sim_report *r)
{
  struct str text = {0};
  sim_print_errors(r, &text);
  if (output_wants_text(c)) {
    str_add(&text, "%s\n", k->name);
    sim_print_counts(r, &text);
    str_add(&text, "  %lld element operations in %.3f s: %.1f million a second\n", (long long)r->counts.elements, r->seconds,
            (double)r->counts.elements / r->seconds / 1e6);
    str_add(&text, "%lld error%s\n", (long long)r->found, r->found == 1 ? "" : "s");
  }
  fputs(str_text(&text), stdout);
  str_free(&text);
}

static int hold(struct cli *c, const struct against *a, const struct tile_host *h)
{
  struct str s = {0};
  bool fine = true;
  str_add(&s, "against %s (%.2f s in float64)\n", c->against, a->seconds);
  for (int i = 0; i < a->noutputs; i++) {
    struct against_answer r;
    against_compare(a, i, h->data[a->output[i]], &r);
    against_text(&r, &s);
    fine = fine && r.fine;
  }
  if (output_wants_text(c) || !fine) fputs(str_text(&s), stdout);
  str_free(&s);
  return fine ? OK : NO;
}

// The program is read first: if it does not fit the kernel, that is reported before the interpreter runs. GPU and CPU run before
// the interpreter, which changes the buffers.
static int run(struct cli *c, struct tile_host *h, struct against *a, struct tile_device *d)
{
  struct sim_report r;
  struct graph *g;
  if (c->against) {
    TRY(against_program(&c->mem, c->against, &g, &c->err));
    TRY(against_open(a, &c->mem, g, h->p, h->k, h->params, h->data, &c->err));
  }
  void **processor = NULL;
  if (c->gpu) TRY(tile_device_run(c, d, h));
  if (c->cpu) TRY(tile_processor_run(c, h, &processor));
  TRY(tile_host_run(h, &r, cli_stop, &c->err));
  show(c, h->k, &r);
  if (c->out) TRY(save(c, h));
  int answer = r.found ? NO : OK;
  if (c->gpu && tile_device_compare(c, d, h)) answer = NO;
  if (c->cpu && tile_processor_compare(c, h, processor)) answer = NO;
  return c->against && hold(c, a, h) != OK ? NO : answer;
}

static int prepare(struct cli *c, struct tile_host *h, const struct tile_device *d, int nfiles, const char **files)
{
  struct tile_program *p;
  struct tile_kernel *k;
  struct tile_setting *set;
  struct tile_fill *fill = NEWS(&c->mem, struct tile_fill, nfiles + 1);
  TRY(cli_load_tile(c, files[0], &p));
  TRY(cli_tile_kernel(c, p, &k));
  int arch = c->gpu ? d->arch : k->arch;
  if (c->arch && !c->gpu) TRY(cuda_arch_find(c->arch, &arch, &c->err));
  TRY(tile_lower(p, k, arch, &c->err));
  TRY(cli_tile_settings(c, &set));
  TRY(tile_host_open(h, &c->mem, p, k, c->nset, set, &c->err));
  TRY(read_words(c, k, nfiles - 1, files + 1, fill));
  return tile_host_fill(h, c->seed, nfiles - 1, fill, &c->err);
}

int cli_tile_run(struct cli *c, int nfiles, const char **files)
{
  struct tile_host h;
  struct against a = {0};
  struct tile_device d = {0};
  int status = tile_device_open(c, &d);
  if (status == OK) status = prepare(c, &h, &d, nfiles, files);
  if (status == OK) status = run(c, &h, &a, &d);
  against_close(&a);
  tile_device_close(&d);
  return status;
}

// mica tile run: a kernel in the interpreter, on random inputs or on given arrays. Prints what is wrong with it and what it costs.
// Outputs of the kernel's spec that are not among its inputs hold nothing before the run.
#include "cli/cli.h"
#include "front/parse.h"
#include "sim/number.h"
#include "sim/sim.h"

#include <stdlib.h>
#include <string.h>

struct job_run {
  struct cli *c;
  struct tile_program *p;
  struct tile_kernel *k;
  int nfiles;
  const char **files; // the first is the kernel, then NAME=VALUE of buffers
  int64_t *params;
  struct sim_buffer *buffers;
  int nbuffers;
};

static int params(struct job_run *j)
{
  struct cli *c = j->c;
  j->params = NEWS(&c->mem, int64_t, j->k->nparams + 1);
  for (int i = 0; i < j->k->nparams; i++) {
    if (ex_is_const(j->k->params[i])) {
      j->params[i] = ex_value(j->k->params[i]);
      continue;
    }
    const char *name = ex_node(j->p->ex, j->k->params[i])->name;
    bool found = false;
    for (int s = 0; s < c->nset; s++) {
      size_t n = strlen(name);
      if (strncmp(c->set[s], name, n) || c->set[s][n] != '=') continue;
      j->params[i] = strtoll(c->set[s] + n + 1, NULL, 10);
      found = true;
    }
    if (!found) return err_set(&c->err, ERR_OPTION, NOWHERE, "kernel %s has a size %s: give it by --set %s=...", j->k->name, name, name);
  }
  return OK;
}

static const char *given(const struct job_run *j, const char *name)
{
  size_t n = strlen(name);
  for (int i = 1; i < j->nfiles; i++)
    if (!strncmp(j->files[i], name, n) && j->files[i][n] == '=') return j->files[i] + n + 1;
  return NULL;
}

static bool is_input(const struct job_run *j, int buf)
{
  const struct tile_spec *root = &j->k->specs[j->k->stmts[j->k->body].spec];
  bool in = false, out = false;
  for (int i = 0; i < root->nin; i++) in |= j->k->views[root->in[i]].buf == buf;
  for (int i = 0; i < root->nout; i++) out |= j->k->views[root->out[i]].buf == buf;
  return in || !out;
}

static int fill_npy(struct job_run *j, const struct tile_buffer *b, const char *path, int64_t n, char *data)
{
  struct shape shape;
  double *values;
  TRY(npy_read(&j->c->mem, path, &shape, &values, &j->c->err));
  if (shape_size(&shape) != n)
    return err_set(&j->c->err, ERR_SHAPE, NOWHERE, "%s has %lld elements, and %%%s %lld", path, (long long)shape_size(&shape), b->name, (long long)n);
  for (int64_t i = 0; i < n; i++) num_set(b->type, values[i], data + i * tile_types[b->type].bytes);
  return OK;
}

static int fill(struct job_run *j, int buf, struct rng *r)
{
  const struct tile_buffer *b = &j->k->buffers[buf];
  int64_t n, bytes = tile_types[b->type].bytes;
  TRY(sim_elements(j->p, j->k, j->params, buf, &n, &j->c->err));
  if (n < 0 || n > ((int64_t)1 << 34) / bytes) return err_set(&j->c->err, ERR_MEMORY, NOWHERE, "%%%s would have %lld elements", b->name, (long long)n);
  char *raw = arena_alloc(&j->c->mem, (size_t)(n * bytes) + 256), *data = raw + (-(uintptr_t)raw & 255);
  const char *what = given(j, b->name);
  bool zero = what && !strcmp(what, "zero"), file = what && !zero && strcmp(what, "random") != 0;
  j->buffers[j->nbuffers++] = (struct sim_buffer){data, (size_t)(n * bytes), what || is_input(j, buf)};
  if (file) return fill_npy(j, b, what, n, data);
  for (int64_t i = 0; i < n && !zero; i++)
    num_set(b->type, num_is_float(b->type) ? rng_normal(r) : (double)(1 + rng_below(r, 7)), data + i * bytes);
  return OK;
}

static int names_known(struct job_run *j)
{
  for (int i = 1; i < j->nfiles; i++) {
    const char *eq = strchr(j->files[i], '=');
    bool known = false;
    for (int b = 0; eq && b < j->k->nbuffers; b++) {
      const struct tile_buffer *buf = &j->k->buffers[b];
      known |= buf->mem == MEM_GL && strlen(buf->name) == (size_t)(eq - j->files[i]) && !strncmp(buf->name, j->files[i], strlen(buf->name));
    }
    if (!known) return err_set(&j->c->err, ERR_OPTION, NOWHERE, "%.80s: give an argument of the kernel as NAME=FILE.npy, NAME=zero or NAME=random", j->files[i]);
  }
  return OK;
}

static int fill_all(struct job_run *j)
{
  struct rng r = {j->c->given[OPT_SEED] ? j->c->seed : 1};
  j->buffers = NEWS(&j->c->mem, struct sim_buffer, j->k->nbuffers + 1);
  for (int b = 0; b < j->k->nbuffers; b++)
    if (j->k->buffers[b].mem == MEM_GL) TRY(fill(j, b, &r));
  return OK;
}

static int save(struct job_run *j)
{
  int n = 0;
  TRY(output_folder(j->c->out, &j->c->err));
  for (int b = 0; b < j->k->nbuffers; b++) {
    const struct tile_buffer *buf = &j->k->buffers[b];
    if (buf->mem != MEM_GL) continue;
    const struct sim_buffer *x = &j->buffers[n++];
    int bytes = tile_types[buf->type].bytes;
    struct shape shape = {.n = 1, .d = {(int64_t)x->bytes / bytes}};
    double *values = NEWS(&j->c->mem, double, shape.d[0] + 1);
    for (int64_t i = 0; i < shape.d[0]; i++) values[i] = num_one(buf->type, (const char *)x->data + i * bytes);
    if (buf->written) TRY(npy_write(arena_printf(&j->c->mem, "%s/%s.npy", j->c->out, buf->name), &shape, values, &j->c->err));
  }
  return OK;
}

static void show(struct cli *c, const struct job_run *j, const struct sim_report *r)
{
  struct str text = {0};
  sim_print_errors(r, &text);
  if (output_wants_text(c)) {
    str_add(&text, "%s\n", j->k->name);
    sim_print_counts(r, &text);
    str_add(&text, "  %lld element operations in %.3f s: %.1f million a second\n", (long long)r->counts.elements, r->seconds,
            (double)r->counts.elements / r->seconds / 1e6);
    str_add(&text, "%lld error%s\n", (long long)r->found, r->found == 1 ? "" : "s");
  }
  fputs(str_text(&text), stdout);
  str_free(&text);
}

int cli_tile_run(struct cli *c, int nfiles, const char **files)
{
  struct job_run j = {.c = c, .nfiles = nfiles, .files = files};
  struct sim_report r;
  TRY(cli_load_tile(c, files[0], &j.p));
  TRY(cli_tile_kernel(c, j.p, &j.k));
  TRY(tile_lower(j.p, j.k, j.k->arch, &c->err));
  TRY(params(&j));
  TRY(names_known(&j));
  TRY(fill_all(&j));
  const struct sim_input in = {.params = j.params, .buffers = j.buffers, .nbuffers = j.nbuffers, .stop = cli_stop};
  TRY(sim_run(&c->mem, j.p, j.k, &in, &r, &c->err));
  show(c, &j, &r);
  if (c->out) TRY(save(&j));
  return r.found ? NO : OK;
}

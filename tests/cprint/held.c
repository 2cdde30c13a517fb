#include "held.h"

#include "drive/drive.h"
#include "sim/tile_cpu.h"
#include "cprint/cprint.h"
#include "cuda/cuda.h"

static void broken(struct held *h, const char *what, const char *words)
{
  err_print(stderr, &h->e);
  fail_msg("%s: %s", words, what);
}

static void start(struct held *h, struct tile_words *w, const char *words, const char *text)
{
  *h = (struct held){0};
  if (tile_host_words(&h->mem, words, w, &h->e)) broken(h, "words", words);
  char *own = NULL;
  size_t n;
  if (!text && file_read(&h->mem, w->path, &own, &n, &h->e)) broken(h, "no file", words);
  if (tile_parse_set(&h->mem, w->path, text ? text : own, w->nset, w->set, &h->p, &h->e)) broken(h, "not parsed", words);
  if (tile_lower(h->p, h->p->kernels[0], h->p->kernels[0]->arch, &h->e)) broken(h, "not lowered", words);
}

static void compare(struct held *h)
{
  const struct tile_kernel *k = h->host.k;
  for (int i = 0; i < k->nbuffers; i++) {
    if (!h->host.data[i] || !k->buffers[i].written) continue;
    int64_t n = (int64_t)h->host.bytes[i] / tile_types[k->buffers[i].type].bytes;
    struct sim_difference d = sim_compare(k->buffers[i].type, h->data[i], h->host.data[i], n);
    h->compared += n, h->other += d.other;
    if (!d.other) continue;
    print_error("%%%s: %lld of %lld elements differ, the first is %lld: %.9g in C, %.9g here\n", k->buffers[i].name, (long long)d.other, (long long)n,
                (long long)d.first, d.a, d.b);
    if (!(d.relative <= h->relative)) h->relative = d.relative;
  }
}

static void hold(struct held *h, const char *words, const char *text)
{
  struct tile_words w;
  struct module *m;
  start(h, &w, words, text);
  const struct tile_kernel *k = h->p->kernels[0];
  if (tile_host_open(&h->host, &h->mem, h->p, h->p->kernels[0], w.nset, w.set, &h->e) || tile_host_fill(&h->host, 1, w.nfills, w.fills, &h->e))
    broken(h, "no sizes", words);
  h->data = NEWS(&h->mem, void *, k->nbuffers + 1);
  for (int i = 0; i < k->nbuffers; i++)
    if (h->host.data[i]) h->data[i] = arena_copy(&h->mem, h->host.data[i], h->host.bytes[i]);
  if (tile_cpu_build(h->p, k, &m, &h->e)) broken(h, "not compiled", words);
  if (tile_cpu_run(m, k, h->host.params, h->data, &h->e)) broken(h, "does not run", words);
  module_close(m);
  if (tile_host_run(&h->host, &h->report, NULL, &h->e)) broken(h, "not interpreted", words);
  if (h->report.found) {
    struct str s = {0};
    sim_print_errors(&h->report, &s);
    fail_msg("%s: the interpreter reports\n%s", words, str_text(&s));
  }
  compare(h);
}

void held_text(struct held *h, const char *words, const char *text) { hold(h, words, text); }
void held_file(struct held *h, const char *words) { hold(h, words, NULL); }
void held_close(struct held *h) { arena_close(&h->mem); }

void held_same(struct held *h)
{
  int64_t compared = h->compared, other = h->other;
  const char *name = h->host.k->name;
  if (!compared || other) fail_msg("%s: %lld of %lld elements differ", name, (long long)other, (long long)compared);
  held_close(h);
}

void refused(const char *words, const char *text, const char *says)
{
  struct held h;
  struct tile_words w;
  struct str out = {0};
  start(&h, &w, words, text);
  int status = cprint_kernel(h.p, h.p->kernels[0], &out, &h.e);
  str_free(&out);
  if (status == OK) fail_msg("%s: is not refused", words);
  if (!strstr(h.e.text, says)) fail_msg("%s: does not say '%s' but '%s'", words, says, h.e.text);
  if (h.e.at.line <= 0) fail_msg("%s: does not say where", words);
  arena_close(&h.mem);
}

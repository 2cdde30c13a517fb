// A tile kernel on this machine (tile_host.h).
#include "sim/tile_host.h"
#include "sim/number.h"

#include <string.h>

enum { ALIGN = 256 };                         // alignment of GPU memory
static const int64_t MOST = INT64_C(1) << 34; // most bytes of a buffer

int tile_host_open(struct tile_host *h, struct arena *mem, struct tile_program *p, struct tile_kernel *k, int nset, const struct tile_setting *set,
                   struct err *e)
{
  *h = (struct tile_host){.mem = mem, .p = p, .k = k, .params = NEWS(mem, int64_t, k->nparams + 1)};
  for (int i = 0; i < k->nparams; i++) {
    const struct ex_node *n = ex_is_const(k->params[i]) ? NULL : ex_node(p->ex, k->params[i]);
    bool found = !n;
    h->params[i] = n ? 0 : ex_value(k->params[i]);
    for (int s = 0; s < nset && n; s++)
      if (!strcmp(set[s].name, n->name)) h->params[i] = set[s].value, found = true;
    if (!found) {
      int status = err_set(e, ERR_OPTION, k->at, "the kernel %s needs the size %s", k->name, n->name);
      return err_hint(e, "--set %s=VALUE gives it; in a list of kernels, FILE.tile,%s=VALUE", n->name, n->name), status;
    }
    if (n && (h->params[i] < n->range.lo || h->params[i] > n->range.hi || (n->multiple > 1 && h->params[i] % n->multiple)))
      return err_set(e, ERR_OPTION, k->at, "%s = %lld: the kernel %s takes multiples of %lld from %lld to %lld", n->name, (long long)h->params[i],
                     k->name, (long long)MAX(n->multiple, 1), (long long)n->range.lo, (long long)n->range.hi);
  }
  return OK;
}

static void mark_reads(const struct tile_kernel *k, int first, bool *reads)
{
  for (int i = first; i >= 0; i = k->stmts[i].next) {
    const struct tile_stmt *s = &k->stmts[i];
    bool known = s->kind == STMT_IF && ex_is_const(s->cond), yes = !known || ex_value(s->cond);
    if (s->kind == STMT_LET && s->view >= 0) reads[k->views[s->view].buf] = true;
    const struct tile_spec *c = s->kind == STMT_SPEC ? &k->specs[s->spec] : NULL;
    for (int j = 0; c && !c->decomposed && j < c->nin; j++) reads[k->views[c->in[j]].buf] = true;
    if (yes) mark_reads(k, s->body, reads);
    if (!known || !yes) mark_reads(k, s->other, reads);
  }
}

const bool *tile_host_reads(struct arena *mem, const struct tile_kernel *k)
{
  bool *reads = NEWS(mem, bool, k->nbuffers + 1);
  mark_reads(k, k->body, reads);
  const struct tile_spec *whole = &k->specs[k->stmts[k->body].spec];
  for (int i = 0; i < whole->nin; i++) {
    int b = k->views[whole->in[i]].buf;
    if (k->buffers[b].written) reads[b] = true; // updated in place
  }
  return reads;
}

static void random_numbers(enum tile_type t, char *p, int64_t n, double scale, struct rng *r)
{
  for (int64_t i = 0; i < n; i++) {
    double x = num_floats(&tile_types[t]) ? scale * ((double)rng_below(r, 257) - 128) / 128 : scale != 0 ? (double)rng_below(r, 8) : 0;
    num_set(t, x, p + i * tile_types[t].bytes);
  }
}

static int fill_buffer(struct tile_host *h, int b, uint64_t seed, const struct tile_fill *f, bool reads, struct err *e)
{
  const struct tile_buffer *buf = &h->k->buffers[b];
  int bytes = tile_types[buf->type].bytes;
  int64_t n;
  TRY(sim_elements(h->p, h->k, h->params, b, &n, e));
  if (n < 0 || n > MOST / bytes) return err_set(e, ERR_MEMORY, buf->at, "%%%s would have %lld elements", buf->name, (long long)n);
  if (f && f->values && f->n != n)
    return err_set(e, ERR_SHAPE, buf->at, "%%%s has %lld elements, and %lld are given", buf->name, (long long)n, (long long)f->n);
  h->bytes[b] = (size_t)(n * bytes);
  uintptr_t raw = (uintptr_t)arena_alloc(h->mem, h->bytes[b] + ALIGN);
  h->data[b] = (void *)((raw + ALIGN - 1) & ~(uintptr_t)(ALIGN - 1));
  h->filled[b] = f || reads || !buf->written;
  struct rng r = {hash_mix(seed, (uint64_t)b)};
  if (!h->filled[b])
    memset(h->data[b], 0xff, h->bytes[b]);
  else if (!f || !f->values)
    random_numbers(buf->type, h->data[b], n, f ? f->scale : 1, &r);
  else
    for (int64_t i = 0; i < n; i++) num_set(buf->type, f->values[i], (char *)h->data[b] + i * bytes);
  return OK;
}

int tile_host_names(const struct tile_kernel *k, int nfills, const struct tile_fill *fills, struct err *e)
{
  for (int i = 0; i < nfills; i++) {
    bool found = false;
    for (int b = 0; b < k->nbuffers && !found; b++) found = k->buffers[b].mem == MEM_GL && !strcmp(fills[i].buffer, k->buffers[b].name);
    if (!found) return err_set(e, ERR_OPTION, k->at, "the kernel %s has no buffer %%%s in global memory to be filled", k->name, fills[i].buffer);
  }
  return OK;
}

int tile_host_fill(struct tile_host *h, uint64_t seed, int nfills, const struct tile_fill *fills, struct err *e)
{
  const struct tile_kernel *k = h->k;
  const bool *reads = tile_host_reads(h->mem, k);
  h->data = NEWS(h->mem, void *, k->nbuffers + 1), h->bytes = NEWS(h->mem, size_t, k->nbuffers + 1);
  h->filled = NEWS(h->mem, bool, k->nbuffers + 1);
  TRY(tile_host_names(k, nfills, fills, e));
  for (int b = 0; b < k->nbuffers; b++) {
    const struct tile_fill *f = NULL;
    if (k->buffers[b].mem != MEM_GL) continue;
    for (int i = 0; i < nfills; i++)
      if (!strcmp(fills[i].buffer, k->buffers[b].name)) f = &fills[i];
    TRY(fill_buffer(h, b, seed, f, reads[b], e));
  }
  return OK;
}

int tile_host_run(struct tile_host *h, struct sim_report *report, stop_flag stop, struct err *e)
{
  struct sim_buffer *b = NEWS(h->mem, struct sim_buffer, h->k->nbuffers + 1);
  int n = 0;
  for (int i = 0; i < h->k->nbuffers; i++)
    if (h->k->buffers[i].mem == MEM_GL) b[n++] = (struct sim_buffer){h->data[i], h->bytes[i], h->filled[i]};
  struct sim_input in = {.params = h->params, .buffers = b, .nbuffers = n, .stop = stop};
  return sim_run(h->mem, h->p, h->k, &in, report, e);
}

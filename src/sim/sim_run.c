// A run: compiles the kernel to steps, allocates memory and shadows, and runs the clusters of the grid one after another.
//
// A granule of shadow memory is as wide as the narrowest access of the kernel to the buffer. Buffers that share bytes of
// shared memory have the same width.
#include "sim/machine.h"

#include <sys/mman.h>
#include <time.h>

static int fail(struct sim *s, const char *fmt, const char *what) { return s->status = err_set(s->e, ERR_TILE, s->k->at, fmt, what); }

// ---- geometry ----

static int64_t with_params(struct sim *s, ex x)
{
  if (ex_is_const(x)) return ex_value(x);
  int64_t *vars = NEWS(s->mem, int64_t, ex_vars(s->p->ex) + 1);
  for (int i = 0; i < s->k->nparams; i++)
    if (!ex_is_const(s->k->params[i])) vars[ex_node(s->p->ex, s->k->params[i])->c] = s->in->params[i];
  return ex_eval(s->p->ex, x, vars);
}

int sim_elements(const struct tile_program *p, const struct tile_kernel *k, const int64_t *params, int buf, int64_t *out, struct err *e)
{
  struct arena mem = {0};
  const struct sim_input in = {.params = params};
  struct sim s = {.mem = &mem, .p = p, .k = k, .in = &in, .e = e};
  *out = with_params(&s, k->buffers[buf].elements);
  arena_close(&mem);
  return OK;
}

static int geometry(struct sim *s)
{
  const struct tile_kernel *k = s->k;
  for (int i = 0; i < k->nparams; i++) {
    if (ex_is_const(k->params[i])) continue;
    const struct ex_node *n = ex_node(s->p->ex, k->params[i]);
    if (s->in->params[i] < n->range.lo || s->in->params[i] > n->range.hi || (n->multiple > 1 && s->in->params[i] % n->multiple))
      return fail(s, "%s is outside the range that the kernel declares, or not a multiple of what it declares", n->name);
  }
  s->nblocks = with_params(s, k->groups[k->grid].size);
  s->nthreads = (int)with_params(s, k->groups[k->threads].size);
  s->cluster = MAX(1, k->cluster);
  s->nwarps = (s->nthreads + LANES - 1) / LANES;
  if (!k->lowered) return fail(s, "kernel %s was not lowered", k->name);
  if (s->nthreads < 1 || s->nwarps > MOST_WARPS) return fail(s, "%s: a block has 1 to 1024 threads", k->name);
  if (s->nblocks < 1 || s->nblocks % s->cluster || s->cluster > 16) return fail(s, "%s: the grid is no whole number of clusters", k->name);
  return OK;
}

// ---- memory ----

// log2 of the narrowest access, in bytes, that an atom makes to the buffer.
static int narrowest(const struct sim *s, int buf)
{
  int shift = 4;
  for (int i = 0; i < s->natoms; i++)
    for (int o = 0; o < s->atoms[i].n; o++) {
      const struct sim_operand *op = &s->atoms[i].op[o];
      if (op->buf != buf) continue;
      bool vector = s->atoms[i].t->row && s->atoms[i].t->width > 0 && op->mem == s->k->buffers[buf].mem;
      int bytes = op->bytes;
      const struct instr *row = s->atoms[i].t->row;
      const struct instr_operand *want = !row ? NULL : o < s->atoms[i].nout ? &row->out[o] : &row->in[o - s->atoms[i].nout];
      if (vector && want && want->kind == OPND_VECTOR) bytes = s->atoms[i].t->width * op->bytes;
      if (want && (want->kind == OPND_ROW || want->kind == OPND_MATRIX)) bytes = 16;
      if (want && want->kind == OPND_BOX && op->mem == MEM_SH) bytes = 16;
      shift = MIN(shift, __builtin_ctz((unsigned)bytes));
    }
  return shift;
}

// Cells of a large buffer are accessed at random. Huge pages, if the system has them, halve the cost.
static struct gcell *cells_new(struct sim *s, int64_t n)
{
  struct gcell *cells = NEWS(s->mem, struct gcell, n);
#ifdef MADV_HUGEPAGE
  const uintptr_t page = 1 << 21, from = ((uintptr_t)cells + page - 1) & -page, to = (uintptr_t)(cells + n) & -page;
  if (from < to) madvise((void *)from, to - from, MADV_HUGEPAGE);
#endif
  return cells;
}

static int global_memory(struct sim *s)
{
  s->gl = NEWS(s->mem, struct gbuf, s->k->nbuffers + 1);
  int n = 0;
  for (int b = 0; b < s->k->nbuffers; b++) {
    const struct tile_buffer *buf = &s->k->buffers[b];
    if (buf->mem != MEM_GL) continue;
    if (n == s->in->nbuffers) return fail(s, "%s: too few buffers are given", s->k->name);
    const struct sim_buffer *given = &s->in->buffers[n++];
    struct gbuf *g = &s->gl[b];
    *g = (struct gbuf){.data = given->data, .bytes = (int64_t)given->bytes, .init = given->written, .shift = narrowest(s, b)};
    if (buf->written || !g->init) g->cells = cells_new(s, (g->bytes >> g->shift) + 1);
  }
  return OK;
}

static bool overlap(const struct tile_buffer *a, const struct tile_buffer *b)
{
  return a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

// Buffers that share bytes, directly or through others, form a component with one base and one granule.
static void merge(struct sim *s)
{
  const struct tile_buffer *buf = s->k->buffers;
  for (bool changed = true; changed;) {
    changed = false;
    for (int a = 0; a < s->k->nbuffers; a++)
      for (int b = 0; b < s->k->nbuffers; b++) {
        if (a == b || buf[a].mem != MEM_SH || buf[b].mem != MEM_SH || !overlap(&buf[a], &buf[b])) continue;
        struct sbuf *x = &s->sh[a], *y = &s->sh[b];
        if (x->base == y->base && x->shift == y->shift) continue;
        x->base = y->base = MIN(x->base, y->base), x->shift = y->shift = MIN(x->shift, y->shift);
        changed = true;
      }
  }
}

static void shared_memory(struct sim *s)
{
  const struct tile_kernel *k = s->k;
  s->sh = NEWS(s->mem, struct sbuf, k->nbuffers + 1);
  s->shared_bytes = (k->shared_bytes + 15) / 16 * 16;
  for (int b = 0; b < k->nbuffers; b++)
    if (k->buffers[b].mem == MEM_SH)
      s->sh[b] = (struct sbuf){.offset = k->buffers[b].offset, .bytes = k->buffers[b].bytes, .base = k->buffers[b].offset, .shift = narrowest(s, b)};
  merge(s);
  // A component begins at its base, and a byte has the same cell in all of its buffers. Components do not share bytes, so
  // cell numbers from the base on do not collide.
  for (int b = 0; b < k->nbuffers; b++)
    if (k->buffers[b].mem == MEM_SH) s->sh[b].cell = s->sh[b].base;
  s->ncells = s->shared_bytes + 16;
  s->mbar_of = NEWS(s->mem, int, s->shared_bytes / 8 + 1);
  for (int b = 0; b < k->nbuffers; b++)
    for (int64_t i = 0; k->buffers[b].mem == MEM_SH && k->buffers[b].type == TT_MBAR && i < k->buffers[b].bytes / 8; i++)
      s->mbar_of[k->buffers[b].offset / 8 + i] = s->nmbars++;
}

static void registers(struct sim *s)
{
  s->rf = NEWS(s->mem, struct rbuf, s->k->nbuffers + 1);
  for (int b = 0; b < s->k->nbuffers; b++) {
    const struct tile_buffer *buf = &s->k->buffers[b];
    if (buf->mem != MEM_RF) continue;
    int bytes = tile_types[buf->type].bytes, n = (int)(buf->bytes / bytes);
    s->rf[b] = (struct rbuf){.elements = n, .bytes = bytes, .at = s->reg_bytes, .mark = s->nmarks};
    s->reg_bytes += (int64_t)n * bytes * LANES, s->nmarks += n;
  }
}

static void maps(struct sim *s)
{
  s->maps = arena_alloc(s->mem, sizeof *s->maps * (size_t)(s->k->nmaps + 1));
  for (int m = 0; m < s->k->nmaps; m++)
    for (int d = 0; d < s->k->maps[m].rank; d++) {
      s->maps[m].size[d] = code_slot(s, s->k->maps[m].size[d]);
      s->maps[m].stride[d] = code_slot(s, s->k->maps[m].stride[d]);
    }
}

// ---- blocks ----

static void gather_new(struct sim *s, struct gather *g) { *g = (struct gather){.acc = sync_known(s), .done = sync_known(s)}; }

static void warp_new(struct sim *s, struct cta *c, int number)
{
  struct warp *w = &c->warps[number];
  int base = (c->rank * s->nwarps + number) * KINDS, first = (c->rank * s->nwarps + number / 4 * 4) * KINDS;
  *w = (struct warp){.cta = c, .s = s, .number = number, .agent = base + KIND_WARP};
  w->cp.agent = base + KIND_CP, w->bulk.agent = base + KIND_BULK, w->wgmma.agent = first + KIND_WGMMA;
  w->lanes = s->nthreads - number * LANES >= LANES ? FULL : (1u << (s->nthreads - number * LANES)) - 1;
  w->values = arena_alloc(s->mem, sizeof *w->values * (size_t)(s->nslots + 1));
  w->stamp = NEWS(s->mem, uint64_t, s->nslots + 1);
  w->vars = arena_alloc(s->mem, sizeof *w->vars * (size_t)(s->nvars + 1));
  w->var_stamp = NEWS(s->mem, uint64_t, s->nvars + 1);
  w->regs = arena_alloc(s->mem, (size_t)s->reg_bytes + 1);
  w->marks = NEWS(s->mem, uint32_t, s->nmarks + 1);
  w->pending = NEWS(s->mem, struct pending, s->k->nbuffers + 1);
  w->known = sync_known(s), w->some = sync_known(s);
}

static void cta_new(struct sim *s, int rank)
{
  struct cta *c = &s->ctas[rank];
  *c = (struct cta){.s = s, .rank = rank, .shared = arena_alloc(s->mem, (size_t)s->shared_bytes + 16)};
  c->warps = NEWS(s->mem, struct warp, s->nwarps);
  for (int i = 0; i < s->nwarps; i++) warp_new(s, c, i);
  for (int i = 0; i < NAMED; i++) gather_new(s, &c->named[i]);
  for (int i = 0; i < MOST_WARPS / 4; i++) gather_new(s, &c->quad[i].gather);
  c->mbars = NEWS(s->mem, struct mbar, s->nmbars + 1);
  for (int i = 0; i < s->nmbars; i++) {
    c->mbars[i].acc = sync_known(s), c->mbars[i].done = sync_known(s);
    c->mbars[i].copies = s->cluster * s->nwarps * KINDS + rank * s->nmbars + i;
  }
  struct shadow *h = &c->shadow;
  h->write = NEWS(s->mem, uint32_t, s->ncells);
  h->agent = NEWS(s->mem, uint16_t, s->ncells), h->site = NEWS(s->mem, uint16_t, s->ncells);
  h->atomic = NEWS(s->mem, uint8_t, s->ncells);
  h->reads = NEWS(s->mem, uint32_t *, s->nagents), h->reader = NEWS(s->mem, int, s->nagents);
  h->latest = NEWS(s->mem, uint32_t, s->nagents), h->live = NEWS(s->mem, int, s->nagents);
}

static void copies_new(struct groups *g) { g->n = 0, g->used = false; }

static void set_var(struct warp *w, ex var, int64_t value)
{
  if (!ex_is_const(var)) code_set_all(w, (int)ex_node(w->s->p->ex, var)->c, value);
}

static void warp_reset(struct warp *w)
{
  struct sim *s = w->s;
  code_reset(w);
  for (int i = 0; i < s->k->nparams; i++) set_var(w, s->k->params[i], s->in->params[i]);
  set_var(w, s->k->bid, w->cta->number);
  if (!ex_is_const(s->k->tid)) {
    struct vec tid = {0};
    for (int l = 0; l < LANES; l++) tid.v[l] = w->number * LANES + l;
    code_set(w, (int)ex_node(s->p->ex, s->k->tid)->c, &tid);
  }
  memset(w->marks, 0, sizeof *w->marks * (size_t)s->nmarks);
  memset(w->pending, 0, sizeof *w->pending * (size_t)s->k->nbuffers);
  w->active = w->lanes, w->pc = 0, w->depth = 0, w->again = false;
  w->wait.kind = WAIT_NONE;
  w->allotted = pool_at_start(s);
  w->npartial = 0, w->regfence = 0, w->cluster_phase = 0, w->cpdone = s->start, w->some_lanes = 0;
  copies_new(&w->cp), copies_new(&w->bulk), copies_new(&w->wgmma);
  sync_clear(s, w->known);
  w->clock = ++s->time;
}

static void cta_reset(struct sim *s, struct cta *c, int64_t number)
{
  c->number = number, c->left = s->nwarps, c->spare = 0;
  for (int i = 0; i < NAMED; i++) c->named[i].threads = 0;
  for (int i = 0; i < MOST_WARPS / 4; i++) c->quad[i].gather.threads = 0, c->quad[i].open = false;
  for (int i = 0; i < s->nmbars; i++) c->mbars[i].init = false, c->mbars[i].agent = -1;
  for (int i = 0; i < s->nwarps; i++) warp_reset(&c->warps[i]);
}

static void run_blocks(struct sim *s)
{
  for (int64_t b = 0; b < s->nblocks && !s->stopped; b += s->cluster) {
    s->start = s->starts[s->nstarts++] = EPOCH(s->time, WHOLE);
    s->ntaken = 0, s->leaves = s->fetches = false;
    s->cluster_gather.threads = 0;
    for (int c = 0; c < s->cluster; c++) cta_reset(s, &s->ctas[c], b + c);
    sched_run(s);
    s->r->blocks += s->cluster;
  }
}

static double cpu_seconds(void)
{
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int sim_run(struct arena *mem, const struct tile_program *p, const struct tile_kernel *k, const struct sim_input *in, struct sim_report *out,
            struct err *e)
{
  double began = cpu_seconds();
  *out = (struct sim_report){0};
  struct arena own = {0};
  struct sim *s = NEW(&own, struct sim);
  *s = (struct sim){.mem = &own, .p = p, .k = k, .in = in, .r = out, .e = e, .time = 1, .stamps = 1};
  if (!geometry(s) && !flow_compile(s) && !global_memory(s)) {
    shared_memory(s);
    registers(s);
    maps(s);
    s->begun = s->cluster * (s->nwarps * KINDS + s->nmbars), s->nagents = s->begun + 1;
    s->sent = NEWS(s->mem, uint32_t, s->nagents);
    gather_new(s, &s->cluster_gather);
    s->starts = NEWS(s->mem, uint32_t, s->nblocks / s->cluster + 1);
    s->ctas = NEWS(s->mem, struct cta, s->cluster);
    for (int c = 0; c < s->cluster; c++) cta_new(s, c);
    run_blocks(s);
    if (stop_set(in->stop)) s->status = err_set(e, ERR_STOPPED, k->at, "the run of %s was stopped", k->name);
    count_finish(s);
  }
  // Copies the report's arrays to the caller's memory.
  if (out->nerrors) out->errors = arena_copy(mem, out->errors, sizeof *out->errors * (size_t)out->nerrors);
  if (out->counts.nrows) out->counts.rows = arena_copy(mem, out->counts.rows, sizeof *out->counts.rows * (size_t)out->counts.nrows);
  int status = s->status;
  arena_close(&own);
  out->seconds = cpu_seconds() - began;
  return status;
}

// Buffers and timing. Modules that are compared take turns, call by call, so that a machine that slows down slows
// down all of them, after a warm-up that is not counted. On a busy machine rounds go on until each module had its quiet ones:
// rounds that something disturbed are put aside (disturbed.c).
#include "base/memory.h"
#include "eval/eval.h"
#include "rt/left.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static const float ABOVE_ZERO = 0.1f; // what is divided by positive inputs stays moderate
static const double WORTH_TWO = 0.05; // seconds of a call that is made a second time to warm up
enum { LEAST_ROUNDS = 5, LENIENT = 20, MOST_ROUNDS = 4000, LEAST_QUIET = 3, PAGE = 4096, HUGE = 2 << 20, PIECE = 1 << 16 };

// ---- buffers ----

static void *pages(size_t bytes)
{
  size_t align = bytes >= HUGE ? HUGE : PAGE;
  void *p = aligned_alloc(align, (bytes + align - 1) / align * align);
  if (p && align == HUGE) madvise(p, bytes, MADV_HUGEPAGE);
  return p;
}

struct fill {
  enum dtype dtype;
  void *p;
  int64_t n;
  uint64_t seed;
  bool positive;
  int64_t rows, cols; // of a mask; 0: it is none
  stop_flag stop;
};

// The last row shows all.
static bool hidden(const struct fill *f, int64_t k) { return f->cols && k % f->cols - f->cols > k / f->cols % f->rows - f->rows; }

// Mean 0 and variance 1 from four uniform parts of one random number: normal enough to time with, and fast.
static float nearly_normal(struct rng *r)
{
  uint64_t z = rng_next(r);
  int64_t sum = (int64_t)(z & 0xffff) + (int64_t)(z >> 16 & 0xffff) + (int64_t)(z >> 32 & 0xffff) + (int64_t)(z >> 48);
  return (float)(sum - 131070) * (float)(1.7320508 / 65536);
}

static void fill_piece(void *arg, int i, int worker)
{
  (void)worker;
  const struct fill *f = arg;
  if (stop_set(f->stop)) return;
  struct rng r = {hash_mix(f->seed, (uint64_t)i)};
  int64_t from = (int64_t)i * PIECE, to = MIN(from + PIECE, f->n);
  for (int64_t k = from; k < to; k++) {
    float x = nearly_normal(&r);
    if (f->positive) x = ABOVE_ZERO + fabsf(x);
    if (f->cols) x = f->dtype == BOOL ? !hidden(f, k) : hidden(f, k) ? -INFINITY : 0;
    if (f->dtype == F32)
      ((float *)f->p)[k] = x;
    else
      num_write(f->dtype, f->p, k, x);
  }
}

void buffers_hold(struct buffers *b, struct left_call *c)
{
  mem_keep(b);
  mem_keep(b->in), mem_keep(b->out), mem_keep(b->in_bytes), mem_keep(b->out_bytes), mem_keep(b->masks);
  b->left = c;
}

void buffers_close(struct buffers *b)
{
  if (b && !call_takes_buffers(b->left)) buffers_drop(b);
}

void buffers_drop(struct buffers *b)
{
  for (int i = 0; i < b->nin && b->in; i++) free(b->in[i]);
  for (int i = 0; i < b->nout && b->out; i++) free(b->out[i]);
  mem_free(b->in), mem_free(b->out), mem_free(b->in_bytes), mem_free(b->out_bytes), mem_free(b->masks);
  mem_free(b);
}

static size_t bytes_of(const struct tensor *t) { return (size_t)shape_size(&t->shape) * (size_t)dtype_bytes(t->dtype); }

static int *list_of(const struct graph *g, int (*which)(const struct graph *, int *), int *n)
{
  int *list = MEM_NEWS(int, (*n = which(g, NULL)) + 1);
  which(g, list);
  return list;
}

// `side` gets n buffers for the listed tensors.
static int side_open(const struct graph *g, const int *list, int n, void ***side, size_t **bytes, struct err *e)
{
  char text[256];
  *side = MEM_NEWS(void *, n + 1), *bytes = MEM_NEWS(size_t, n + 1);
  for (int i = 0; i < n; i++) {
    (*bytes)[i] = bytes_of(&g->tensors[list[i]]);
    if (((*side)[i] = pages((*bytes)[i]))) continue;
    tensor_words(text, &g->tensors[list[i]]);
    return err_set(e, ERR_MEMORY, NOWHERE, "no memory for %s: %zu bytes", text, (*bytes)[i]);
  }
  return OK;
}

static void drop(void *b) { buffers_close(b); }
static const struct mem_kind kind = {.close = drop};

static void fill_whole(const struct tensor *t, void *p, uint64_t seed)
{
  const int64_t n = shape_size(&t->shape);
  double *x = MEM_NEWS(double, n + 1);
  struct rng r = {seed};
  eval_whole_numbers(t, &r, 0, x);
  for (int64_t i = 0; i < n; i++) num_write(t->dtype, p, i, x[i]);
  mem_free(x);
}

int buffers_open_until(const struct graph *g, uint64_t seed, stop_flag stop, struct buffers **out, struct err *e)
{
  struct buffers *b = mem_handle(sizeof *b, &kind);
  int *in = list_of(g, graph_inputs, &b->nin), *res = list_of(g, graph_outputs, &b->nout);
  int status = side_open(g, in, b->nin, &b->in, &b->in_bytes, e);
  if (status == OK) status = side_open(g, res, b->nout, &b->out, &b->out_bytes, e);
  b->masks = MEM_NEWS(bool, b->nin + 1);
  for (int i = 0; i < b->nin && status == OK; i++) {
    const struct tensor *t = &g->tensors[in[i]];
    const bool mask = b->masks[i] = seed % 2 && wants_mask(g, in[i]);
    if (num_whole(t->dtype) && !mask) {
      fill_whole(t, b->in[i], hash_mix(seed, (uint64_t)i));
      continue;
    }
    const struct shape *s = &t->shape;
    struct fill f = {.dtype = t->dtype,
                     .p = b->in[i],
                     .n = shape_size(s),
                     .seed = hash_mix(seed, (uint64_t)i),
                     .positive = wants_positive(g, in[i]),
                     .rows = mask ? s->d[s->n - 2] : 0,
                     .cols = mask ? s->d[s->n - 1] : 0,
                     .stop = stop};
    pool_run(pool_cores(), (int)((f.n + PIECE - 1) / PIECE), fill_piece, &f);
  }
  for (int i = 0; i < b->nout && status == OK; i++) large_fill(b->out[i], 0, b->out_bytes[i]);
  mem_free(in), mem_free(res);
  if (status == OK && stop_set(stop)) status = err_set(e, ERR_STOPPED, NOWHERE, "stopped before there were inputs");
  if (status == OK)
    *out = b;
  else
    buffers_close(b);
  return status;
}

int buffers_open(const struct graph *g, uint64_t seed, struct buffers **b, struct err *e) { return buffers_open_until(g, seed, NULL, b, e); }

// ---- timing ----

// Slow code gets fewer rounds: as many as fit LENIENT times the time asked, at least one.
static int least_rounds(double round, double seconds) { return (int)MAX(1, MIN(LEAST_ROUNDS, LENIENT * seconds / round)); }

struct rounds {
  struct module *const *m;
  struct caller *caller;
  double *before;          // seconds of the last call of each of m
  const double *last;      // of the only module, the times of n kernels; NULL: n modules are timed
  int n, kept, open, lost; // rounds: undisturbed, of the stretch that is under way, disturbed
  double *times;           // of each of n: those kept from the front, with the open ones behind; those lost at the end
  int nstretch;
  struct stretch *stretch;
};

static double *times_of(const struct rounds *r, int k) { return r->times + (size_t)k * MOST_ROUNDS; }
static int all_rounds(const struct rounds *r) { return r->kept + r->open + r->lost; }

static int play(struct rounds *r, struct buffers *b, stop_flag stop, struct err *e)
{
  int at = r->kept + r->open, s = OK;
  if (r->last) s = caller_call_again(r->caller, r->m[0], b, &r->before[0], e);
  for (int k = 0; k < r->n && !s; k++) {
    if (r->last)
      times_of(r, k)[at] = r->last[k];
    else
      s = caller_call_again(r->caller, r->m[k], b, &r->before[k], e), times_of(r, k)[at] = r->before[k];
  }
  r->open++;
  return !s && stop_set(stop) ? err_set(e, ERR_STOPPED, NOWHERE, "stopped while measuring") : s;
}

static void end_stretch(struct rounds *r, struct gauge *g)
{
  struct stretch *s = &r->stretch[r->nstretch++];
  gauge_record(g, r->open, s);
  if (!stretch_cause(s, gauge_reference(g)))
    r->kept += r->open;
  else {
    r->lost += r->open;
    for (int k = 0; k < r->n; k++) memmove(times_of(r, k) + MOST_ROUNDS - r->lost, times_of(r, k) + r->kept, sizeof(double) * (size_t)r->open);
  }
  r->open = 0;
}

// Kernels need no quiet calls: their times are told, and none is compared.
static bool goes_on(const struct rounds *r, int least, double start, double seconds)
{
  return all_rounds(r) < MOST_ROUNDS &&
         timing_goes_on(r->times, r->last ? 0 : r->n, MOST_ROUNDS, r->kept + r->open, all_rounds(r), least, now_seconds() - start, seconds);
}

// All rounds count if too few of them went undisturbed: there is nothing better to tell.
static void conclude(struct rounds *r, int least, const struct gauge *g, struct timing *t)
{
  struct disturbed all = stretches_verdict(r->stretch, r->nstretch, gauge_reference(g), MIN(least, LEAST_QUIET));
  int n = all.why ? r->kept + r->lost : r->kept;
  for (int k = 0; k < r->n; k++) {
    double *x = times_of(r, k);
    if (all.why) memmove(x + r->kept, x + MOST_ROUNDS - r->lost, sizeof *x * (size_t)r->lost);
    t[k] = timing_of(x, n);
    t[k].disturbed = all.why ? all : timing_verdict(&t[k]);
  }
}

static int play_rounds(struct rounds *r, int least, struct buffers *b, double seconds, stop_flag stop, struct gauge *g, struct timing *t,
                       struct err *e)
{
  double start = now_seconds();
  int s = OK;
  r->times = MEM_NEWS(double, r->n *MOST_ROUNDS), r->stretch = MEM_NEWS(struct stretch, MOST_ROUNDS);
  gauge_watch(g);
  while (!s) {
    bool more = goes_on(r, least, start, seconds);
    if (r->open && (!more || gauge_due(g))) end_stretch(r, g), more = goes_on(r, least, start, seconds);
    if (!more) break;
    s = play(r, b, stop, e);
  }
  if (!s) conclude(r, least, g, t);
  mem_free(r->times), mem_free(r->stretch);
  return s;
}

// A call that is brief has a second one, as all others of it are made.
static int warm_up(struct rounds *r, int n, struct buffers *b, double *all, struct err *e)
{
  int s = OK;
  for (int k = 0; k < n && !s; k++) {
    s = caller_call(r->caller, r->m[k], b, &r->before[k], e);
    *all += r->before[k];
    if (!s && r->before[k] < WORTH_TWO) s = caller_call_again(r->caller, r->m[k], b, &r->before[k], e);
  }
  return s;
}

static int measure_all(struct rounds *r, int nmodules, struct buffers *b, double seconds, stop_flag stop, struct gauge *g, struct timing *t,
                       struct err *e)
{
  double all = 0;
  r->caller = caller_open(stop);
  r->before = MEM_NEWS(double, nmodules);
  int s = warm_up(r, nmodules, b, &all, e);
  if (!s) s = play_rounds(r, least_rounds(all, seconds), b, seconds, stop, g, t, e);
  caller_close(r->caller);
  for (int k = 0; k < nmodules; k++) module_rest(r->m[k]);
  return mem_free(r->before), s;
}

// The modules that are timed: frozen ones of those that compute something of frozen inputs alone, as such a program is used.
static int measure_frozen(struct rounds *r, int n, struct buffers *b, double seconds, stop_flag stop, struct gauge *g, struct timing *t,
                          struct err *e)
{
  struct module **frozen = MEM_NEWS(struct module *, n + 1), **timed = MEM_NEWS(struct module *, n + 1);
  int s = OK;
  for (int k = 0; k < n && !s; k++) {
    timed[k] = r->m[k];
    if (module_freezes(r->m[k])) s = module_freeze(r->m[k], b->in, &frozen[k], e), timed[k] = frozen[k];
    module_rest(r->m[k]);
  }
  r->m = timed;
  if (!s) s = measure_all(r, n, b, seconds, stop, g, t, e);
  for (int k = 0; k < n; k++) module_close(frozen[k]);
  return mem_free(frozen), mem_free(timed), s;
}

int measure(struct module *const *m, int n, struct buffers *b, double seconds, stop_flag stop, struct gauge *g, struct timing *t, struct err *e)
{
  struct rounds r = {.m = m, .n = n};
  return measure_frozen(&r, n, b, seconds, stop, g, t, e);
}

int measure_kernels(struct module *m, int n, struct buffers *b, double seconds, stop_flag stop, struct gauge *g, struct timing *t, struct err *e)
{
  struct rounds r = {.m = &m, .last = module_seconds(m), .n = n};
  CHECK(r.last);
  return measure_frozen(&r, 1, b, seconds, stop, g, t, e);
}

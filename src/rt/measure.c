// Buffers and timing. Modules that are compared take turns, call by call, so that a machine that slows down slows
// down all of them, after a warm-up that is not counted. On a busy machine rounds go on until each module had its quiet ones.
#include "gen/mica_cpu.h"
#include "base/memory.h"
#include "rt/rt.h"

#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>

static const float ABOVE_ZERO = 0.1f; // what is divided by positive inputs stays moderate
enum { LEAST_ROUNDS = 5, LENIENT = 20, MOST_ROUNDS = 4000, PAGE = 4096, HUGE = 2 << 20, PIECE = 1 << 16 };

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
};

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
  struct rng r = {hash_mix(f->seed, (uint64_t)i)};
  int64_t from = (int64_t)i * PIECE, to = MIN(from + PIECE, f->n);
  for (int64_t k = from; k < to; k++) {
    float x = nearly_normal(&r);
    if (f->positive) x = ABOVE_ZERO + fabsf(x);
    if (f->dtype == F32)
      ((float *)f->p)[k] = x;
    else if (f->dtype == F16)
      ((uint16_t *)f->p)[k] = m_f32_to_f16(x);
    else
      m_store_bf16((uint16_t *)f->p + k, &x, 1);
  }
}

void buffers_close(struct buffers *b)
{
  if (!b) return;
  for (int i = 0; i < b->nin && b->in; i++) free(b->in[i]);
  for (int i = 0; i < b->nout && b->out; i++) free(b->out[i]);
  mem_free(b->in), mem_free(b->out), mem_free(b->in_bytes), mem_free(b->out_bytes);
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

int buffers_open(const struct graph *g, uint64_t seed, struct buffers **out, struct err *e)
{
  struct buffers *b = mem_handle(sizeof *b, &kind);
  int *in = list_of(g, graph_inputs, &b->nin), *res = list_of(g, graph_outputs, &b->nout);
  int status = side_open(g, in, b->nin, &b->in, &b->in_bytes, e);
  if (status == OK) status = side_open(g, res, b->nout, &b->out, &b->out_bytes, e);
  for (int i = 0; i < b->nin && status == OK; i++) {
    const struct tensor *t = &g->tensors[in[i]];
    struct fill f = {t->dtype, b->in[i], shape_size(&t->shape), hash_mix(seed, (uint64_t)i), wants_positive(g, in[i])};
    pool_run(pool_cores(), (int)((f.n + PIECE - 1) / PIECE), fill_piece, &f);
  }
  for (int i = 0; i < b->nout && status == OK; i++) memset(b->out[i], 0, b->out_bytes[i]);
  mem_free(in), mem_free(res);
  if (status == OK) *out = b;
  else buffers_close(b);
  return status;
}

// ---- timing ----

static int timed_call(struct module *m, struct buffers *b, double *seconds, struct err *e)
{
  double start = now_seconds();
  int s = module_call(m, b->in, b->out);
  *seconds = now_seconds() - start;
  return s ? err_set(e, ERR_MEMORY, NOWHERE, "a generated function found no memory") : OK;
}

// What is slow gets fewer rounds: as many as fit LENIENT times the time asked, at least one.
static int least_rounds(double round, double seconds)
{
  return (int)MAX(1, MIN(LEAST_ROUNDS, LENIENT * seconds / round));
}

int measure(struct module *const *m, int n, struct buffers *b, double seconds, stop_flag stop, struct timing *t,
            struct err *e)
{
  double *times = MEM_NEWS(double, n * MOST_ROUNDS), warm_up = 0, start = 0;
  int s = OK, rounds = 0;
  for (int k = 0; k < n && !s; k++) {
    double one;
    s = timed_call(m[k], b, &one, e);
    warm_up += one;
  }
  int least = least_rounds(warm_up, seconds);
  start = now_seconds();
  while (!s && rounds < MOST_ROUNDS && timing_goes_on(times, n, MOST_ROUNDS, rounds, least, now_seconds() - start, seconds)) {
    for (int k = 0; k < n && !s; k++) s = timed_call(m[k], b, &times[(size_t)k * MOST_ROUNDS + (size_t)rounds], e);
    rounds++;
    if (!s && stop_set(stop)) s = err_set(e, ERR_STOPPED, NOWHERE, "stopped while measuring");
  }
  for (int k = 0; k < n; k++) module_rest(m[k]);
  for (int k = 0; k < n && !s; k++) t[k] = timing_of(times + (size_t)k * MOST_ROUNDS, rounds);
  mem_free(times);
  return s;
}

int measure_kernels(struct module *m, int n, struct buffers *b, double seconds, stop_flag stop, struct timing *t, struct err *e)
{
  const double *last = module_seconds(m);
  CHECK(last);
  double *times = calloc((size_t)n * MOST_ROUNDS, sizeof *times), one, start;
  CHECK(times);
  int s = timed_call(m, b, &one, e), rounds = 0, least = least_rounds(one, seconds);
  start = now_seconds();
  while (!s && rounds < MOST_ROUNDS && (rounds < least || now_seconds() - start < seconds)) {
    s = timed_call(m, b, &one, e);
    for (int k = 0; k < n; k++) times[(size_t)k * MOST_ROUNDS + (size_t)rounds] = last[k];
    rounds++;
    if (!s && stop_set(stop)) s = err_set(e, ERR_STOPPED, NOWHERE, "stopped while measuring");
  }
  module_rest(m);
  for (int k = 0; k < n && !s; k++) t[k] = timing_of(times + (size_t)k * MOST_ROUNDS, rounds);
  free(times);
  return s;
}

// Units of work. The result of a unit depends only on its number, so it may be made by a thread of this process, by another process, or by an earlier
// run that was interrupted. Results are transferred as bytes (search_pack.c).
//
// A process stores each unit when it is done, and a long unit every PERIOD seconds in its current state. Processes of a crew work in rounds of that
// length. In a round, open unit k goes to process k modulo the number of processes. Then all processes exchange results, and the remaining units are
// dealt again. Timing decides which process makes a unit and when a unit is interrupted, but never the result.
#include "search/space.h"
#include "base/memory.h"

#include <math.h>
#include <string.h>
#include <time.h>

static const double PERIOD = 1; // seconds

enum state { OPEN, FRESH, DONE }; // FRESH: finished or continued here, unknown to the others
struct round {
  struct units *w;
  const struct batch *b;
  char *state;  // of each unit of the batch
  bool *whole;  // of those not OPEN
  int n, *mine; // units assigned to this process
  double until;
};

static uint64_t unit_of(const struct batch *b, int i) { return (uint64_t)b->stage << 32 | (uint64_t)(b->first + i); }
static bool flagged(const struct units *w) { return stop_set(w->o->stop); }
static bool alone(const struct units *w) { return !w->o->crew || w->o->crew->size < 2; }
static bool kept(const struct round *r) { return r->b->kept && r->w->o->store; }

bool units_stopped(const struct units *w) { return w->stopped || (alone(w) && flagged(w)); }

void units_open(struct units *w, const struct search_opts *o, struct search_stats *stats)
{
  *w = (struct units){.o = o, .stats = stats};
  pthread_mutex_init(&w->lock, NULL);
}

void units_close(struct units *w) { pthread_mutex_destroy(&w->lock); }

static void keep(struct units *w, const struct batch *b, int i)
{
  struct str bytes = {0};
  b->pack(b->arg, i, &bytes);
  uint64_t sum = hash_bytes(str_text(&bytes), bytes.n, unit_of(b, i));
  str_raw(&bytes, (const char *)&sum, sizeof sum);
  struct undo undo;
  guard_lock(&undo, &w->lock);
  w->o->store->put(w->o->store->arg, unit_of(b, i), bytes.p, bytes.n);
  guard_unlock(&undo, &w->lock);
  str_free(&bytes);
}

// CPU time of this thread, independent of other load.
static double worked(void)
{
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void timed(struct units *w, const struct batch *b, int i, double start)
{
  if (!w->o->timed) return;
  pthread_mutex_lock(&w->lock);
  w->o->timed(w->o->timed_arg, w->batches, unit_of(b, i), worked() - start);
  pthread_mutex_unlock(&w->lock);
}

// Processes unit i as far as this round permits. Work in progress at a stop is discarded, since it may be incomplete.
static void make_one(void *arg, int k, int worker)
{
  struct round *r = arg;
  int i = r->mine[k];
  bool whole = false, all = alone(r->w);
  while (!whole && !flagged(r->w)) {
    double now = now_seconds(), start = worked(), until = all ? now + PERIOD : r->until;
    if (now > until) return;
    whole = r->b->make(r->b->arg, i, worker, until);
    timed(r->w, r->b, i, start);
    if (flagged(r->w)) return;
    r->state[i] = FRESH, r->whole[i] = whole;
    if (kept(r)) keep(r->w, r->b, i);
  }
}

// Takes results of an earlier run. Damaged bytes count as missing.
static void take(struct round *r)
{
  const struct search_store *s = r->w->o->store;
  for (int i = 0; kept(r) && i < r->b->n; i++) {
    struct arena mem = {0};
    void *p;
    size_t n;
    uint64_t sum;
    if (s->get(s->arg, unit_of(r->b, i), &mem, &p, &n) && n >= sizeof sum) {
      memcpy(&sum, (char *)p + n - sizeof sum, sizeof sum);
      n -= sizeof sum;
      struct bytes in = {p, (unsigned char *)p + n, false};
      if (sum == hash_bytes(p, n, unit_of(r->b, i)) && r->b->unpack(r->b->arg, i, &in, &r->whole[i])) r->state[i] = FRESH, r->w->stats->resumed++;
    }
    arena_close(&mem);
  }
}

// ---- between processes ----

static void tell(const struct round *r, struct str *out)
{
  put_number(out, flagged(r->w));
  for (int i = 0; i < r->b->n; i++) {
    if (r->state[i] != FRESH) continue;
    struct str one = {0};
    r->b->pack(r->b->arg, i, &one);
    put_number(out, (uint64_t)i), put_number(out, r->whole[i]), put_number(out, one.n);
    str_raw(out, str_text(&one), one.n);
    str_free(&one);
  }
}

// Reads the results of one process. All processes read the same data, so they agree on the open units.
static void hear(struct round *r, struct bytes *in, bool own)
{
  r->w->stopped |= get_number(in, 1);
  while (in->p < in->end && !in->bad) {
    int i = (int)get_number(in, (uint64_t)r->b->n - 1);
    bool whole = get_number(in, 1);
    size_t n = get_number(in, (uint64_t)(in->end - in->p));
    CHECK(!in->bad);
    struct bytes one = {in->p, in->p + n, false};
    in->p += n;
    r->state[i] = whole ? DONE : OPEN;
    if (own) continue;
    if (!r->b->unpack(r->b->arg, i, &one, &r->whole[i]) && whole) r->b->make(r->b->arg, i, 0, INFINITY);
    if (kept(r)) keep(r->w, r->b, i);
  }
}

static void exchange(struct round *r)
{
  const struct crew *c = r->w->o->crew;
  struct arena mem = {0};
  struct str mine = {0};
  void **all = NEWS(&mem, void *, c->size);
  size_t *n = NEWS(&mem, size_t, c->size);
  tell(r, &mine);
  c->gather(c->arg, str_text(&mine), mine.n, &mem, all, n);
  str_free(&mine);
  for (int i = 0; i < c->size; i++) {
    struct bytes in = {all[i], (unsigned char *)all[i] + n[i], false};
    hear(r, &in, i == c->rank);
  }
  arena_close(&mem);
}

static void settle(struct round *r)
{
  if (!alone(r->w))
    exchange(r);
  else
    for (int i = 0; i < r->b->n; i++)
      if (r->state[i] == FRESH) r->state[i] = r->whole[i] ? DONE : OPEN;
}

// Writes this process's share of the open units to r->mine. Returns the number of open units.
static int deal(struct round *r)
{
  const struct crew *c = alone(r->w) ? NULL : r->w->o->crew;
  int open = 0;
  r->n = 0;
  for (int i = 0; i < r->b->n; i++) {
    if (r->state[i] != OPEN) continue;
    if (!c || open % c->size == c->rank) r->mine[r->n++] = i;
    open++;
  }
  return open;
}

void units_run(struct units *w, const struct batch *b)
{
  struct arena mem = {0};
  struct round r = {w, b, NEWS(&mem, char, b->n + 1), NEWS(&mem, bool, b->n + 1), 0, NEWS(&mem, int, b->n + 1)};
  w->batches++;
  take(&r);
  settle(&r);
  while (!units_stopped(w) && deal(&r)) {
    r.until = now_seconds() + PERIOD;
    pool_run(w->o->threads, r.n, make_one, &r);
    settle(&r);
  }
  arena_close(&mem);
}

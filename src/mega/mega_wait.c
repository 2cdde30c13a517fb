// Waits, publications and the watchdog. The first wait that exceeds the deadline stops all threads. Each thread then notes the wait in which it was.
// The record is the note of the earliest task, because the others depend on it.
#include "mega/mega_threads.h"

#include <sched.h>
#include <string.h>

enum { POLLS = 256 }; // reads of a word between two reads of the clock

static bool stopped(const struct mega_running *r) { return atomic_load_explicit(&r->stop, memory_order_relaxed); }

void mega_stop(struct mega_thread *t, bool hung, const char *fmt, ...)
{
  struct mega_running *r = t->run;
  va_list ap;
  if (atomic_exchange(&r->recorded, 1)) return;
  va_start(ap, fmt);
  vsnprintf(r->out->record, sizeof r->out->record, fmt, ap);
  va_end(ap);
  r->out->hung = hung;
  for (int k = 0; k < r->p->world.n; k++)
    if (r->p->world.stop[r->rank][k]) atomic_store_explicit(&r->ranks[k].stop, 1, memory_order_release);
}

// Notes the wait of a thread that did not complete.
PRINTF(3, 4) static void note(struct mega_thread *t, bool late, const char *fmt, ...)
{
  char name[80];
  va_list ap;
  mega_node_name(t->run->p, t->node, name);
  int n = t->run->p->world.n > 1 ? snprintf(t->note, sizeof t->note, "rank %d, ", t->run->rank) : 0;
  n += snprintf(t->note + n, sizeof t->note - (size_t)n, "worker %d (%s) in step %d at %s tile %d waited for ", t->worker,
                t->producer ? "producer" : "consumer", t->step, name, t->tile);
  va_start(ap, fmt);
  vsnprintf(t->note + n, sizeof t->note - (size_t)n, fmt, ap);
  va_end(ap);
  if (late) mega_stop(t, true, "%s", t->note);
}

struct mega_watch {
  double since;
  int polls;
};

// Called between two reads of a word. False: the run ends, or this wait exceeds the deadline.
static bool keep_waiting(struct mega_thread *t, struct mega_watch *w, bool *late)
{
  *late = false;
  if (stopped(t->run)) return false;
  if (++w->polls % POLLS) return true;
  sched_yield();
  double now = now_seconds();
  if (!w->since) w->since = now;
  return !(*late = now - w->since > t->run->deadline);
}

static void note_event(struct mega_thread *t, bool late, const struct mega_wait *x, uint32_t seen, uint32_t wanted)
{
  char from[80];
  const struct mega_event *ev = &t->run->p->event[x->event];
  mega_node_name(t->run->p, ev->node, from);
  note(t, late, "event %d (%s of %s): saw %u, wanted %u", x->event, mega_signals[ev->kind].name, from, seen, wanted);
}

static bool wait_one(struct mega_thread *t, const struct mega_wait *x, _Atomic uint32_t *word, uint32_t wanted)
{
  memory_order order = t->run->p->event[x->event].acquire ? memory_order_acquire : memory_order_relaxed;
  struct mega_watch w = {0};
  bool late = false;
  for (;;) {
    uint32_t seen = atomic_load_explicit(word, order);
    if ((int32_t)(seen - wanted) >= 0) return true;
    if (keep_waiting(t, &w, &late)) continue;
    return note_event(t, late, x, seen, wanted), false;
  }
}

static bool wait_event(struct mega_thread *t, const struct mega_wait *x)
{
  const struct mega_plan *p = t->run->p;
  const struct mega_event *ev = &p->event[x->event];
  uint32_t rounds = (uint32_t)(t->step - x->back + 1);
  if (t->step < x->back || ev->kind == MEGA_TAGGED) return true;
  if (ev->kind == MEGA_COUNTER) return wait_one(t, x, &t->run->counter[x->event].value, rounds * (uint32_t)ev->count);
  for (int w = 0; w < p->m->workers; w++)
    if (mega_shared_tiles(ev, mega_share(p, ev->node, w)) && !wait_one(t, x, &t->run->flag[x->event * p->m->workers + w].value, rounds)) return false;
  return true;
}

bool mega_wait_tile(struct mega_thread *t)
{
  const struct mega_running *r = t->run;
  for (int i = r->first_wait[t->node]; i < r->first_wait[t->node + 1]; i++) {
    const struct mega_wait *x = &r->p->wait[i];
    if (x->stream == t->producer && x->lo <= t->tile && t->tile < x->hi && !wait_event(t, x)) return false;
  }
  return true;
}

bool mega_wait_ring(struct mega_thread *t, int64_t until)
{
  struct mega_ring *ring = &t->run->ring[t->worker];
  _Atomic int64_t *word = t->producer ? &ring->freed : &ring->filled;
  struct mega_watch w = {0};
  bool late = false;
  for (;;) {
    int64_t seen = atomic_load_explicit(word, memory_order_acquire);
    if (seen >= until) return true;
    if (keep_waiting(t, &w, &late)) continue;
    note(t, late, "a %s stage: saw %lld, wanted %lld", t->producer ? "free" : "full", (long long)seen, (long long)until);
    return false;
  }
}

bool mega_meet_ranks(struct mega_thread *t, bool end)
{
  const struct mega_running *r = t->run;
  const struct mega_world *w = &r->p->world;
  uint32_t epoch = (uint32_t)t->step + 1;
  if (t->worker || w->n < 2) return true;
  for (struct mega_watch watch = {0}; end && atomic_load(&r->done) < r->p->m->workers;) {
    bool late = false;
    if (keep_waiting(t, &watch, &late)) continue;
    note(t, late, "the other workers");
    return false;
  }
  for (int k = 0; k < w->n; k++)
    if ((end ? w->end : w->begin)[r->rank][k]) atomic_store_explicit(&r->ranks[k].met[(end ? w->n : 0) + r->rank].value, epoch, memory_order_release);
  for (int k = 0; k < w->n; k++) {
    struct mega_watch watch = {0};
    bool late = false;
    while (k != r->rank && atomic_load_explicit(&r->met[(end ? w->n : 0) + k].value, memory_order_acquire) != epoch) {
      if (keep_waiting(t, &watch, &late)) continue;
      note(t, late, "the %s of rank %d", end ? "end" : "beginning", k);
      return false;
    }
  }
  return true;
}

static void report_rewritten(struct mega_thread *t, const struct mega_tensor *of, uint32_t is, uint32_t epoch)
{
  char name[80];
  mega_node_name(t->run->p, t->node, name);
  mega_stop(t, false, "worker %d in step %d at %s tile %d read %s of epoch %u, but wanted epoch %u: a version was rewritten too early", t->worker,
            t->step, name, t->tile, of->name, is, epoch);
}

bool mega_wait_word(struct mega_thread *t, _Atomic uint64_t *word, uint32_t epoch, const struct mega_tensor *of, float *out)
{
  struct mega_watch w = {0};
  bool late = false;
  for (;;) {
    uint64_t seen = atomic_load_explicit(word, memory_order_relaxed);
    uint32_t is = (uint32_t)(seen >> 32), bits = (uint32_t)seen;
    if (is == epoch) return memcpy(out, &bits, sizeof bits), true;
    if ((int32_t)(is - epoch) > 0) return report_rewritten(t, of, is, epoch), false;
    if (keep_waiting(t, &w, &late)) continue;
    note(t, late, "a word of %s: saw epoch %u, wanted %u", of->name, is, epoch);
    return false;
  }
}

void mega_publish(struct mega_thread *t)
{
  struct mega_running *r = t->run;
  const struct mega_plan *p = r->p;
  struct mega_span s = mega_share(p, t->node, t->worker);
  for (int i = r->first_event[t->node]; i < r->first_event[t->node + 1]; i++) {
    int e = r->events_of[i];
    const struct mega_event *ev = &p->event[e];
    int64_t tiles = mega_shared_tiles(ev, s);
    memory_order order = ev->release ? memory_order_release : memory_order_relaxed;
    if (tiles && ev->kind == MEGA_COUNTER) atomic_fetch_add_explicit(&r->counter[e].value, (uint32_t)tiles, order);
    if (tiles && ev->kind == MEGA_FLAG) atomic_store_explicit(&r->flag[e * p->m->workers + t->worker].value, (uint32_t)t->step + 1, order);
  }
}

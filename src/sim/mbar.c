// mbarriers: a phase completes when all expected arrivals and all expected bytes have come. The state is kept outside of
// shared memory, by the address of the eight bytes.
#include "sim/machine.h"

// Computes the addresses for the lanes of the mask. Invalid ones are reported and removed from x->mask.
static void reach(struct warp *w, const struct sim_atom *a, int o, uint32_t mask, struct cta *there, struct access *x)
{
  struct walk it = walk_begin(w, a);
  struct sim_place p;
  walk_place(&it, o, &p);
  p.mask &= mask;
  access_init(x, w, a, o, 8);
  access_elements(x, &p);
  x->there = there;
  access_reach(x);
}

static struct mbar *at(const struct access *x, int lane)
{
  const struct sim *s = x->w->s;
  return &access_home(x, lane)->mbars[s->mbar_of[(s->sh[x->op->buf].offset + x->at[lane]) / 8]];
}

// The mbarrier, if its initialization happened before for this lane. NULL: an error has been reported.
static struct mbar *usable(struct access *x, int lane)
{
  struct mbar *b = at(x, lane);
  long long i = x->at[lane] / 8;
  if (!b->init)
    report(x->w, x->a, SIM_BARRIER, lane, "uses %%%s[%lld], which nothing has initialized", x->op->buffer->name, i);
  else if (!shadow_ordered(x, b->agent, b->epoch, lane))
    report(x->w, x->a, SIM_RACE, lane, "uses %%%s[%lld], and no barrier orders that after its initialization", x->op->buffer->name, i);
  return b->init ? b : NULL;
}

struct mbar *mbar_find(struct warp *w, const struct sim_atom *a, int o, int lane, struct cta *there)
{
  struct access x;
  reach(w, a, o, 1u << lane, there, &x);
  return x.mask ? usable(&x, lane) : NULL;
}

static void initialize(struct access *x, int lane, int64_t count)
{
  struct warp *w = x->w;
  struct mbar *b = at(x, lane);
  if (b->init) report(w, x->a, SIM_BARRIER, lane, "initializes %%%s[%lld] again", x->op->buffer->name, (long long)(x->at[lane] / 8));
  if (count < 1)
    report(w, x->a, SIM_BARRIER, lane, "initializes %%%s[%lld] with a count of %lld", x->op->buffer->name, (long long)(x->at[lane] / 8),
           (long long)count);
  b->init = true, b->fenced = false;
  b->agent = w->agent, b->epoch = EPOCH(w->clock, lane);
  b->count = b->pending = MAX(1, count);
  b->tx = 0, b->phase = 0, b->last = b->before = 0, b->clock = ++w->s->time;
  sync_clear(w->s, b->acc), sync_clear(w->s, b->done);
}

enum go sem_mbar_init(struct warp *w, const struct sim_atom *a)
{
  const struct vec *count = code_eval(w, a->arg);
  struct access x;
  reach(w, a, 0, FULL, NULL, &x);
  for (uint32_t m = x.mask; m; m &= m - 1) initialize(&x, __builtin_ctz(m), count->v[__builtin_ctz(m)]);
  return GO_ON;
}

static void settle(struct warp *w, struct mbar *b)
{
  if (b->pending || b->tx) return;
  sync_copy(w->s, b->done, b->acc);
  b->before = b->last, b->last = EPOCH(b->clock, WHOLE);
  sync_bump(&b->done.all[b->copies], b->last);
  b->phase++;
  b->pending = b->count;
  b->clock = ++w->s->time;
}

bool mbar_ready(const struct mbar *b, uint32_t parity) { return (b->phase & 1) != parity; }

// Publishes the warp's knowledge to the threads that wait.
static void publish(struct warp *w, struct mbar *b, bool copies)
{
  sync_join(w->s, b->acc, w->known);
  if (w->some_lanes && !(w->active & ~w->some_lanes)) sync_join(w->s, b->acc, w->some);
  sync_own(w, b->acc);
  if (copies) sync_bump(&b->acc.all[w->cp.agent], EPOCH(w->cp.clock, WHOLE));
}

// Every active lane arrives once and expects bytes[lane] more bytes. `copies`: the arrival takes effect when the thread's cp.async copies complete.
static void arrive(struct warp *w, const struct sim_atom *a, const int64_t *bytes, bool copies)
{
  struct access x;
  struct mbar *last = NULL; // the mbarrier published to last
  reach(w, a, 0, FULL, NULL, &x);
  for (uint32_t m = x.mask; m; m &= m - 1) {
    int lane = __builtin_ctz(m);
    struct mbar *b = usable(&x, lane);
    if (!b) continue;
    if (b != last) publish(w, b, copies);
    last = b;
    if (bytes) b->tx += bytes[lane];
    if (b->pending)
      b->pending--;
    else
      report(w, a, SIM_BARRIER, lane, "arrives once more than the barrier's count of %lld, in one phase", (long long)b->count);
    uint32_t phase = b->phase;
    settle(w, b);
    if (b->phase != phase) last = NULL;
  }
  sync_tick(w);
}

enum go sem_mbar_arrive(struct warp *w, const struct sim_atom *a)
{
  arrive(w, a, NULL, false);
  return GO_ON;
}

// Whether the warp knows of a write to another block's memory. Its arrivals by mbar.leave would seem to order that.
static bool has_sent(const struct warp *w)
{
  const struct sim *s = w->s;
  for (int i = 0; i < s->nagents; i++) {
    const uint32_t at = s->sent[i];
    if (at > s->start && (i == w->agent || at <= w->known.all[i] || (w->some_lanes && at <= w->some.all[i]))) return true;
  }
  return false;
}

// It does not order writes. So until the last one, blocks of the cluster may exchange data by TMA only.
enum go sem_mbar_leave(struct warp *w, const struct sim_atom *a)
{
  w->s->leaves = true;
  if (w->s->fetches || has_sent(w))
    report(w, a, SIM_RACE, __builtin_ctz(w->active), "does not order what threads write for another block of the cluster (mbar.arrive does)");
  arrive(w, a, NULL, false);
  return GO_ON;
}

enum go sem_mbar_expect(struct warp *w, const struct sim_atom *a)
{
  arrive(w, a, code_eval(w, a->arg)->v, false);
  return GO_ON;
}

enum go sem_cp_mbar_arrive(struct warp *w, const struct sim_atom *a)
{
  arrive(w, a, NULL, true);
  if (w->cp.used) w->cp.clock = ++w->s->time;
  return GO_ON;
}

void mbar_copied(struct warp *w, struct mbar *b, int64_t bytes)
{
  b->tx -= bytes;
  settle(w, b);
}

// A wait for a phase also passes two phases earlier, when the barrier has the same parity. So the end of the phase between must have happened before.
static void check_phase(struct warp *w, const struct sim_atom *a, const struct access *x, const struct mbar *b, int lane)
{
  if (b->before <= w->known.all[b->copies] || (w->some_lanes && b->before <= w->some.all[b->copies])) return;
  report(w, a, SIM_BARRIER, lane, "waits for phase %u of %%%s[%lld], and could pass two phases before it: nothing orders the wait after phase %u",
         b->phase - 1, x->op->buffer->name, (long long)(x->at[lane] / 8), b->phase - 2);
}

enum go sem_mbar_wait(struct warp *w, const struct sim_atom *a)
{
  const struct vec *parity = code_eval(w, a->arg);
  struct access x;
  struct mbar *last = NULL;
  uint32_t last_want = 2;
  w->s->r->counts.barriers += !w->again;
  reach(w, a, 0, FULL, NULL, &x);
  for (uint32_t m = x.mask; m; m &= m - 1) {
    int lane = __builtin_ctz(m);
    struct mbar *b = usable(&x, lane);
    uint32_t want = (uint32_t)(parity->v[lane] & 1);
    if (!b || (b == last && want == last_want)) continue;
    if (!mbar_ready(b, want)) {
      w->wait = (struct wait){.kind = WAIT_MBAR, .mbar = b, .phase = want, .atom = a->number};
      w->again = true;
      return GO_AGAIN;
    }
    check_phase(w, a, &x, b, lane);
    sync_take(w, b->done);
    last = b, last_want = want;
  }
  w->again = false;
  return GO_ON;
}

// mbarriers: a phase is over when all arrivals that were announced have come and all bytes that were announced are copied.
// The object lives beside shared memory, by the address of its eight bytes.
#include "sim/machine.h"

// The address only; false: reported.
static bool reach(struct warp *w, const struct sim_atom *a, int o, int lane, struct access *x, struct mbar **b)
{
  struct walk it = walk_begin(w, a);
  struct place p;
  walk_place(&it, o, &p);
  p.mask &= 1u << lane;
  access_init(x, w, a, o, 8);
  access_elements(x, &p);
  if (!access_reach(x)) return false;
  int64_t byte = w->s->sh[x->op->buf].offset + x->at[lane];
  *b = &x->home[lane]->mbars[w->s->mbar_of[byte / 8]];
  return true;
}

struct mbar *mbar_find(struct warp *w, const struct sim_atom *a, int o, int lane)
{
  struct access x;
  struct mbar *b;
  if (!reach(w, a, o, lane, &x, &b)) return NULL;
  if (!b->init)
    report(w, a, SIM_BARRIER, lane, "uses %%%s[%lld], which nothing has initialized", x.op->buffer->name, (long long)(x.at[lane] / 8));
  else if (!shadow_ordered(&x, b->agent, b->epoch, lane))
    report(w, a, SIM_RACE, lane, "uses %%%s[%lld], and no barrier orders that after its initialization", x.op->buffer->name,
           (long long)(x.at[lane] / 8));
  return b->init ? b : NULL;
}

enum go sem_mbar_init(struct warp *w, const struct sim_atom *a)
{
  const struct vec *count = code_eval(w, a->arg);
  for (uint32_t m = w->active; m; m &= m - 1) {
    int lane = __builtin_ctz(m);
    struct access x;
    struct mbar *b;
    if (!reach(w, a, 0, lane, &x, &b)) continue;
    if (b->init) report(w, a, SIM_BARRIER, lane, "initializes %%%s[%lld] again", x.op->buffer->name, (long long)(x.at[lane] / 8));
    if (count->v[lane] < 1) report(w, a, SIM_BARRIER, lane, "a count of %lld", (long long)count->v[lane]);
    b->init = true, b->fenced = false;
    b->agent = w->agent, b->epoch = EPOCH(w->clock, lane);
    b->count = b->pending = MAX(1, count->v[lane]);
    b->tx = 0, b->phase = 0, b->clock = ++w->s->time;
    sync_clear(w->s, b->acc), sync_clear(w->s, b->done);
  }
  return GO_ON;
}

static void settle(struct warp *w, struct mbar *b)
{
  if (b->pending || b->tx) return;
  memcpy(b->done.all, b->acc.all, sizeof *b->done.all * (size_t)(KNOWN * w->s->nagents));
  sync_bump(&b->done.all[b->copies], EPOCH(b->clock, WHOLE));
  b->phase++;
  b->pending = b->count;
  b->clock = ++w->s->time;
}

bool mbar_ready(const struct mbar *b, uint32_t parity) { return (b->phase & 1) != parity; }

static void arrive(struct warp *w, const struct sim_atom *a, struct mbar *b, int lane)
{
  if (!b->pending)
    report(w, a, SIM_BARRIER, lane, "arrives once more than the barrier's count of %lld, in one phase", (long long)b->count);
  else
    b->pending--;
  sync_join(w->s, b->acc, w->known);
  sync_bump(&b->acc.all[w->agent], EPOCH(w->clock, WHOLE));
  sync_bump(&b->acc.all[w->cp.agent], w->cpdone);
}

enum go sem_mbar_arrive(struct warp *w, const struct sim_atom *a)
{
  for (uint32_t m = w->active; m; m &= m - 1) {
    int lane = __builtin_ctz(m);
    struct mbar *b = mbar_find(w, a, 0, lane);
    if (b) arrive(w, a, b, lane), settle(w, b);
  }
  sync_tick(w);
  return GO_ON;
}

enum go sem_mbar_expect(struct warp *w, const struct sim_atom *a)
{
  const struct vec *bytes = code_eval(w, a->arg);
  for (uint32_t m = w->active; m; m &= m - 1) {
    int lane = __builtin_ctz(m);
    struct mbar *b = mbar_find(w, a, 0, lane);
    if (!b) continue;
    b->tx += bytes->v[lane];
    arrive(w, a, b, lane);
    settle(w, b);
  }
  sync_tick(w);
  return GO_ON;
}

// Arrives when the copies that the thread has begun are done.
enum go sem_cp_mbar_arrive(struct warp *w, const struct sim_atom *a)
{
  for (uint32_t m = w->active; m; m &= m - 1) {
    int lane = __builtin_ctz(m);
    struct mbar *b = mbar_find(w, a, 0, lane);
    if (!b) continue;
    arrive(w, a, b, lane);
    sync_bump(&b->acc.all[w->cp.agent], EPOCH(w->cp.clock, WHOLE));
    settle(w, b);
  }
  if (w->cp.used) w->cp.clock = ++w->s->time;
  sync_tick(w);
  return GO_ON;
}

void mbar_copied(struct warp *w, struct mbar *b, int64_t bytes)
{
  b->tx -= bytes;
  settle(w, b);
}

enum go sem_mbar_wait(struct warp *w, const struct sim_atom *a)
{
  const struct vec *parity = code_eval(w, a->arg);
  w->s->r->counts.barriers += !w->again;
  for (uint32_t m = w->active; m; m &= m - 1) {
    int lane = __builtin_ctz(m);
    struct mbar *b = mbar_find(w, a, 0, lane);
    if (!b) continue;
    uint32_t want = (uint32_t)(parity->v[lane] & 1);
    if (!mbar_ready(b, want)) {
      w->wait = (struct wait){.kind = WAIT_MBAR, .mbar = b, .phase = want, .atom = a->number};
      w->again = true;
      return GO_AGAIN;
    }
    sync_take(w, b->done);
  }
  w->again = false;
  return GO_ON;
}

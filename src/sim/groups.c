// Groups of asynchronous operations: cp.async and bulk copies of a warp, products of a warpgroup. A group has a clock.
// Copies are complete when a thread has waited for their group or a later one. Data copied by cp.async are then visible to
// the lane that copied them, and to others after a barrier.
#include "sim/machine.h"

void sync_open(struct warp *w, struct groups *g)
{
  if (g->used) return;
  g->used = true;
  g->clock = ++w->s->time;
}

static void push(struct groups *g, uint32_t clock, uint32_t lanes)
{
  if (g->n == GROUPS) memmove(g->g, g->g + 1, sizeof *g->g * (size_t)--g->n); // the table is full: the oldest group completes with the next one
  g->g[g->n++] = (struct group){clock, lanes};
  g->used = false;
}

static void commit(struct warp *w, struct groups *g) { push(g, g->used ? g->clock : 0, w->active); }

// The clock up to which groups are complete if the n newest groups of these lanes may still be pending.
static uint32_t wait_for(struct warp *w, const struct sim_atom *a, struct groups *g)
{
  int64_t keep = code_eval(w, a->arg)->v[__builtin_ctz(w->active)];
  uint32_t done = 0;
  int newer = 0, n = 0;
  bool drop[GROUPS];
  for (int i = g->n - 1; i >= 0; i--) {
    drop[i] = newer >= keep && (g->g[i].lanes & w->active);
    newer += (g->g[i].lanes & w->active) != 0;
    if (drop[i]) done = MAX(done, g->g[i].clock);
  }
  for (int i = 0; i < g->n; i++)
    if (!drop[i]) g->g[n++] = g->g[i];
  g->n = n;
  return done;
}

enum go sem_cp_commit(struct warp *w, const struct sim_atom *a)
{
  (void)a;
  commit(w, &w->cp);
  return GO_ON;
}

enum go sem_cp_wait(struct warp *w, const struct sim_atom *a)
{
  sync_bump(&w->cpdone, EPOCH(wait_for(w, a, &w->cp), WHOLE));
  return GO_ON;
}

enum go sem_bulk_commit(struct warp *w, const struct sim_atom *a)
{
  (void)a;
  commit(w, &w->bulk);
  return GO_ON;
}

enum go sem_bulk_wait(struct warp *w, const struct sim_atom *a)
{
  bool all = w->active == w->lanes;
  if (!all) sync_some(w);
  sync_bump(all ? &w->known.all[w->bulk.agent] : &w->some.all[w->bulk.agent], EPOCH(wait_for(w, a, &w->bulk), WHOLE));
  return GO_ON;
}

enum go sem_wgmma_fence(struct warp *w, const struct sim_atom *a)
{
  walk_collective(w, a);
  for (int b = 0; b < w->s->k->nbuffers; b++) w->pending[b].dirty = false;
  w->regfence++;
  return GO_ON;
}

enum go sem_wgmma_commit(struct warp *w, const struct sim_atom *a)
{
  struct quad *q = &w->cta->quad[w->number / 4];
  walk_collective(w, a);
  push(&w->wgmma, q->clock, w->active);
  q->open = false;
  return GO_ON;
}

enum go sem_wgmma_wait(struct warp *w, const struct sim_atom *a)
{
  walk_collective(w, a);
  uint32_t done = wait_for(w, a, &w->wgmma);
  sync_bump(&w->known.all[w->wgmma.agent], EPOCH(done, WHOLE));
  regs_done(w, done);
  return GO_ON;
}

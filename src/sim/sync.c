// Barriers of a block or part of it, of a warp, of a cluster, and of a warpgroup. They join vector clocks (clocks.c). An arriving warp publishes its
// knowledge and starts a new clock. A leaving warp receives what all have published.
#include "sim/machine.h"

static void completed(struct sim *s, struct gather *g)
{
  sync_copy(s, g->done, g->acc);
  if (g == &s->cluster_gather) sync_bump(&g->done.all[s->begun], EPOCH(s->time, WHOLE));
  memset(g->acc.all, 0, sizeof *g->acc.all * (size_t)(KNOWN * s->nagents));
  g->acc.parts->n = 0;
  g->threads = 0, g->phase++;
}

static void arrive(struct warp *w, const struct sim_atom *a, struct gather *g, int needed, bool publish)
{
  if (!g->threads) g->atom = a->number;
  uint32_t phase = g->phase;
  if (publish) sync_publish(w, g->acc);
  g->threads += __builtin_popcount(w->active);
  if (g->threads >= needed) completed(w->s, g);
  w->wait = (struct wait){.kind = WAIT_GATHER, .gather = g, .phase = phase, .atom = a->number, .joins = true};
}

bool sync_ready(struct warp *w)
{
  struct wait *t = &w->wait;
  if (t->kind == WAIT_MBAR) {
    if (!mbar_ready(t->mbar, t->phase)) return false;
  } else if (t->kind == WAIT_REGISTERS) {
    if (!pool_take(w, (int)t->phase)) return false;
  } else if (t->kind == WAIT_GATHER) {
    if (t->gather->phase == t->phase) return false;
    if (t->joins) sync_take(w, t->gather->done);
  }
  t->kind = WAIT_NONE;
  return true;
}

enum go sem_barrier(struct warp *w, const struct sim_atom *a)
{
  struct sim *s = w->s;
  int64_t number = code_eval(w, a->barrier)->v[__builtin_ctz(w->active)];
  int needed = number ? a->t->barrier_threads : s->nthreads;
  if (number < 0 || number >= NAMED) {
    report(w, a, SIM_DIVERGENT, __builtin_ctz(w->active), "comes to barrier %lld, and a block has 16", (long long)number);
    return GO_ON;
  }
  walk_collective(w, a);
  s->r->counts.barriers++;
  struct gather *g = &w->cta->named[number];
  if (g->threads && g->atom != a->number)
    report(w, a, SIM_DIVERGENT, __builtin_ctz(w->active), "arrives at this barrier while others of the block stand at the one of line %d",
           s->atoms[g->atom].at.line);
  sync_warp(w, w->active);
  arrive(w, a, g, needed, true);
  return GO_WAIT;
}

enum go sem_syncwarp(struct warp *w, const struct sim_atom *a)
{
  w->s->r->counts.barriers++;
  walk_collective(w, a);
  sync_warp(w, w->active);
  return GO_ON;
}

static enum go cluster_arrive(struct warp *w, const struct sim_atom *a, bool publish)
{
  struct gather *g = &w->s->cluster_gather;
  walk_collective(w, a);
  w->s->r->counts.barriers++;
  sync_warp(w, w->active);
  w->cluster_phase = g->phase + 1;
  arrive(w, a, g, w->s->cluster * w->s->nthreads, publish);
  w->wait.kind = WAIT_NONE;
  return GO_ON;
}

enum go sem_cluster_arrive(struct warp *w, const struct sim_atom *a) { return cluster_arrive(w, a, true); }
enum go sem_cluster_arrive_relaxed(struct warp *w, const struct sim_atom *a) { return cluster_arrive(w, a, false); }

enum go sem_cluster_wait(struct warp *w, const struct sim_atom *a)
{
  struct gather *g = &w->s->cluster_gather;
  if (!w->cluster_phase) {
    report(w, a, SIM_BARRIER, __builtin_ctz(w->active), "waits for the cluster without having arrived");
    return GO_ON;
  }
  w->wait = (struct wait){.kind = WAIT_GATHER, .gather = g, .phase = w->cluster_phase - 1, .atom = a->number, .joins = true};
  w->cluster_phase = 0;
  return GO_WAIT;
}

bool sync_quad(struct warp *w, const struct sim_atom *a, enum go *go)
{
  struct quad *q = &w->cta->quad[w->number / 4];
  struct gather *g = &q->gather;
  if (w->again) {
    w->again = false;
    return true;
  }
  if (w->active != FULL) walk_collective(w, a);
  if (g->threads && g->atom != a->number)
    report(w, a, SIM_DIVERGENT, __builtin_ctz(w->active), "comes to this instruction of a warpgroup while another warp of it is at line %d",
           w->s->atoms[g->atom].at.line);
  if (!g->threads) g->atom = a->number;
  w->wait = (struct wait){.kind = WAIT_GATHER, .gather = g, .phase = g->phase, .atom = a->number};
  w->again = true;
  g->threads += LANES;
  *go = GO_AGAIN;
  if (g->threads < 4 * LANES) return false;
  g->threads = 0, g->phase++;
  if (!q->open) q->clock = ++w->s->time; // set before a warp can commit the group
  q->open = true;
  return false;
}

enum go sem_fence_gpu(struct warp *w, const struct sim_atom *a)
{
  (void)a;
  for (int i = 0; i < w->s->nagents; i++) {
    sync_bump(&w->known.gpu[i], w->known.all[i]);
    if (w->some_lanes) sync_bump(&w->some.gpu[i], w->some.all[i]);
  }
  sync_done(w, w->known.gpu);
  sync_tick(w);
  return GO_ON;
}

enum go sem_fence_async(struct warp *w, const struct sim_atom *a)
{
  for (int i = 0; i < w->s->nagents; i++) {
    sync_bump(&w->known.async[i], w->known.all[i]);
    if (w->some_lanes) sync_bump(&w->some.async[i], w->some.all[i]);
  }
  sync_done(w, w->known.async);
  sync_tick(w);
  return sem_fence_mbar(w, a);
}

enum go sem_fence_mbar(struct warp *w, const struct sim_atom *a)
{
  (void)a;
  for (int i = 0; i < w->s->nmbars; i++)
    if (w->cta->mbars[i].agent == w->agent) w->cta->mbars[i].fenced = true;
  return GO_ON;
}

// Vector clocks: the accesses of other agents that happened before a warp's current step.
#include "sim/machine.h"

struct known sync_known(struct sim *s)
{
  uint32_t *p = NEWS(s->mem, uint32_t, KNOWN * s->nagents);
  return (struct known){p, p + s->nagents, p + 2 * s->nagents, NEW(s->mem, struct parts)};
}

void sync_clear(struct sim *s, struct known k)
{
  for (int i = 0; i < s->nagents; i++) k.all[i] = k.async[i] = k.gpu[i] = s->start;
  k.parts->n = 0;
}

void sync_copy(const struct sim *s, struct known to, struct known from)
{
  memcpy(to.all, from.all, sizeof *to.all * (size_t)(KNOWN * s->nagents));
  *to.parts = *from.parts;
}

static void add_part(struct known to, struct sim_part x)
{
  struct parts *p = to.parts;
  int n = 0;
  for (int i = 0; i < p->n; i++) { // drops parts that the whole warp knows by now, and those that x replaces
    bool same = p->part[i].agent == x.agent && p->part[i].lanes == x.lanes;
    if (same)
      x.epoch = MAX(x.epoch, p->part[i].epoch);
    else if (p->part[i].epoch > to.all[p->part[i].agent])
      p->part[n++] = p->part[i];
  }
  p->n = n;
  if (x.epoch <= to.all[x.agent]) return;
  if (n == PARTS) { // the table is full: the oldest counts as published by its whole warp
    sync_bump(&to.all[p->part[0].agent], p->part[0].epoch);
    memmove(p->part, p->part + 1, sizeof *p->part * (size_t)--p->n);
  }
  p->part[p->n++] = x;
}

void sync_join(const struct sim *s, struct known to, struct known from)
{
  for (int i = 0; i < KNOWN * s->nagents; i++) to.all[i] = MAX(to.all[i], from.all[i]);
  for (int i = 0; i < from.parts->n; i++) add_part(to, from.parts->part[i]);
}

void sync_bump(uint32_t *to, uint32_t epoch) { *to = MAX(*to, epoch); }

void sync_tick(struct warp *w)
{
  struct sim *s = w->s;
  w->clock = ++s->time;
  if (s->time < UINT32_MAX >> LANE_BITS || s->status) return;
  s->status = err_set(s->e, ERR_LIMIT, s->k->at, "the run has more than 2^26 synchronizations");
  s->stopped = true;
}

// Adds the warp's own accesses up to now to the clocks `to`.
void sync_done(struct warp *w, uint32_t *to)
{
  sync_bump(&to[w->agent], EPOCH(w->clock, WHOLE));
  sync_bump(&to[w->cp.agent], w->cpdone);
}

void sync_own(struct warp *w, struct known to)
{
  sync_bump(&to.all[w->cp.agent], w->cpdone);
  if (w->active == w->lanes)
    sync_bump(&to.all[w->agent], EPOCH(w->clock, WHOLE));
  else
    add_part(to, (struct sim_part){w->agent, w->active, EPOCH(w->clock, WHOLE)});
}

// Merges the knowledge of some lanes into that of the whole warp.
static void forget(struct warp *w)
{
  if (w->some_lanes) sync_join(w->s, w->known, w->some);
  w->some_lanes = 0;
}

void sync_some(struct warp *w)
{
  if (w->some_lanes == w->active) return;
  forget(w); // only one set of lanes is tracked: the knowledge of the previous one counts as the warp's
  sync_clear(w->s, w->some);
  w->some_lanes = w->active;
}

void sync_publish(struct warp *w, struct known to)
{
  sync_join(w->s, to, w->known);
  if (w->some_lanes && !(w->active & ~w->some_lanes)) sync_join(w->s, to, w->some);
  sync_own(w, to);
  sync_tick(w);
}

void sync_take(struct warp *w, struct known from)
{
  bool all = w->active == w->lanes;
  if (!all) sync_some(w);
  sync_join(w->s, all ? w->known : w->some, from);
}

void sync_warp(struct warp *w, uint32_t lanes)
{
  if (lanes == w->lanes) {
    forget(w);
    sync_done(w, w->known.all);
    w->npartial = 0;
  } else {
    if (w->npartial == PARTIAL) memmove(w->partial, w->partial + 1, sizeof *w->partial * (size_t)--w->npartial);
    w->partial[w->npartial].lanes = lanes, w->partial[w->npartial++].clock = w->clock;
  }
  sync_tick(w);
}

// ---- order between clusters, by atomics in global memory ----

static struct channel *channel_at(struct sim *s, int buf, int64_t at)
{
  for (int i = 0; i < s->nchannels; i++)
    if (s->channels[i]->buf == buf && s->channels[i]->at == at) return s->channels[i];
  struct channel *c = NEW(s->mem, struct channel);
  *c = (struct channel){.buf = buf, .at = at, .told = NEWS(s->mem, uint32_t *, s->nblocks / s->cluster + 1)};
  PUSH(s->mem, s->channels, s->nchannels, s->channel_cap) = c;
  return c;
}

void sync_tell(struct warp *w, const struct sim_atom *a, int lane, int64_t at, bool reads)
{
  struct sim *s = w->s;
  bool fenced = w->known.gpu[w->agent] > s->start;
  if (!reads && !fenced) return; // publishes nothing
  struct channel *c = channel_at(s, a->op[reads ? a->nout : 0].buf, at);
  uint32_t **told = &c->told[w->cta->number / s->cluster];
  if (fenced && !*told) *told = NEWS(s->mem, uint32_t, s->nagents);
  for (int i = 0; fenced && i < s->nagents; i++) {
    sync_bump(&(*told)[i], w->known.gpu[i]);
    if (w->some_lanes >> lane & 1) sync_bump(&(*told)[i], w->some.gpu[i]);
  }
  for (int i = 0; i < s->ntaken; i++) reads &= s->taken[i].from != c || s->taken[i].agent != w->agent;
  if (reads) PUSH(s->mem, s->taken, s->ntaken, s->taken_cap) = (struct taken){c, w->agent, EPOCH(w->clock, lane)};
}

bool sync_told(struct warp *w, int cluster, int agent, uint32_t epoch)
{
  const struct sim *s = w->s;
  for (int i = 0; i < s->ntaken; i++) {
    const struct taken *t = &s->taken[i];
    const uint32_t *told = t->from->told[cluster];
    if (told && told[agent] >= epoch && (t->agent == w->agent || w->known.all[t->agent] >= t->epoch)) return true;
  }
  return false;
}

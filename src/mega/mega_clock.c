// Vector clocks of two steps under events and worker order, for any timing. Nodes are visited in the order of a sequential program. A wait for an
// event of a later node of the same step adds nothing here; the check of deadlocks reports it.
#include "mega/mega.h"

#include <stdlib.h>
#include <string.h>

// Numbers of a clock: one for each worker of this rank and, in a world, one for each worker of any other rank.
static int clock_size(const struct mega_plan *p) { return p->m->workers * (p->m->world > 1 ? 2 : 1); }

static void join(uint32_t *restrict to, const uint32_t *restrict from, int n)
{
  for (int i = 0; i < n; i++) to[i] = MAX(to[i], from[i]);
}

struct mega_known mega_known_new(struct arena *mem, const struct mega_plan *p)
{
  struct mega_known k;
  for (int o = 0; o < MEGA_ORDERS; o++) k.of[o] = NEWS(mem, uint32_t, clock_size(p));
  return k;
}

// Joins the clocks of an event that all ranks publish. For another rank, own and other ranks are swapped.
static void join_ranks(const struct mega_clocks *c, uint32_t *to, const uint32_t *from, int ranks)
{
  int n = c->p->m->workers;
  join(to, from, clock_size(c->p));
  if (ranks > 1) join(to, from + n, n), join(to + n, from, n);
}

// Joins the clocks of the event that x waits for. An event with release and acquire turns a chain of any kind into one with both.
static void join_event(const struct mega_clocks *c, const struct mega_wait *x, int step, struct mega_known *k)
{
  const struct mega_event *ev = &c->p->event[x->event];
  int from = step - x->back;
  if (from < 0 || x->stream) return;
  const struct mega_known *j = &c->event[from * c->p->nevents + x->event];
  const bool orders = mega_event_orders(ev);
  join_ranks(c, k->of[MEGA_CHAIN], j->of[MEGA_CHAIN], ev->ranks);
  join_ranks(c, k->of[MEGA_SOME], j->of[orders ? MEGA_CHAIN : MEGA_SOME], ev->ranks);
  if (orders) join(k->of[MEGA_ALL], j->of[MEGA_ALL], clock_size(c->p));
}

void mega_clock_start(const struct mega_clocks *c, int instance, int worker, struct mega_known *k)
{
  size_t bytes = sizeof(uint32_t) * (size_t)clock_size(c->p);
  for (int o = 0; o < MEGA_ORDERS; o++) {
    if (instance)
      memcpy(k->of[o], mega_begun(c, instance - 1, worker)->of[o], bytes);
    else
      memset(k->of[o], 0, bytes);
  }
  k->of[MEGA_ALL][worker] = k->of[MEGA_CHAIN][worker] = (uint32_t)instance; // earlier tasks of this worker, which need no event
}

void mega_clock_tile(const struct mega_clocks *c, int instance, int worker, int tile, struct mega_known *k)
{
  int node = instance % c->p->nnodes, step = instance / c->p->nnodes;
  bool first = mega_share(c->p, node, worker).lo == tile;
  for (int i = c->first_wait[node]; i < c->first_wait[node + 1]; i++) {
    const struct mega_wait *x = &c->p->wait[i];
    if (x->lo <= tile && tile < x->hi && (first || x->lo == tile)) join_event(c, x, step, k);
  }
}

// Sets the clocks of the events of this node. They follow from the clocks with which its tasks begin.
static void publish(struct mega_clocks *c, int step, int node)
{
  const struct mega_plan *p = c->p;
  int instance = step * p->nnodes + node, n = p->m->workers;
  for (int e = 0; e < p->nevents; e++) {
    const struct mega_event *ev = &p->event[e];
    struct mega_known *j = &c->event[step * p->nevents + e];
    if (ev->node != node) continue;
    for (int w = 0; w < n; w++) {
      if (!mega_shared_tiles(ev, mega_share(p, node, w))) continue;
      for (int o = 0; o < MEGA_ORDERS; o++) join(j->of[o], mega_begun(c, instance, w)->of[o], clock_size(p));
      j->of[MEGA_ALL][w] = j->of[MEGA_CHAIN][w] = (uint32_t)instance + 1;
    }
  }
}

static void run_node(struct mega_clocks *c, int step, int node)
{
  const struct mega_plan *p = c->p;
  int instance = step * p->nnodes + node, workers = p->m->workers;
  for (int w = 0; w < workers; w++) {
    struct mega_known *k = &c->begun[(size_t)instance * (size_t)workers + (size_t)w];
    struct mega_span s = mega_share(p, node, w);
    int *fenced = &c->fenced[(size_t)instance * (size_t)workers + (size_t)w];
    mega_clock_start(c, instance, w, k);
    for (int i = c->first_wait[node]; i < c->first_wait[node + 1]; i++)
      if (p->wait[i].lo < s.hi && s.lo < p->wait[i].hi) join_event(c, &p->wait[i], step, k);
    *fenced = p->fence[node] && s.hi > s.lo ? instance : instance ? fenced[-workers] : -1;
  }
  publish(c, step, node);
}

static bool allocate(struct arena *mem, const struct mega_plan *p, struct mega_clocks *c)
{
  size_t n = (size_t)p->m->workers, tasks = (size_t)MEGA_STEPS * (size_t)p->nnodes * n, events = (size_t)MEGA_STEPS * (size_t)MAX(p->nevents, 1);
  size_t size = (size_t)clock_size(p);
  uint32_t *numbers = arena_try(mem, sizeof *numbers * MEGA_ORDERS * size * (tasks + events));
  *c = (struct mega_clocks){
      .p = p, .steps = MEGA_STEPS, .begun = arena_try(mem, sizeof *c->begun * tasks), .event = arena_try(mem, sizeof *c->event * events)};
  c->fenced = arena_try(mem, sizeof *c->fenced * tasks);
  c->first_wait = mega_first_waits(mem, p);
  if (!numbers || !c->begun || !c->event || !c->fenced) return false;
  for (size_t i = 0; i < tasks + events; i++)
    for (int o = 0; o < MEGA_ORDERS; o++, numbers += size) (i < tasks ? &c->begun[i] : &c->event[i - tasks])->of[o] = numbers;
  return true;
}

bool mega_clocks_make(struct arena *mem, const struct mega_plan *p, struct mega_clocks *c)
{
  if (!allocate(mem, p, c)) return false;
  for (int s = 0; s < c->steps; s++)
    for (int n = 0; n < p->nnodes; n++) run_node(c, s, n);
  return true;
}

// ---- redundant waits ----

// Whether the clock of this worker already knows that all other tasks which publish the event have ended.
static bool covered(const struct mega_clocks *c, const struct mega_wait *x, int worker, const struct mega_known *k)
{
  const struct mega_event *ev = &c->p->event[x->event];
  for (int w = 0; w < c->p->m->workers; w++)
    if (w != worker && mega_shared_tiles(ev, mega_share(c->p, ev->node, w)) && k->of[MEGA_ALL][w] < (uint32_t)ev->node + 1) return false;
  return true;
}

// Whether the wait can be dropped: for each worker, its other waits for the same tiles imply it. `gone`: the waits that are dropped already.
static bool redundant(const struct mega_clocks *c, const struct mega_wait *x, const bool *gone, struct mega_known *k)
{
  const struct mega_plan *p = c->p;
  if (x->back || x->stream || !mega_signals[p->event[x->event].kind].flag) return false;
  for (int w = 0; w < p->m->workers; w++) {
    struct mega_span s = mega_share(p, x->node, w);
    if (s.lo >= x->hi || x->lo >= s.hi) continue;
    mega_clock_start(c, x->node, w, k);
    for (int i = c->first_wait[x->node]; i < c->first_wait[x->node + 1]; i++) {
      const struct mega_wait *o = &p->wait[i];
      if (o != x && !gone[i] && o->lo <= MAX(s.lo, x->lo) && o->hi > MAX(s.lo, x->lo)) join_event(c, o, 0, k);
    }
    if (!covered(c, x, w, k)) return false;
  }
  return true;
}

// Tests smaller sets first: a wait for few tiles is more often implied by a wait for many tiles than the reverse.
static void prune_node(struct mega_clocks *c, int node, bool *gone, struct mega_known *k)
{
  for (int64_t size = 1; size > 0;) {
    int64_t next = 0;
    for (int i = c->first_wait[node]; i < c->first_wait[node + 1]; i++) {
      int64_t count = c->p->event[c->p->wait[i].event].count;
      if (count > size) next = next ? MIN(next, count) : count;
      if (count == size && redundant(c, &c->p->wait[i], gone, k)) gone[i] = true;
    }
    size = next;
  }
}

static void record_implied(struct arena *mem, struct mega_plan *p, const struct mega_wait *x)
{
  const struct mega_node *to = &p->node[x->node], *from = &p->node[p->event[x->event].node];
  bool layered = p->m->op[to->op].repeat && p->m->op[from->op].repeat;
  struct mega_implied i = {to->op, from->op, layered ? to->layer - from->layer : 0, x->back};
  for (int k = 0; k < p->nimplied; k++)
    if (!memcmp(&p->implied[k], &i, sizeof i)) return;
  PUSH(mem, p->implied, p->nimplied, p->implied_cap) = i;
}

static void drop_waits(struct arena *mem, struct arena *own, struct mega_plan *p, const bool *gone)
{
  int *now = NEWS(own, int, p->nevents + 1), n = 0;
  for (int i = 0; i < p->nwaits; i++)
    if (gone[i]) record_implied(mem, p, &p->wait[i]);
  for (int i = 0; i < p->nwaits; i++)
    if (!gone[i]) now[p->wait[i].event] = 1, p->wait[n++] = p->wait[i];
  p->nwaits = n, n = 0;
  for (int e = 0; e < p->nevents; e++)
    if (now[e]) p->event[n] = p->event[e], now[e] = n++;
  p->nevents = n;
  for (int i = 0; i < p->nwaits; i++) p->wait[i].event = now[p->wait[i].event];
}

bool mega_waits_prune(struct arena *mem, struct mega_plan *p)
{
  struct arena own = {0};
  struct mega_clocks c;
  bool fine = allocate(&own, p, &c);
  if (fine) {
    bool *gone = NEWS(&own, bool, p->nwaits + 1);
    struct mega_known k = mega_known_new(&own, p);
    for (int n = 0; n < p->nnodes; n++) run_node(&c, 0, n), prune_node(&c, n, gone, &k);
    drop_waits(mem, &own, p, gone);
  }
  arena_close(&own);
  return fine;
}

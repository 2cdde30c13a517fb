// Checks that there is no deadlock for any timing: the graph of waits has no cycle. A task has three moments: its pieces have arrived, its waits have
// ended, the task has ended. Arcs come from events, the order of a worker's tasks, the order of its pipeline, and stages that must become free.
#include "mega/mega_prove.h"

#include <string.h>

enum mega_moment { FILLED, WAITED, ENDED, MOMENTS };
struct mega_arc {
  int to, next;
};
struct mega_waiting {
  struct mega_proving *v;
  int n, narcs, cap, *first, *open; // by vertex: its first arc; the number of vertices that it still waits for
  struct mega_arc *arc;
};

static int vertex(const struct mega_waiting *g, int instance, int worker, enum mega_moment m)
{
  return (instance * g->v->p->m->workers + worker) * MOMENTS + (int)m;
}

static void arc(struct mega_waiting *g, int from, int to)
{
  PUSH(g->v->mem, g->arc, g->narcs, g->cap) = (struct mega_arc){to, g->first[from]};
  g->first[from] = g->narcs - 1;
  g->open[to]++;
}

// Each event has a vertex between the tasks that publish it and the tasks that wait for it. This takes fewer arcs than one for each pair.
static void event_arcs(struct mega_waiting *g, const int *hub)
{
  const struct mega_plan *p = g->v->p;
  for (int s = 0; s < MEGA_STEPS; s++) {
    for (int e = 0; e < p->nevents; e++)
      for (int w = 0; w < p->m->workers; w++)
        if (mega_shared_tiles(&p->event[e], mega_share(p, p->event[e].node, w)))
          arc(g, vertex(g, s * p->nnodes + p->event[e].node, w, ENDED), hub[s * p->nevents + e]);
    for (int i = 0; i < p->nwaits; i++) {
      const struct mega_wait *x = &p->wait[i];
      if (s < x->back) continue;
      for (int w = 0; w < p->m->workers; w++) {
        struct mega_span share = mega_share(p, x->node, w);
        if (share.lo < x->hi && x->lo < share.hi)
          arc(g, hub[(s - x->back) * p->nevents + x->event], vertex(g, s * p->nnodes + x->node, w, x->stream ? FILLED : WAITED));
      }
    }
  }
}

static void worker_arcs(struct mega_waiting *g, int w)
{
  int n = MEGA_STEPS * g->v->p->nnodes;
  const struct mega_stream *s = &g->v->stream[w];
  for (int i = 0; i < n; i++) {
    if (i) arc(g, vertex(g, i - 1, w, ENDED), vertex(g, i, w, WAITED));
    arc(g, vertex(g, i, w, WAITED), vertex(g, i, w, ENDED));
    arc(g, vertex(g, i, w, FILLED), vertex(g, i, w, ENDED));
  }
  for (int i = 0; i < n; i++) {
    int to = vertex(g, s->instance[i], w, FILLED);
    if (i) arc(g, vertex(g, s->instance[i - 1], w, FILLED), to);
    for (int64_t piece = s->start[i], last = -1; piece < s->start[i + 1]; piece++) { // tasks that free the stages of this one
      int freed = mega_stage_freed_by(g->v, s, piece);
      if (freed >= 0 && freed != last) arc(g, vertex(g, freed, w, WAITED), to);
      last = freed;
    }
  }
}

// ---- cycles ----

// Removes all vertices that wait for no remaining vertex, as a topological sort does. Cycles remain.
static void remove_ready(struct mega_waiting *g)
{
  int *ready = NEWS(g->v->mem, int, g->n), n = 0;
  for (int i = 0; i < g->n; i++)
    if (!g->open[i]) ready[n++] = i;
  for (int k = 0; k < n; k++)
    for (int a = g->first[ready[k]]; a >= 0; a = g->arc[a].next)
      if (!--g->open[g->arc[a].to]) ready[n++] = g->arc[a].to;
}

static void name_vertex(const struct mega_waiting *g, int x, int tasks, struct str *out)
{
  static const char *const moments[] = {"the pieces of %s, worker %d", "%s, worker %d", "the end of %s, worker %d"};
  const struct mega_plan *p = g->v->p;
  char name[80];
  int task = x / MOMENTS, node = task / p->m->workers % p->nnodes;
  if (x >= tasks) {
    str_add(out, "event %d", (x - tasks) % p->nevents);
    return;
  }
  mega_node_name(p, node, name);
  if (task / p->m->workers >= p->nnodes) snprintf(name + strlen(name), sizeof name - strlen(name), " (next step)");
  str_add(out, moments[x % MOMENTS], name, task % p->m->workers);
}

// Reports a cycle. Follows predecessors among the remaining vertices until one repeats.
static void report_cycle(struct mega_waiting *g, int tasks)
{
  int *before = NEWS(g->v->mem, int, g->n), *seen = NEWS(g->v->mem, int, g->n), at = -1, length = 0;
  struct str text = {0};
  for (int i = 0; i < g->n; i++) {
    if (!g->open[i]) continue;
    at = i;
    for (int a = g->first[i]; a >= 0; a = g->arc[a].next)
      if (g->open[g->arc[a].to]) before[g->arc[a].to] = i + 1;
  }
  if (at < 0) return;
  while (!seen[at]) seen[at] = 1, at = before[at] - 1;
  int first = at, node = -1;
  do {
    if (length++ < 6) str_add(&text, length > 1 ? " waits for " : ""), name_vertex(g, at, tasks, &text);
    if (node < 0 && at < tasks) node = at / MOMENTS / g->v->p->m->workers % g->v->p->nnodes;
    at = before[at] - 1;
  } while (at != first);
  mega_fault_add(g->v->p, g->v->out, MEGA_CHECK_DEADLOCK, node, -1, -1, "a cycle of %d: %.300s%s", length, str_text(&text), length > 6 ? " ..." : "");
  str_free(&text);
}

int mega_prove_deadlock(struct mega_proving *v, struct err *e)
{
  const struct mega_plan *p = v->p;
  int tasks = MEGA_STEPS * p->nnodes * p->m->workers * MOMENTS;
  struct mega_waiting g = {.v = v, .n = tasks + MEGA_STEPS * p->nevents};
  int *hub = NEWS(v->mem, int, MEGA_STEPS * p->nevents + 1);
  (void)e;
  mega_streams_make(v);
  g.first = NEWS(v->mem, int, g.n), g.open = NEWS(v->mem, int, g.n);
  for (int i = 0; i < g.n; i++) g.first[i] = -1;
  for (int i = 0; i < MEGA_STEPS * p->nevents; i++) hub[i] = tasks + i;
  event_arcs(&g, hub);
  for (int w = 0; w < p->m->workers; w++) worker_arcs(&g, w);
  remove_ready(&g);
  report_cycle(&g, tasks);
  v->out->looked[MEGA_CHECK_DEADLOCK] = g.narcs;
  return OK;
}

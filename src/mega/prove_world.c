// Checks that all ranks are alike: each writes its slots on every rank, adds slots in the same order, and signals its begin, end and faults to all.
// The checks of order and reuse rely on this, because they distinguish only a rank itself and any other rank.
#include "mega/mega_prove.h"

#define FAULT(node, ...) mega_fault_add(v->p, v->out, MEGA_CHECK_WORLD, node, -1, -1, __VA_ARGS__)

// Checks that every table of the plan has an entry from rank a to rank b.
static void check_pair(struct mega_proving *v, int a, int b)
{
  const struct mega_world *w = &v->p->world;
  v->out->looked[MEGA_CHECK_WORLD]++;
  if (!w->push[a][b]) FAULT(-1, "rank %d writes no slots on rank %d", a, b);
  if (!w->stop[a][b]) FAULT(-1, "a fault of rank %d does not stop rank %d", a, b);
  if (a != b && !w->begin[a][b]) FAULT(-1, "rank %d does not tell rank %d its epoch when it begins", a, b);
  if (a != b && !w->end[a][b]) FAULT(-1, "rank %d does not tell rank %d that it has ended, and may leave while words are on their way", a, b);
}

// Each slot is added once, in the same order on every rank. So results have the same bits.
static void check_order(struct mega_proving *v, int rank)
{
  const struct mega_world *w = &v->p->world;
  int times[MEGA_MOST_WORLD] = {0};
  for (int i = 0; i < w->n; i++) {
    if (w->order[rank][i] < w->n) times[w->order[rank][i]]++;
    if (w->order[rank][i] == w->order[0][i]) continue;
    FAULT(-1, "rank %d adds the slot of rank %d as number %d, but rank 0 adds that of rank %d there, so results differ", rank, w->order[rank][i], i,
          w->order[0][i]);
    return;
  }
  for (int r = 0; r < w->n; r++)
    if (times[r] != 1) FAULT(-1, "rank %d adds the slot of rank %d %d times", rank, r, times[r]);
}

static bool awaited(const struct mega_plan *p, int tensor, int node, int tile)
{
  for (int i = 0; i < p->nwaits; i++) {
    const struct mega_event *ev = &p->event[p->wait[i].event];
    if (ev->node == node && ev->tensor == tensor && !ev->reuse && mega_shared_tiles(ev, (struct mega_span){tile, tile + 1})) return true;
  }
  return false;
}

// Checks that each tile of a shared tensor is awaited. Then a rank that has run a step has received all words, and none is in flight when it ends.
static void check_awaited(struct mega_proving *v, int tensor)
{
  const struct mega_plan *p = v->p;
  const struct mega_held *h = &p->held[tensor];
  if (!h->tagged) FAULT(h->nwrites ? h->write[0] : -1, "%s is shared, but its words have no epochs", p->m->tensor[tensor].name);
  for (int w = 0; w < h->nwrites; w++)
    for (int t = 0; t < mega_op_of(p, h->write[w])->tiles; t++, v->out->looked[MEGA_CHECK_WORLD]++)
      if (!awaited(p, tensor, h->write[w], t))
        mega_fault_add(p, v->out, MEGA_CHECK_WORLD, h->write[w], t, -1, "writes %s on all ranks, but none waits for it", p->m->tensor[tensor].name);
}

int mega_prove_world(struct mega_proving *v, struct err *e)
{
  const struct mega_plan *p = v->p;
  (void)e;
  if (p->world.n != p->m->world) FAULT(-1, "the plan is of %d ranks, and the model of %d", p->world.n, p->m->world);
  for (int a = 0; a < p->world.n && p->m->world > 1; a++) {
    for (int b = 0; b < p->world.n; b++) check_pair(v, a, b);
    check_order(v, a);
  }
  for (int t = 0; t < p->m->ntensors && p->m->world > 1; t++)
    if (p->m->tensor[t].shared) check_awaited(v, t);
  return OK;
}

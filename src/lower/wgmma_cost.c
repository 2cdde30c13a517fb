// What a plan does, counted: as by mma.sync, but for who brings tiles.
#include "lower/count.h"
#include "lower/wgmma.h"

// TMA takes as long for a row of a box that is narrow.
static double boxed(const struct wg_plan *w)
{
  double rows = 0;
  for (int i = 0; i < w->p.ntiles; i++) {
    const struct mma_tile *t = &w->p.tile[i];
    rows += (t->varying ? (double)w->p.iterations : 1) * (double)(t->rows * w->box[i].chunks);
  }
  return rows;
}

void wgmma_count(const struct wg_plan *w, struct kernel_counts *c)
{
  bool *sent = NEWS(w->p.job->mem, bool, w->p.n->nsave + 1);
  for (int i = 0; i < w->p.n->nsave; i++) sent[i] = w->places && wgmma_sends(w, i);
  mma_count(&w->p, sent, c);
  if (w->groups > 1) c->room = 1; // registers are shared out for one block
  c->blocks = (double)w->blocks, c->boxed = boxed(w);
  c->overlap = w->p.wg_async ? 2 : w->first ? 1 : 0;
  // Blocks of a pair meet at both ends, which takes about as long as a load. That L2 delivers less is not counted: it was not the limit where
  // products were measured.
  if (w->pair_axis >= 0) c->waits += c->blocks / c->items;
}

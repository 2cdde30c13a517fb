// What a plan does, counted: as by mma.sync, but for who brings tiles.
#include "lower/count.h"
#include "lower/wgmma.h"

// TMA takes as long for a row of a box that is narrow.
static double boxed(const struct wg_plan *w)
{
  double rows = 0;
  for (int i = 0; i < w->p.ntiles; i++) {
    const struct mma_tile *t = &w->p.tile[i];
    rows += (t->varying ? (double)w->p.iterations : 1) * (double)(t->rows * w->box[i].chunks) * (wgmma_shares(w, i) ? 0.5 : 1);
  }
  return rows;
}

// Bytes of an item that the other block of the pair brings.
static double brought(const struct wg_plan *w)
{
  double bytes = 0;
  for (int i = 0; i < w->p.ntiles; i++)
    if (wgmma_shares(w, i)) bytes += (double)(w->p.tile[i].rows * w->p.tile[i].cols * dtype_bytes(w->p.type)) / 2;
  return bytes * (double)w->p.iterations;
}

void wgmma_count(const struct wg_plan *w, struct kernel_counts *c)
{
  bool *sent = NEWS(w->p.job->mem, bool, w->p.n->nsave + 1);
  for (int i = 0; i < w->p.n->nsave; i++) sent[i] = w->places && wgmma_sends(w, i);
  mma_count(&w->p, sent, c);
  if (w->groups > 1) c->room = 1; // registers are shared out for one block
  c->blocks = (double)w->blocks, c->boxed = boxed(w), c->cache -= c->items * brought(w);
  c->overlap = w->first || w->p.wg_async;
  if (w->pair_axis >= 0) c->waits += c->blocks / c->items; // blocks of a pair meet at both ends, which takes about as long as a load
}

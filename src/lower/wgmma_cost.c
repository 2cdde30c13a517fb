// Counts the work of a plan: as by mma.sync, but for who brings tiles.
#include "lower/count.h"
#include "lower/wgmma.h"

#include <math.h>

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

// Bytes of a stage. If one tile serves both products of a chain, two stages are read at a time.
static double stage_bytes(const struct wg_plan *w)
{
  double bytes = 0;
  for (int i = 0; i < w->p.ntiles; i++)
    if (w->p.tile[i].varying) bytes += (double)(w->p.tile[i].rows * w->p.tile[i].cols * dtype_bytes(w->p.type));
  return bytes;
}

void wgmma_count(const struct wg_plan *w, struct kernel_counts *c)
{
  bool *sent = NEWS(w->p.job->mem, bool, w->p.n->nsave + 1);
  for (int i = 0; i < w->p.n->nsave; i++) sent[i] = w->places && wgmma_sends(w, i);
  mma_count(&w->p, sent, c);
  if (w->groups > 1) c->room = 1; // registers are shared out for one block
  c->blocks = (double)w->blocks, c->boxed = boxed(w);
  if (w->first && w->rings == 1) c->flight = fmax(c->flight - stage_bytes(w), stage_bytes(w) / 4);
  c->overlap = w->p.wg_async || (w->p.job->exact && w->groups > 1) ? 2 : w->first ? 1 : 0; // of parts, warpgroups add up while others multiply
  // Blocks of a pair meet at both ends, which takes about as long as a load. That L2 delivers less is not counted: it was not the limit where
  // products were measured.
  if (w->pair_axis >= 0) c->waits += c->blocks / c->items;
}

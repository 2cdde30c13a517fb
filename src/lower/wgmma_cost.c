// What a plan does, counted: as by mma.sync, but for who brings tiles.
#include "lower/count.h"
#include "lower/wgmma.h"

void wgmma_count(const struct wg_plan *w, struct kernel_counts *c)
{
  mma_count(&w->p, c);
  if (w->groups > 1) c->room = 1; // registers are shared out for one block
  c->blocks = (double)w->blocks;
  c->overlap = w->first || w->p.wg_async;
}

// Blocks that read the same tiles in their loop are done one after the other, or at the same time by neighbours: what one has
// read, the next finds in the L2 cache. So grid axes along which no tile of the loop changes count fastest.
#include "lower/wgmma.h"

static bool shared_along(const struct wg_plan *w, int axis)
{
  const struct mma_plan *p = &w->p;
  for (int i = 0; i < p->ntiles; i++)
    if (p->tile[i].varying && p->n->iter[p->tile[i].iter].grid[axis]) return false;
  return w->any_varying;
}

void wgmma_item(struct mma_kernel *k, const struct wg_plan *w, const char *item)
{
  const struct graph *b = w->p.n->block;
  struct lower_walk walk = {0};
  int64_t stride[GRID_AXES], below = 1;
  struct str s = {0};
  for (int i = 0; i < b->ngrid; i++) stride[i] = below, below *= b->grid[i];
  for (int shared = 0; shared < 2; shared++) // slowest first
    for (int i = b->ngrid - 1; i >= 0; i--)
      if (shared_along(w, i) == (shared == 1)) walk_add(&walk, b->grid[i], stride[i]);
  mma_walk_text(&walk, item, &s);
  text_line(k->t, "@bid = 0%s", str_text(&s));
  str_free(&s);
}

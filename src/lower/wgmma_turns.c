// Warpgroups that take the items of a block alternately. Each has all rows of its item, and its own part of the ring: tiles arrive in the order of
// items. While one warpgroup computes and stores what follows the loop, the products of another run.
//
// A turn is the loop of an item, with what comes before it if that waits for tiles. A turn begins when all stages of the previous item have arrived.
// Otherwise a wait could pass too early: a barrier that is two phases behind has the same parity.
#include "lower/wgmma.h"

bool wgmma_turns_fit(struct wg_plan *w, int alternate)
{
  struct mma_plan *p = &w->p;
  if (alternate < 0 || alternate > 1) return mma_refuse(p, "knobs out of range");
  if (!alternate) return true;
  if (w->groups < 2 || w->wide > 1) return mma_refuse(p, "no warpgroups that can have items of their own");
  if (!w->walks || p->iterations == 1) return mma_refuse(p, "only blocks that walk, with a loop, have turns");
  if (p->may_hide) return mma_refuse(p, "a warpgroup does not count the hidden iterations of others");
  return true;
}

// The first item of a block waits for nobody: a new barrier counts as complete for the other parity.
void wgmma_take_turn(struct mma_kernel *k, const struct wg_plan *w)
{
  if (w->alternate) text_line(k->t, "@turn = (round + %d) / %d + 1\nSync<mbar.wait, @turn %% 2>(%%turn[@g])", w->groups - 1, w->groups);
}

void wgmma_give_turn(struct mma_kernel *k, const struct wg_plan *w)
{
  if (w->alternate) text_line(k->t, "if (@i == 0) {\nSync<mbar.arrive>(%%turn[(@g + 1) %% %d])", w->groups);
}

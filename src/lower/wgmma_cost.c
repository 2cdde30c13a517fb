// What a plan costs, modelled: as of mma.sync, which it is faster than; what overlaps costs less.
#include "lower/wgmma.h"

double wgmma_cost(const struct wg_plan *w)
{
  double launch = w->p.job->gpu->launch, t = mma_cost(&w->p) - launch;
  t *= w->p.wg_async ? 0.6 : 0.95;
  if (w->first) t *= 0.9;
  if (w->walks) t *= 0.95;
  return launch + t * (1 + 0.02 / w->p.stages);
}

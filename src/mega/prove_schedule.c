// Each work tile of each node is run by exactly one worker.
#include "mega/mega_prove.h"

int mega_prove_schedule(struct mega_proving *v, struct err *e)
{
  const struct mega_plan *p = v->p;
  (void)e;
  for (int n = 0; n < p->nnodes; n++) {
    int tiles = mega_op_of(p, n)->tiles;
    int *runs = NEWS(v->mem, int, tiles);
    for (int w = 0; w < p->m->workers; w++) {
      struct mega_span s = mega_share(p, n, w);
      if (s.lo > s.hi || s.hi > tiles) {
        mega_fault_add(p, v->out, MEGA_CHECK_SCHEDULE, n, -1, -1, "worker %d has tiles %d to %d of %d", w, s.lo, s.hi - 1, tiles);
        continue;
      }
      for (int t = s.lo; t < s.hi; t++) runs[t]++;
    }
    for (int t = 0; t < tiles; t++)
      if (runs[t] != 1) mega_fault_add(p, v->out, MEGA_CHECK_SCHEDULE, n, t, -1, runs[t] ? "is run by %d workers" : "is run by no worker", runs[t]);
    v->out->looked[MEGA_CHECK_SCHEDULE] += tiles;
  }
  return OK;
}

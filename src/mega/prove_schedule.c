// Checks that nodes follow the model's order, that the pipeline is filled for each of them, and that exactly one worker runs each work tile.
#include "mega/mega_prove.h"

static void check_pipeline(struct mega_proving *v)
{
  const struct mega_plan *p = v->p;
  bool *has = NEWS(v->mem, bool, p->nnodes);
  for (int i = 0; i < p->nnodes; i++) {
    if (p->pipe[i] < 0 || p->pipe[i] >= p->nnodes)
      mega_fault_add(p, v->out, MEGA_CHECK_SCHEDULE, -1, -1, -1, "the pipeline order names node %d of %d", p->pipe[i], p->nnodes);
    else if (has[p->pipe[i]])
      mega_fault_add(p, v->out, MEGA_CHECK_SCHEDULE, p->pipe[i], -1, -1, "the pipeline order names it twice");
    else
      has[p->pipe[i]] = true;
  }
}

int mega_prove_schedule(struct mega_proving *v, struct err *e)
{
  const struct mega_plan *p = v->p;
  struct mega_node *wanted = NEWS(v->mem, struct mega_node, mega_nodes_make(p->m, NULL));
  (void)e;
  if (mega_nodes_make(p->m, wanted) != p->nnodes)
    return mega_fault_add(p, v->out, MEGA_CHECK_SCHEDULE, -1, -1, -1, "a step has %d nodes, but the plan has %d", mega_nodes_make(p->m, NULL),
                          p->nnodes),
           OK;
  check_pipeline(v);
  for (int n = 0; n < p->nnodes; n++) {
    if (p->node[n].op != wanted[n].op || p->node[n].layer != wanted[n].layer)
      mega_fault_add(p, v->out, MEGA_CHECK_SCHEDULE, n, -1, -1, "is in the place of %s[%d] of the sequential program", p->m->op[wanted[n].op].name,
                     wanted[n].layer);
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

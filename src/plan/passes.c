// All passes over one kernel, in order. Warps are laid out when a scheme asks (threads.c).
#include "plan/passes.h"

const struct passes *plan_passes(struct arena *mem, const struct norm *n)
{
  struct passes *p = NEW(mem, struct passes);
  plan_chains(mem, n, &p->chains);
  plan_schedule(mem, n, &p->chains, &p->schedule);
  plan_meta(mem, n, &p->chains, &p->meta);
  return p;
}

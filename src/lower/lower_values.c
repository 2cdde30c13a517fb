// The values of a kernel, rewritten by the rules of its scheme except those that are switched off.
#include "lower/lower_emit.h"

int lower_values(const struct lower_job *j, unsigned rules, struct kern *out, char why[160])
{
  if (kern_make(j->mem, j->n, j->store, 0, false, out, why)) return NO;
  kern_rewrite(out, rules & ~j->off);
  return OK;
}

// By now, each f32 product in a block graph is a product of bf16 parts.
bool lower_exact(const struct lower_job *j)
{
  const struct graph *g = j->n->kernels;
  return j->gpu->f32_products == F32_BF16X6 && legal_divides(g, &g->nodes[j->n->node]);
}

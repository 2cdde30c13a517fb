// The values that a scheme places: those of the kernel, rewritten by the scheme's rules but for those that are switched off.
#include "lower/lower_emit.h"

int lower_values(const struct lower_job *j, unsigned rules, struct kern *out, char why[160])
{
  if (kern_make(j->mem, j->n, j->store, 0, false, out, why)) return NO;
  kern_rewrite(out, rules & ~j->off);
  return OK;
}

// All products of f32 in block graphs are products of parts by now.
bool lower_exact(const struct lower_job *j)
{
  const struct graph *g = j->n->kernels;
  return j->gpu->f32_products == F32_BF16X6 && legal_divides(g, &g->nodes[j->n->node]);
}

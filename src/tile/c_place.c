// Positions of an operand's elements, and conditions for being in bounds, as expressions of the loops around a piece.
#include "tile/c_source.h"

static struct ex_pool *pool(struct c_source *w) { return w->p->ex; }

ex c_index(struct c_source *w, const struct tile_operand *o, const ex *modes, int nmodes)
{
  ex x = o->offset;
  for (int i = 0; i < nmodes; i++) x = ex_add(pool(w), x, ex_mul(pool(w), o->stride[i], modes[i]));
  return x;
}

ex c_guard(struct c_source *w, const struct tile_operand *o, const ex *modes, int nmodes)
{
  ex all = EX_C(1);
  for (int i = 0; i < o->nguards; i++) {
    const struct tile_guard *g = &o->guard[i];
    ex x = g->value;
    for (int j = 0; j < nmodes; j++) x = ex_add(pool(w), x, ex_mul(pool(w), g->stride[j], modes[j]));
    all = ex_both(pool(w), all, ex_lt(pool(w), x, g->limit));
  }
  return all;
}

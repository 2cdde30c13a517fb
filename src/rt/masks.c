// Inputs that a program adds to scores and asks of each element whether it hides: masks. Random numbers would hide nothing, as no mask does. A race
// on them would like kernels that are slow on masks, and no check would see an element that is hidden.
#include "rt/rt.h"

static const double LOWEST_SHOWN = -1e4; // what a program compares its mask with is lower

bool wants_mask(const struct graph *g, int input)
{
  const struct shape *s = &g->tensors[input].shape;
  for (int i = 0; i < g->nnodes; i++) {
    const struct node *n = &g->nodes[i], *low = n->nin == 2 ? &g->nodes[g->tensors[n->in[0]].node] : n;
    if (n->op == OP_LESS_EQUAL && n->in[1] == input && low->op == OP_CONST && low->a.scalar < LOWEST_SHOWN) return s->n > 1 && s->d[s->n - 2] > 1;
  }
  return false;
}

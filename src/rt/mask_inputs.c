// Inputs that hide scores: masks. Random numbers that are added hide nothing, and random conditions hide no iteration of a loop. Races on them would
// like kernels that are slow on masks.
#include "rt/rt.h"

static const double LOWEST_SHOWN = -1e4; // what a program compares its mask with is lower

bool wants_mask(const struct graph *g, int input)
{
  const struct shape *s = &g->tensors[input].shape;
  for (int i = 0; i < g->nnodes; i++) {
    const struct node *n = &g->nodes[i], *low = n->nin == 2 ? &g->nodes[g->tensors[n->in[0]].node] : n;
    const bool shows = n->op == OP_LESS_EQUAL && low->op == OP_CONST && low->a.scalar < LOWEST_SHOWN;
    const bool keeps = n->op == OP_KEEP && n->a.scalar < LOWEST_SHOWN && g->tensors[input].dtype == BOOL;
    if ((shows || keeps) && n->in[1] == input) return s->n > 1 && s->d[s->n - 2] > 1;
  }
  return false;
}

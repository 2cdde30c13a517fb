// Inputs that a program divides by, or takes the root or the logarithm of: part of a larger program may begin with the norms of rows, and one of
// many random numbers is too close to zero for any dtype, or below it.
#include "rt/rt.h"

static bool keeps_sign(enum op op) { return op_rows[op].flags & KEEPS_SIGN || op_rows[op].rule == RULE_VIEW; }

static bool comes_from(const struct graph *g, int t, int input)
{
  for (; t != input; t = g->nodes[g->tensors[t].node].in[0]) {
    const struct node *n = &g->nodes[g->tensors[t].node];
    if (n->nin != 1 || !keeps_sign(n->op)) return false;
  }
  return true;
}

bool wants_positive(const struct graph *g, int input)
{
  for (int i = 0; i < g->nnodes; i++) {
    const struct node *n = &g->nodes[i];
    if (n->op == OP_DIV && comes_from(g, n->in[1], input)) return true;
    if ((n->op == OP_SQRT || n->op == OP_RSQRT || n->op == OP_LOG) && comes_from(g, n->in[0], input)) return true;
  }
  return false;
}

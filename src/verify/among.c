// Counts the elements that maxima choose from. With n elements, about one random order in n exposes a wrong choice.
#include "verify/proof.h"

#include <math.h>

// into: of the arguments of the node that contains g; saved: of its results.
static double walk(struct arena *mem, const struct graph *g, const double *into, double *saved)
{
  double *among = NEWS(mem, double, g->ntensors + 1), most = 1;
  int iters = 0, savers = 0;
  for (int i = 0; i < g->nnodes; i++) {
    const struct node *n = &g->nodes[i];
    const enum abstract how = op_rows[n->op].abstract;
    double x = 1, *args = NEWS(mem, double, n->nin + 1);
    for (int k = 0; k < n->nin && n->op != OP_ITER; k++) x = fmax(x, args[k] = among[n->in[k]]);
    if (n->op == OP_ITER) x = into[iters++];
    if (n->op == OP_SAVE) saved[savers++] = x;
    if (how == AE_MAX) x *= (double)(g->tensors[n->in[0]].shape.d[n->a.dim] / g->tensors[n->out].shape.d[n->a.dim]);
    if (how == AE_ACCUM_MAX) x *= (double)graph_iterations(g);
    if (how == AE_EWMAX || how == AE_EWMIN) x = args[0] + args[1];
    for (int k = 0; k < n->nout; k++) among[n->out + k] = x;
    most = fmax(most, n->sub ? walk(mem, n->sub, args, among + n->out) : x);
  }
  return most;
}

double choices_among(const struct graph *g)
{
  struct arena mem = {0};
  const double most = walk(&mem, g, NULL, NULL);
  return arena_close(&mem), most;
}

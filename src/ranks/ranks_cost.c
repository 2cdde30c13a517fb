// The modelled time of a rank. A product takes the time of its operations or of its bytes, whichever is longer. Another operator takes the time of
// the bytes that a fused kernel moves. A collective operator takes the time of the bytes that it sends: (N - 1) / N of the gathered or scattered
// bytes for N ranks, and twice that for an all_reduce. On a CPU the ranks run one after the other, and operators with the same result on all
// ranks run once.
#include "ranks/ranks.h"

static const double FUSED = 0.5; // fraction of an elementwise operator's bytes that is moved, as its neighbours are in the same kernel

static double bytes_of(const struct graph *g, int t) { return (double)shape_size(&g->tensors[t].shape) * dtype_bytes(g->tensors[t].dtype); }

static double meeting(const struct graph *g, const struct node *n, const struct target *t)
{
  const double share = (g->world - 1.0) / g->world;
  const double bytes = MAX(bytes_of(g, n->in[0]), bytes_of(g, n->out)) * (node_has(n, JOINS_RANKS | SCATTERS) ? 1 : 2);
  return t->meeting + share * bytes / t->link;
}

static double product(const struct graph *g, const struct node *n, const struct target *t, double bytes)
{
  const struct shape *x = &g->tensors[n->in[0]].shape;
  const double operations = 2.0 * (double)shape_size(&g->tensors[n->out].shape) * (double)x->d[x->n - 1];
  return MAX(operations / t->flops, bytes / t->bandwidth);
}

double ranks_cost(const struct graph *g, const struct target *t)
{
  struct arena tmp = {0};
  bool *varies = NEWS(&tmp, bool, g->ntensors + 1);
  double seconds = 0;
  graph_varying(g, varies);
  for (int i = 0; i < g->nnodes; i++) {
    const struct node *n = &g->nodes[i];
    const enum rule rule = op_rows[n->op].rule;
    double bytes = 0;
    if (rule == RULE_IO || rule == RULE_VIEW || rule == RULE_SPLIT || !n->nin || g->tensors[n->out].weak) continue;
    if (node_has(n, STAYS_APART)) continue;
    for (int k = 0; k < n->nin; k++) bytes += bytes_of(g, n->in[k]);
    for (int k = 0; k < n->nout; k++) bytes += bytes_of(g, n->out + k);
    const double ranks = t->kind == TARGET_CPU && (varies[n->out] || rule == RULE_WORLD) ? g->world : 1;
    seconds += ranks * (rule == RULE_WORLD ? meeting(g, n, t) : rule == RULE_CONTRACT ? product(g, n, t, bytes) : FUSED * bytes / t->bandwidth);
  }
  arena_close(&tmp);
  return seconds;
}

int ranks_meetings(const struct graph *g)
{
  int n = 0;
  for (int i = 0; i < g->nnodes; i++) n += node_meets(&g->nodes[i]);
  return n;
}

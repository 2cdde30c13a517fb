// The order in which the nodes of a block are printed. An accumulator that is rescaled takes its addend as it is made, from a
// product or inside the nest that computes it, only where the factor is known by then: one pass over a tile less. So the
// elementwise operators that make a factor move up to where what they read is known. All else keeps its order.
#include "gen/emit.h"

static bool moves(const struct node *n)
{
  enum rule rule = op_rows[n->op].rule;
  return rule == RULE_MAP || rule == RULE_GRAPH;
}

static void mark(const struct graph *g, int tensor, bool *early)
{
  int node = g->tensors[tensor].node;
  const struct node *n = &g->nodes[node];
  if (early[node] || !moves(n)) return;
  early[node] = true;
  for (int i = 0; i < n->nin; i++) mark(g, n->in[i], early);
}

static bool ready(const struct graph *g, const struct node *n, const bool *done)
{
  for (int i = 0; i < n->nin; i++)
    if (!done[g->tensors[n->in[i]].node]) return false;
  return true;
}

// The first node that is early and ready, else the first of all that are left.
static int next(const struct graph *g, const bool *early, const bool *done)
{
  int first = -1;
  for (int i = 0; i < g->nnodes; i++) {
    if (done[i]) continue;
    if (early[i] && ready(g, &g->nodes[i], done)) return i;
    if (first < 0) first = i;
  }
  return first;
}

const struct graph *order_factors(struct arena *mem, const struct graph *g)
{
  bool *early = NEWS(mem, bool, g->nnodes), *done = NEWS(mem, bool, g->nnodes), any = false;
  for (int i = 0; i < g->nnodes; i++) {
    const struct node *n = &g->nodes[i];
    if (op_rows[n->op].flags & RESCALES) mark(g, n->in[1], early), any = true;
  }
  if (!any) return g;
  struct graph *to = NEWS(mem, struct graph, 1);
  *to = *g;
  to->nodes = NEWS(mem, struct node, g->nnodes);
  to->tensors = arena_copy(mem, g->tensors, sizeof *g->tensors * (size_t)g->ntensors);
  for (int k = 0; k < g->nnodes; k++) {
    int i = next(g, early, done);
    done[i] = true, to->nodes[k] = g->nodes[i];
    for (int j = 0; j < g->ntensors; j++)
      if (g->tensors[j].node == i) to->tensors[j].node = k;
  }
  return to;
}

// Copies a graph without nodes whose results are not used. Inputs and outputs stay.
#include "ir/ir.h"

// kept[i]: node i stays. Returns false if all do.
static bool find_kept(const struct graph *g, bool weak, bool *read, bool *kept)
{
  bool drops = false;
  for (int i = g->nnodes - 1; i >= 0; i--) {
    const struct node *n = &g->nodes[i];
    kept[i] = !n->nout || n->op == OP_INPUT || (weak && !g->tensors[n->out].weak);
    for (int k = 0; k < n->nout; k++) kept[i] |= read[n->out + k];
    for (int k = 0; k < n->nin && kept[i]; k++) read[n->in[k]] = true;
    drops |= !kept[i];
  }
  return drops;
}

int graph_without_unread(struct arena *mem, const struct graph *g, bool weak, struct graph **out, struct err *e)
{
  struct arena tmp = {0};
  bool *read = NEWS(&tmp, bool, g->ntensors + 1), *kept = NEWS(&tmp, bool, g->nnodes + 1);
  int *map = NEWS(&tmp, int, g->ntensors + 1), status = OK;
  if (!find_kept(g, weak, read, kept) && g->mem == mem) return arena_close(&tmp), *out = (struct graph *)g, OK;
  struct graph *to = graph_new_as(mem, g);
  for (int i = 0; i < g->nnodes && !status; i++) {
    if (!kept[i]) continue;
    status = graph_take(to, NULL, -1, g, &g->nodes[i], map, e);
    if (!status) graph_keep_names(to, g, &g->nodes[i], map);
  }
  arena_close(&tmp);
  return *out = to, status;
}

// Kernel graphs made once more, node by node (rewrite.h).
#include "lower/rewrite.h"

#include <string.h>

int lower_rewrite(struct arena *mem, const struct graph *g, rewrite_kernel *kernel, void *own, struct graph **out, struct err *e)
{
  struct rewriting w = {.g = g, .to = graph_new_as(mem, g), .map = NEWS(mem, int, g->ntensors + 1), .own = own, .e = e};
  for (int i = 0; i < g->nnodes; i++) {
    const struct node *n = &g->nodes[i];
    int made = 0, status = n->op == OP_BLOCK ? kernel(&w, n, &made) : NO;
    for (int k = 0; k < n->nout && !status; k++) w.map[n->out + k] = made + k;
    if (status == NO) status = graph_take(w.to, NULL, -1, g, n, w.map, e);
    if (status) return status;
    graph_keep_names(w.to, g, n, w.map);
  }
  if (!w.changed) return NO;
  TRY(graph_without_unread(mem, w.to, false, out, e));
  return graph_check(*out, e);
}

int rewrite_block(struct rewriting *w, const struct node *n, rewrite_node *node, void *own, int *out)
{
  const struct graph *from = n->sub;
  struct arena *mem = w->to->mem;
  struct block_rewriting b = {.w = w, .n = n, .sub = graph_new(mem, BLOCK, from->name), .tile = NEWS(mem, int, from->ntensors + 1), .own = own};
  graph_axes(b.sub, from->ngrid, from->grid, from->nloop, from->loop);
  memset(b.tile, -1, sizeof *b.tile * (size_t)(from->ntensors + 1));
  for (int i = 0, iters = 0; i < from->nnodes; i++) {
    const struct node *x = &from->nodes[i];
    TRY(node(&b, x, x->op == OP_ITER ? w->map[n->in[iters++]] : -1));
    if (x->nout && b.tile[x->out] >= 0) graph_keep_names(b.sub, from, x, b.tile);
  }
  return graph_nest(w->to, b.sub, b.nin, b.in, n->at, out, w->e);
}

int rewrite_iterate(struct block_rewriting *b, int tensor, const struct attrs *a, struct loc at, int *out)
{
  PUSH(b->w->to->mem, b->in, b->nin, b->cap) = tensor;
  return graph_iter(b->sub, b->w->to, tensor, a, at, out, b->w->e);
}

int rewrite_take(struct block_rewriting *b, const struct node *x, int from)
{
  if (x->op == OP_ITER) return rewrite_iterate(b, from, &x->a, x->at, &b->tile[x->out]);
  return graph_take(b->sub, NULL, -1, b->n->sub, x, b->tile, b->w->e);
}

// Rebuilds kernel graphs node by node (rewrite.h).
#include "legal/rewrite.h"

#include <string.h>

struct block_making block_begin(struct graph *to, const char *name, struct err *e)
{
  return (struct block_making){.to = to, .sub = graph_new(to->mem, BLOCK, name), .e = e};
}

int block_load(struct block_making *b, int tensor, const struct attrs *a, struct loc at)
{
  int out = 0;
  PUSH(b->to->mem, b->in, b->nin, b->cap) = tensor;
  if (!b->status) b->status = graph_iter(b->sub, b->to, tensor, a, at, &out, b->e);
  return out;
}

int block_add(struct block_making *b, enum op op, int nin, const int *in, const struct attrs *a, struct loc at)
{
  int out = 0;
  if (!b->status) b->status = graph_add(b->sub, op, nin, in, a, at, &out, b->e);
  return out;
}

int block_end(struct block_making *b, struct loc at, int *out)
{
  return b->status ? b->status : graph_nest(b->to, b->sub, b->nin, b->in, at, out, b->e);
}

int legal_rewrite(struct arena *mem, const struct graph *g, rewrite_kernel *kernel, void *own, struct graph **out, struct err *e)
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
  struct block_rewriting r = {block_begin(w->to, from->name, w->e), w, n, NEWS(w->to->mem, int, from->ntensors + 1), own};
  graph_axes(r.b.sub, from->ngrid, from->grid, from->nloop, from->loop);
  memset(r.tile, -1, sizeof *r.tile * (size_t)(from->ntensors + 1));
  for (int i = 0, iters = 0; i < from->nnodes; i++) {
    const struct node *x = &from->nodes[i];
    TRY(node(&r, x, x->op == OP_ITER ? w->map[n->in[iters++]] : -1));
    if (x->nout && r.tile[x->out] >= 0) graph_keep_names(r.b.sub, from, x, r.tile);
  }
  return block_end(&r.b, n->at, out);
}

int rewrite_take(struct block_rewriting *r, const struct node *x, int from)
{
  if (x->op == OP_ITER) return r->tile[x->out] = block_load(&r->b, from, &x->a, x->at), r->b.status;
  return graph_take(r->b.sub, NULL, -1, r->n->sub, x, r->tile, r->w->e);
}

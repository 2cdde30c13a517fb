// Operands with unaligned rows. TMA needs rows that begin at multiples of 16 bytes, which those of [4096, 4095] f16 do not. A copy of such an input
// has longer rows (lower/order.c), and a kernel makes it once for all products that load the tensor, or views of it. A mask of booleans that a loop with
// reads is copied to 16 bits (store.c), so that TMA can load it with the other tiles.
#include "legal/rewrite.h"

#include <string.h>

struct copies {
  int *of;      // by tensor of g: its copy in `to`; -1: none yet
  bool between; // tensors between kernels are copied too
};

static bool begins_anywhere(const struct graph *g, int t, bool between)
{
  const struct shape *s = &g->tensors[t].shape;
  const int64_t row = s->n ? s->d[s->n - 1] : 1;
  return (between || g->nodes[g->tensors[t].node].op == OP_INPUT) && num_rows[g->tensors[t].dtype].bits == 16 && row % 8 && row > 8 &&
         shape_size(s) > row;
}

static bool loaded_by_product(const struct node *n, int k)
{
  const struct graph *b = n->sub;
  for (int i = 0; i < b->nnodes; i++)
    for (int j = 0; b->nodes[i].op == OP_MATMUL && j < 2; j++)
      if (node_iterated(n, graph_root(b, b->nodes[i].in[j])) == n->in[k]) return true;
  return false;
}

static bool is_mask(const struct graph *g, const struct node *n, int k)
{
  const struct tensor *root = &g->tensors[graph_root(g, n->in[k])];
  bool walked = false, multiplies = false;
  for (int i = 0; i < n->sub->nnodes; i++) {
    const struct node *x = &n->sub->nodes[i];
    multiplies |= x->op == OP_MATMUL;
    for (int l = 0; l < n->sub->nloop && x->op == OP_ITER && node_iterated(n, x->out) == n->in[k]; l++) walked |= x->a.fmap[l] != REPLICA;
  }
  return root->dtype == BOOL && g->nodes[root->node].op == OP_INPUT && walked && multiplies;
}

// Copies tensor t. The copy of a transposed tensor is the transposed copy. A reshaped tensor is copied itself, since rows of a copy have gaps.
static int copy_of(struct rewriting *w, int t, int *out)
{
  int *copy = ((struct copies *)w->own)->of; // by tensor of g: of `to`; -1: no copy yet
  const struct node *n = &w->g->nodes[w->g->tensors[t].node];
  int from = -1;
  if (copy[t] < 0 && op_rows[n->op].rule == RULE_VIEW && n->op != OP_RESHAPE) {
    TRY(copy_of(w, n->in[0], &from));
    TRY(graph_add(w->to, n->op, 1, &from, &n->a, n->at, &copy[t], w->e));
  } else if (copy[t] < 0)
    TRY(legal_elementwise(w->to, w->map[t], n->at, 0, NULL, &copy[t], w->e));
  return *out = copy[t], OK;
}

static int kernel(struct rewriting *w, const struct node *n, int *out)
{
  const bool between = ((struct copies *)w->own)->between;
  int *map = arena_copy(w->to->mem, w->map, sizeof *map * (size_t)(w->g->ntensors + 1)), copies = 0;
  for (int k = 0; k < n->nin; k++) {
    const int t = n->in[k];
    if (!is_mask(w->g, n, k) && (!begins_anywhere(w->g, graph_root(w->g, t), between) || !loaded_by_product(n, k))) continue;
    TRY(copy_of(w, t, &map[t]));
    copies++;
  }
  if (!copies) return NO;
  TRY(graph_take(w->to, NULL, -1, w->g, n, map, w->e));
  return w->changed = true, *out = map[n->out], OK;
}

int legal_aligned(struct arena *mem, const struct graph *wrapped, bool between, struct graph **out, struct err *e)
{
  struct copies copies = {NEWS(mem, int, wrapped->ntensors + 1), between};
  memset(copies.of, -1, sizeof *copies.of * (size_t)(wrapped->ntensors + 1));
  return legal_rewrite(mem, wrapped, kernel, &copies, out, e);
}

bool legal_copied(const struct graph *g, int t)
{
  const struct node *n = &g->nodes[g->tensors[t].node];
  return n->op == OP_BLOCK && n->sub->nnodes == 2 && n->sub->nodes[0].op == OP_ITER && n->sub->nodes[1].op == OP_SAVE;
}

// Iterators of a block graph that load the same tile become one. A search gives each role of a tensor its own: a latent that attention
// reads as keys and as values comes twice, and so would lie in shared memory twice. Requires a checked kernel graph; provides one that
// is equal to it. Some schemes cannot read one tile in two ways, so whether that is better is for the plan to say.
#include "lower/lower.h"

// The node before n that iterates over the same tensor in the same way; -1: none, or n is no iterator.
static int same_iterator(const struct node *nest, int n)
{
  const struct node *x = &nest->sub->nodes[n];
  for (int i = 0; i < n && x->op == OP_ITER; i++) {
    const struct node *y = &nest->sub->nodes[i];
    if (y->op == OP_ITER && node_iterated(nest, y->out) == node_iterated(nest, x->out) && attrs_same(&y->a, &x->a)) return i;
  }
  return -1;
}

static int block(struct graph *above, struct node *nest, struct err *e)
{
  const struct graph *b = nest->sub;
  struct graph *to = graph_new(above->mem, BLOCK, b->name);
  int *of = NEWS(above->mem, int, b->ntensors + 1), *in = NEWS(above->mem, int, nest->nin + 1), nin = 0, status = OK;
  graph_axes(to, b->ngrid, b->grid, b->nloop, b->loop);
  for (int i = 0; i < b->nnodes && !status; i++) {
    const struct node *n = &b->nodes[i];
    int from = n->op == OP_ITER ? node_iterated(nest, n->out) : -1, same = same_iterator(nest, i);
    if (same >= 0) {
      of[n->out] = of[b->nodes[same].out];
      continue;
    }
    if (from >= 0) in[nin++] = from;
    status = graph_take(to, above, from, b, n, of, e);
    if (!status) graph_keep_names(to, b, n, of);
  }
  nest->sub = to, nest->in = in, nest->nin = nin;
  return status;
}

int load_once(struct arena *mem, const struct graph *kernels, struct graph **out, struct err *e)
{
  bool any = false;
  int status = OK;
  *out = graph_copy(mem, kernels);
  for (int i = 0; i < kernels->nnodes && !status; i++) {
    const struct graph *b = kernels->nodes[i].sub;
    bool twice = false;
    for (int k = 0; b && b->level == BLOCK && k < b->nnodes; k++) twice |= same_iterator(&kernels->nodes[i], k) >= 0;
    if (twice && node_updated(&kernels->nodes[i]) < 0) any = true, status = block(*out, &(*out)->nodes[i], e);
  }
  return status ? status : any ? OK : NO;
}

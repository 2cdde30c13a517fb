// Iterators of a block graph that load the same tile become one. A search makes a separate iterator for each role of a tensor: a latent that
// attention reads as keys and as values is loaded twice, and would occupy shared memory twice. Input: a checked kernel graph. Output: an equal one.
// Some schemes cannot read one tile in two ways, so the plan decides whether the result is better.
#include "legal/rewrite.h"

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

static int node(struct block_rewriting *r, const struct node *x, int from)
{
  const struct node *nodes = r->n->sub->nodes;
  const int same = same_iterator(r->n, (int)(x - nodes));
  return same < 0 ? rewrite_take(r, x, from) : (r->tile[x->out] = r->tile[nodes[same].out], OK);
}

static int kernel(struct rewriting *w, const struct node *n, int *out)
{
  bool twice = false;
  for (int k = 0; k < n->sub->nnodes; k++) twice |= same_iterator(n, k) >= 0;
  if (!twice || node_updated(n) >= 0) return NO;
  return w->changed = true, rewrite_block(w, n, node, NULL, out);
}

int load_once(struct arena *mem, const struct graph *kernels, struct graph **out, struct err *e)
{
  return legal_rewrite(mem, kernels, kernel, NULL, out, e);
}

// Queries of a normal form: extents, elements, the letters of a product.
#include "plan/norm.h"

int64_t norm_extent(const struct norm *n, uint32_t letters)
{
  int64_t x = 1;
  for (; letters; letters &= letters - 1) x *= n->extent[__builtin_ctz(letters)];
  return x;
}

int64_t norm_elements(const struct norm *n, int tensor)
{
  int64_t stride[MAX_DIMS];
  return order_strides(n->order ? &n->order[tensor] : NULL, &n->kernels->tensors[tensor].shape, stride);
}

bool norm_computes(const struct node *x)
{
  enum rule r = op_rows[x->op].rule;
  return r != RULE_IO && r != RULE_CONST && r != RULE_INDEX && r != RULE_VIEW;
}

bool norm_is_index(const struct norm *n, int tensor)
{
  const struct graph *g = n->kernels;
  return op_rows[g->nodes[g->tensors[tensor].node].op].rule == RULE_INDEX;
}

uint32_t norm_dim_letters(const struct norm_dim *d)
{
  uint32_t m = 0;
  for (int i = 0; i < d->n; i++) m |= 1u << d->letter[i];
  return m;
}

struct norm_product norm_product(const struct norm *n, int node)
{
  const struct node *x = &n->block->nodes[node];
  const struct norm_tensor *a = &n->t[x->in[0]], *b = &n->t[x->in[1]], *o = &n->t[x->out];
  struct norm_product p = {.out = x->out, .a = a->root, .b = b->root};
  p.sum = norm_dim_letters(&a->dim[a->ndims - 1]);
  p.rows = norm_dim_letters(&o->dim[o->ndims - 2]), p.cols = norm_dim_letters(&o->dim[o->ndims - 1]);
  for (int d = 0; d < o->ndims - 2; d++) p.batch |= norm_dim_letters(&o->dim[d]);
  return p;
}

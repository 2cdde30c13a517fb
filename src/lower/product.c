// Products as the vendor's library takes them: one stride for rows, columns and batches of each operand.
#include "lower/letters.h"

struct run { // dimensions that follow each other as one: extent and stride
  int64_t extent, stride;
};

// Puts a faster factor behind r; false where one stride does not serve both.
static bool append(struct run *r, int64_t extent, int64_t stride)
{
  if (extent == 1) return true;
  if (r->extent > 1 && r->stride != extent * stride) return false;
  return r->extent *= extent, r->stride = stride, true;
}

static bool one_run(const struct kview_dim *d, struct run *r)
{
  for (int k = 0; k < d->n; k++)
    if (!append(r, d->extent[k], d->stride[k])) return false;
  return true;
}

// Strides of an operand whose batches are broadcast to those of `out`.
static bool operand(const struct graph *g, int tensor, const struct shape *out, int64_t stride[3], int *root)
{
  struct kview v;
  if (!kview_of(g, tensor, &v)) return false;
  *root = v.root;
  struct run batch = {1, 0}, rows = {1, 0}, cols = {1, 0};
  for (int d = 0; d < out->n - 2; d++) {
    int own = d - (out->n - v.ndims);
    bool has = own >= 0 && v.dim[own].n;
    if (has ? !one_run(&v.dim[own], &batch) : !append(&batch, out->d[d], 0)) return false;
  }
  if (!one_run(&v.dim[v.ndims - 2], &rows) || !one_run(&v.dim[v.ndims - 1], &cols)) return false;
  if (cols.extent == 1) cols.stride = rows.stride == 1 && rows.extent > 1 ? rows.extent : 1;
  if (rows.extent == 1) rows.stride = cols.stride == 1 ? cols.extent : 1;
  stride[0] = batch.stride, stride[1] = rows.stride, stride[2] = cols.stride;
  return rows.stride == 1 || cols.stride == 1;
}

bool product_of(const struct graph *g, int node, struct launch_product *p, int root[3])
{
  const struct node *n = &g->nodes[node];
  const struct shape *a = &g->tensors[n->in[0]].shape, *o = &g->tensors[n->out].shape;
  if (a->n < 2 || g->tensors[n->in[1]].shape.n < 2) return false;
  *p = (struct launch_product){.m = o->d[o->n - 2], .n = o->d[o->n - 1], .k = a->d[a->n - 1]};
  p->batch = shape_size(o) / (p->m * p->n);
  if (!operand(g, n->in[0], o, p->stride[0], &root[0]) || !operand(g, n->in[1], o, p->stride[1], &root[1])) return false;
  p->stride[2][0] = p->m * p->n, p->stride[2][1] = p->n, p->stride[2][2] = 1, root[2] = n->out;
  if (p->batch > 1 && !p->stride[1][0] && p->stride[0][2] == 1 && (p->m == 1 || p->stride[0][0] == p->m * p->stride[0][1])) {
    if (p->m == 1) p->stride[0][1] = p->stride[0][0]; // batches of A are more rows of it
    p->m *= p->batch, p->batch = 1;
    p->stride[0][0] = p->stride[2][0] = 0;
  }
  return true;
}

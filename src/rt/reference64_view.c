// Views in the float64 reference: what needs no memory of its own, and where its elements lie in the buffer that holds them.
#include "base/memory.h"
#include "rt/reference64.h"

struct reference64_place reference64_place_of(const struct reference64 *r, int t)
{
  const struct node *n = &r->g->nodes[r->g->tensors[t].node];
  const struct shape *x = &r->g->tensors[t].shape;
  struct reference64_place own, from;
  int64_t step = 1;
  for (int i = x->n - 1; i >= 0; step *= x->d[i--]) own.stride[i] = step, own.group[i] = 1;
  if (r->same[t] < 0 || n->op == OP_RESHAPE) return own;
  from = reference64_place_of(r, r->same[t]);
  if (n->op == OP_REPEAT) return from.group[n->a.dim] *= n->a.times, from;
  for (int i = 0; i < x->n; i++) own.stride[i] = from.stride[perm_of(&n->a, x->n, i)], own.group[i] = from.group[perm_of(&n->a, x->n, i)];
  return own;
}

// Start of an operand of each matrix of the output; its leading extents may be 1 or missing.
int64_t *reference64_matrices(const struct reference64 *r, int t, const struct shape *out, int64_t batch)
{
  const struct shape *x = &r->g->tensors[t].shape;
  const struct reference64_place p = reference64_place_of(r, t);
  int64_t *at = MEM_NEWS(int64_t, batch);
  for (int64_t i = 0; i < batch; i++) {
    int64_t rest = i;
    for (int o = out->n - 3, k = x->n - 3; o >= 0; rest /= out->d[o--], k--)
      if (k >= 0 && x->d[k] > 1) at[i] += rest % out->d[o] / p.group[k] * p.stride[k];
  }
  return at;
}

// Do only products read t, by places, perhaps through more views? dim: that a repeat has made longer, which must number matrices; -1: none.
static bool read_by_places(const struct reference64 *r, int t, int dim)
{
  const struct graph *g = r->g;
  for (const struct node *n = g->nodes; n < g->nodes + g->nnodes; n++)
    for (int i = 0; i < n->nin; i++) {
      if (n->in[i] != t) continue;
      int rank = g->tensors[t].shape.n, to = dim;
      for (int d = 0; n->op == OP_TRANSPOSE && d < rank && dim >= 0; d++)
        if (perm_of(&n->a, rank, d) == dim) to = d;
      const bool view = (n->op == OP_TRANSPOSE || n->op == OP_REPEAT) && reference64_is_view(r, n) && read_by_places(r, n->out, to);
      if (!view && (n->op != OP_MATMUL || dim >= rank - 2)) return false;
    }
  return true;
}

// A view that needs no memory of its own: a reshape of what lies in order, and a transpose and a repeat that products read.
bool reference64_is_view(const struct reference64 *r, const struct node *n)
{
  if (n->op == OP_TRANSPOSE) return read_by_places(r, n->out, -1);
  return n->op == OP_RESHAPE || (n->op == OP_REPEAT && read_by_places(r, n->out, n->a.dim));
}

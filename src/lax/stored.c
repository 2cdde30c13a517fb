// Values that lie in memory however a program is cut. A product of many rows by an input, which operations bind and not bytes, reads its left operand
// once for each block of columns, so that its kernel computes no norm or activation of it. A sum over long rows of such a product, as in a norm
// behind it, needs more columns than a block has. Another product reads its result many times. So a kernel that makes such a value and reads it
// saves nothing.
//
// Attention is none of these. Scores are sums over the elements of a head, which a block holds, so that a loop makes scores of a few keys at a time.
// A block has all columns of the values too, and reads each score once.
#include "lax/piece.h"

enum { ROW = 256 }; // most elements of a row that one block of a product can sum

static double bytes_of(const struct facts *f, int t)
{
  const struct tensor *x = &f->p->tensors[f->root[t]];
  return (double)shape_size(&x->shape) * dtype_bytes(x->dtype);
}

// Is node n a compute-bound product whose right operand is an input?
static bool is_bound(const struct facts *f, const struct node *n)
{
  if (op_rows[n->op].rule != RULE_CONTRACT || n->nin != 2 || f->owner[f->p->tensors[f->root[n->in[1]]].node] >= 0) return false;
  const struct shape *left = &f->p->tensors[n->in[0]].shape;
  const double elements = (double)shape_size(&f->p->tensors[n->out].shape);
  const double operations = op_rows[n->op].cost * elements * (double)left->d[left->n - 1];
  return operations >= f->probe->intensity * (bytes_of(f, n->in[0]) + bytes_of(f, n->in[1]) + bytes_of(f, n->out));
}

static int64_t last_extent(const struct facts *f, int t)
{
  const struct shape *s = &f->p->tensors[t].shape;
  return s->n ? s->d[s->n - 1] : 1;
}

static int users(const struct facts *f, int root) { return f->first_user[root + 1] - f->first_user[root]; }

// The value to store for a sum over t: t itself, or the value before elementwise operators whose results nothing else reads.
static int before_chain(const struct facts *f, const bool *behind, int t)
{
  for (;;) {
    const struct node *n = &f->p->nodes[f->p->tensors[t].node];
    int from = -1;
    if (users(f, t) > 1 || op_rows[n->op].rule != RULE_MAP) return t;
    for (int k = 0; k < n->nin; k++)
      if (behind[f->root[n->in[k]]]) from = f->root[n->in[k]];
    if (from < 0) return t;
    t = from;
  }
}

void find_stored(struct facts *f)
{
  bool *behind = f->behind = NEWS(f->tmp, bool, f->p->ntensors + 1);
  bool *summed = NEWS(f->tmp, bool, f->p->ntensors + 1); // by root: depends on a sum
  f->stored = NEWS(f->tmp, bool, f->p->ntensors + 1), f->bound = NEWS(f->tmp, bool, f->p->nnodes + 1);
  if (!f->probe || f->probe->intensity <= 0) return;
  for (int i = 0; i < f->p->nnodes; i++) {
    const struct node *n = &f->p->nodes[i];
    const enum rule rule = op_rows[n->op].rule;
    if (f->owner[i] < 0 || !n->nout) continue;
    const bool bound = f->bound[i] = is_bound(f, n);
    bool any = bound && last_extent(f, n->in[0]) > ROW, of_sum = rule == RULE_REDUCE;
    for (int k = 0; k < n->nin; k++) any |= rule == RULE_MAP && behind[f->root[n->in[k]]], of_sum |= !bound && summed[f->root[n->in[k]]];
    behind[n->out] = any && !of_sum, summed[n->out] = of_sum;
    const int left = f->root[n->in[0]];
    const struct shape *shape = &f->p->tensors[n->in[0]].shape;
    if (bound && f->owner[f->p->tensors[left].node] >= 0 && last_extent(f, n->out) > ROW) f->stored[left] = true;
    for (int k = 0; k < n->nin && rule == RULE_CONTRACT; k++) f->stored[f->root[n->in[k]]] |= behind[f->root[n->in[k]]];
    if (rule == RULE_REDUCE && behind[left] && shape->d[n->a.dim] > ROW) f->stored[before_chain(f, behind, left)] = true;
  }
}

// Other topological orders of a piece's nodes. A segment is a contiguous range of the order. If two large tensors are computed before the first is
// reduced, no segment holds just one tensor and its reduction. In the order made here, operands are computed one after the other, small results
// first, and a node that shrinks a large tensor comes as early as possible.
#include "lax/piece.h"

enum { SHRINKS = 2 }; // least ratio of the largest operand's size to the result's

struct lining {
  const struct facts *f;
  const struct piece *r;
  bool *done; // by node
  int n, *out;
};

static double size_of(const struct lining *l, int t) { return (double)shape_size(&l->f->p->tensors[l->f->root[t]].shape); }

static bool is_ready(const struct lining *l, const struct node *x)
{
  for (int k = 0; k < x->nin; k++) {
    int maker = facts_maker(l->f, l->r->id, x->in[k]);
    if (maker >= 0 && !l->done[maker]) return false;
  }
  return true;
}

static bool shrinks(const struct lining *l, const struct node *x)
{
  double largest = 0;
  for (int k = 0; k < x->nin; k++) largest = MAX(largest, size_of(l, x->in[k]));
  return SHRINKS * size_of(l, x->out) <= largest;
}

static void put(struct lining *l, int node)
{
  const struct facts *f = l->f;
  const struct node *x = &f->p->nodes[node];
  l->done[node] = true, l->out[l->n++] = node;
  for (int t = x->out; t < x->out + x->nout; t++)
    for (int u = f->first_user[t]; u < f->first_user[t + 1]; u++) {
      int user = f->user[u];
      const struct node *y = &f->p->nodes[user];
      if (f->owner[user] == l->r->id && !l->done[user] && is_ready(l, y) && shrinks(l, y)) put(l, user);
    }
}

static void visit(struct lining *l, int node)
{
  const struct node *x = &l->f->p->nodes[node];
  for (int round = 0; round < x->nin; round++) {
    int next = -1;
    double least = 0;
    for (int k = 0; k < x->nin; k++) {
      int maker = facts_maker(l->f, l->r->id, x->in[k]);
      if (maker < 0 || l->done[maker] || (next >= 0 && size_of(l, x->in[k]) >= least)) continue;
      next = maker, least = size_of(l, x->in[k]);
    }
    if (next >= 0) visit(l, next);
  }
  if (!l->done[node]) put(l, node);
}

bool line_by_need(const struct facts *f, const struct piece *r, int *out)
{
  struct lining l = {.f = f, .r = r, .done = NEWS(f->tmp, bool, f->p->nnodes + 1), .out = out};
  bool *used = NEWS(f->tmp, bool, f->p->nnodes + 1), other = false;
  for (int i = 0; i < r->n; i++)
    for (int k = 0; k < f->p->nodes[r->node[i]].nin; k++) {
      int maker = facts_maker(f, r->id, f->p->nodes[r->node[i]].in[k]);
      if (maker >= 0) used[maker] = true;
    }
  for (int i = 0; i < r->n; i++)
    if (!used[r->node[i]]) visit(&l, r->node[i]);
  for (int i = 0; i < r->n; i++) other |= l.out[i] != r->node[i];
  return l.n == r->n && other;
}

// ---- products that share an operand ----

static bool follows(const struct lining *l, int node, const bool *read)
{
  const struct node *x = &l->f->p->nodes[node];
  if (l->done[node] || !is_ready(l, x)) return false;
  return l->f->bound[node] ? read[l->f->root[x->in[0]]] : l->f->behind[x->out];
}

bool line_by_operand(const struct facts *f, const struct piece *r, int *out)
{
  struct lining l = {f, r, NEWS(f->tmp, bool, f->p->nnodes), 0, out};
  bool *read = NEWS(f->tmp, bool, f->p->ntensors), other = false; // by root: a bound product has read it
  for (int i = 0; i < r->n; i++) {
    for (int node = r->node[i], k = i; !l.done[node];) {
      l.done[node] = true, out[l.n++] = node;
      if (f->bound[node]) read[f->root[f->p->nodes[node].in[0]]] = true;
      for (k = i; k < r->n && !follows(&l, r->node[k], read);) k++;
      if (k < r->n) node = r->node[k];
    }
  }
  for (int i = 0; i < r->n; i++) other |= out[i] != r->node[i];
  return other;
}

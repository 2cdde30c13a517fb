// Static analysis of conditions on indices: sums of indices times whole numbers, and products of comparisons of such sums as a
// list of inequalities.
#include "ir/ir.h"

#include <math.h>

enum { MOST_DEPTH = 24 };

static const struct node *maker(const struct graph *g, int t) { return &g->nodes[g->tensors[t].node]; }

// The sum s for a tensor of shape `from`, expressed in the dimensions of a result of n dimensions to which it is broadcast.
static struct index_sum under(const struct index_sum *s, const struct shape *from, int n)
{
  struct index_sum r = {s->constant, {0}};
  for (int d = 0; d < from->n; d++) r.step[d + n - from->n] = from->d[d] == 1 ? 0 : s->step[d];
  return r;
}

static struct index_sum plus(const struct index_sum *x, double by, const struct index_sum *y)
{
  struct index_sum r = {x->constant + by * y->constant, {0}};
  for (int d = 0; d < MAX_DIMS; d++) r.step[d] = x->step[d] + by * y->step[d];
  return r;
}

static struct index_sum numbers(const struct shape *s)
{
  struct index_sum r = {0};
  double step = 1;
  for (int d = s->n - 1; d >= 0; d--) r.step[d] = step, step *= (double)s->d[d];
  return r;
}

static bool sum_of(const struct graph *g, int t, int depth, struct index_sum *out);

static bool operand(const struct graph *g, const struct node *n, int i, int depth, struct index_sum *out)
{
  struct index_sum s;
  if (!sum_of(g, n->in[i], depth, &s)) return false;
  *out = under(&s, &g->tensors[n->in[i]].shape, g->tensors[n->out].shape.n);
  return true;
}

static bool sum_of(const struct graph *g, int t, int depth, struct index_sum *out)
{
  const struct node *n = maker(g, t);
  struct index_sum x, y, none = {0};
  *out = none;
  if (n->op == OP_CONST) return out->constant = n->a.scalar, true;
  if (n->op == OP_IOTA) return *out = numbers(&g->tensors[t].shape), true;
  if (!depth || op_rows[n->op].rule != RULE_MAP || !operand(g, n, 0, depth - 1, &x)) return false;
  if (n->op == OP_ADD_SCALAR) return *out = x, out->constant += n->a.scalar, true;
  if (n->op == OP_NEG || n->op == OP_MUL_SCALAR) return *out = plus(&none, n->op == OP_NEG ? -1 : n->a.scalar, &x), true;
  if ((n->op != OP_ADD && n->op != OP_SUB) || !operand(g, n, 1, depth - 1, &y)) return false;
  return *out = plus(&x, n->op == OP_ADD ? 1 : -1, &y), true;
}

static bool whole(const struct index_sum *s)
{
  bool yes = s->constant == rint(s->constant) && fabs(s->constant) < 0x1p40;
  for (int d = 0; d < MAX_DIMS; d++) yes &= s->step[d] == rint(s->step[d]) && fabs(s->step[d]) < 0x1p40;
  return yes;
}

static bool add_bound(struct index_bounds *b, const struct index_sum *x, const struct index_sum *y, double least)
{
  struct index_sum s = plus(y, -1, x);
  s.constant -= least;
  if (b->n == INDEX_BOUNDS || !whole(&s)) return false;
  return b->sum[b->n++] = s, true;
}

static bool bounds_of(const struct graph *g, int c, int n, int depth, struct index_bounds *b)
{
  const struct node *m = maker(g, c);
  struct index_sum x, y;
  if (!depth) return false;
  if (m->op == OP_MUL || m->op == OP_MASK) return bounds_of(g, m->in[0], n, depth - 1, b) && bounds_of(g, m->in[1], n, depth - 1, b);
  if (!(op_rows[m->op].flags & BRACKET) || !operand(g, m, 0, depth, &x) || !operand(g, m, 1, depth, &y)) return false;
  x = under(&x, &g->tensors[c].shape, n), y = under(&y, &g->tensors[c].shape, n);
  if (!add_bound(b, &x, &y, m->op == OP_LESS)) return false;
  return m->op != OP_EQUAL || add_bound(b, &y, &x, 0);
}

static double least(const struct index_sum *s, const struct shape *box)
{
  double r = s->constant;
  for (int d = 0; d < box->n; d++) r += fmin(0, s->step[d] * (double)(box->d[d] - 1));
  return r;
}

bool index_bounds_of(const struct graph *g, int c, struct index_bounds *b)
{
  b->n = 0;
  return g->level == KERNEL && bounds_of(g, c, g->tensors[c].shape.n, MOST_DEPTH, b);
}

// Is c `index < n`, with the index along dim and a scalar n of at least 1? Then it holds for index 0.
static bool first_shown(const struct graph *g, int c, int dim)
{
  const struct node *n = &g->nodes[g->tensors[c].node];
  if (n->op != OP_LESS || dim < 0) return false;
  const struct node *x = &g->nodes[g->tensors[n->in[0]].node];
  const struct tensor *y = &g->tensors[n->in[1]];
  const int along = dim - (g->tensors[c].shape.n - x->a.shape.n);
  const bool row = x->op == OP_IOTA && along >= 0 && x->a.shape.d[along] == shape_size(&x->a.shape);
  return row && y->whole && shape_size(&y->shape) == 1 && y->range.least >= 1;
}

// The condition holds for each index j along dim between all lower and upper bounds. Such a j exists if no lower bound is above an upper one.
// Bounds are j + low >= 0 and high - j >= 0, so no low + high may be negative.
bool index_reaches(const struct graph *g, int c, int dim)
{
  if (first_shown(g, c, dim)) return true;
  const struct shape *box = &g->tensors[c].shape;
  struct index_bounds b = {0};
  if (!index_bounds_of(g, c, &b) || b.n + 2 > INDEX_BOUNDS) return false;
  if (dim >= 0) {
    b.sum[b.n].step[dim] = 1, b.n++;
    b.sum[b.n].step[dim] = -1, b.sum[b.n++].constant = (double)(box->d[dim] - 1);
  }
  for (int i = 0; i < b.n; i++) {
    double step = dim < 0 ? 0 : b.sum[i].step[dim];
    if (fabs(step) > 1 || (step > -1 && step < 1 && least(&b.sum[i], box) < 0)) return false;
    for (int k = 0; k < b.n && step > 0; k++) {
      struct index_sum both = plus(&b.sum[i], 1, &b.sum[k]);
      if (b.sum[k].step[dim] < 0 && least(&both, box) < 0) return false;
    }
  }
  return true;
}

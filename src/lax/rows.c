// Is a piece local to its rows? Then every result keeps the first dimension as a free index that nothing mixes:
// elementwise operators, products with a weight that is an input of the program, reductions over other dimensions.
// One block can then carry its rows through all operators, however many they are, and block graphs are chained by
// rule instead of searched (20 layers of an MLP).
//
// A tensor has rows where its first dimension is that of the results. What has rows is decided by use: X in matmul(X,
// W) has, W has not, and where one tensor is used both ways (X times its own transpose) the piece is not local.
#include "lax/piece.h"

struct rows {
  const struct facts *f;
  const struct piece *r;
  int64_t n;      // number of rows
  bool *has, *no; // by root: used with rows, used as a whole
};

static const struct shape *shape_of(const struct rows *w, int t) { return &w->f->p->tensors[t].shape; }

// Does view t of an argument keep the first dimension of its root as its own first?
static bool view_keeps(const struct rows *w, int t)
{
  for (; w->f->root[t] != t; t = w->f->p->nodes[w->f->p->tensors[t].node].in[0]) {
    const struct node *n = &w->f->p->nodes[w->f->p->tensors[t].node];
    const struct shape *from = shape_of(w, n->in[0]);
    if (!from->n || from->d[0] != w->n || shape_of(w, t)->d[0] != w->n) return false;
    if (n->op == OP_REPEAT && n->a.dim == 0) return false;
    if (n->op == OP_TRANSPOSE && (n->a.perm.n ? n->a.perm.d[0] != 0 : from->n < 3)) return false;
  }
  return true;
}

static bool use_rows(struct rows *w, int t)
{
  w->has[w->f->root[t]] = true;
  return view_keeps(w, t);
}

// An argument of an elementwise operator: rows of its own, or one row for all (a bias).
static bool use_elements(struct rows *w, int t, int dims)
{
  const struct shape *s = shape_of(w, t);
  if (s->n == dims && dims && s->d[0] == w->n) return use_rows(w, t);
  w->no[w->f->root[t]] = w->n > 1;
  return true;
}

static bool use_weight(struct rows *w, int t, int dims)
{
  const struct graph *p = w->f->p;
  const struct shape *s = shape_of(w, t);
  int root = w->f->root[t];
  w->no[root] = true;
  return p->nodes[p->tensors[root].node].op == OP_INPUT && (dims == 2 || s->n < dims || s->d[0] == 1);
}

static bool node_local(struct rows *w, const struct node *n)
{
  int dims = shape_of(w, n->out)->n;
  bool local = dims && shape_of(w, n->out)->d[0] == w->n;
  switch (op_rows[n->op].rule) {
  case RULE_MAP:
    for (int k = 0; k < n->nin && local; k++) local = use_elements(w, n->in[k], dims);
    return local;
  case RULE_CONTRACT:
    return local && n->nin == 2 && shape_of(w, n->in[0])->n == dims && use_rows(w, n->in[0]) &&
           use_weight(w, n->in[1], dims);
  case RULE_REDUCE: return local && n->a.dim != 0 && use_rows(w, n->in[0]);
  case RULE_IO:
  case RULE_CONST:
  case RULE_VIEW:
  case RULE_CONCAT:
  case RULE_SPLIT:
  case RULE_COMPOSITE:
  case RULE_ACCUM:
  case RULE_GRAPH: break;
  }
  return false;
}

bool rows_local(const struct facts *f, const struct piece *r)
{
  struct arena_mark mark = arena_mark(f->tmp);
  const struct shape *last = &f->p->tensors[f->p->nodes[r->node[r->n - 1]].out].shape;
  struct rows w = {f, r, last->n ? last->d[0] : 0};
  w.has = NEWS(f->tmp, bool, f->p->ntensors), w.no = NEWS(f->tmp, bool, f->p->ntensors);
  bool local = last->n > 0;
  for (int i = 0; i < r->n && local; i++) local = node_local(&w, &f->p->nodes[r->node[i]]);
  for (int t = 0; t < f->p->ntensors && local; t++) local = !(w.has[t] && w.no[t]);
  arena_reset(f->tmp, mark);
  return local;
}

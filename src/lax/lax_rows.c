// Decides whether a piece is row-local: no operator combines elements of different rows, that is, of different indices of
// the first dimension. Row-local are elementwise operators, products with a matrix from outside the piece, and reductions
// over other dimensions. One block can then compute its rows through any number of operators. A rule builds that kernel
// instead of the search (search/chain.c). All operands have the same rank, and none is a view.
//
// The use of a tensor decides whether it has rows: in matmul(X, W), X has and W has not. If a tensor is used both ways
// (X times its own transpose), the piece is not row-local.
#include "lax/piece.h"

struct lax_rows {
  const struct facts *f;
  const struct piece *r;
  const struct shape *like; // shape of the last result, which gives rank and number of rows
  bool *has, *not ;         // by tensor: used by rows; used as a whole
};

static bool with_rows(const struct lax_rows *w, int t)
{
  const struct shape *s = &w->f->p->tensors[t].shape;
  return s->n == w->like->n && s->d[0] == w->like->d[0];
}

static bool use_rows(struct lax_rows *w, int t)
{
  w->has[t] = true;
  return w->f->root[t] == t && with_rows(w, t);
}

// Marks t as used whole, such as a weight or a bias. False if t is a view or computed by this piece.
static bool use_whole(struct lax_rows *w, int t)
{
  w->not [t] = true;
  return w->f->root[t] == t && facts_maker(w->f, w->r->id, t) < 0;
}

static bool node_local(struct lax_rows *w, const struct node *n)
{
  bool local = with_rows(w, n->out);
  switch (op_rows[n->op].rule) {
  case RULE_MAP:
    for (int k = 0; k < n->nin && local; k++) local = with_rows(w, n->in[k]) ? use_rows(w, n->in[k]) : use_whole(w, n->in[k]);
    return local;
  case RULE_CONTRACT: return local && w->like->n == 2 && use_rows(w, n->in[0]) && use_whole(w, n->in[1]);
  case RULE_REDUCE: return local && n->a.dim > 0 && use_rows(w, n->in[0]);
  case RULE_IO:
  case RULE_CONST:
  case RULE_INDEX:
  case RULE_VIEW:
  case RULE_AT:
  case RULE_CONCAT:
  case RULE_SPLIT:
  case RULE_WORLD:
  case RULE_COMPOSITE:
  case RULE_ACCUM:
  case RULE_GRAPH: break;
  }
  return false;
}

bool rows_local(const struct facts *f, const struct piece *r)
{
  struct arena_mark mark = arena_mark(f->tmp);
  const struct graph *p = f->p;
  struct lax_rows w = {f, r, &p->tensors[p->nodes[r->node[r->n - 1]].out].shape};
  w.has = NEWS(f->tmp, bool, p->ntensors), w.not = NEWS(f->tmp, bool, p->ntensors);
  bool local = w.like->n > 0;
  for (int i = 0; i < r->n && local; i++) local = node_local(&w, &p->nodes[r->node[i]]);
  for (int t = 0; t < p->ntensors && local; t++) local = !(w.has[t] && w.not [t]);
  arena_reset(f->tmp, mark);
  return local;
}

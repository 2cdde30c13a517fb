// The abstract expression of a kernel graph at its own extents (paper, Table 1): what the axioms say about it, without
// the search's classes and values.
#include "naive.h"

#include "search/space.h"

static nf sum(struct expr *ex, int64_t k, nf x) { return expr_sum(ex, (uint64_t)k, x); }

static nf mean(struct expr *ex, int64_t k, nf x) { return expr_mul(ex, sum(ex, k, x), expr_atom(ex, atom_scalar(1 / (double)k))); }

// A reduction or an accumulator that folds k elements.
static nf fold(struct expr *ex, const struct op_row *row, int64_t k, nf x)
{
  if (row->abstract == AE_MAX) return expr_max(ex, (uint64_t)k, x);
  if (row->flags & RMS) return expr_sqrt(ex, mean(ex, k, expr_square(ex, x)));
  return row->flags & MEAN ? mean(ex, k, x) : sum(ex, k, x);
}

static nf of_node(struct expr *ex, const struct graph *g, const struct node *n, const nf *at)
{
  const struct op_row *row = &op_rows[n->op];
  const struct shape *x = n->nin ? &g->tensors[n->in[0]].shape : NULL, *o = &g->tensors[n->out].shape;
  nf a = n->nin ? at[n->in[0]] : 0, b = n->nin > 1 ? at[n->in[1]] : 0;
  bool joins = n->op == OP_ACCUM && g->nloop && n->a.fmap[0] != REPLICA;
  switch (row->rule) {
  case RULE_CONST:
  case RULE_MAP: return abstract_map(ex, n->op, &n->a, a, b);
  case RULE_CONTRACT: return sum(ex, x->d[x->n - 1], expr_mul(ex, a, b));
  case RULE_REDUCE: return fold(ex, row, shape_size(x) / shape_size(o), a);
  case RULE_ACCUM: return joins ? a : fold(ex, row, graph_iterations(g) * (shape_size(x) / shape_size(o)), a);
  case RULE_VIEW: return a;
  case RULE_IO:
  case RULE_INDEX:
  case RULE_AT:
  case RULE_CONCAT:
  case RULE_SPLIT:
  case RULE_WORLD:
  case RULE_COMPOSITE:
  case RULE_GRAPH: break;
  }
  CHECK(!"an operator of these tests");
}

// Fills at[]; given: what the iterators read, in order. Returns what the saver or output takes.
static nf of_graph(struct arena *mem, struct expr *ex, const struct graph *g, const nf *given)
{
  nf *at = NEWS(mem, nf, g->ntensors + 1), last = 0;
  for (int i = 0, inputs = 0; i < g->nnodes; i++) {
    const struct node *n = &g->nodes[i];
    if (n->op == OP_INPUT)
      at[n->out] = expr_atom(ex, (uint32_t)inputs++);
    else if (n->op == OP_ITER)
      at[n->out] = given[inputs++];
    else if (n->op == OP_SAVE || n->op == OP_OUTPUT)
      last = at[n->in[0]];
    else if (n->op == OP_BLOCK) {
      nf *args = NEWS(mem, nf, n->nin);
      for (int k = 0; k < n->nin; k++) args[k] = at[n->in[k]];
      at[n->out] = of_graph(mem, ex, n->sub, args);
    } else
      at[n->out] = of_node(ex, g, n, at);
  }
  return last;
}

bool same_expression(const struct graph *x, const struct graph *y)
{
  struct arena mem = {0};
  struct expr *ex = expr_open();
  expr_option_exp_laws(ex, false);
  bool same = of_graph(&mem, ex, x, NULL) == of_graph(&mem, ex, y, NULL);
  expr_close(ex), arena_close(&mem);
  return same;
}

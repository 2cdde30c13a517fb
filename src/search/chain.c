// Row-wise programs of any length, made by rule. If every operator works on each row alone (elementwise, a product with a given matrix, reductions
// along other dimensions), one block graph can take some rows through all operators, and tiles never leave scratch. No search is needed: only the
// number of rows of a block is open. Twenty layers of a multilayer perceptron become one kernel.
#include "search/space.h"

#include <string.h>

enum role { UNSEEN, ROWS, WHOLE };

// Marks the first dimension of tensor t as its rows. False: an operator mixes rows.
static bool mark(const struct graph *p, enum role *role, int t, int64_t rows, int rank);

static bool mark_whole(const struct graph *p, enum role *role, int t)
{
  enum op op = p->nodes[p->tensors[t].node].op;
  if ((op != OP_INPUT && op != OP_CONST) || role[t] == ROWS) return false;
  role[t] = WHOLE;
  return true;
}

static bool mark_map(const struct graph *p, enum role *role, const struct node *n, int64_t rows, int rank)
{
  bool good = true;
  for (int i = 0; i < n->nin && good; i++) {
    const struct shape *s = &p->tensors[n->in[i]].shape;
    good = s->n == rank && s->d[0] == rows ? mark(p, role, n->in[i], rows, rank) : mark_whole(p, role, n->in[i]);
  }
  return good;
}

static bool mark(const struct graph *p, enum role *role, int t, int64_t rows, int rank)
{
  const struct tensor *x = &p->tensors[t];
  const struct node *n = &p->nodes[x->node];
  if (role[t]) return role[t] == ROWS;
  if (x->shape.n != rank || x->shape.d[0] != rows) return false;
  role[t] = ROWS;
  switch (op_rows[n->op].rule) {
  case RULE_IO: return true;
  case RULE_MAP: return mark_map(p, role, n, rows, rank);
  case RULE_REDUCE: return n->a.dim > 0 && mark(p, role, n->in[0], rows, rank);
  case RULE_CONTRACT: return rank == 2 && mark(p, role, n->in[0], rows, rank) && mark_whole(p, role, n->in[1]);
  case RULE_CONST:
  case RULE_AT:
  case RULE_INDEX:
  case RULE_VIEW:
  case RULE_CONCAT:
  case RULE_SPLIT:
  case RULE_WORLD:
  case RULE_COMPOSITE:
  case RULE_ACCUM:
  case RULE_GRAPH: break;
  }
  return false;
}

static int chain_block(const struct graph *p, const enum role *role, int64_t blocks, struct graph *g, struct err *e)
{
  struct graph *b = graph_new(g->mem, BLOCK, NULL);
  graph_axes(b, 1, &blocks, 0, NULL);
  int status = OK, nin = 0, *at = NEWS(g->mem, int, p->ntensors), *in = NEWS(g->mem, int, p->nnodes);
  for (int i = 0; i < p->nnodes && !status; i++) {
    const struct node *n = &p->nodes[i];
    struct attrs a = attrs_default(OP_ITER);
    if (n->op == OP_INPUT && role[n->out]) {
      if (role[n->out] == ROWS) a.imap[0] = 0;
      status = graph_iter(b, g, in[nin++] = n->out, &a, NOWHERE, &at[n->out], e);
    } else if (n->op == OP_OUTPUT) {
      a = attrs_default(OP_SAVE), a.omap[0] = 0;
      status = graph_add(b, OP_SAVE, 1, &at[n->in[0]], &a, NOWHERE, &(int){0}, e);
    } else if (n->op != OP_INPUT && role[n->out]) {
      int args[4] = {0};
      for (int k = 0; k < n->nin && k < 4; k++) args[k] = at[n->in[k]];
      status = graph_add(b, n->op, n->nin, args, &n->a, NOWHERE, &at[n->out], e);
    }
  }
  int out;
  if (!status) status = graph_nest(g, b, nin, in, NOWHERE, &out, e);
  for (int k = 0, saves = graph_outputs(b, NULL); k < saves && !status; k++) {
    int t = out + k;
    status = graph_add(g, OP_OUTPUT, 1, &t, NULL, NOWHERE, &(int){0}, e);
  }
  return status;
}

struct graph *chain_build(struct arena *mem, const struct graph *p, int64_t blocks)
{
  struct graph *g = graph_new(mem, KERNEL, p->name);
  struct err e = {0};
  enum role *role = NEWS(mem, enum role, p->ntensors);
  int outs[64], nout = graph_outputs(p, NULL), tensor;
  if (nout < 1 || nout > 64) return NULL;
  graph_outputs(p, outs);
  int rank = p->tensors[outs[0]].shape.n;
  int64_t rows = rank ? p->tensors[outs[0]].shape.d[0] : 0;
  if (rank < 2 || rows < 2 || rows % blocks) return NULL;
  for (int i = 0; i < nout; i++)
    if (!mark(p, role, outs[i], rows, rank)) return NULL;
  for (int i = 0; i < p->nnodes; i++) { // inputs come first, so tensors of g have the numbers of the program's inputs
    const struct node *n = &p->nodes[i];
    if (n->op != OP_INPUT) continue;
    const struct tensor *t = &p->tensors[n->out];
    if (graph_input_as(g, t->name, t->dtype, t, NOWHERE, &tensor, &e) || tensor != n->out) return NULL;
  }
  return chain_block(p, role, blocks, g, &e) == OK ? g : NULL;
}

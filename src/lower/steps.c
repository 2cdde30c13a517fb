// Products of operands that a loop does not change, in steps of the loop: a search runs a loop over what one product sums, and
// another product beside it has its operands whole. They would have to be there at once; in steps they come as the others do.
//   matmul(h, u)  becomes  accum(matmul(h_i, u_i))
// Only where nothing in the loop reads the result, and each step still is a product that tensor cores take. Requires a checked
// kernel graph; provides one that is equal to it.
#include "lower/lower.h"

enum { LEAST_STEP = 16 };

static bool read_once(const struct graph *b, int t)
{
  int n = 0;
  for (int i = 0; i < b->nnodes; i++)
    for (int k = 0; k < b->nodes[i].nin; k++) n += b->nodes[i].in[k] == t;
  return n == 1;
}

// Does the loop, or an accumulator, read what tensor t is part of?
static bool read_in_loop(struct arena *mem, const struct graph *b, int t)
{
  bool *of = NEWS(mem, bool, b->ntensors + 1);
  of[t] = true;
  for (int i = 0; i < b->nnodes; i++) {
    const struct node *n = &b->nodes[i];
    bool reads = false;
    for (int k = 0; k < n->nin; k++) reads |= of[n->in[k]];
    if (!reads) continue;
    if (op_rows[n->op].rule == RULE_ACCUM) return true;
    for (int o = 0; o < n->nout; o++) {
      enum phase p = b->tensors[n->out + o].phase;
      if (p == VARYING || p == RUN) return true;
      of[n->out + o] = true;
    }
  }
  return false;
}

// The iterator's tile, whole along a dimension that n steps of at least LEAST_STEP cut.
static bool may_step(const struct graph *b, int t, int dim)
{
  const struct node *n = &b->nodes[b->tensors[t].node];
  int64_t extent = b->tensors[t].shape.d[dim];
  if (n->op != OP_ITER || b->tensors[t].phase != FIXED || !read_once(b, t)) return false;
  for (int i = 0; i < b->ngrid; i++)
    if (n->a.imap[i] == dim) return false;
  return extent % b->loop[0] == 0 && extent / b->loop[0] % LEAST_STEP == 0;
}

static bool steps(struct arena *mem, const struct graph *b, const struct node *n)
{
  if (n->op != OP_MATMUL || b->nloop != 1 || b->loop[0] == 1) return false;
  return may_step(b, n->in[0], b->tensors[n->in[0]].shape.n - 1) && may_step(b, n->in[1], b->tensors[n->in[1]].shape.n - 2) && n->in[0] != n->in[1] &&
         !read_in_loop(mem, b, n->out);
}

static int block(const struct graph *above, const struct node *nest, const bool *in_steps, struct graph **out, struct err *e)
{
  const struct graph *b = nest->sub;
  const struct attrs all = attrs_default(OP_ACCUM);
  struct graph *to = *out = graph_new(above->mem, BLOCK, b->name);
  int *of = NEWS(above->mem, int, b->ntensors + 1), *cut = NEWS(above->mem, int, b->ntensors + 1), iters = 0, status = OK;
  graph_axes(to, b->ngrid, b->grid, b->nloop, b->loop);
  for (int t = 0; t < b->ntensors; t++) cut[t] = -1;
  for (int i = 0; i < b->nnodes; i++)
    for (int k = 0; in_steps[i] && k < 2; k++) cut[b->nodes[i].in[k]] = b->tensors[b->nodes[i].in[k]].shape.n - 1 - k;
  for (int i = 0; i < b->nnodes && !status; i++) {
    struct node n = b->nodes[i];
    int from = n.op == OP_ITER ? nest->in[iters++] : -1;
    if (from >= 0 && cut[n.out] >= 0) n.a.fmap[0] = (int8_t)cut[n.out];
    status = graph_take(to, above, from, b, &n, of, e);
    if (!status && in_steps[i]) status = graph_add(to, OP_ACCUM, 1, &of[n.out], &all, n.at, &of[n.out], e);
    if (!status) graph_keep_names(to, b, &n, of);
  }
  return status;
}

int step_products(struct arena *mem, const struct graph *g, struct graph **out, struct err *e)
{
  int status = OK;
  *out = graph_copy(mem, g);
  for (int i = 0; i < g->nnodes && !status; i++) {
    const struct graph *b = g->nodes[i].sub;
    if (!b || b->level != BLOCK) continue;
    bool *in_steps = NEWS(mem, bool, b->nnodes + 1), any = false, nested = false;
    for (int k = 0; k < b->nnodes; k++) any |= in_steps[k] = steps(mem, b, &b->nodes[k]), nested |= b->nodes[k].sub != NULL;
    if (any && !nested) status = block(*out, &(*out)->nodes[i], in_steps, &(*out)->nodes[i].sub, e);
  }
  return status;
}

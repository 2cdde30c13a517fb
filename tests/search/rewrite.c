// Rewrites that keep what a graph computes, node by node through graph_add; nothing of src/search is used.
#include "rewrite.h"

#include <string.h>

const char *const rewrite_names[REWRITES] = {
    "an idle loop",     "one iteration", "axes swapped",        "an axis split",       "an axis as a loop",
    "unrolled",         "no loop",       "accum for accum_sum", "accum_sum for accum", "sums over an extent of 1",
    "values made twice"};

struct rewriting {
  enum rewrite how;
  const struct graph *above, *b;
  struct graph *to;
  const int *from; // tensors that the iterators of b read
  int nin, *in;    // and those of `to`
  int *at;         // tensor of b -> tensor of `to`
  bool changed;
  struct err *e;
};

static bool adds_loop(const struct rewriting *r)
{
  return !r->b->nloop && (r->how == ADD_IDLE_LOOP || r->how == ADD_ITERATION || (r->how == AXIS_TO_LOOP && r->b->ngrid));
}

static bool splits(const struct rewriting *r)
{
  return r->how == SPLIT_AXIS && r->b->ngrid && r->b->ngrid < MAX_GRID && r->b->grid[0] > 2 && r->b->grid[0] % 2 == 0;
}

// Extent of the first tile along what loop 0 cuts.
static int64_t looped_extent(const struct graph *b)
{
  for (int i = 0; i < b->nnodes; i++) {
    const struct node *n = &b->nodes[i];
    if (n->op == OP_ITER && n->a.fmap[0] != REPLICA) return b->tensors[n->out].shape.d[n->a.fmap[0]];
  }
  return 1;
}

static void axes(struct rewriting *r)
{
  const struct graph *b = r->b;
  int64_t grid[GRID_AXES], loop[MAX_LOOPS];
  int ngrid = b->ngrid, nloop = b->nloop;
  memcpy(grid, b->grid, sizeof grid), memcpy(loop, b->loop, sizeof loop);
  if (adds_loop(r)) loop[nloop++] = r->how == ADD_ITERATION ? 1 : r->how == ADD_IDLE_LOOP ? 2 : grid[--ngrid];
  if (splits(r)) grid[0] /= 2, grid[ngrid++] = 2;
  for (int i = 0; i < ngrid && r->how == SWAP_AXES; i++) grid[i] = b->grid[ngrid - 1 - i];
  for (int i = 0; i < nloop && r->how == UNROLL; i++) loop[i] = 1;
  if (r->how == DROP_LOOP) nloop = 0;
  if (r->how == SUM_TO_ACCUM && nloop) loop[0] *= looped_extent(b);
  bool swapped = r->how == SWAP_AXES && ngrid > 1, looped = b->nloop && (r->how == UNROLL || r->how == DROP_LOOP);
  r->changed |= adds_loop(r) || splits(r) || swapped || looped;
  graph_axes(r->to, ngrid, grid, nloop, loop);
}

static void maps(const struct rewriting *r, const struct node *n, struct attrs *a)
{
  int k = r->b->ngrid;
  for (int i = 0; i < k && r->how == SWAP_AXES; i++) a->imap[i] = n->a.imap[k - 1 - i], a->omap[i] = n->a.omap[k - 1 - i];
  if (splits(r)) a->imap[k] = a->imap[0], a->omap[k] = a->omap[0];
  if (adds_loop(r) && r->how == AXIS_TO_LOOP) a->fmap[0] = a->imap[k - 1], a->imap[k - 1] = a->omap[k - 1] = REPLICA;
  if (adds_loop(r) && r->how == ADD_ITERATION && n->op == OP_ITER) a->fmap[0] = 0;
  if (r->how == DROP_LOOP) memset(a->fmap, REPLICA, sizeof a->fmap);
}

static int add(struct rewriting *r, enum op op, int x, const struct attrs *a)
{
  int out = 0;
  if (r->e->status == OK) graph_add(r->to, op, 1, &x, a, NOWHERE, &out, r->e);
  return out;
}

static int unit_dim(const struct tensor *t)
{
  for (int d = 0; d < t->shape.n; d++)
    if (t->shape.d[d] == 1) return d;
  return -1;
}

// The operand of a saver: passed through an accumulator where it varies with a loop that is new.
static int collected(struct rewriting *r, const struct node *save, int x)
{
  struct attrs a = attrs_default(OP_ACCUM);
  if (!adds_loop(r) || r->how == ADD_IDLE_LOOP || r->to->tensors[x].phase != VARYING) return x;
  if (r->how == AXIS_TO_LOOP) a.fmap[0] = save->a.omap[r->b->ngrid - 1];
  return add(r, OP_ACCUM, x, &a);
}

static int with_unit_sum(struct rewriting *r, int x)
{
  struct attrs a = attrs_default(OP_SUM);
  a.dim = unit_dim(&r->to->tensors[x]);
  if (r->how != ADD_UNIT_SUMS || a.dim < 0) return x;
  r->changed = true;
  return add(r, OP_SUM, x, &a);
}

static enum op other_op(struct rewriting *r, const struct node *n, int in, struct attrs *a)
{
  const struct tensor *x = &r->to->tensors[in];
  enum op op = n->op;
  if (r->how == DROP_LOOP && op == OP_ACCUM_SUM) op = OP_SUM;
  if (r->how == DROP_LOOP && op == OP_ACCUM_MEAN) op = OP_MEAN;
  if (r->how == SUM_TO_ACCUM && op == OP_ACCUM_SUM && x->shape.d[a->dim] == 1) op = OP_ACCUM, *a = attrs_default(OP_ACCUM);
  if (r->how == ACCUM_TO_SUM && n->op == OP_ACCUM && unit_dim(x) >= 0) op = OP_ACCUM_SUM, *a = attrs_default(op), a->dim = unit_dim(x);
  r->changed |= op != n->op;
  return op;
}

static int copied(struct rewriting *r, int tensor);

static int number_of(const struct graph *b, int node)
{
  int n = 0;
  for (int i = 0; i < node; i++) n += b->nodes[i].op == OP_ITER;
  return n;
}

static void copy(struct rewriting *r, int node)
{
  const struct node *n = &r->b->nodes[node];
  struct attrs a = n->a;
  int in[8], out = 0;
  maps(r, n, &a);
  if (n->nin > (int)COUNT(in)) err_set(r->e, ERR_LIMIT, NOWHERE, "too many operands");
  for (int i = 0; i < n->nin && r->e->status == OK; i++) in[i] = copied(r, n->in[i]);
  if (r->e->status != OK) return;
  if (n->op == OP_ITER) {
    r->in[r->nin] = r->from[number_of(r->b, node)];
    graph_iter(r->to, r->above, r->in[r->nin++], &a, NOWHERE, &out, r->e);
  } else if (n->op == OP_SAVE)
    in[0] = collected(r, n, in[0]), graph_add(r->to, OP_SAVE, 1, in, &a, NOWHERE, &out, r->e);
  else if (n->op == OP_ACCUM && r->how == DROP_LOOP)
    out = in[0];
  else if (n->nin)
    graph_add(r->to, other_op(r, n, in[0], &a), n->nin, in, &a, NOWHERE, &out, r->e);
  else
    graph_add(r->to, n->op, 0, NULL, &a, NOWHERE, &out, r->e);
  if (n->nout && r->e->status == OK) r->at[n->out] = with_unit_sum(r, out);
}

// The copy of a tensor; a new one for each use where values are made twice.
static int copied(struct rewriting *r, int tensor)
{
  bool again = r->how == MAKE_TWICE && r->to->nnodes < 100;
  r->changed |= again && r->at[tensor] >= 0;
  if (again || r->at[tensor] < 0) copy(r, r->b->tensors[tensor].node);
  return r->at[tensor];
}

static void rewrite_block(struct rewriting *r, struct graph *g, struct node *n)
{
  const struct graph *b = n->sub;
  r->above = g, r->b = b, r->to = graph_new(g->mem, BLOCK, NULL), r->from = n->in, r->nin = 0;
  r->in = NEWS(g->mem, int, 200), r->at = NEWS(g->mem, int, b->ntensors + 1);
  memset(r->at, -1, sizeof(int) * (size_t)b->ntensors);
  axes(r);
  for (int i = 0; i < b->nnodes && r->e->status == OK; i++)
    if (b->nodes[i].op == OP_SAVE || (b->nodes[i].op == OP_ITER && r->how != MAKE_TWICE && r->at[b->nodes[i].out] < 0)) copy(r, i);
  n->sub = r->to, n->in = r->in, n->nin = r->nin;
}

struct graph *rewritten(struct arena *mem, const struct graph *g, enum rewrite how)
{
  struct graph *to = graph_copy(mem, g);
  struct err e = {0};
  struct rewriting r = {.how = how, .e = &e};
  for (int i = 0; i < to->nnodes && e.status == OK; i++)
    if (to->nodes[i].sub) rewrite_block(&r, to, &to->nodes[i]);
  return r.changed && e.status == OK && graph_check(to, &e) == OK ? to : NULL;
}

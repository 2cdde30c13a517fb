// The inverse of thread graphs: THREAD nodes as the operators inside them, on whole tiles. That is right where each thread and each
// iteration computes its part of a result from the same part of the arguments, and the parts are joined as they were cut. Schemes for
// GPUs start from this form, and place the operators over threads themselves.
#include "thread/thread.h"

#include <string.h>

enum { AXES = MAX_GRID + MAX_LOOPS };

struct flat_tensor { // of a thread graph
  int whole;         // the tensor of the new block graph
  int8_t cut[AXES];  // the dimension that each axis cuts, or REPLICA
  unsigned partial;  // axes over which it is a partial sum, a bit each; an accumulator adds them up
};

struct flattening {
  const struct graph *block;  // as it was
  const struct node *node;    // THREAD node of it
  struct graph *to;           // the new block graph
  const int *moved;           // tensors of `block` in `to`
  struct flat_tensor *tensor; // by tensor of the thread graph
  struct err *e;
};

static int refuse(const struct flattening *f, const struct node *n, const char *why)
{
  err_set(f->e, ERR_TARGET, n->at, "a thread graph without a kernel: %s %s", op_rows[n->op].name, why);
  err_hint(f->e, "the operators of the thread graph can be written in the block graph; kernels for GPUs place them over threads");
  return USER;
}

static int64_t axis_extent(const struct graph *g, int axis)
{
  if (axis < MAX_GRID) return axis < g->ngrid ? g->grid[axis] : 1;
  return axis - MAX_GRID < g->nloop ? g->loop[axis - MAX_GRID] : 1;
}

static int8_t cut_by(const struct attrs *a, int axis, bool save)
{
  if (axis < MAX_GRID) return save ? a->omap[axis] : a->imap[axis];
  return save ? REPLICA : a->fmap[axis - MAX_GRID];
}

// The shape of tensor t of the thread graph, times what cuts it, is the shape that its whole has in the block graph.
static bool has_whole_shape(const struct flattening *f, int t)
{
  struct shape s = f->node->sub->tensors[t].shape;
  const struct shape *whole = &f->to->tensors[f->tensor[t].whole].shape;
  for (int i = 0; i < AXES; i++) {
    int d = f->tensor[t].cut[i];
    if (d != REPLICA && d < s.n) s.d[d] *= axis_extent(f->node->sub, i);
  }
  return shape_eq(&s, whole);
}

static int flat_iterator(struct flattening *f, const struct node *n, int from)
{
  struct flat_tensor *x = &f->tensor[n->out];
  x->whole = from;
  for (int i = 0; i < AXES; i++) x->cut[i] = cut_by(&n->a, i, false);
  return OK;
}

// The dimensions of the result, counted from the last, that an axis cuts in operand t.
static int cut_from_last(const struct flattening *f, int t, int axis)
{
  int d = f->tensor[t].cut[axis];
  return d == REPLICA ? REPLICA : f->node->sub->tensors[t].shape.n - 1 - d;
}

static int join_cuts(struct flattening *f, const struct node *n)
{
  int rank = f->node->sub->tensors[n->out].shape.n;
  for (int i = 0; i < AXES; i++) {
    int joint = REPLICA;
    for (int k = 0; k < n->nin; k++) {
      int d = cut_from_last(f, n->in[k], i);
      if (d != REPLICA && joint != REPLICA && d != joint) return refuse(f, n, "joins what the threads cut along different dimensions");
      if (d != REPLICA) joint = d;
    }
    f->tensor[n->out].cut[i] = (int8_t)(joint == REPLICA ? REPLICA : rank - 1 - joint);
  }
  return OK;
}

// A reduction of a dimension that an axis cuts gives partial results. An accumulator adds up partial sums; others stay parts.
static int reduce_cut(struct flattening *f, const struct node *n)
{
  struct flat_tensor *x = &f->tensor[n->out];
  for (int i = 0; i < AXES; i++) {
    if (x->cut[i] != n->a.dim || axis_extent(f->node->sub, i) == 1) continue;
    if (n->op != OP_SUM || n->a.group || i < MAX_GRID) return refuse(f, n, "reduces the dimension that the threads cut");
    x->cut[i] = REPLICA, x->partial |= 1u << i;
  }
  return OK;
}

static int flat_operator(struct flattening *f, const struct node *n)
{
  int in[2];
  if (n->nin > 2) return refuse(f, n, "has too many operands");
  for (int k = 0; k < n->nin; k++) {
    if (f->tensor[n->in[k]].partial) return refuse(f, n, "reads a partial sum of one iteration");
    in[k] = f->tensor[n->in[k]].whole;
  }
  int status = join_cuts(f, n);
  if (!status && op_rows[n->op].rule == RULE_REDUCE) status = reduce_cut(f, n);
  if (!status) status = graph_add(f->to, n->op, n->nin, in, &n->a, n->at, &f->tensor[n->out].whole, f->e);
  if (!status && !has_whole_shape(f, n->out)) return refuse(f, n, "broadcasts along a dimension that the threads cut");
  return status;
}

// Joins the parts of the iterations, or adds up partial sums; the whole tensor is there already.
static int flat_accumulator(struct flattening *f, const struct node *n)
{
  const struct flat_tensor *x = &f->tensor[n->in[0]];
  if (n->op != OP_ACCUM) return refuse(f, n, "reduces over the loop of threads");
  for (int i = 0; i < f->node->sub->nloop; i++) {
    int axis = MAX_GRID + i;
    bool adds = n->a.fmap[i] == REPLICA && x->partial >> axis & 1, joins = n->a.fmap[i] != REPLICA && n->a.fmap[i] == x->cut[axis];
    if (!adds && !joins && axis_extent(f->node->sub, axis) > 1) return refuse(f, n, "does not join the parts of the iterations as they were cut");
  }
  f->tensor[n->out] = (struct flat_tensor){.whole = x->whole};
  memcpy(f->tensor[n->out].cut, x->cut, sizeof x->cut);
  for (int i = MAX_GRID; i < AXES; i++) f->tensor[n->out].cut[i] = REPLICA;
  return OK;
}

static int flat_save(struct flattening *f, const struct node *n)
{
  if (f->tensor[n->in[0]].partial) return refuse(f, n, "saves a partial sum of one iteration");
  for (int i = 0; i < MAX_GRID; i++)
    if (n->a.omap[i] != f->tensor[n->in[0]].cut[i] && axis_extent(f->node->sub, i) > 1)
      return refuse(f, n, "does not join the parts of the threads as they were cut");
  return OK;
}

static int flat_node(struct flattening *f, const struct node *n, int *iterators)
{
  switch (op_rows[n->op].rule) {
  case RULE_IO: return n->op == OP_ITER ? flat_iterator(f, n, f->moved[f->node->in[(*iterators)++]]) : flat_save(f, n);
  case RULE_CONST:
  case RULE_MAP:
  case RULE_REDUCE: return flat_operator(f, n);
  case RULE_ACCUM: return flat_accumulator(f, n);
  case RULE_VIEW:
  case RULE_CONTRACT:
  case RULE_CONCAT:
  case RULE_SPLIT:
  case RULE_AT:
  case RULE_INDEX:
  case RULE_COMPOSITE:
  case RULE_GRAPH: break;
  }
  return refuse(f, n, "moves elements between threads");
}

// The THREAD node in place; moved[] of its results is set.
static int flat_thread(struct arena *tmp, struct flattening *f, int *moved)
{
  const struct graph *g = f->node->sub;
  int iterators = 0, results = 0, status = OK;
  f->tensor = NEWS(tmp, struct flat_tensor, g->ntensors + 1);
  for (int i = 0; i < g->nnodes && !status; i++) {
    const struct node *n = &g->nodes[i];
    status = flat_node(f, n, &iterators);
    if (!status && n->op == OP_SAVE) moved[f->node->out + results++] = f->tensor[n->in[0]].whole;
  }
  return status;
}

static int copy_node(struct graph *to, const struct graph *block, const struct node *n, int *moved, struct err *e)
{
  int in[64], out = 0;
  if (n->nin > (int)COUNT(in)) return err_set(e, ERR_TARGET, n->at, "%s has %d operands", op_rows[n->op].name, n->nin);
  for (int k = 0; k < n->nin; k++) in[k] = moved[n->in[k]];
  TRY(graph_add(to, n->op, n->nin, in, &n->a, n->at, &out, e));
  for (int k = 0; k < n->nout; k++) {
    moved[n->out + k] = out + k;
    to->tensors[out + k].name = block->tensors[n->out + k].name;
  }
  return OK;
}

static bool has_threads(const struct graph *block)
{
  for (int i = 0; i < block->nnodes; i++)
    if (block->nodes[i].op == OP_THREAD) return true;
  return false;
}

static int flat_block(struct arena *mem, const struct graph *above, struct node *holder, struct err *e)
{
  struct arena tmp = {0};
  const struct graph *g = holder->sub;
  struct graph *to = graph_new(mem, BLOCK, g->name);
  int *moved = NEWS(&tmp, int, g->ntensors + 1), iterators = 0, status = OK;
  graph_axes(to, g->ngrid, g->grid, g->nloop, g->loop);
  for (int i = 0; i < g->nnodes && !status; i++) {
    const struct node *n = &g->nodes[i];
    struct flattening f = {.block = g, .node = n, .to = to, .moved = moved, .e = e};
    if (n->op == OP_ITER) {
      status = graph_iter(to, above, holder->in[iterators++], &n->a, n->at, &moved[n->out], e);
      if (!status) to->tensors[moved[n->out]].name = g->tensors[n->out].name;
    } else {
      status = n->op == OP_THREAD ? flat_thread(&tmp, &f, moved) : copy_node(to, g, n, moved, e);
    }
  }
  if (!status) holder->sub = to;
  arena_close(&tmp);
  return status;
}

int thread_flat(struct arena *mem, const struct graph *g, const struct graph **out, struct err *e)
{
  struct graph *copy = NULL;
  int status = OK;
  for (int i = 0; i < g->nnodes && !status; i++) {
    if (g->nodes[i].op != OP_BLOCK || !has_threads(g->nodes[i].sub)) continue;
    if (!copy) copy = graph_copy(mem, g);
    status = flat_block(mem, copy, &copy->nodes[i], e);
  }
  *out = copy ? copy : g;
  return status;
}

// The inverse of thread graphs: replaces THREAD nodes by their operators on whole tiles. This requires that each thread and iteration
// computes its part of a result from the same part of the arguments, and that the parts are joined as they were partitioned. GPU schemes
// start from this form and distribute the operators over threads themselves.
#include "thread/flat.h"

#include <string.h>

int flat_refuse(const struct flattening *f, const struct node *n, const char *why)
{
  err_set(f->e, ERR_TARGET, n->at, "a thread graph without a kernel: %s %s", op_rows[n->op].name, why);
  err_hint(f->e, "the operators of the thread graph can be written in the block graph; kernels for GPUs place them over threads");
  return USER;
}

int64_t flat_extent(const struct flattening *f, int axis)
{
  const struct graph *g = f->node->sub;
  if (axis < MAX_GRID) return axis < g->ngrid ? g->grid[axis] : 1;
  return axis - MAX_GRID < g->nloop ? g->loop[axis - MAX_GRID] : 1;
}

static int8_t cut_by(const struct attrs *a, int axis, bool save)
{
  if (axis < MAX_GRID) return save ? a->omap[axis] : a->imap[axis];
  return save ? REPLICA : a->fmap[axis - MAX_GRID];
}

static int flat_iterator(struct flattening *f, const struct node *n, int from)
{
  struct flat_tensor *x = &f->tensor[n->out];
  x->whole = from;
  for (int i = 0; i < AXES; i++) x->cut[i] = cut_by(&n->a, i, false);
  return OK;
}

static int flat_save(struct flattening *f, const struct node *n)
{
  if (f->tensor[n->in[0]].partial) return flat_refuse(f, n, "saves a partial sum of one iteration");
  for (int i = 0; i < MAX_GRID; i++)
    if (n->a.omap[i] != f->tensor[n->in[0]].cut[i] && flat_extent(f, i) > 1)
      return flat_refuse(f, n, "does not join the parts of the threads as they were cut");
  return OK;
}

static int flat_node(struct flattening *f, const struct node *n, int *iterators)
{
  switch (op_rows[n->op].rule) {
  case RULE_IO: return n->op == OP_ITER ? flat_iterator(f, n, f->moved[f->node->in[(*iterators)++]]) : flat_save(f, n);
  case RULE_CONST:
  case RULE_MAP:
  case RULE_REDUCE:
  case RULE_CONTRACT: return flat_operator(f, n);
  case RULE_ACCUM: return flat_accumulator(f, n);
  case RULE_VIEW:
  case RULE_CONCAT:
  case RULE_SPLIT:
  case RULE_AT:
  case RULE_INDEX:
  case RULE_WORLD:
  case RULE_COMPOSITE:
  case RULE_GRAPH: break;
  }
  return flat_refuse(f, n, "moves elements between threads");
}

static bool has_name(const struct graph *g, const char *name)
{
  for (int i = 0; i < g->ntensors; i++)
    if (g->tensors[i].name && !strcmp(name, g->tensors[i].name)) return true;
  return false;
}

// Names a tensor: a result gets the name of the THREAD node's result, another tensor keeps its own, unless the name is taken.
static void keep_name(struct flattening *f, int t, int result)
{
  const char *name = result < 0 ? f->node->sub->tensors[t].name : f->block->tensors[result].name;
  struct tensor *whole = &f->to->tensors[f->tensor[t].whole];
  if (whole->name || !name || has_name(f->to, name) || (result < 0 && has_name(f->block, name))) return;
  whole->name = name;
}

// Adds the operators of the THREAD node, and sets moved[] of its results.
static int flat_thread(struct arena *tmp, struct flattening *f, int *moved)
{
  const struct graph *g = f->node->sub;
  int iterators = 0, results = 0, status = OK;
  f->tensor = NEWS(tmp, struct flat_tensor, g->ntensors + 1);
  for (int i = 0; i < g->nnodes && !status; i++) {
    const struct node *n = &g->nodes[i];
    status = flat_node(f, n, &iterators);
    if (!status && n->op == OP_SAVE) {
      keep_name(f, n->in[0], f->node->out + results);
      moved[f->node->out + results++] = f->tensor[n->in[0]].whole;
    } else if (!status) {
      keep_name(f, n->out, -1);
    }
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

// Copies a graph node by node with some properties changed. Shapes, dtypes and phases are inferred again.
#include "ir/ir.h"

#include <math.h>
#include <string.h>

struct context {
  const struct rebuilding *how;
  struct err *e;
};

static int rebuild(const struct context *c, struct graph *to, const struct graph *to_above, const int *above, const struct graph *g);

static int rebuild_nest(const struct context *c, struct graph *to, const struct graph *g, const struct node *n)
{
  struct graph *sub = graph_new(to->mem, n->sub->level, n->sub->name);
  struct axes a = {{0}, {0}};
  memcpy(a.grid, n->sub->grid, sizeof a.grid), memcpy(a.loop, n->sub->loop, sizeof a.loop);
  if (c->how->axes) c->how->axes(c->how->arg, g, (int)(n - g->nodes), &a);
  graph_axes(sub, n->sub->ngrid, a.grid, n->sub->nloop, a.loop);
  int s = rebuild(c, sub, to, n->in, n->sub);
  return s ? s : graph_nest(to, sub, n->nin, n->in, n->at, &(int){0}, c->e);
}

// Does the condition of n hide padding of a run-time extent? In a block, indices and extent are loaded by iterators.
static bool hides_padding(const struct graph *g, const struct node *n)
{
  const struct node *c = &g->nodes[g->tensors[n->in[1]].node];
  if (n->op != OP_KEEP || c->op != OP_LESS) return false;
  const struct tensor *extent = &g->tensors[c->in[1]];
  const enum op index = g->nodes[g->tensors[c->in[0]].node].op;
  if (g->level == KERNEL) return index == OP_IOTA && extent->extent;
  return index == OP_ITER && g->nodes[extent->node].op == OP_ITER && !extent->shape.n && extent->whole && extent->range.least >= 1;
}

static bool is_largest(double c, enum dtype t) { return !(fabs(c) < dtype_largest(t)) && !(fabs(c) > dtype_largest(t)); }

static int rebuild_node(const struct context *c, struct graph *to, const struct graph *g, const struct node *n)
{
  const struct tensor *t = &g->tensors[n->out];
  if (n->op == OP_INPUT) {
    enum dtype dtype = c->how->dtype && !num_whole(t->dtype) ? c->how->dtype(c->how->arg, t->dtype) : t->dtype;
    return graph_input_as(to, NULL, dtype, t, n->at, &(int){0}, c->e);
  }
  struct attrs a = n->a;
  if (c->how->attrs && n->nin && n->nout) {
    const struct shape *was = &g->tensors[n->in[0]].shape, *now = &to->tensors[n->in[0]].shape;
    if (!c->how->attrs(n, was, now, &t->shape, &a)) return err_set(c->e, ERR_SHAPE, n->at, "a reshape cannot follow the new sizes");
  }
  // If hidden elements are replaced by the dtype's largest number, the copy uses the largest number of its new dtype.
  if (n->op == OP_KEEP && hides_padding(g, n) && is_largest(a.scalar, t->dtype))
    a.scalar = copysign(dtype_largest(to->tensors[n->in[0]].dtype), a.scalar);
  return graph_add(to, n->op, n->nin, n->in, &a, n->at, &(int){0}, c->e);
}

static int rebuild(const struct context *c, struct graph *to, const struct graph *to_above, const int *above, const struct graph *g)
{
  int iter = 0, s = OK;
  for (int i = 0; i < g->nnodes && !s; i++) {
    const struct node *n = &g->nodes[i];
    if (n->op == OP_ITER)
      s = graph_iter(to, to_above, above[iter++], &n->a, n->at, &(int){0}, c->e);
    else
      s = n->sub ? rebuild_nest(c, to, g, n) : rebuild_node(c, to, g, n);
    if (!s && n->nout && extent_told(n->op)) memcpy(to->tensors[n->out].runs, g->tensors[n->out].runs, sizeof g->tensors->runs);
    for (int k = 0; k < n->nout && !s; k++)
      if (g->tensors[n->out + k].name) to->tensors[n->out + k].name = arena_strdup(to->mem, g->tensors[n->out + k].name);
  }
  return s;
}

int graph_rebuild(struct arena *mem, const struct graph *g, const struct rebuilding *how, struct graph **out, struct err *e)
{
  *out = graph_new_as(mem, g);
  return rebuild(&(struct context){how, e}, *out, NULL, NULL, g);
}

static enum dtype to_dtype(const void *arg, enum dtype was)
{
  (void)was;
  return *(const enum dtype *)arg;
}

int graph_cast(struct arena *mem, const struct graph *g, enum dtype t, struct graph **out, struct err *e)
{
  return graph_rebuild(mem, g, &(struct rebuilding){.arg = &t, .dtype = to_dtype}, out, e);
}

int graph_take(struct graph *to, const struct graph *above, int from, const struct graph *g, const struct node *n, int *map, struct err *e)
{
  const struct tensor *t = &g->tensors[n->out];
  int *in = NEWS(to->mem, int, n->nin + 1), out = 0, status;
  for (int k = 0; k < n->nin && n->op != OP_ITER; k++) in[k] = map[n->in[k]];
  if (n->op == OP_INPUT)
    status = graph_input_as(to, NULL, t->dtype, t, n->at, &out, e);
  else if (n->op == OP_ITER)
    status = graph_iter(to, above, from, &n->a, n->at, &out, e);
  else if (n->sub)
    status = graph_nest(to, graph_copy(to->mem, n->sub), n->nin, in, n->at, &out, e);
  else
    status = graph_add(to, n->op, n->nin, in, &n->a, n->at, &out, e);
  for (int k = 0; k < n->nout && !status; k++) map[n->out + k] = out + k;
  if (extent_told(n->op) && n->nout && !status) memcpy(to->tensors[out].runs, t->runs, sizeof t->runs);
  return status;
}

void graph_keep_names(struct graph *to, const struct graph *g, const struct node *n, const int *map)
{
  for (int k = 0; k < n->nout; k++) {
    const char *name = g->tensors[n->out + k].name;
    struct tensor *t = &to->tensors[map[n->out + k]];
    if (name && !t->name) t->name = arena_strdup(to->mem, name);
  }
}

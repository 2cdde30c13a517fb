// Makes a THREAD node of a group. One thread iterates over slices of the tile along the outermost dimension over which no
// reduction of the group runs, and its results are concatenated. If there is no such dimension, one iteration computes the
// whole tile. Code generators fuse the node into one loop over elements, whatever its loop.
#include "thread/fuse.h"

struct thread_build {
  struct thread_block *b;
  int group;
  struct graph *g; // the thread graph
  const struct shape *space;
  int axis;         // dimension of `space` that the loop partitions, or -1
  int *moved;       // tensors of the block graph -> of the thread graph, or -1
  int *from, nfrom; // arguments of the node, in the new block graph
};

// The dimension of a tensor of this shape that the loop partitions, or REPLICA if the tensor is broadcast along it.
static int8_t walked(const struct thread_build *x, const struct shape *s)
{
  int dim = x->axis - x->space->n + s->n;
  return x->axis < 0 || dim < 0 || s->d[dim] == 1 ? REPLICA : (int8_t)dim;
}

static bool reduced(const struct thread_build *x, int dim)
{
  const struct graph *g = x->b->g;
  for (int i = 0; i < g->nnodes; i++)
    if (x->b->group[i] == x->group && op_rows[g->nodes[i].op].rule == RULE_REDUCE && g->nodes[i].a.dim == dim) return true;
  return false;
}

static void choose_axis(struct thread_build *x)
{
  x->axis = -1;
  for (int d = 0; d < x->space->n && x->axis < 0; d++)
    if (x->space->d[d] > 1 && !reduced(x, d)) x->axis = d;
  if (x->axis >= 0)
    graph_axes(x->g, 1, (const int64_t[]){1}, 1, &x->space->d[x->axis]);
  else
    graph_axes(x->g, 1, (const int64_t[]){1}, 0, NULL);
}

static int put_inputs(struct thread_build *x)
{
  const struct graph *g = x->b->g;
  int s = OK;
  for (int t = 0; t < g->ntensors && !s; t++) {
    const struct node *p = &g->nodes[g->tensors[t].node];
    if (!group_reads(x->b, x->group, t)) continue;
    if (p->op == OP_CONST) {
      s = graph_add(x->g, OP_CONST, 0, NULL, &p->a, p->at, &x->moved[t], x->b->e);
    } else {
      struct attrs a = attrs_default(OP_ITER);
      a.fmap[0] = walked(x, &g->tensors[t].shape);
      s = graph_iter(x->g, x->b->to, x->b->moved[t], &a, p->at, &x->moved[t], x->b->e);
      x->from[x->nfrom++] = x->b->moved[t];
    }
  }
  return s;
}

static int put_members(struct thread_build *x)
{
  const struct graph *g = x->b->g;
  int s = OK;
  for (int i = 0; i < g->nnodes && !s; i++) {
    const struct node *n = &g->nodes[i];
    int in[2];
    if (x->b->group[i] != x->group) continue;
    CHECK(n->nin <= 2 && n->nout == 1);
    for (int k = 0; k < n->nin; k++) in[k] = x->moved[n->in[k]];
    s = graph_add(x->g, n->op, n->nin, in, &n->a, n->at, &x->moved[n->out], x->b->e);
    if (!s) x->g->tensors[x->moved[n->out]].name = g->tensors[n->out].name;
  }
  return s;
}

static int put_save(struct thread_build *x, int t)
{
  const struct attrs save = attrs_default(OP_SAVE);
  struct attrs a = attrs_default(OP_ACCUM);
  struct loc at = x->b->g->nodes[x->b->g->tensors[t].node].at;
  int from = x->moved[t], s = OK;
  a.fmap[0] = walked(x, &x->b->g->tensors[t].shape);
  if (x->g->tensors[from].phase == VARYING) s = graph_add(x->g, OP_ACCUM, 1, &from, &a, at, &from, x->b->e);
  return s ? s : graph_add(x->g, OP_SAVE, 1, &from, &save, at, NULL, x->b->e);
}

static const struct shape *space_of_group(const struct thread_block *b, int group)
{
  for (int i = 0;; i++)
    if (b->group[i] == group && op_rows[b->g->nodes[i].op].rule == RULE_MAP) return &b->g->tensors[b->g->nodes[i].out].shape;
}

int build_thread(struct thread_block *b, int group)
{
  struct thread_build x = {.b = b, .group = group, .g = graph_new(b->to->mem, THREAD, NULL), .space = space_of_group(b, group)};
  struct loc at = {0};
  int outs[64], nout = 0, t;
  x.moved = NEWS(b->mem, int, b->g->ntensors + 1), x.from = NEWS(b->mem, int, b->g->ntensors + 1);
  choose_axis(&x);
  int s = put_inputs(&x);
  if (!s) s = put_members(&x);
  for (int i = 0; i < b->g->ntensors && !s; i++) {
    if (!group_result(b, group, i)) continue;
    at = b->g->nodes[b->g->tensors[i].node].at;
    outs[nout++] = i, s = put_save(&x, i);
  }
  if (!s) s = graph_nest(b->to, x.g, x.nfrom, x.from, at, &t, b->e);
  for (int k = 0; k < nout && !s; k++) {
    b->moved[outs[k]] = t + k;
    b->to->tensors[t + k].name = b->g->tensors[outs[k]].name;
  }
  return s;
}

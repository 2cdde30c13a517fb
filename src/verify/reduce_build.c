// Builds the graph of a frame at its small extents, with the same functions that build every graph.
#include "verify/proof.h"

static struct shape small_shape(struct system *s, const struct frame *f, int t)
{
  struct shape r = f->g->tensors[t].shape;
  for (int d = 0; d < r.n; d++) r.d[d] = shrink_value(s, f->dims[t] + d);
  return r;
}

static struct attrs small_attrs(struct system *s, const struct frame *f, int i)
{
  const struct node *n = &f->g->nodes[i];
  struct attrs a = n->a;
  if (op_rows[n->op].attrs & A_SHAPE) a.shape = small_shape(s, f, n->out);
  if (n->op == OP_REPEAT) a.times = shrink_value(s, f->attr[i]);
  if (n->op == OP_SLICE && !f->attr[i]) { // what is before and behind it stays
    a.end = a.start + shrink_value(s, f->dims[n->out] + a.dim);
  } else if (n->op == OP_SLICE) {
    int64_t was = slice_unit(&a, f->g->tensors[n->in[0]].shape.d[a.dim]), unit = shrink_value(s, f->attr[i]);
    a.start = a.start / was * unit, a.end = a.end / was * unit;
  }
  if ((op_rows[n->op].attrs & A_GROUP) && a.group) a.group = shrink_value(s, f->attr[i]);
  return a;
}

static int build(struct system *s, const struct frame *f, const struct graph *above, const int *from, struct graph *to);

static int build_nested(struct system *s, const struct frame *f, int i, struct graph *to)
{
  const struct node *n = &f->g->nodes[i];
  const struct frame *in = f->sub[i];
  struct graph *sub = graph_new(to->mem, n->sub->level, n->sub->name);
  struct err e = {0};
  int64_t axis[MAX_GRID + MAX_LOOPS];
  for (int k = 0; k < MAX_GRID + MAX_LOOPS; k++) axis[k] = shrink_value(s, in->axes + k);
  graph_axes(sub, n->sub->ngrid, axis, n->sub->nloop, axis + MAX_GRID);
  int status = build(s, in, to, n->in, sub);
  return status ? status : graph_nest(to, sub, n->nin, n->in, n->at, &(int){0}, &e);
}

static int build(struct system *s, const struct frame *f, const struct graph *above, const int *from, struct graph *to)
{
  struct err e = {0};
  int iter = 0, status = OK;
  for (int i = 0; i < f->g->nnodes && !status; i++) {
    const struct node *n = &f->g->nodes[i];
    struct attrs a = small_attrs(s, f, i);
    int out = to->ntensors;
    if (n->op == OP_INPUT) {
      struct tensor small = f->g->tensors[n->out]; // integers keep their range, and states stay states
      small.shape = small_shape(s, f, n->out);
      status = graph_input_as(to, NULL, small.dtype, &small, n->at, &out, &e);
    } else if (n->op == OP_ITER) {
      status = graph_iter(to, above, from[iter++], &a, n->at, &out, &e);
    } else if (n->sub) {
      status = build_nested(s, f, i, to);
    } else {
      status = graph_add(to, n->op, n->nin, n->in, &a, n->at, &(int){0}, &e);
    }
    for (int k = 0; k < n->nout && !status; k++) {
      const struct tensor *t = &f->g->tensors[n->out + k];
      struct shape want = small_shape(s, f, n->out + k);
      if (!shape_eq(&want, &to->tensors[n->out + k].shape)) return USER;
      if (t->name) to->tensors[n->out + k].name = arena_strdup(to->mem, t->name);
    }
  }
  return status;
}

struct graph *shrink_build(struct system *s, const struct frame *f, struct arena *mem)
{
  struct graph *g = graph_new(mem, KERNEL, f->g->name);
  struct err e = {0};
  return build(s, f, NULL, NULL, g) == OK && graph_check(g, &e) == OK ? g : NULL;
}

// Other sizes for a kernel of a finished graph. Only extents of axes are given anew: every shape is inferred again, and
// attributes that hold a shape (reshape, the group of a sum) are scaled with what they came from. Where that is
// ambiguous the outermost dimension is scaled; a wrong guess does not fit elsewhere and is refused.
#include "plan/plan.h"

#include <string.h>

struct resizer {
  int node;                // of the kernel graph: the kernel that gets new axes
  const struct axes *axes;
  struct err *e;
};

// Dimensions of `was` scaled so that they hold `now` elements.
static bool scale_group(int64_t *d, int n, int64_t was, int64_t now)
{
  for (int i = 0; i < n; i++)
    if ((__int128)d[i] * now % was == 0) return d[i] = (int64_t)((__int128)d[i] * now / was), true;
  return now == was;
}

// What a reshape from `was` to *to becomes when its input has shape `now`: dimensions go in groups of equal size.
static bool scale_reshape(const struct shape *was, const struct shape *now, struct shape *to)
{
  for (int i = 0, k = 0, first; i < was->n || k < to->n;) {
    int64_t a = 1, b = 1, grown = 1;
    first = k;
    do {
      if (i < was->n && (a <= b || k == to->n)) a *= was->d[i], grown *= now->d[i++];
      if (k < to->n && (b < a || k == first)) b *= to->d[k++];
    } while (a != b || (k == to->n && i < was->n));
    if (grown != a && !scale_group(&to->d[first], k - first, a, grown)) return false;
  }
  return true;
}

static bool scale_attrs(const struct node *n, const struct shape *was, const struct shape *now, const struct shape *made,
                        struct attrs *a)
{
  if (n->op == OP_RESHAPE) {
    a->shape = *made;
    return was->n == now->n && scale_reshape(was, now, &a->shape);
  }
  if ((op_rows[n->op].attrs & A_GROUP) && a->group == was->d[a->dim]) a->group = now->d[a->dim];
  return true;
}

static int rebuild(struct resizer *r, struct graph *to, const struct graph *to_above, const int *above, const struct graph *g);

static int rebuild_nest(struct resizer *r, struct graph *to, const struct node *n, bool anew)
{
  struct graph *sub = graph_new(to->mem, n->sub->level, n->sub->name);
  graph_axes(sub, n->sub->ngrid, anew ? r->axes->grid : n->sub->grid, n->sub->nloop, anew ? r->axes->loop : n->sub->loop);
  int s = rebuild(r, sub, to, n->in, n->sub);
  return s ? s : graph_nest(to, sub, n->nin, n->in, n->at, &(int){0}, r->e);
}

static int rebuild_node(struct resizer *r, struct graph *to, const struct graph *g, const struct node *n)
{
  struct attrs a = n->a;
  const struct shape *was = n->nin ? &g->tensors[n->in[0]].shape : NULL, *now = n->nin ? &to->tensors[n->in[0]].shape : NULL;
  if (n->op == OP_INPUT) return graph_input(to, NULL, g->tensors[n->out].dtype, &g->tensors[n->out].shape, n->at, &(int){0}, r->e);
  if (n->nin && n->nout && !scale_attrs(n, was, now, &g->tensors[n->out].shape, &a))
    return err_set(r->e, ERR_SHAPE, n->at, "a reshape cannot follow the new sizes");
  return graph_add(to, n->op, n->nin, n->in, &a, n->at, &(int){0}, r->e);
}

static int rebuild(struct resizer *r, struct graph *to, const struct graph *to_above, const int *above, const struct graph *g)
{
  int iter = 0, s = OK;
  for (int i = 0; i < g->nnodes && !s; i++) {
    const struct node *n = &g->nodes[i];
    if (n->op == OP_ITER) s = graph_iter(to, to_above, above[iter++], &n->a, n->at, &(int){0}, r->e);
    else if (n->sub) s = rebuild_nest(r, to, n, g->level == KERNEL && i == r->node);
    else s = rebuild_node(r, to, g, n);
    for (int k = 0; k < n->nout && !s; k++)
      if (g->tensors[n->out + k].name) to->tensors[n->out + k].name = arena_strdup(to->mem, g->tensors[n->out + k].name);
  }
  return s;
}

static bool same_outputs(const struct graph *a, const struct graph *b)
{
  for (int i = 0; i < a->nnodes; i++)
    if (a->nodes[i].op == OP_OUTPUT && !shape_eq(&a->tensors[a->nodes[i].in[0]].shape, &b->tensors[b->nodes[i].in[0]].shape)) return false;
  return true;
}

int plan_resize(struct arena *mem, const struct graph *g, int node, const struct axes *to, struct graph **out, struct err *e)
{
  CHECK(g->level == KERNEL && g->nodes[node].op == OP_BLOCK);
  struct resizer r = {node, to, e};
  *out = graph_new(mem, KERNEL, g->name);
  int s = rebuild(&r, *out, NULL, NULL, g);
  if (s) return s;
  if (!same_outputs(g, *out)) return err_set(e, ERR_SHAPE, NOWHERE, "the outputs would have other shapes");
  return graph_check(*out, e);
}

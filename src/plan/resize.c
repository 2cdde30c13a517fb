// Gives a kernel of a finished graph other extents of its axes. Every shape is inferred again, and attributes that hold a shape (reshape, the group
// of a sum) are scaled with their operand. If that is ambiguous, the outermost dimension is scaled. A wrong guess fails a later check and is
// rejected.
#include "plan/plan.h"

struct resizing {
  int node; // the kernel of the kernel graph that gets new axes
  const struct axes *axes;
};

// Scales dimensions of `was` so that they hold `now` elements.
static bool scale_group(int64_t *d, int n, int64_t was, int64_t now)
{
  for (int i = 0; i < n; i++)
    if ((__int128)d[i] * now % was == 0) return d[i] = (int64_t)((__int128)d[i] * now / was), true;
  return now == was;
}

// The result of a reshape from `was` to *to for an input of shape `now`: groups of dimensions have equal sizes.
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

static bool scale_attrs(const struct node *n, const struct shape *was, const struct shape *now, const struct shape *made, struct attrs *a)
{
  if (n->op == OP_RESHAPE) {
    a->shape = *made;
    return was->n == now->n && scale_reshape(was, now, &a->shape);
  }
  if ((op_rows[n->op].attrs & A_GROUP) && a->group == was->d[a->dim]) a->group = now->d[a->dim];
  return true;
}

static void new_axes(const void *arg, const struct graph *g, int node, struct axes *a)
{
  const struct resizing *r = arg;
  if (g->level == KERNEL && node == r->node) *a = *r->axes;
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
  struct rebuilding how = {.arg = &(struct resizing){node, to}, .axes = new_axes, .attrs = scale_attrs};
  int s = graph_rebuild(mem, g, &how, out, e);
  if (s) return s;
  if (!same_outputs(g, *out)) return err_set(e, ERR_SHAPE, NOWHERE, "the outputs would have other shapes");
  return graph_check(*out, e);
}

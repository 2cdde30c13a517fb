// Two graphs can be compared if inputs and outputs agree in number and, by position, in shape. Inputs must also agree in the range of integers and in
// being a state. Names and floating-point dtypes may differ: graphs are compared as functions of exact numbers.
#include "verify/proof.h"

static const char *named(char out[256], const struct graph *g, int t)
{
  char shape[128];
  shape_text(shape, &g->tensors[t].shape);
  snprintf(out, 256, "%.100s %s", g->tensors[t].name ? g->tensors[t].name : "(unnamed)", shape);
  return out;
}

static bool same_range(const struct tensor *x, const struct tensor *y)
{
  bool both = num_whole(x->dtype) && num_whole(y->dtype);
  bool same = x->range.least == y->range.least && x->range.most == y->range.most && x->range.distinct == y->range.distinct;
  return x->state == y->state && (!both || same);
}

static int match(struct arena *mem, const char *what, const struct graph *a, const struct graph *b, int (*ends)(const struct graph *, int *),
                 struct err *e)
{
  int n = ends(a, NULL), m = ends(b, NULL);
  if (n != m) return err_set(e, ERR_MISMATCH, NOWHERE, "one has %d %s%s, the other %d", n, what, n == 1 ? "" : "s", m);
  int *ta = NEWS(mem, int, n + 1), *tb = NEWS(mem, int, n + 1);
  ends(a, ta), ends(b, tb);
  for (int i = 0; i < n; i++) {
    char x[256], y[256];
    const struct tensor *u = &a->tensors[ta[i]], *v = &b->tensors[tb[i]];
    if (ends == graph_inputs && !same_range(u, v))
      return err_set(e, ERR_MISMATCH, NOWHERE, "%s %d, %s, has another range in the other, or is a state in one only", what, i + 1,
                     named(x, a, ta[i]));
    if (shape_eq(&a->tensors[ta[i]].shape, &b->tensors[tb[i]].shape)) continue;
    return err_set(e, ERR_MISMATCH, NOWHERE, "%s %d is %s in one and %s in the other", what, i + 1, named(x, a, ta[i]), named(y, b, tb[i]));
  }
  return OK;
}

int signature_match(const struct graph *a, const struct graph *b, struct err *e)
{
  struct arena mem = {0};
  int s = match(&mem, "input", a, b, graph_inputs, e);
  if (!s) s = match(&mem, "output", a, b, graph_outputs, e);
  arena_close(&mem);
  return s;
}

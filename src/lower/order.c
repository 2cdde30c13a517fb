// How tensors between kernels lie in device memory: as the layouts of all tensors say (plan/layout.h), with rows that begin at 16
// bytes or without, or row by row with such rows. What is best for the kernels, their schemes' models say (program.c).
#include "lower/lower.h"
#include "plan/layout.h"

#include <string.h>

static bool is_view(const struct node *n) { return op_rows[n->op].rule == RULE_VIEW; }

static bool lies_otherwise(const struct graph *g, const struct order *o)
{
  for (int t = 0; t < g->ntensors; t++) {
    int64_t stride[MAX_DIMS], plain[MAX_DIMS];
    if (is_view(&g->nodes[g->tensors[t].node])) continue;
    order_strides(&o[t], &g->tensors[t].shape, stride), order_strides(NULL, &g->tensors[t].shape, plain);
    if (memcmp(stride, plain, sizeof *stride * (size_t)g->tensors[t].shape.n) != 0) return true;
  }
  return false;
}

static bool same(const struct graph *g, const struct order *a, const struct order *b)
{
  for (int t = 0; t < g->ntensors; t++) {
    int64_t x[MAX_DIMS], y[MAX_DIMS];
    order_strides(&a[t], &g->tensors[t].shape, x), order_strides(&b[t], &g->tensors[t].shape, y);
    if (memcmp(x, y, sizeof *x * (size_t)g->tensors[t].shape.n) != 0) return false;
  }
  return true;
}

int order_candidates(struct arena *mem, const struct graph *g, const struct order *out[ORDERS], const char *what[ORDERS])
{
  static const struct {
    bool planned, padded;
    const char *what;
  } ways[ORDERS] = {{true, true, "as planned"}, {true, false, "as planned, without gaps"}, {false, true, "row by row, rows at 16 bytes"}};
  struct layouts l;
  struct err e = {0};
  int n = 0;
  if (!layouts_free(g) || plan_layouts(mem, g, false, &l, &e) != OK) return 0;
  for (int w = 0; w < ORDERS; w++) {
    struct order *o = NEWS(mem, struct order, g->ntensors + 1);
    bool again = false;
    for (int t = 0; t < g->ntensors; t++) {
      bool fixed = layout_fixed(g, t);
      o[t] = (struct order){ways[w].planned && !fixed ? l.device[t].inner : -1, ways[w].padded && !fixed};
    }
    for (int k = 0; k < n; k++) again |= same(g, out[k], o);
    if (lies_otherwise(g, o) && !again) what[n] = ways[w].what, out[n++] = o;
  }
  return n;
}

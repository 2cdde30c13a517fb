// Candidates for the layouts of tensors between kernels in device memory: as plan/layout.h plans them, with or without rows aligned to 16 bytes, or
// row-major with aligned rows. The schemes' models choose among them (lower_plan.c).
#include "lower/lower.h"
#include "plan/layout.h"

#include <string.h>

enum { PLANNED_PARTS = 6 }; // parts of two operands

// Whether both orders give all tensors the same strides. b: NULL is row-major. Views are skipped.
static bool same(const struct graph *g, const struct order *a, const struct order *b)
{
  for (int t = 0; t < g->ntensors; t++) {
    const struct shape *s = &g->tensors[t].shape;
    int64_t x[MAX_DIMS], y[MAX_DIMS];
    if (op_rows[g->nodes[g->tensors[t].node].op].rule == RULE_VIEW) continue;
    order_strides(&a[t], s, x), order_strides(b ? &b[t] : NULL, s, y);
    if (memcmp(x, y, sizeof *x * (size_t)s->n) != 0) return false;
  }
  return true;
}

const struct order *order_least(struct arena *mem, const struct graph *g)
{
  struct order *o = NEWS(mem, struct order, g->ntensors + 1);
  bool any = false;
  for (int t = 0; t < g->ntensors; t++) {
    o[t] = (struct order){-1, legal_copied(g, t) && !layout_fixed(g, t)};
    any |= o[t].padded;
  }
  return any ? o : NULL;
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
  int parts = 0; // tensors that are parts of f32: three for each operand. With many operands, planning takes too long
  for (int t = 0; t < g->ntensors; t++) parts += legal_part(g, t) >= 0;
  const bool plans = parts <= PLANNED_PARTS;
  if (!layouts_free(g) || (plans && plan_layouts(mem, g, false, &l, &e) != OK)) return 0;
  for (int w = 0; w < ORDERS; w++) {
    if (!plans && ways[w].planned) continue;
    struct order *o = NEWS(mem, struct order, g->ntensors + 1);
    bool again;
    for (int t = 0; t < g->ntensors; t++) {
      bool fixed = layout_fixed(g, t);
      o[t] = (struct order){ways[w].planned && !fixed ? l.device[t].inner : -1, ways[w].padded && !fixed};
    }
    again = same(g, o, NULL);
    for (int k = 0; k < n; k++) again |= same(g, out[k], o);
    if (!again) what[n] = ways[w].what, out[n++] = o;
  }
  return n;
}

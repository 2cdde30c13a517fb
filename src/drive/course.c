// The course of a climb: the measured times and the change made by each step. The race records it, the report has it as `climb`, and the page draws
// it.
#include "drive/drive.h"

#include <math.h>

void course_add(struct arena *mem, struct course *c, struct course_step s) { PUSH(mem, c->step, c->n, c->cap) = s; }

static void add_axis(struct str *out, const char **sep, char name, int64_t from, int64_t to)
{
  if (from == to) return;
  str_add(out, "%s%c %lld to %lld", *sep, name, (long long)from, (long long)to);
  *sep = ", ";
}

static bool same_axes(const struct graph *a, const struct graph *b)
{
  bool same = a->ngrid == b->ngrid && a->nloop == b->nloop;
  for (int i = 0; i < a->ngrid && same; i++) same = a->grid[i] == b->grid[i];
  for (int i = 0; i < a->nloop && same; i++) same = a->loop[i] == b->loop[i];
  return same;
}

static bool is_kernel(const struct node *n)
{
  enum rule r = op_rows[n->op].rule;
  return r != RULE_IO && r != RULE_VIEW && r != RULE_CONST;
}

const char *course_sizes(struct arena *mem, const struct graph *from, const struct graph *to)
{
  struct str out = {0};
  const char *outer = "";
  int kernel = 0;
  for (int i = 0; i < MIN(from->nnodes, to->nnodes); i++) {
    const struct graph *a = from->nodes[i].sub, *b = to->nodes[i].sub;
    const char *sep = "";
    kernel += is_kernel(&from->nodes[i]);
    if (!a || !b || same_axes(a, b)) continue;
    str_add(&out, "%skernel %d: ", outer, kernel);
    for (int k = 0; k < MIN(a->ngrid, b->ngrid); k++) add_axis(&out, &sep, "xyz"[k], a -> grid[k], b -> grid[k]);
    for (int k = 0; k < MIN(a->nloop, b->nloop); k++) add_axis(&out, &sep, "ijkl"[k], a -> loop[k], b -> loop[k]);
    outer = "; ";
  }
  return str_keep(mem, &out);
}

static json_t *step_json(const struct course_step *s)
{
  json_t *v = json_pack("{s:i, s:s, s:f, s:i, s:b}", "line", s->line, "change", s->change, "us", 1e6 * s->seconds, "measured", s->measured, "exact",
                        s->exact);
  if (s->before > 0) json_object_set_new(v, "before_us", json_real(1e6 * s->before));
  return v;
}

json_t *course_json(const struct course *c)
{
  json_t *list = json_array();
  for (int i = 0; i < c->n; i++) json_array_append_new(list, step_json(&c->step[i]));
  return list;
}

// Checks that a kernel is well formed: an operand precedes its readers, the axes of a value follow from its operands, and accesses stay in their
// buffers.
#include "kern/kern.h"

struct kern_checking {
  const struct kern *k;
  int i;
  char *why;
};

static bool wrong(const struct kern_checking *c, const char *what) { return snprintf(c->why, 160, "value %d: %s", c->i, what), false; }

static bool known_op(int op) { return (op >= OPS && op < KERN_OPS) || (op >= 0 && op < OPS && op_rows[op].rule == RULE_MAP); }

static bool within(const struct kern *k, const struct kern_access *a)
{
  int64_t least = a->offset, most = a->offset;
  for (int i = 0; i < k->naxes; i++) *(a->stride[i] < 0 ? &least : &most) += a->stride[i] * (k->extent[i] - 1);
  for (int i = 0; i < KERN_CHOSEN_BY && a->by[i].limit; i++) {
    if (a->by[i].limit < 0 || a->by[i].stride < 0) return false;
    most += a->by[i].stride * (a->by[i].limit - 1);
  }
  return least >= 0 && most < a->elements;
}

static bool one(const struct kern_checking *c)
{
  const struct kern *k = c->k;
  const struct kern_value *v = &k->v[c->i];
  axis_set in = 0;
  if (v->kind < 0 || v->kind >= KERN_KINDS) return wrong(c, "no kind");
  if (v->kind == KERN_MAP && !known_op(v->op)) return wrong(c, "no elementwise operator");
  if (v->nin != kern_operands(v)) return wrong(c, "operands that it has not");
  for (int i = 0; i < v->nin; i++) {
    if (v->in[i] < 0 || v->in[i] >= c->i) return wrong(c, "an operand that comes later");
    if (k->v[v->in[i]].kind == KERN_PLACED) return wrong(c, "a placed value as an operand");
    if (kern_tops(&k->v[v->in[i]])) return wrong(c, "what was chosen as an operand");
    in |= k->v[v->in[i]].axes;
  }
  if ((v->kind == KERN_CHOSEN) != (kern_loads(v) && v->at.by[0].limit)) return wrong(c, "an index without a limit");
  if (kern_tops(v) && (v->at.by[0].limit < 1 || v->at.by[0].limit > kern_extent(k, v->folded))) return wrong(c, "chooses more than there is");
  EACH_AXIS(a, v->axes | v->folded)
    if (a >= k->naxes || k->extent[a] < 2) return wrong(c, "an axis that is not there");
  bool runs = kern_has(v, KERN_RUNS);
  if (v->folded && !runs && (!kern_has(v, KERN_OVER) || v->folded & ~in)) return wrong(c, "folds what its operand does not have");
  if (!v->folded && kern_folds(v)) return wrong(c, "folds nothing");
  if (runs && !(v->folded & k->loops)) return wrong(c, "runs over no loop");
  if (v->axes != kern_axes_of(k, v)) return wrong(c, "other axes than its operands give it");
  return !kern_loads(v) || within(k, &v->at) || wrong(c, "reads outside of its buffer");
}

bool kern_check(const struct kern *k, char why[160])
{
  struct kern_checking c = {.k = k, .why = why};
  for (int a = 0; a < KERN_AXES; a++)
    if (k->extent[a] < 1) return snprintf(why, 160, "axis %d: extent %lld", a, (long long)k->extent[a]), false;
  for (; c.i < k->nvalues; c.i++)
    if (!one(&c)) return false;
  for (int i = 0; i < k->nsaves; i++) {
    const struct kern_save *s = &k->save[i];
    if (s->value < 0 || s->value >= k->nvalues) return snprintf(why, 160, "store %d: no value", i), false;
    if (s->axes != k->v[s->value].axes || kern_strided(k, &s->at) & ~s->axes)
      return snprintf(why, 160, "store %d: other axes than its value", i), false;
    if ((k->v[s->value].kind == KERN_PLACED || kern_tops(&k->v[s->value])) != (s->at.by[0].limit > 0))
      return snprintf(why, 160, "store %d: an index without a limit", i), false;
    if (!within(k, &s->at)) return snprintf(why, 160, "store %d: writes outside of its buffer", i), false;
  }
  return true;
}

// The rule `select`. kern_make writes the operator `keep` as mask(x, c) + (s - s c), for the other rules. If c is a condition, which is 0 or 1, this
// is a choice between x and s. The choice multiplies nothing, so x may be infinite or NaN where c is 0.
#include "kern/kern_rule.h"

static bool is_scaled(const struct kern *k, int v, int x, double by)
{
  const struct kern_value *m = &k->v[v];
  return kern_is_map(m, OP_MUL_SCALAR) && m->in[0] == x && m->a.scalar <= by && m->a.scalar >= by;
}

bool kern_is_keep(const struct kern *k, const struct kern_value *v, struct kern_keep *out)
{
  if (kern_is_map(v, KERN_SELECT)) return *out = (struct kern_keep){v->in[0], v->in[1], v->a.scalar}, true;
  if (!kern_is_map(v, OP_ADD)) return false;
  const struct kern_value *m = &k->v[v->in[0]], *rest = &k->v[v->in[1]];
  if (!kern_is_map(m, OP_MASK) || !kern_is_map(rest, OP_ADD_SCALAR) || !is_scaled(k, rest->in[0], m->in[1], -rest->a.scalar)) return false;
  return *out = (struct kern_keep){m->in[0], m->in[1], rest->a.scalar}, true;
}

// Whether the operator maps operands 0 and 1 to 0 or 1.
static bool is_logical(const struct kern_value *x)
{
  for (int i = 0; i < 4; i++) {
    const double y = kern_apply(x->op, &x->a, i & 1, i >> 1);
    if (!(y >= 0 && y <= 1 && (y <= 0 || y >= 1))) return false;
  }
  return true;
}

static bool is_condition(const struct kern *k, int v)
{
  const struct kern_value *x = &k->v[v];
  if (x->kind == KERN_SPREAD) return is_condition(k, x->in[0]);
  if (x->kind == KERN_LOAD) return x->at.truth;
  if (x->kind != KERN_MAP) return false;
  if (kern_op(x->op).flags & BRACKET) return true;
  return is_logical(x) && is_condition(k, x->in[0]) && (x->nin < 2 || is_condition(k, x->in[1]));
}

bool rule_select(struct kern *k, const struct kern_value *v, int *out)
{
  struct kern_keep keep;
  if (kern_is_map(v, KERN_SELECT) || !kern_is_keep(k, v, &keep) || !is_condition(k, keep.condition)) return false;
  const struct attrs a = {.scalar = keep.scalar};
  return *out = kern_map(k, KERN_SELECT, &a, keep.x, keep.condition, v->about), true;
}

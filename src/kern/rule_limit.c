// The rule `limit`. A running maximum starts at the lowest number of fp32, so that it is finite even for a part that is -inf everywhere
// (plan/stable_rule.c). Products with that number overflow. If all finite scores are small, -2^100 has the same effect. For either limit m and a
// score x, exp(x - m) is 0 if x is -inf, and inf if x is finite.
#include "kern/kern_rule.h"

#include <math.h>

static const double LOWEST = -0x1p100, SMALL = 0x1p99;

static bool is_small(const struct kern *k, int x) { return kern_bound(k, x) < SMALL; }

// If v is a maximum with a constant below LOWEST: that constant; else 0.
static double limit_of(const struct kern *k, const struct kern_value *v)
{
  if (!kern_is_map(v, OP_MAXIMUM) || k->v[v->in[1]].kind != KERN_CONST) return 0;
  const double c = k->v[v->in[1]].a.scalar;
  return isfinite(c) && c < LOWEST ? c : 0;
}

enum reading { OTHER, LIMITED, LESS }; // independent of limits; a limited maximum; a number minus such a maximum

static bool is_exponential(const struct kern_value *v) { return kern_is_map(v, OP_EXP) || (kern_is_map(v, KERN_EXP2) && v->a.scalar >= 1); }

// Whether v may read values of these classes. *out: the class of v.
static bool reads(const struct kern *k, const struct kern_value *v, const enum reading *r, enum reading *out)
{
  const enum reading x = r[v->in[0]], y = v->nin > 1 ? r[v->in[1]] : OTHER;
  *out = LIMITED;
  if (x == LIMITED && (v->kind == KERN_MAX || v->kind == KERN_RUN_MAX || v->kind == KERN_SPREAD)) return true;
  *out = LESS;
  if (x == LIMITED && v->kind == KERN_RUN_MOVE) return true;
  if (x == OTHER && y == LIMITED && kern_is_map(v, OP_SUB) && is_small(k, v->in[0])) return true;
  *out = OTHER;
  return x == LESS && is_exponential(v);
}

// Whether limited maxima affect saved values only through exponentials of differences.
bool rule_may_limit(const struct kern *k)
{
  enum reading *r = NEWS(k->mem, enum reading, k->nvalues + 1);
  for (int i = 0; i < k->nvalues; i++) {
    const struct kern_value *v = &k->v[i];
    bool any = false;
    for (int n = 0; n < v->nin; n++) any |= r[v->in[n]] != OTHER;
    if (v->live && any && !reads(k, v, r, &r[i])) return false;
    if (v->live && !any && limit_of(k, v) < 0) r[i] = LIMITED;
  }
  for (int s = 0; s < k->nsaves; s++)
    if (r[k->save[s].value] != OTHER) return false;
  return true;
}

bool rule_limit(struct kern *k, const struct kern_value *v, int *out)
{
  if (!(limit_of(k, v) < 0) || !is_small(k, v->in[0])) return false;
  return *out = kern_map(k, OP_MAXIMUM, NULL, v->in[0], kern_const(k, LOWEST, v->about), v->about), true;
}

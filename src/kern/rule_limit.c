// The rule `limit`. A running maximum starts at the lowest number of fp32, so that a part that is -inf everywhere has a finite one
// (plan/stable_rule.c). Products with that number overflow. If all finite numbers of the maximum are small, a smaller limit has the same effect: in a
// row that is -inf everywhere, exponentials of differences to either limit are 0, and a small finite number minus a limit has the exponential inf.
#include "kern/kern_rule.h"

#include <math.h>

static const double LOWEST = -0x1p100, SMALL = 0x1p99;

static bool is_small(const struct kern *k, int x) { return kern_bound(k, x) < SMALL; }

// The limit of a maximum with a lower constant than that; 0: v is not one.
static double limit_of(const struct kern *k, const struct kern_value *v)
{
  if (!kern_is_map(v, OP_MAXIMUM) || k->v[v->in[1]].kind != KERN_CONST) return 0;
  const double c = k->v[v->in[1]].a.scalar;
  return isfinite(c) && c < LOWEST ? c : 0;
}

enum reading { OTHER, LIMITED, LESS }; // of a value: independent of limits; a limited maximum; a difference to such a maximum

static bool is_exponential(const struct kern_value *v) { return kern_is_map(v, OP_EXP) || (kern_is_map(v, KERN_EXP2) && v->a.scalar >= 1); }

// Whether v may read limited maxima, or differences to them. *out: its class then.
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

// Whether only exponentials of differences read the limited maxima.
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

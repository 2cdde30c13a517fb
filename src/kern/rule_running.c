// Running maxima become final ones. Softmax over a loop computes exp(s - m) with the maximum m so far, and rescales its sums when m changes. The
// result equals that of exp(s - m) with the final m under two conditions:
//
//   - In an iteration, each value that depends on m is a power of exp(m) times a factor that does not depend on m.
//   - Each accumulator of such a value is rescaled by the same power.
//
// The rule computes the power of each value to check both.
#include "kern/kern_rule.h"

struct power {                    // x = rest + add * m, or rest * exp(deg * m), or moved * (the change of m); rest is free of m
  int of;                         // m is the running maximum of this value; -1: x depends on no maximum
  double add, deg, moved, factor; // factor: x = exp(factor * (the change of m))
};
static const struct power FREE = {.of = -1};

static bool is_free(const struct power *p) { return p->of < 0; }
static struct power settled(struct power p) { return p.add == 0 && p.deg == 0 && p.moved == 0 && p.factor == 0 ? FREE : p; }
static bool only_deg(const struct power *p) { return p->add == 0 && p->moved == 0 && p->factor == 0; }

static bool join(const struct power *x, const struct power *y, int *of)
{
  if (!is_free(x) && !is_free(y) && x->of != y->of) return false;
  *of = is_free(x) ? y->of : x->of;
  return true;
}

static bool two(int op, struct power x, struct power y, struct power *out)
{
  double sign = op == OP_SUB || op == OP_DIV ? -1 : 1;
  struct power p = FREE;
  if (!join(&x, &y, &p.of)) return false;
  if (op == OP_ADD || op == OP_SUB) {
    if (x.deg != y.deg || x.factor != 0 || y.factor != 0 || x.moved != 0 || y.moved != 0) return false;
    if (x.deg != 0 && (x.add != 0 || y.add != 0)) return false;
    p.add = x.add + sign * y.add, p.deg = x.deg;
  } else if (op == OP_MUL || op == OP_DIV) {
    if (!only_deg(&x) || !only_deg(&y)) return false;
    p.deg = x.deg + sign * y.deg;
  } else {
    return false;
  }
  return *out = settled(p), true;
}

// The factor by which a unary operator multiplies the power.
static double times(const struct kern_value *v)
{
  return v->op == OP_NEG ? -1 : v->op == OP_MUL_SCALAR ? v->a.scalar : v->op == OP_SQUARE ? 2 : v->op == OP_SQRT ? 0.5 : -0.5;
}

static bool one(const struct kern_value *v, struct power x, struct power *out)
{
  struct power p = {.of = x.of};
  if (kern_op(v->op).flags & SCALES) {
    if (x.factor != 0) return false;
    p.add = times(v) * x.add, p.deg = x.deg, p.moved = times(v) * x.moved;
  } else if (v->op == OP_EXP) {
    if (x.deg != 0 || x.factor != 0) return false;
    p.deg = x.add, p.factor = x.moved;
  } else if (v->op == OP_SQUARE || v->op == OP_SQRT || v->op == OP_RSQRT) {
    if (!only_deg(&x)) return false;
    p.deg = times(v) * x.deg;
  } else if (v->op == OP_ADD_SCALAR) {
    if (x.deg != 0 || x.factor != 0 || x.moved != 0) return false;
    p = x;
  } else {
    return false;
  }
  return *out = settled(p), true;
}

// A sum over letters keeps the power if m does not have these letters.
static bool summed(const struct kern *k, const struct kern_value *v, struct power x)
{
  return is_free(&x) || (only_deg(&x) && !(v->folded & ~k->loops & k->v[x.of].axes));
}

static bool rescaled(const struct kern *k, const struct kern_value *v, struct power x, struct power f)
{
  if (is_free(&f) || is_free(&x)) return false; // not rescaled by a change of m
  return x.of == f.of && f.factor != 0 && f.deg == 0 && x.deg == -f.factor && summed(k, v, x);
}

static bool multiplied(const struct kern *k, const struct kern_value *v, struct power x, struct power y, struct power *out)
{
  return two(OP_MUL, x, y, out) && summed(k, v, *out);
}

static bool one_value(const struct kern *k, struct power *p, int i)
{
  const struct kern_value *v = &k->v[i];
  struct power x = v->nin ? p[v->in[0]] : FREE, y = v->nin > 1 ? p[v->in[1]] : FREE;
  p[i] = FREE;
  if (v->kind == KERN_RUN_MAX) return p[i] = (struct power){.of = v->in[0], .add = 1}, is_free(&x);
  if (v->kind == KERN_RUN_MOVE) return p[i] = (struct power){.of = v->in[0], .moved = 1}, is_free(&x);
  if (v->kind == KERN_RESCALE) return rescaled(k, v, x, y);
  if (is_free(&x) && is_free(&y)) return true;
  if (v->kind == KERN_MAP) return v->nin == 2 ? two(v->op, x, y, &p[i]) : one(v, x, &p[i]);
  if (v->kind == KERN_PRODUCT && !(v->folded & k->loops)) return multiplied(k, v, x, y, &p[i]);
  p[i] = x;
  return v->kind == KERN_SPREAD || (v->kind == KERN_SUM && !(v->folded & k->loops) && summed(k, v, x));
}

bool rule_may_run(const struct kern *k)
{
  struct power *p = NEWS(k->mem, struct power, k->nvalues + 1);
  for (int i = 0; i < k->nvalues; i++)
    if (k->v[i].live && !one_value(k, p, i)) return false;
  return true;
}

bool rule_running(struct kern *k, const struct kern_value *v, int *out)
{
  if (v->kind == KERN_RUN_MAX) return *out = kern_fold(k, KERN_MAX, v->in[0], v->folded, v->about), true;
  if (v->kind == KERN_RUN_MOVE) return *out = kern_const(k, 0, v->about), true;
  return v->kind == KERN_RESCALE && (*out = kern_fold(k, KERN_SUM, v->in[0], v->folded, v->about), true);
}

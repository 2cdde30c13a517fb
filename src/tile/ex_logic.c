// Minima, bits, comparisons and truth values. A comparison is built from the difference of its sides. If the difference's range decides it, it is a
// constant. Otherwise negative terms are moved to the left and positive ones to the right, divided by the coefficients' common divisor.
#include "tile/ex_pool.h"

// ---- lower bounds ----

// A lower bound of x that its range alone does not give: one term k * t is replaced by a smaller expression. x mod d is less than d, and min(a, b) is
// at most a and at most b; these matter if d, a and b are symbols that cancel.
static int looser(struct ex_pool *p, ex t, int64_t k, ex bound[2])
{
  const struct ex_node *n = ex_node(p, t);
  if (k < 0 && n->kind == EX_MOD && !ex_is_const(n->arg[1])) return bound[0] = ex_sub(p, n->arg[1], EX_C(1)), 1;
  if ((k < 0 && n->kind == EX_MIN) || (k > 0 && n->kind == EX_MAX)) return bound[0] = n->arg[0], bound[1] = n->arg[1], 2;
  return 0;
}

static bool positive(struct ex_pool *p, ex x, int depth)
{
  struct terms s;
  struct mono m;
  ex bound[2];
  if (ex_range(p, x).lo >= 1) return true;
  if (ex_range(p, x).hi < 1 || depth == 0) return false;
  terms_of(p, x, &s);
  for (int i = 0; i < s.n; i++) {
    mono_of(p, s.t[i], s.k[i], &m);
    for (int j = 0; j < m.n; j++) {
      struct mono rest = m;
      for (int r = j; r + 1 < m.n; r++) rest.f[r] = rest.f[r + 1];
      rest.n--, rest.k = 1;
      ex factor = mono_done(p, &rest);
      if (ex_range(p, factor).lo < 0) continue;
      int bounds = looser(p, m.f[j], s.k[i], bound);
      for (int b = 0; b < bounds; b++) {
        ex change = ex_mul(p, ex_mul(p, EX_C(s.k[i]), factor), ex_sub(p, bound[b], m.f[j]));
        if (positive(p, ex_add(p, x, change), depth - 1)) return true;
      }
    }
  }
  return false;
}

bool ex_positive(struct ex_pool *p, ex x) { return positive(p, x, 3); }

bool ex_true(struct ex_pool *p, ex cond)
{
  (void)p;
  struct ex_range r = ex_range(p, cond);
  return r.lo > 0 || r.hi < 0;
}

// ---- minima ----

static bool at_most(struct ex_pool *p, ex a, ex b) { return ex_range(p, ex_sub(p, b, a)).lo >= 0; }
static ex pair(struct ex_pool *p, enum ex_kind kind, ex a, ex b) { return ex_make2(p, kind, MIN(a, b), MAX(a, b)); }

ex ex_min(struct ex_pool *p, ex a, ex b)
{
  if (!((a | b) & 1)) return MIN(a, b);
  if (at_most(p, a, b)) return a;
  return at_most(p, b, a) ? b : pair(p, EX_MIN, a, b);
}

ex ex_max(struct ex_pool *p, ex a, ex b)
{
  if (!((a | b) & 1)) return MAX(a, b);
  if (at_most(p, a, b)) return b;
  return at_most(p, b, a) ? a : pair(p, EX_MAX, a, b);
}

// ---- bits ----

// x & mask as remainder and quotient, for a mask of consecutive ones, so that sums simplify.
static bool run_of_ones(int64_t mask, int64_t *low, int64_t *ones)
{
  if (mask <= 0) return false;
  *low = mask & -mask, *ones = mask / *low + 1;
  return (*ones & (*ones - 1)) == 0;
}

ex ex_bits(struct ex_pool *p, ex a, ex b)
{
  int64_t low, ones;
  if (!((a | b) & 1)) return a & b;
  if (a == b) return a;
  if (!a || !b) return EX_C(0);
  if (ex_is_const(a)) return ex_bits(p, b, a);
  if (ex_is_const(b) && run_of_ones(ex_value(b), &low, &ones)) return ex_mul(p, ex_mod(p, ex_div(p, a, EX_C(low)), EX_C(ones)), EX_C(low));
  return pair(p, EX_AND, a, b);
}

ex ex_xor(struct ex_pool *p, ex a, ex b)
{
  if (!((a | b) & 1)) return a ^ b;
  if (a == b) return EX_C(0);
  if (!a || !b) return a ? a : b;
  return pair(p, EX_XOR, a, b);
}

ex ex_shr(struct ex_pool *p, ex a, ex b)
{
  if (!ex_is_const(b)) return ex_make2(p, EX_SHR, a, b);
  int64_t n = ex_value(b);
  if (n < 0) return p->overflow = true, EX_C(0);
  if (ex_is_const(a)) return EX_C(ex_value(a) >> MIN(n, 63));
  return n < 62 ? ex_div(p, a, EX_C((int64_t)1 << n)) : ex_make2(p, EX_SHR, a, b);
}

// ---- comparisons ----

static int64_t common(const struct terms *s)
{
  int64_t g = 0;
  for (int i = 0; i < s->n; i++) g = ex_gcd(g, s->k[i]);
  return g;
}

static void sides(struct ex_pool *p, const struct terms *s, ex *negative, ex *positive_side)
{
  struct terms side[2];
  for (int which = 0; which < 2; which++) {
    side[which].n = 0, side[which].c = 0;
    int64_t sign = which ? 1 : -1;
    for (int i = 0; i < s->n; i++)
      if (s->k[i] * sign > 0) terms_add(p, &side[which], s->t[i], s->k[i] * sign);
    if (s->c * sign > 0) terms_const(p, &side[which], s->c * sign);
  }
  *negative = terms_done(p, &side[0]), *positive_side = terms_done(p, &side[1]);
}

ex ex_lt(struct ex_pool *p, ex a, ex b)
{
  if (!((a | b) & 1)) return EX_C(a < b);
  ex d = ex_sub(p, b, a), left, right;
  if (ex_positive(p, d)) return EX_C(1);
  if (ex_range(p, d).hi <= 0 || ex_positive(p, ex_sub(p, EX_C(1), d))) return EX_C(0);
  struct terms s;
  terms_of(p, d, &s);
  int64_t g = common(&s);
  for (int i = 0; i < s.n; i++) s.k[i] /= g;
  s.c = ex_floor(s.c - 1, g) + 1; // g * x + c > 0 is x + (c - 1) / g + 1 > 0
  sides(p, &s, &left, &right);
  return ex_make2(p, EX_LT, left, right);
}

ex ex_le(struct ex_pool *p, ex a, ex b) { return ex_lt(p, a, ex_add(p, b, EX_C(1))); }

ex ex_eq(struct ex_pool *p, ex a, ex b)
{
  if (!((a | b) & 1)) return EX_C(a == b);
  ex d = ex_sub(p, a, b), left, right;
  if (ex_is_const(d)) return EX_C(d == EX_C(0));
  if (ex_positive(p, d) || ex_positive(p, ex_sub(p, EX_C(0), d))) return EX_C(0);
  struct terms s;
  terms_of(p, d, &s);
  int64_t g = 0, sign = s.k[0] < 0 ? -1 : 1;
  for (int i = 0; i < s.n; i++) {
    int64_t multiple = ex_multiple(p, s.t[i]), k = s.k[i], both;
    g = ex_gcd(g, __builtin_mul_overflow(k, multiple, &both) ? k : both);
  }
  if (g && s.c % g) return EX_C(0);
  g = ex_gcd(common(&s), s.c);
  for (int i = 0; i < s.n; i++) s.k[i] = s.k[i] / g * sign;
  s.c = s.c / g * sign;
  sides(p, &s, &right, &left);
  return ex_make2(p, EX_EQ, left, right);
}

// ---- truth ----

static ex truth(struct ex_pool *p, ex x)
{
  struct ex_range r = ex_range(p, x);
  if (ex_is_const(x)) return EX_C(x != 0);
  if (r.lo >= 0 && r.hi <= 1) return x;
  return r.lo > 0 || r.hi < 0 ? EX_C(1) : ex_not(p, ex_eq(p, x, EX_C(0)));
}

ex ex_not(struct ex_pool *p, ex a)
{
  a = truth(p, a);
  if (ex_is(p, a, EX_LT)) return ex_le(p, ex_node(p, a)->arg[1], ex_node(p, a)->arg[0]);
  return ex_sub(p, EX_C(1), a);
}

ex ex_both(struct ex_pool *p, ex a, ex b)
{
  a = truth(p, a), b = truth(p, b);
  if (!a || !b) return EX_C(0);
  if (ex_is_const(a) || a == b) return b;
  return ex_is_const(b) ? a : pair(p, EX_BOTH, a, b);
}

ex ex_either(struct ex_pool *p, ex a, ex b)
{
  a = truth(p, a), b = truth(p, b);
  if (a == EX_C(1) || b == EX_C(1)) return EX_C(1);
  if (ex_is_const(a) || a == b) return b;
  return ex_is_const(b) ? a : pair(p, EX_EITHER, a, b);
}

ex ex_select(struct ex_pool *p, ex c, ex a, ex b)
{
  c = truth(p, c);
  if (ex_is_const(c)) return c ? a : b;
  return a == b ? a : ex_make(p, EX_SELECT, 3, (ex[]){c, a, b}, NULL, 0);
}

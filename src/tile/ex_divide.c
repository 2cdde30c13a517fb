// Quotients and remainders by a positive divisor d, which may be a symbol. A sum is split: terms that d divides leave
// at once. If g divides d and some of the remaining terms, and the other terms together lie in [0, g), then those
// vanish from the quotient and leave a remainder unchanged. A quotient of a quotient is one; a remainder modulo a
// multiple of d is taken first; the quotient of a remainder is the remainder of a quotient.
#include "tile/ex_pool.h"

#include <string.h>

// Whether 0 <= x < d is proved.
static bool within(struct ex_pool *p, ex x, ex d)
{
  struct ex_range r = ex_range(p, x);
  if (r.lo < 0) return false;
  return ex_is_const(d) ? r.hi < ex_value(d) : ex_positive(p, ex_sub(p, d, x));
}

static bool same_quotient(struct ex_range r, int64_t d, int64_t *q)
{
  if (r.lo == -EX_INF || r.hi == EX_INF) return false;
  *q = ex_floor(r.lo, d);
  return *q == ex_floor(r.hi, d);
}

// Simplifies a quotient, and a remainder modulo a multiple of d.
static bool nested(struct ex_pool *p, ex a, ex d, ex *out)
{
  int64_t both = 0;
  if (!ex_is(p, a, EX_DIV) && !ex_is(p, a, EX_MOD)) return false;
  ex x = ex_node(p, a)->arg[0], by = ex_node(p, a)->arg[1];
  if (ex_is(p, a, EX_DIV)) {
    bool numbers = ex_is_const(by) && ex_is_const(d);
    if (numbers && (__builtin_mul_overflow(ex_value(by), ex_value(d), &both) || both >= EX_BIG)) return false;
    return *out = ex_div(p, x, ex_mul(p, by, d)), true;
  }
  if (!ex_divides(p, d, by)) return false;
  return *out = ex_mod(p, ex_div(p, x, d), ex_div(p, by, d)), true;
}

static ex atom_div(struct ex_pool *p, ex t, ex d)
{
  ex out;
  return d == EX_C(1) ? t : nested(p, t, d, &out) ? out : ex_make2(p, EX_DIV, t, d);
}

// Separates k * t / d where d divides the known multiples of a factor: (128 | M) gives N * (M / 128).
static ex by_multiple(struct ex_pool *p, ex t, int64_t k, int64_t d)
{
  struct mono m;
  int64_t g = ex_gcd(k, d);
  k /= g, d /= g;
  mono_of(p, t, k, &m);
  for (int i = 0; i < m.n && m.n > 1; i++) {
    if (ex_multiple(p, m.f[i]) % d) continue;
    ex part = atom_div(p, m.f[i], EX_C(d));
    memmove(m.f + i, m.f + i + 1, (size_t)(m.n - i - 1) * sizeof *m.f);
    m.n--;
    return ex_mul(p, mono_done(p, &m), part);
  }
  return ex_mul(p, EX_C(k), atom_div(p, t, EX_C(d)));
}

// a = d * quotient + rest, for a number d.
static void split_number(struct ex_pool *p, const struct terms *a, int64_t d, struct terms *quotient, struct terms *rest)
{
  int64_t whole = ex_floor(a->c, d);
  terms_const(p, quotient, whole);
  terms_const(p, rest, a->c - whole * d);
  for (int i = 0; i < a->n; i++) {
    int64_t k = a->k[i], multiple = ex_gcd(ex_multiple(p, a->t[i]), d);
    if (k % d && (__int128)(k % d) * multiple % d == 0) {
      terms_add(p, quotient, by_multiple(p, a->t[i], k, d), 1);
    } else {
      terms_add(p, quotient, a->t[i], k / d);
      terms_add(p, rest, a->t[i], k % d);
    }
  }
}

static void split_term(struct ex_pool *p, const struct terms *a, const struct mono *d, struct terms *quotient, struct terms *rest)
{
  struct mono m, q;
  terms_const(p, rest, a->c);
  for (int i = 0; i < a->n; i++) {
    mono_of(p, a->t[i], a->k[i], &m);
    if (mono_divide(&m, d, &q))
      terms_add(p, quotient, mono_done(p, &q), 1);
    else
      terms_add(p, rest, a->t[i], a->k[i]);
  }
}

// Division by a sum: subtracts q * d, with q from the first term that has one, as long as the number of terms falls.
static void split_sum(struct ex_pool *p, const struct terms *a, ex d, struct terms *quotient, struct terms *rest)
{
  const struct ex_node *n = ex_node(p, d);
  struct mono lead, m, q;
  mono_of(p, n->arg[0], n->coef[0], &lead);
  *rest = *a;
  for (int i = 0; i < rest->n; i++) {
    mono_of(p, rest->t[i], rest->k[i], &m);
    if (!mono_divide(&m, &lead, &q)) continue;
    ex factor = mono_done(p, &q);
    struct terms less = *rest;
    terms_add(p, &less, ex_mul(p, factor, d), -1);
    if (less.n >= rest->n) continue;
    terms_add(p, quotient, factor, 1);
    *rest = less, i = -1;
  }
}

static bool split(struct ex_pool *p, const struct terms *a, ex d, struct terms *quotient, struct terms *rest)
{
  struct mono m;
  quotient->n = rest->n = 0, quotient->c = rest->c = 0;
  if (ex_is_const(d))
    split_number(p, a, ex_value(d), quotient, rest);
  else if (mono_of_ex(p, d, &m))
    split_term(p, a, &m, quotient, rest);
  else
    split_sum(p, a, d, quotient, rest);
  return quotient->n || quotient->c;
}

// Splits the terms of a: those that g divides go to high, the others to low, where low is in [0, g). Known multiples count if g is a number.
static bool part(struct ex_pool *p, const struct terms *a, const struct mono *g, struct terms *high, struct terms *low)
{
  struct mono m, q;
  high->n = low->n = 0, high->c = low->c = 0;
  for (int i = 0; i < a->n; i++) {
    mono_of(p, a->t[i], a->k[i], &m);
    bool divides = mono_divide(&m, g, &q);
    if (!g->n) divides = (__int128)m.k * ex_gcd(ex_multiple(p, a->t[i]), g->k) % g->k == 0;
    terms_add(p, divides ? high : low, a->t[i], a->k[i]);
  }
  int64_t q0 = 0, lowest = a->c;
  if (!g->n) q0 = ex_floor(a->c, g->k), lowest = a->c - q0 * g->k;
  terms_const(p, low, lowest);
  if (g->n) return within(p, terms_done(p, low), mono_done(p, g));
  int64_t q1;
  if (!same_quotient(ex_range(p, terms_done(p, low)), g->k, &q1)) return false;
  terms_const(p, low, -(__int128)q1 * g->k);
  terms_const(p, high, (__int128)(q0 + q1) * g->k);
  return high->n > 0;
}

// A divisor g > 1 of d and of some terms of a, such that the others are in [0, g).
static bool vanishing(struct ex_pool *p, const struct terms *a, ex d, struct terms *high, struct terms *low)
{
  struct mono dm, m, g;
  if (!mono_of_ex(p, d, &dm)) return false;
  for (int i = 0; i < a->n; i++) {
    mono_of(p, a->t[i], a->k[i], &m);
    if (!dm.n) m.k = ex_gcd(dm.k, m.k), m.k = ex_gcd(dm.k, m.k * ex_gcd(dm.k / m.k, ex_multiple(p, a->t[i])));
    mono_gcd(&dm, &m, &g);
    if (!g.n && g.k == 1) continue;
    if (part(p, a, &g, high, low) && (low->n || low->c)) return true;
  }
  return false;
}

// The largest divisor of d that divides the coefficients of all terms (the constant too, unless d is a number).
static bool common(struct ex_pool *p, const struct terms *a, ex d, struct mono *g)
{
  struct mono m;
  if (!mono_of_ex(p, d, g)) return false;
  for (int i = 0; i < a->n; i++) {
    struct mono old = *g;
    mono_of(p, a->t[i], a->k[i], &m);
    mono_gcd(&old, &m, g);
  }
  if (!ex_is_const(d) && a->c) g->k = ex_gcd(g->k, a->c), g->n = 0;
  return g->n || g->k > 1;
}

static ex reduced(struct ex_pool *p, const struct terms *a, const struct mono *g) // floor(a / g); g divides the terms
{
  struct terms s = {0};
  struct mono m, q;
  for (int i = 0; i < a->n; i++) {
    mono_of(p, a->t[i], a->k[i], &m);
    if (mono_divide(&m, g, &q)) terms_add(p, &s, mono_done(p, &q), 1);
  }
  terms_const(p, &s, a->c ? ex_floor(a->c, g->k) : 0);
  return terms_done(p, &s);
}

static ex quotient_of(struct ex_pool *p, ex d, const struct mono *g)
{
  struct mono m, q;
  CHECK(mono_of_ex(p, d, &m) && mono_divide(&m, g, &q));
  return mono_done(p, &q);
}

static bool allowed(struct ex_pool *p, ex d) // a constant divisor that is not positive is an error of the input
{
  if (!ex_is_const(d) || ex_value(d) > 0) return true;
  return p->overflow = true, false;
}

static ex rest_div(struct ex_pool *p, struct terms *s, ex rest, ex d)
{
  struct terms high, low;
  struct mono g;
  if (vanishing(p, s, d, &high, &low)) return ex_div(p, terms_done(p, &high), d);
  if (common(p, s, d, &g)) return ex_div(p, reduced(p, s, &g), quotient_of(p, d, &g));
  return ex_make2(p, EX_DIV, rest, d);
}

ex ex_div(struct ex_pool *p, ex a, ex d)
{
  if (!((a | d) & 1) && d > 0) return EX_C(ex_floor(a, d)); // of 2a by 2d
  int64_t q;
  ex out;
  struct terms s, quotient, rest;
  if (!allowed(p, d)) return EX_C(0);
  if (d == EX_C(1) || !a) return a;
  if (a == d) return EX_C(1);
  if (within(p, a, d)) return EX_C(0);
  if (ex_is_const(d) && same_quotient(ex_range(p, a), ex_value(d), &q)) return EX_C(q);
  if (nested(p, a, d, &out)) return out;
  terms_of(p, a, &s);
  if (split(p, &s, d, &quotient, &rest)) return ex_add(p, terms_done(p, &quotient), ex_div(p, terms_done(p, &rest), d));
  if (ex_range(p, a).hi < 0 && within(p, ex_add(p, a, d), d)) return EX_C(-1);
  return rest_div(p, &s, a, d);
}

// Replaces terms k * (y mod d) with d | k * m by k * y. Returns whether there was one.
static bool unwrap(struct ex_pool *p, struct terms *s, ex d)
{
  for (int i = 0; i < s->n; i++) {
    if (!ex_is(p, s->t[i], EX_MOD)) continue;
    const struct ex_node *n = ex_node(p, s->t[i]);
    if (!ex_divides(p, d, ex_mul(p, EX_C(s->k[i]), n->arg[1]))) continue;
    int64_t k = s->k[i];
    terms_add(p, s, s->t[i], -k);
    terms_add(p, s, n->arg[0], k);
    return true;
  }
  return false;
}

static ex rest_mod(struct ex_pool *p, struct terms *s, ex rest, ex d)
{
  struct terms high, low;
  struct mono g;
  if (vanishing(p, s, d, &high, &low)) return ex_add(p, ex_mod(p, terms_done(p, &high), d), terms_done(p, &low));
  if (common(p, s, d, &g)) {
    int64_t more = ex_is_const(d) ? s->c - ex_floor(s->c, g.k) * g.k : 0;
    ex scaled = ex_mul(p, mono_done(p, &g), ex_mod(p, reduced(p, s, &g), quotient_of(p, d, &g)));
    return ex_add(p, scaled, EX_C(more));
  }
  return ex_make2(p, EX_MOD, rest, d);
}

ex ex_mod(struct ex_pool *p, ex a, ex d)
{
  if (!((a | d) & 1) && d > 0) return a % d + (a % d < 0 ? d : 0); // of 2a by 2d
  int64_t q;
  struct terms s, quotient, rest;
  if (!allowed(p, d)) return EX_C(0);
  if (d == EX_C(1) || a == d) return EX_C(0);
  if (within(p, a, d)) return a;
  if (ex_is_const(d) && same_quotient(ex_range(p, a), ex_value(d), &q)) return ex_sub(p, a, ex_mul(p, EX_C(q), d));
  if (ex_is(p, a, EX_MOD) && ex_divides(p, d, ex_node(p, a)->arg[1])) return ex_mod(p, ex_node(p, a)->arg[0], d);
  terms_of(p, a, &s);
  if (split(p, &s, d, &quotient, &rest)) return ex_mod(p, terms_done(p, &rest), d);
  if (unwrap(p, &s, d)) return ex_mod(p, terms_done(p, &s), d);
  if (ex_range(p, a).hi < 0 && within(p, ex_add(p, a, d), d)) return ex_add(p, a, d);
  return rest_mod(p, &s, a, d);
}

ex ex_ceil_div(struct ex_pool *p, ex a, ex d) { return ex_div(p, ex_add(p, a, ex_sub(p, d, EX_C(1))), d); }

bool ex_divides(struct ex_pool *p, ex d, ex x)
{
  if (x == EX_C(0) || d == EX_C(1) || x == d) return true;
  if (ex_range(p, d).lo < 1) return false;
  if (ex_is_const(d) && ex_multiple(p, x) % ex_value(d) == 0) return true;
  return !ex_is_const(x) || !ex_is_const(d) ? ex_mod(p, x, d) == EX_C(0) : false;
}

// Roots and logarithms of forms, by the factors of c * content * rest. Both use the absolute value, so they are defined for all numbers. The root
// (logarithm) of a product is the product (sum) of the roots (logarithms) of its factors. A term becomes such a form only where the meaning is the
// same. Factors of unknown sign stay inside together, since only their product is known to be nonnegative: sqrt(x y)^2 is x y.
//
// A positive number is split into powers of primes.
#include "verify/prove.h"

enum { MOST_PRIMES = 64, MOST_TRIED = 4096 };

static const struct ratio ONE = {1, 1};

// ---- numbers ----

struct prime { // a prime, or the remainder after removing small primes
  whole p;
  int e;
};

static int divide_out(struct prime *list, int n, whole x, int sign)
{
  for (whole i = 2; i <= MOST_TRIED && i * i <= x; i++) {
    int e = 0;
    for (; x % i == 0; x /= i) e += sign;
    if (e) list[n++] = (struct prime){i, e};
  }
  if (x > 1) list[n++] = (struct prime){x, sign};
  return n;
}

// No number below 2^127 has more than 25 different primes.
static int primes(struct prime *list, struct ratio c) { return divide_out(list, divide_out(list, 0, c.n, 1), c.d, -1); }

static void number_root(struct prover *p, struct monomial *m, struct ratio c, struct ratio e)
{
  struct prime list[MOST_PRIMES];
  int n = primes(list, c);
  for (int i = 0; i < n && !p->why; i++) {
    struct ratio x = {list[i].p, 1}, power = ratio_mul(p, (struct ratio){list[i].e, 1}, e);
    whole floor = ratio_floor(power);
    struct form *f = form_constant(p, x);
    if (f) monomial_base(p, m, f, false, ratio_add(p, power, (struct ratio){-floor, 1}));
    for (whole k = 0; k < (floor < 0 ? -floor : floor) && !p->why; k++) m->c = ratio_mul(p, m->c, floor < 0 ? ratio_inverse(x) : x);
  }
}

// ---- factors that can be moved out ----

struct outside {
  struct prover *p;
  struct split s;
  bool strict;            // all factors moved out are positive, or no factor stays inside
  int inside;             // number of factors that stay inside
  const struct form *why; // a factor that stays inside
};

static enum sign content_sign(struct outside *o, int i) { return factor_sign(o->p, &o->s.content.f[i]); }
static bool leaves(const struct outside *o, enum sign s) { return s == POSITIVE || (s && !o->strict); }

static bool split_outside(struct prover *p, const struct form *f, bool strict, struct outside *o)
{
  *o = (struct outside){.p = p, .strict = strict};
  if (!form_split(p, f, &o->s)) return false;
  bool all = o->s.c.n > 0 && (form_is_one(o->s.rest) || o->s.rest->sign);
  for (int i = 0; i < o->s.content.nfactors && all; i++) all = content_sign(o, i) != ANY_SIGN;
  if (all) o->strict = false;
  for (int i = 0; i < o->s.content.nfactors; i++) {
    if (leaves(o, content_sign(o, i))) continue;
    const struct factor *x = &o->s.content.f[i];
    o->inside++, o->why = x->e.d == 1 && x->e.n % 2 ? form_alone(p, x->a) : NULL;
  }
  if (!form_is_one(o->s.rest) && !leaves(o, o->s.rest->sign)) o->inside++, o->why = o->s.rest;
  // If a factor stays inside, no factor moved out is 0. So a single factor inside has the sign of the whole form, which is not negative.
  if (o->inside == 1 && o->s.c.n > 0 && o->why && !p->why) form_assert(p, o->why);
  return !p->why;
}

// The form that stays inside: the sign of c, factors of the content, and the rest.
static const struct form *inside(struct outside *o)
{
  struct prover *p = o->p;
  struct monomial m = monomial_one((struct ratio){o->s.c.n > 0 ? 1 : -1, 1});
  bool rest = !leaves(o, o->s.rest->sign);
  for (int i = 0; i < o->s.content.nfactors; i++)
    if (!leaves(o, content_sign(o, i))) monomial_factor(p, &m, o->s.content.f[i].a, o->s.content.f[i].e);
  struct form *f = form_finish(p, &m);
  if (f && rest) f = form_mul(p, f, o->s.rest);
  if (f) f->sign = NONNEGATIVE;
  return f;
}

// ---- roots ----

struct form *form_root(struct prover *p, const struct form *f, struct ratio e)
{
  struct outside o;
  if (!f || !f->n) return f ? form_constant(p, (struct ratio){0, 1}) : NULL;
  if (!split_outside(p, f, true, &o)) return NULL;
  struct monomial m = monomial_one(ONE);
  number_root(p, &m, ratio_abs(o.s.c), e);
  bool rest_outside = leaves(&o, o.s.rest->sign), only_rest = o.inside == 1 && !rest_outside && o.s.c.n > 0;
  if (rest_outside || only_rest) monomial_base(p, &m, o.s.rest, true, e);
  if (!only_rest && (o.inside || o.s.c.n < 0)) {
    const struct form *in = inside(&o);
    if (in) monomial_base(p, &m, in, false, e);
  }
  struct form *r = form_finish(p, &m);
  for (int i = 0; i < o.s.content.nfactors && r; i++)
    if (leaves(&o, content_sign(&o, i))) r = form_mul(p, r, factor_abs_root(p, &o.s.content.f[i], e));
  if (r) r->sign = f->sign == POSITIVE ? POSITIVE : NONNEGATIVE;
  return r;
}

// ---- logarithms ----

static struct form *log_atom(struct prover *p, const struct form *x)
{
  return x ? form_atom(p, (struct atom){.kind = ATOM_LOG, .f = {x}}, ONE) : NULL;
}

static struct form *factor_log(struct prover *p, const struct factor *x)
{
  if (x->a->kind == ATOM_EXP) return form_scale(p, x->a->f[0], x->e);
  bool bars = x->e.d == 1 && !atom_sign(p, x->a);
  const struct form *of = bars ? factor_abs(p, &(struct factor){x->a, ONE}) : form_alone(p, x->a);
  of = log_atom(p, of);
  return of ? form_scale(p, of, x->e) : NULL;
}

struct form *form_log(struct prover *p, const struct form *f)
{
  struct outside o;
  struct prime list[MOST_PRIMES];
  struct form *r = form_constant(p, (struct ratio){0, 1});
  if (!f) return NULL;
  if (!f->n) return prove_give_up(p, "a logarithm of zero");
  if (!split_outside(p, f, false, &o)) return NULL;
  int n = primes(list, ratio_abs(o.s.c));
  for (int i = 0; i < n && !p->why; i++) {
    const struct form *x = log_atom(p, form_constant(p, (struct ratio){list[i].p, 1}));
    r = form_add(p, r, x ? form_scale(p, x, (struct ratio){list[i].e, 1}) : NULL);
  }
  for (int i = 0; i < o.s.content.nfactors && !p->why; i++)
    if (leaves(&o, content_sign(&o, i))) r = form_add(p, r, factor_log(p, &o.s.content.f[i]));
  if (leaves(&o, o.s.rest->sign) && !form_is_one(o.s.rest)) r = form_add(p, r, log_atom(p, o.s.rest));
  if (o.inside || o.s.c.n < 0) r = form_add(p, r, log_atom(p, inside(&o)));
  return p->why ? NULL : r;
}

// Quotients and exponentials of forms.
//
// A form is split into a number, its content (powers of atoms that divide every monomial and depend on no bound digit) and the rest, whose leading
// coefficient is 1: f = c * content * rest. So 1/f is 1/c * 1/content * base(rest)^-1, and forms that differ by a factor share their base.
#include "verify/prove.h"

enum { MOST_ROUNDS = 100, MOST_POWER = 16, STEP = 16 }; // STEP: monomials that are visited for one step of work

static const struct ratio ONE_RATIO = {1, 1};

// The least exponent of a over all monomials of f; 0 if a monomial binds a digit of a.
static struct ratio least(struct prover *p, const struct form *f, const struct atom *a)
{
  struct ratio least = {0, 1};
  for (int i = 0; i < f->n; i++) {
    struct ratio e = {0, 1};
    for (int k = 0; k < f->m[i].nfactors && !monomial_binds(&f->m[i], a); k++)
      if (f->m[i].f[k].a->hash == a->hash && atom_same(p, f->m[i].f[k].a, a)) e = f->m[i].f[k].e;
    if (!i || ratio_order(p, e, least) < 0) least = e;
  }
  return least;
}

struct form *form_times(struct prover *p, const struct form *f, const struct atom *a, struct ratio e)
{
  struct monomial m = monomial_one(ONE_RATIO);
  monomial_factor(p, &m, a, e);
  return form_mul(p, f, &(struct form){.n = 1, .m = &m});
}

// The part of exponent e whose power of a is never negative.
static struct ratio nonnegative_part(struct prover *p, const struct atom *a, struct ratio e)
{
  if (!e.n || factor_sign(p, &(struct factor){a, e})) return e;
  return (struct ratio){e.n - e.n % 2, 1};
}

bool form_common(struct prover *p, const struct form *f, enum common which, struct factor *out)
{
  for (int i = 0; i < f->n; i++)
    for (int k = 0; k < f->m[i].nfactors; k++) {
      const struct atom *a = f->m[i].f[k].a;
      bool below = f->m[i].f[k].e.n < 0 && (which != COMMON_DENOMINATORS || a->kind == ATOM_BASE);
      bool common = !i && which != COMMON_DENOMINATORS;
      if ((!common && !below) || monomial_binds(&f->m[i], a) || !prove_step(p)) continue;
      struct ratio e = least(p, f, a);
      p->steps += f->n / STEP;
      if (which == COMMON_NONNEGATIVE) e = nonnegative_part(p, a, e);
      if (!e.n || (which == COMMON_DENOMINATORS && e.n > 0)) continue;
      return *out = (struct factor){a, {-e.n, e.d}}, true;
    }
  return false;
}

// Moves the common factors of this kind from f to the content.
static const struct form *extract(struct prover *p, const struct form *f, enum common which, struct monomial *content)
{
  struct factor x;
  for (int round = 0; f && form_common(p, f, which, &x); round++) {
    if (round == MOST_ROUNDS) return prove_give_up(p, "a quotient that could not be simplified within the step limit");
    monomial_factor(p, content, x.a, (struct ratio){-x.e.n, x.e.d});
    f = form_times(p, f, x.a, x.e);
  }
  return f;
}

bool form_is_one(const struct form *f) { return f->n == 1 && !f->m[0].nfactors && !f->m[0].nbound && ratio_is(f->m[0].c, 1); }

static bool leads(struct prover *p, const struct monomial *x, const struct monomial *y)
{
  const uint64_t a = monomial_outline(x), b = monomial_outline(y);
  if (a != b) return a < b;
  return x->hash != y->hash ? x->hash < y->hash : ratio_order(p, x->c, y->c) < 0;
}

// The coefficient of the monomial with the least outline. Splitting or joining digits later changes hashes but no outline.
struct ratio form_lead(struct prover *p, const struct form *f)
{
  const struct monomial *lead = &f->m[0];
  for (const struct monomial *m = f->m; m < f->m + f->n; m++)
    if (leads(p, m, lead)) lead = m;
  return lead->c;
}

bool form_split(struct prover *p, const struct form *f, struct split *s)
{
  *s = (struct split){ONE_RATIO, monomial_one(ONE_RATIO), NULL};
  const struct form *g = extract(p, f, COMMON, &s->content);
  if (!g || !g->n) return prove_give_up(p, "a denominator is zero");
  s->c = form_lead(p, g);
  struct form *rest = form_scale(p, g, ratio_inverse(s->c));
  if (!rest) return false;
  rest->sign = s->c.n > 0 ? f->sign : ANY_SIGN;
  for (int i = 0; i < s->content.nfactors; i++)
    if (factor_sign(p, &s->content.f[i]) != POSITIVE) rest->sign = ANY_SIGN;
  rest->sign = form_sign(p, rest);
  return s->rest = rest, !p->why;
}

void monomial_base(struct prover *p, struct monomial *m, const struct form *f, bool primitive, struct ratio e)
{
  if (form_is_one(f)) return;
  struct atom a = {.kind = ATOM_BASE, .f = {f}, .sign = f->sign, .primitive = primitive};
  monomial_factor(p, m, atom_make(p, a), e);
}

struct form *form_inverse(struct prover *p, const struct form *f)
{
  struct split s;
  if (!f || !form_split(p, f, &s)) return NULL;
  struct monomial m = monomial_one(ratio_inverse(s.c));
  for (int i = 0; i < s.content.nfactors; i++) {
    struct factor x = s.content.f[i];
    monomial_factor(p, &m, x.a, (struct ratio){-x.e.n, x.e.d});
  }
  monomial_base(p, &m, s.rest, true, (struct ratio){-1, 1});
  struct form *r = form_finish(p, &m);
  if (r) r->sign = f->sign ? POSITIVE : ANY_SIGN;
  return r;
}

// exp(c log(x)) is x^c.
static struct form *power_of_log(struct prover *p, const struct monomial *m)
{
  struct ratio c = m->c;
  if (m->nbound || m->nfactors != 1 || m->f[0].a->kind != ATOM_LOG || !ratio_is(m->f[0].e, 1)) return NULL;
  if (ratio_floor(ratio_abs(c)) >= MOST_POWER) return NULL;
  const struct form *x = m->f[0].a->f[0];
  if (c.d == 1) return form_power(p, x, c.n);
  struct form *r = form_root(p, x, ratio_abs(c));
  return c.n < 0 ? form_inverse(p, r) : r;
}

// The product of exp(monomial)^coefficient over all monomials.
struct form *form_exp(struct prover *p, const struct form *f)
{
  struct monomial m = monomial_one(ONE_RATIO);
  struct form *powers = form_constant(p, ONE_RATIO);
  for (int i = 0; f && i < f->n && !p->why; i++) {
    struct form *power = power_of_log(p, &f->m[i]), *one = NEW(p->mem, struct form);
    if (power) powers = form_mul(p, powers, power);
    if (power) continue;
    PUSH(p->mem, one->m, one->n, one->cap) = f->m[i];
    one->m[0].c = ONE_RATIO;
    monomial_factor(p, &m, atom_make(p, (struct atom){.kind = ATOM_EXP, .f = {one}, .sign = POSITIVE}), f->m[i].c);
  }
  struct form *r = f ? form_mul(p, powers, form_finish(p, &m)) : NULL;
  if (r) r->sign = POSITIVE;
  return r;
}

struct form *form_power(struct prover *p, const struct form *f, whole e)
{
  if (e > MOST_POWER || e < -MOST_POWER) return prove_give_up(p, "a power that is too high");
  const struct form *x = e < 0 ? form_inverse(p, f) : f;
  struct form *r = form_constant(p, ONE_RATIO);
  for (whole i = 0; i < (e < 0 ? -e : e); i++) r = form_mul(p, r, x);
  return r;
}

const struct form *form_clear(struct prover *p, const struct form *f)
{
  struct monomial content = monomial_one(ONE_RATIO);
  return extract(p, f, COMMON_DENOMINATORS, &content);
}

// Quotients, roots and exponentials of forms.
//
// A form is split into a number, its content (powers of atoms that divide every monomial and depend on no bound digit)
// and the rest, whose leading coefficient is 1: f = c * content * rest. So 1/f is 1/c * 1/content * base(rest)^-1, and
// forms that differ by a factor share their base. A root lets out only what is positive wherever it is defined: exp,
// named constants, and negative powers of what is never negative; sqrt(x * x) stays a root, since it is not x.
#include "verify/prove.h"

enum { MOST_ROUNDS = 100, MOST_POWER = 16, STEP = 16 }; // STEP: monomials looked at, as work

static const struct ratio ONE_RATIO = {1, 1};

// The least exponent of a in any monomial of f; a monomial that binds a digit of a has none.
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

// f times a power of a, which cancels where f has the opposite power before anything is multiplied out.
static struct form *times(struct prover *p, const struct form *f, const struct atom *a, struct ratio e)
{
  struct monomial m = monomial_one(ONE_RATIO);
  monomial_factor(p, &m, a, e);
  return form_mul(p, f, &(struct form){.n = 1, .m = &m});
}

// One atom of the content: what f has to be multiplied by to be rid of it. What all monomials have the first one has.
static bool next_atom(struct prover *p, const struct form *f, bool denominators, struct factor *out)
{
  for (int i = 0; i < f->n; i++)
    for (int k = 0; k < f->m[i].nfactors; k++) {
      const struct atom *a = f->m[i].f[k].a;
      bool common = !i && !denominators, below = f->m[i].f[k].e.n < 0 && (!denominators || a->kind == ATOM_BASE);
      if ((!common && !below) || monomial_binds(&f->m[i], a) || !prove_step(p)) continue;
      struct ratio e = least(p, f, a);
      p->steps += f->n / STEP;
      if (!e.n || (denominators && e.n > 0)) continue;
      return *out = (struct factor){a, {-e.n, e.d}}, true;
    }
  return false;
}

// Takes the content out of f, or only its denominators.
static const struct form *extract(struct prover *p, const struct form *f, bool denominators, struct monomial *content)
{
  struct factor x;
  for (int round = 0; f && next_atom(p, f, denominators, &x); round++) {
    if (round == MOST_ROUNDS) return prove_give_up(p, "a quotient that does not come to an end");
    monomial_factor(p, content, x.a, (struct ratio){-x.e.n, x.e.d});
    f = times(p, f, x.a, x.e);
  }
  return f;
}

// Is a power of an atom positive wherever it is defined?
static bool positive(const struct factor *f)
{
  if (f->a->kind == ATOM_EXP || f->a->kind == ATOM_CONSTANT) return true;
  return f->e.n < 0 && (f->a->nonneg || f->e.d % 2 == 0);
}

struct split {
  struct ratio c;
  struct monomial content;
  const struct form *rest;
};

static bool is_one(const struct form *f)
{
  return f->n == 1 && !f->m[0].nfactors && !f->m[0].nbound && ratio_is(f->m[0].c, 1);
}

static bool split(struct prover *p, const struct form *f, struct split *s)
{
  *s = (struct split){ONE_RATIO, monomial_one(ONE_RATIO), NULL};
  const struct form *g = extract(p, f, false, &s->content);
  if (!g || !g->n) return prove_give_up(p, "a denominator is zero");
  const struct monomial *lead = &g->m[0];
  for (const struct monomial *m = g->m; m < g->m + g->n; m++)
    if (m->hash < lead->hash || (m->hash == lead->hash && ratio_order(p, m->c, lead->c) < 0)) lead = m;
  s->c = lead->c;
  struct form *rest = form_scale(p, g, ratio_inverse(s->c));
  if (!rest) return false;
  rest->nonneg = f->nonneg && s->c.n > 0;
  for (int i = 0; i < s->content.nfactors; i++) rest->nonneg &= positive(&s->content.f[i]);
  return s->rest = rest, !p->why;
}

static void add_base(struct prover *p, struct monomial *m, const struct form *f, bool primitive, struct ratio e)
{
  if (is_one(f)) return;
  struct atom a = {.kind = ATOM_BASE, .f = {f}, .nonneg = f->nonneg, .primitive = primitive};
  monomial_factor(p, m, atom_make(p, a), e);
}

struct form *form_inverse(struct prover *p, const struct form *f)
{
  struct split s;
  if (!f) return NULL;
  if (!f->n) return prove_give_up(p, "a denominator is zero");
  if (!split(p, f, &s)) return NULL;
  struct monomial m = monomial_one(ratio_inverse(s.c));
  for (int i = 0; i < s.content.nfactors; i++) {
    struct factor x = s.content.f[i];
    monomial_factor(p, &m, x.a, (struct ratio){-x.e.n, x.e.d});
  }
  add_base(p, &m, s.rest, true, (struct ratio){-1, 1});
  struct form *r = form_finish(p, &m);
  if (r) r->nonneg = f->nonneg;
  return r;
}

// The root of a positive number: s / d * sqrt(r) with r free of small squares.
static void root_of_number(struct prover *p, struct monomial *m, struct ratio c)
{
  enum { MOST_TRIED = 4096 };
  whole r, s = 1;
  if (__builtin_mul_overflow(c.n, c.d, &r)) {
    prove_give_up(p, "a coefficient has more than 127 bits");
    return;
  }
  for (whole i = 2; i <= MOST_TRIED && i * i <= r; i++)
    while (r % (i * i) == 0) r /= i * i, s *= i;
  m->c = ratio_mul(p, m->c, ratio_of(p, s, c.d));
  struct form *f = form_constant(p, (struct ratio){r, 1});
  if (f) add_base(p, m, f, false, (struct ratio){1, 2});
}

struct form *form_root(struct prover *p, const struct form *f)
{
  struct split s;
  if (!f || !f->n) return f ? form_constant(p, (struct ratio){0, 1}) : NULL;
  if (!split(p, f, &s)) return NULL;
  bool primitive = s.c.n > 0;
  struct monomial m = monomial_one(ONE_RATIO), inside = monomial_one((struct ratio){primitive ? 1 : -1, 1});
  for (int i = 0; i < s.content.nfactors; i++) {
    struct factor x = s.content.f[i];
    if (positive(&x))
      monomial_factor(p, &m, x.a, ratio_mul(p, x.e, (struct ratio){1, 2}));
    else
      monomial_factor(p, &inside, x.a, x.e), primitive = false;
  }
  root_of_number(p, &m, (struct ratio){s.c.n < 0 ? -s.c.n : s.c.n, s.c.d});
  struct form *rest = primitive ? NULL : form_mul(p, form_finish(p, &inside), s.rest);
  if (rest) rest->nonneg = false;
  if (p->why) return NULL;
  add_base(p, &m, primitive ? s.rest : rest, primitive, (struct ratio){1, 2});
  struct form *r = form_finish(p, &m);
  if (r) r->nonneg = true;
  return r;
}

// The product of exp(monomial)^coefficient.
struct form *form_exp(struct prover *p, const struct form *f)
{
  struct monomial m = monomial_one(ONE_RATIO);
  for (int i = 0; f && i < f->n; i++) {
    struct form *one = NEW(p->mem, struct form);
    PUSH(p->mem, one->m, one->n, one->cap) = f->m[i];
    one->m[0].c = ONE_RATIO;
    monomial_factor(p, &m, atom_make(p, (struct atom){.kind = ATOM_EXP, .f = {one}, .nonneg = true}), f->m[i].c);
  }
  struct form *r = f ? form_finish(p, &m) : NULL;
  if (r) r->nonneg = true;
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
  return extract(p, f, true, &content);
}

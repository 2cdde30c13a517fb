// Maxima and absolute values of forms. A maximum of two is (x + y + |x - y|) / 2, any other one an atom over branches
// without a common factor that is never negative. |x y| is |x| |y|, and bars around what is never negative go.
#include "verify/prove.h"

static const struct ratio ONE = {1, 1}, MINUS_ONE = {-1, 1}, HALF = {1, 2};

// ---- absolute values ----

static const struct form *bars(struct prover *p, const struct form *x)
{
  return form_atom(p, (struct atom){.kind = ATOM_ABS, .f = {x}, .sign = NONNEGATIVE}, ONE);
}

static const struct form *factor_abs(struct prover *p, const struct factor *f)
{
  if (factor_sign(p, f)) return form_factor(p, f->a, f->e);
  const struct form *x = bars(p, form_alone(p, f->a));
  return x ? form_factor(p, x->m[0].f[0].a, f->e) : NULL;
}

const struct form *form_abs(struct prover *p, const struct form *f)
{
  struct split s;
  if (!f || form_sign(p, f)) return f;
  const struct form *opposite = form_scale(p, f, MINUS_ONE);
  if (!opposite || form_sign(p, opposite)) return opposite;
  if (!form_split(p, f, &s)) return NULL;
  const struct form *negative = form_scale(p, s.rest, MINUS_ONE), *rest;
  if (s.rest->sign)
    rest = s.rest;
  else if (negative && form_sign(p, negative))
    rest = negative;
  else
    rest = bars(p, s.rest);
  const struct form *r = form_constant(p, ratio_abs(s.c));
  for (int i = 0; i < s.content.nfactors && r; i++) {
    const struct form *x = factor_abs(p, &s.content.f[i]);
    r = x ? form_mul(p, r, x) : NULL;
  }
  return r && rest ? form_mul(p, r, rest) : NULL;
}

// ---- maxima ----

// All monomials of all branches, each bound by what its branch binds, for finding common factors.
static struct form together(struct prover *p, const struct branches *s)
{
  struct form f = {0};
  for (int i = 0; i < s->n; i++)
    for (int k = 0; k < s->b[i].f->n; k++) {
      struct monomial m = s->b[i].f->m[k];
      struct digits d = {0};
      for (int x = 0; x < m.nbound; x++) digits_add(p, &d, m.bound[x]);
      for (int x = 0; x < s->b[i].n; x++) digits_add(p, &d, s->b[i].digits[x]);
      m.nbound = d.n, m.bound = d.d;
      PUSH(p->mem, f.m, f.n, f.cap) = m;
    }
  return f;
}

// Takes what is common and never negative out of all branches.
static const struct form *common(struct prover *p, struct branches *s)
{
  enum { MOST_ROUNDS = 60 };
  struct monomial out = monomial_one(ONE);
  struct form all = together(p, s);
  struct factor x;
  for (int round = 0; all.n && form_common(p, &all, COMMON_NONNEGATIVE, &x) && round < MOST_ROUNDS; round++) {
    monomial_factor(p, &out, x.a, (struct ratio){-x.e.n, x.e.d});
    for (int i = 0; i < s->n; i++)
      if (!(s->b[i].f = form_times(p, s->b[i].f, x.a, x.e))) return NULL;
    all = together(p, s);
  }
  struct ratio c = all.n ? ratio_abs(form_lead(p, &all)) : ONE;
  out.c = c;
  for (int i = 0; i < s->n; i++)
    if (!(s->b[i].f = form_scale(p, s->b[i].f, ratio_inverse(c)))) return NULL;
  return form_finish(p, &out);
}

static const struct form *maximum_atom(struct prover *p, const struct branches *s)
{
  struct form *all = NEW(p->mem, struct form);
  struct atom a = {.kind = ATOM_MAX, .f = {all}};
  for (int i = 0; i < s->n && !p->why; i++) {
    enum sign sign = form_sign(p, s->b[i].f);
    PUSH(p->mem, all->m, all->n, all->cap) = branch_close(p, &s->b[i]);
    a.sign = MAX(a.sign, sign);
  }
  return p->why ? NULL : form_atom(p, a, ONE);
}

static bool binds(const struct branches *s)
{
  for (int i = 0; i < s->n; i++)
    for (int k = 0; k < s->b[i].f->n; k++)
      if (branch_has(&s->b[i], &s->b[i].f->m[k])) return true;
  return false;
}

const struct form *form_max(struct prover *p, const struct branches *from)
{
  const struct form *shift = form_constant(p, (struct ratio){0, 1}), *r;
  struct branches s = {0};
  for (int i = 0; i < from->n; i++) branch_add(p, &s, from->b[i]);
  if (!shift || !branches_settle(p, &s, &shift)) return NULL;
  if (s.n == 1 && !binds(&s)) return form_add(p, shift, s.b[0].f);
  const struct form *u = common(p, &s);
  if (!u) return NULL;
  if (s.n == 2 && !binds(&s)) {
    const struct form *d = form_abs(p, form_add(p, s.b[0].f, form_scale(p, s.b[1].f, MINUS_ONE)));
    r = d ? form_scale(p, form_add(p, form_add(p, s.b[0].f, s.b[1].f), d), HALF) : NULL;
  } else {
    r = maximum_atom(p, &s);
  }
  return r ? form_add(p, shift, form_mul(p, u, r)) : NULL;
}

const struct form *form_larger(struct prover *p, const struct form *x, const struct form *y)
{
  struct branch b[] = {{.f = x}, {.f = y}};
  return x && y ? form_max(p, &(struct branches){.n = 2, .b = b}) : NULL;
}

// Maxima and absolute values of forms. A maximum is an atom over branches without a common nonnegative factor. A maximum of two is written as a sum
// and a maximum with 0, or by absolute values. Absolute values are atoms over other atoms only: |x y| is |x| |y|, and |x + y| is 2 max(x + y, 0) - x
// - y. So a chain of relu does not grow with its length.
#include "verify/prove.h"

static const struct ratio ONE = {1, 1}, MINUS_ONE = {-1, 1}, HALF = {1, 2};

// ---- ramps: max(x, 0) where x is a sum without a factor outside ----

static const struct form *ramp(struct prover *p, const struct form *x)
{
  struct form *all = NEW(p->mem, struct form);
  const struct branch b[] = {{.f = x}, {.f = form_constant(p, (struct ratio){0, 1})}};
  for (int i = 0; i < 2 && b[i].f; i++) PUSH(p->mem, all->m, all->n, all->cap) = branch_close(p, &b[i]);
  if (p->why) return NULL;
  return form_atom(p, (struct atom){.kind = ATOM_MAX, .f = {all}, .sign = NONNEGATIVE}, ONE);
}

const struct form *atom_ramp(const struct atom *a)
{
  if (a->kind != ATOM_MAX || a->f[0]->n != 2 || a->f[0]->m[0].nbound || a->f[0]->m[1].nbound) return NULL;
  const struct form *x = a->f[0]->m[0].f[0].a->f[0], *y = a->f[0]->m[1].f[0].a->f[0];
  return !x->n ? y : !y->n ? x : NULL;
}

// ---- absolute values ----

static const struct form *sum_abs(struct prover *p, const struct form *x)
{
  const struct form *r = ramp(p, x);
  return r ? form_add(p, form_scale(p, r, (struct ratio){2, 1}), form_scale(p, x, MINUS_ONE)) : NULL;
}

static const struct form *atom_abs(struct prover *p, const struct atom *a)
{
  const struct form *x = form_alone(p, a);
  if (!x) return NULL;
  if (a->kind == ATOM_BASE) return sum_abs(p, x);
  if (a->kind == ATOM_MAX) return form_larger(p, x, form_scale(p, x, MINUS_ONE));
  return form_atom(p, (struct atom){.kind = ATOM_ABS, .f = {x}, .sign = NONNEGATIVE}, ONE);
}

const struct form *factor_abs(struct prover *p, const struct factor *f)
{
  if (f->e.d > 1 || atom_sign(p, f->a)) return form_factor(p, f->a, f->e);
  whole even = f->e.n - (f->e.n % 2 != 0);
  const struct form *x = even == f->e.n ? form_constant(p, ONE) : atom_abs(p, f->a);
  return x ? form_mul(p, x, form_factor(p, f->a, (struct ratio){even, 1})) : NULL;
}

const struct form *factor_abs_root(struct prover *p, const struct factor *f, struct ratio e)
{
  struct ratio product = ratio_mul(p, f->e, e);
  if (f->e.d > 1 || atom_sign(p, f->a)) return form_factor(p, f->a, product);
  if (product.d == 1) return factor_abs(p, &(struct factor){f->a, product});
  const struct form *x = atom_abs(p, f->a);
  if (!x) return NULL;
  if (f->a->kind != ATOM_BASE && f->a->kind != ATOM_MAX) return form_factor(p, x->m[0].f[0].a, product);
  const struct form *r = form_root(p, x, ratio_abs(product));
  return product.n < 0 ? form_inverse(p, r) : r;
}

static const struct form *rest_abs(struct prover *p, const struct form *rest)
{
  const struct form *negative = form_scale(p, rest, MINUS_ONE);
  if (rest->sign || !negative) return rest;
  return form_sign(p, negative) ? negative : sum_abs(p, rest);
}

static const struct form *split_abs(struct prover *p, const struct split *s)
{
  const struct form *r = form_constant(p, ratio_abs(s->c)), *rest = rest_abs(p, s->rest);
  for (int i = 0; i < s->content.nfactors && r; i++) {
    const struct form *x = factor_abs(p, &s->content.f[i]);
    r = x ? form_mul(p, r, x) : NULL;
  }
  return r && rest ? form_mul(p, r, rest) : NULL;
}

// ---- maxima ----

// All monomials of all branches with their bound digits, as one form, in which common factors are looked for.
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

// Moves common nonnegative factors out of all branches.
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

// The larger of x and y. With x - y = c u rest, it is the smaller one by the sign of c, plus |c| u max(rest, 0). If the sign of u is unknown, or x -
// y has no rest, it is (x + y + |x - y|) / 2.
static const struct form *larger_of(struct prover *p, const struct form *x, const struct form *y)
{
  struct split s;
  const struct form *d = form_add(p, x, form_scale(p, y, MINUS_ONE));
  if (d && !d->n) return x;
  if (!d || !form_split(p, d, &s)) return NULL;
  bool known = !form_is_one(s.rest);
  for (int i = 0; i < s.content.nfactors && known; i++) known = factor_sign(p, &s.content.f[i]) != ANY_SIGN;
  if (!known) {
    const struct form *bars = split_abs(p, &s);
    return bars ? form_scale(p, form_add(p, form_add(p, x, y), bars), HALF) : NULL;
  }
  const struct form *r = ramp(p, s.rest);
  s.content.c = ratio_abs(s.c);
  return r ? form_add(p, s.c.n > 0 ? y : x, form_mul(p, form_finish(p, &s.content), r)) : NULL;
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
  r = s.n == 2 && !binds(&s) ? larger_of(p, s.b[0].f, s.b[1].f) : maximum_atom(p, &s);
  return r ? form_add(p, shift, form_mul(p, u, r)) : NULL;
}

const struct form *form_larger(struct prover *p, const struct form *x, const struct form *y)
{
  struct branch b[] = {{.f = x}, {.f = y}};
  return x && y ? form_max(p, &(struct branches){.n = 2, .b = b}) : NULL;
}

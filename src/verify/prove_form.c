// Sums and products of forms. Everything that distributes is multiplied out, so a form is a sum of monomials. The digits of a sum are bound by each
// of its monomials. A normalized monomial has these properties:
//   - no base or absolute value in it has an exponent that can be multiplied out,
//   - every bound digit occurs (one that does not is a factor: its extent), and
//   - no two bound digits always occur side by side in the same order (they are one digit of the product's range).
// A digit that must be split for a case is split before the term that binds it is complete, so no form contains the unsplit digit.
#include "verify/prove.h"

enum { MOST_MONOMIALS = 3000, MOST_FACTORS = 64 };

// ---- monomials ----

struct monomial monomial_one(struct ratio c) { return (struct monomial){.c = c}; }

static struct monomial copy(struct prover *p, const struct monomial *m)
{
  struct monomial x = *m;
  if (m->nfactors) x.f = arena_copy(p->mem, m->f, sizeof *m->f * (size_t)m->nfactors);
  if (m->nbound) x.bound = arena_copy(p->mem, m->bound, sizeof *m->bound * (size_t)m->nbound);
  x.factors_cap = m->nfactors, x.bound_cap = m->nbound;
  return x;
}

void monomial_factor(struct prover *p, struct monomial *m, const struct atom *a, struct ratio e)
{
  int i = 0;
  while (i < m->nfactors && !(m->f[i].a->hash == a->hash && atom_same(p, m->f[i].a, a))) i++;
  if (i < m->nfactors) {
    m->f[i].e = ratio_add(p, m->f[i].e, e);
    if (a->sign > m->f[i].a->sign) m->f[i].a = a;
    if (m->f[i].e.n) return;
    for (m->nfactors--; i < m->nfactors; i++) m->f[i] = m->f[i + 1];
  } else if (m->nfactors == MOST_FACTORS) {
    prove_give_up(p, "a product has too many factors");
  } else if (e.n) {
    PUSH(p->mem, m->f, m->nfactors, m->factors_cap) = (struct factor){a, e};
  }
}

// The part of a factor's exponent that can be multiplied out: |x|^2 is x^2, and max(x, 0)^2 is x max(x, 0).
static whole expandable(const struct factor *f)
{
  if (atom_ramp(f->a)) return f->e.d == 1 && f->e.n > 1 ? f->e.n - 1 : 0;
  if (f->a->kind == ATOM_ABS) return 2 * ratio_floor((struct ratio){f->e.n, 2 * f->e.d});
  if (f->a->kind != ATOM_BASE) return 0;
  whole e = ratio_floor(f->e);
  return f->a->primitive && e < 0 ? 0 : e;
}

static struct form *add_monomial(struct prover *p, struct form *f, const struct monomial *m)
{
  if (p->why || !m->c.n) return f;
  int i = 0;
  while (i < f->n && !(f->m[i].hash == m->hash && monomial_same(p, &f->m[i], m))) i++;
  if (i < f->n) {
    f->m[i].c = ratio_add(p, f->m[i].c, m->c);
    if (!f->m[i].c.n) f->m[i] = f->m[--f->n];
  } else if (f->n == MOST_MONOMIALS) {
    prove_give_up(p, "a sum has too many monomials");
  } else {
    PUSH(p->mem, f->m, f->n, f->cap) = *m;
  }
  return f;
}

static void add_all(struct prover *p, struct form *f, const struct form *x)
{
  for (int i = 0; x && i < x->n && !p->why; i++) add_monomial(p, f, &x->m[i]);
}

static void bind_one(struct prover *p, struct monomial *m, int digit)
{
  for (int i = 0; i < m->nbound; i++)
    if (m->bound[i] == digit) monomial_rename(p, m, i); // another digit of the same name
  PUSH(p->mem, m->bound, m->nbound, m->bound_cap) = digit;
}

struct form *form_sum(struct prover *p, const struct form *f, int n, const int *digits)
{
  struct form *r = NEW(p->mem, struct form);
  for (int i = 0; f && i < f->n && !p->why; i++) {
    struct monomial m = copy(p, &f->m[i]);
    for (int k = 0; k < n; k++) bind_one(p, &m, digits[k]);
    add_all(p, r, form_finish(p, &m));
  }
  return p->why ? NULL : r;
}

struct form *form_finish(struct prover *p, const struct monomial *from)
{
  struct monomial m = copy(p, from);
  struct form *r = NEW(p->mem, struct form);
  int n = 0;
  for (int i = 0; i < m.nfactors; i++) {
    whole e = expandable(&m.f[i]);
    if (!e) continue;
    const struct atom *a = m.f[i].a;
    m.nbound = 0, monomial_factor(p, &m, a, (struct ratio){-e, 1});
    return form_sum(p, form_mul(p, form_finish(p, &m), form_power(p, atom_ramp(a) ? atom_ramp(a) : a->f[0], e)), from->nbound, from->bound);
  }
  for (int i = 0; i < m.nbound; i++) {
    bool used = false;
    for (int k = 0; k < m.nfactors && !used; k++) used = atom_has(m.f[k].a, m.bound[i]);
    if (used)
      m.bound[n++] = m.bound[i];
    else
      m.c = ratio_mul(p, m.c, (struct ratio){p->digits[m.bound[i]].extent, 1});
  }
  m.nbound = n;
  monomial_merge(p, &m);
  m.hash = monomial_hash(p, &m);
  return prove_step(p) ? add_monomial(p, r, &m) : NULL;
}

// ---- sums and products ----

struct form *form_constant(struct prover *p, struct ratio c)
{
  struct monomial m = monomial_one(c);
  struct form *f = form_finish(p, &m);
  if (f) f->sign = c.n > 0 ? POSITIVE : c.n ? ANY_SIGN : NONNEGATIVE;
  return f;
}

struct form *form_add(struct prover *p, const struct form *x, const struct form *y)
{
  struct form *r = NEW(p->mem, struct form);
  if (!x || !y) return NULL;
  add_all(p, r, x), add_all(p, r, y);
  r->sign = MIN(x->sign, y->sign) ? MAX(x->sign, y->sign) : ANY_SIGN;
  return p->why ? NULL : r;
}

struct form *form_scale(struct prover *p, const struct form *x, struct ratio c) { return form_mul(p, x, form_constant(p, c)); }

static bool mentions(const struct monomial *m, int d)
{
  for (int i = 0; i < m->nbound; i++)
    if (m->bound[i] == d) return true;
  for (int i = 0; i < m->nfactors; i++)
    if (atom_has(m->f[i].a, d)) return true;
  return false;
}

// The product. Bound digits of one factor are renamed if the other has the same name, bound or free.
static struct form *product(struct prover *p, const struct monomial *x, const struct monomial *y)
{
  struct monomial a = copy(p, x), b = copy(p, y);
  for (int i = 0; i < b.nbound; i++)
    if (mentions(&a, b.bound[i])) monomial_rename(p, &b, i);
  for (int i = 0; i < a.nbound; i++)
    if (mentions(&b, a.bound[i])) monomial_rename(p, &a, i);
  for (int i = 0; i < b.nfactors; i++) monomial_factor(p, &a, b.f[i].a, b.f[i].e);
  for (int i = 0; i < b.nbound; i++) PUSH(p->mem, a.bound, a.nbound, a.bound_cap) = b.bound[i];
  a.c = ratio_mul(p, a.c, b.c);
  return form_finish(p, &a);
}

struct form *form_mul(struct prover *p, const struct form *x, const struct form *y)
{
  struct form *r = NEW(p->mem, struct form);
  if (!x || !y) return NULL;
  for (int i = 0; i < x->n; i++)
    for (int k = 0; k < y->n && !p->why; k++) add_all(p, r, product(p, &x->m[i], &y->m[k]));
  r->sign = MIN(x->sign, y->sign);
  return p->why ? NULL : r;
}

struct form *form_factor(struct prover *p, const struct atom *a, struct ratio e)
{
  struct monomial m = monomial_one((struct ratio){1, 1});
  monomial_factor(p, &m, a, e);
  return form_finish(p, &m);
}

struct form *form_atom(struct prover *p, struct atom a, struct ratio c)
{
  struct form *f = form_scale(p, form_factor(p, atom_make(p, a), (struct ratio){1, 1}), c);
  if (f) f->sign = c.n > 0 ? a.sign : ANY_SIGN;
  return f;
}

// Terms -> forms. Everything that distributes is multiplied out, so that a form is a sum of monomials; a sum's digits
// are bound by each of its monomials. A monomial is in order when
//   - no base in it has an exponent that can be multiplied out,
//   - every bound digit occurs (one that does not is a factor: its extent), and
//   - no two bound digits always occur side by side in the same order (they are one digit of the product's range).
// A digit that has to be cut for a case is cut before the term that binds it is complete, so that no form knows it
// whole.
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
    if (a->nonneg) m->f[i].a = a;
    if (m->f[i].e.n) return;
    for (m->nfactors--; i < m->nfactors; i++) m->f[i] = m->f[i + 1];
  } else if (m->nfactors == MOST_FACTORS) {
    prove_give_up(p, "a product has too many factors");
  } else if (e.n) {
    PUSH(p->mem, m->f, m->nfactors, m->factors_cap) = (struct factor){a, e};
  }
}

// How much of a factor's exponent can be multiplied out.
static whole expandable(const struct factor *f)
{
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
    if (m->bound[i] == digit) monomial_rename(p, m, i); // another digit of that name
  PUSH(p->mem, m->bound, m->nbound, m->bound_cap) = digit;
}

// The sum of f over the digits.
static struct form *bind(struct prover *p, const struct form *f, int n, const int *digits)
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
    return bind(p, form_mul(p, form_finish(p, &m), form_power(p, a->f[0], e)), from->nbound, from->bound);
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
  if (f) f->nonneg = c.n >= 0;
  return f;
}

struct form *form_add(struct prover *p, const struct form *x, const struct form *y)
{
  struct form *r = NEW(p->mem, struct form);
  if (!x || !y) return NULL;
  add_all(p, r, x), add_all(p, r, y);
  r->nonneg = x->nonneg && y->nonneg;
  return p->why ? NULL : r;
}

struct form *form_scale(struct prover *p, const struct form *x, struct ratio c)
{
  return form_mul(p, x, form_constant(p, c));
}

static bool mentions(const struct monomial *m, int d)
{
  for (int i = 0; i < m->nbound; i++)
    if (m->bound[i] == d) return true;
  for (int i = 0; i < m->nfactors; i++)
    if (atom_has(m->f[i].a, d)) return true;
  return false;
}

// The product; bound digits of one that the other has too, bound or free, get other names.
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
  r->nonneg = x->nonneg && y->nonneg;
  return p->why ? NULL : r;
}

// ---- terms ----

static struct form *form_atom(struct prover *p, struct atom a, struct ratio c)
{
  struct monomial m = monomial_one(c);
  monomial_factor(p, &m, atom_make(p, a), (struct ratio){1, 1});
  struct form *f = form_finish(p, &m);
  if (f) f->nonneg = a.nonneg && c.n > 0;
  return f;
}

static struct form *of_constant(struct prover *p, struct term *t)
{
  struct ratio r;
  double c = t->constant;
  if (ratio_meant(c, &r)) return form_constant(p, r);
  if (!(c - c == 0)) return prove_give_up(p, "a constant is no number");
  return form_atom(p, (struct atom){.kind = ATOM_CONSTANT, .lo = c < 0 ? -c : c, .nonneg = true},
                   (struct ratio){c < 0 ? -1 : 1, 1});
}

static struct form *element(struct prover *p, int array, int n, const struct subscript *from)
{
  struct subscript *at = NEWS(p->mem, struct subscript, n + 1);
  for (int i = 0; i < n; i++) {
    at[i] = subscript_expand(p, from[i]);
    if (subscript_composite(p, at[i])) return prove_give_up(p, "an index is cut where none of its parts ends");
  }
  return form_atom(p, (struct atom){.kind = ATOM_ELEMENT, .tag = array, .nat = n, .at = at}, (struct ratio){1, 1});
}

static struct form *of_element(struct prover *p, struct term *t) { return element(p, t->array, t->n, t->at); }

static struct form *of_opaque(struct prover *p, struct term *t)
{
  const struct form *x = form_of(p, t->x), *y = t->y ? form_of(p, t->y) : NULL;
  bool nonneg = t->op == OP_SIGMOID || t->op == OP_RELU || t->op == OP_ABS;
  if (!x || p->why) return NULL;
  if (y && (t->op == OP_MAXIMUM || t->op == OP_MINIMUM) && form_same(p, x, y))
    return form_scale(p, x, (struct ratio){1, 1});
  struct atom a = {.kind = ATOM_OPAQUE, .tag = (int)t->op, .lo = t->lo, .hi = t->hi, .f = {x, y}, .nonneg = nonneg};
  return form_atom(p, a, (struct ratio){1, 1});
}

// The digits that a sum or a maximum binds, cut as they are now.
static struct digits bound_by(struct prover *p, struct term *t)
{
  struct digits d = {0};
  struct subscript s = subscript_expand(p, *t->at);
  for (int i = 0; i < s.n; i++)
    if (s.p[i].digit >= 0) PUSH(p->mem, d.d, d.n, d.cap) = s.p[i].digit;
  return d;
}

static struct form *of_sum(struct prover *p, struct term *t)
{
  const struct form *x = form_of(p, t->x);
  struct digits d = bound_by(p, t);
  struct form *r = x ? bind(p, x, d.n, d.d) : NULL;
  if (r) r->nonneg = x->nonneg;
  return r;
}

// Is f nothing but one maximum?
static const struct atom *lone_maximum(const struct form *f)
{
  if (f->n != 1 || !ratio_is(f->m[0].c, 1) || f->m[0].nbound || f->m[0].nfactors != 1) return NULL;
  const struct factor *x = &f->m[0].f[0];
  return x->a->kind == ATOM_MAX && ratio_is(x->e, 1) ? x->a : NULL;
}

// A maximum of maxima is one; digits that do not occur do not matter; neighbours merge as those of a sum do.
static struct form *of_max(struct prover *p, struct term *t)
{
  const struct form *x = form_of(p, t->x);
  if (!x) return NULL;
  struct monomial m = monomial_one((struct ratio){1, 1});
  struct digits d = bound_by(p, t);
  const struct atom *inner = lone_maximum(x);
  for (int i = 0; inner && i < inner->nbound; i++) digits_add(p, &d, inner->bound[i]);
  struct atom a = {.kind = ATOM_MAX, .f = {inner ? inner->f[0] : x}, .nonneg = x->nonneg};
  const struct atom *body = atom_make(p, a);
  for (int i = 0; i < d.n; i++)
    if (atom_has(body, d.d[i])) PUSH(p->mem, m.bound, m.nbound, m.bound_cap) = d.d[i];
  if (!m.nbound) return form_scale(p, a.f[0], (struct ratio){1, 1});
  monomial_factor(p, &m, body, (struct ratio){1, 1});
  monomial_merge(p, &m);
  a = *m.f[0].a, a.nbound = m.nbound, a.bound = m.bound;
  return form_atom(p, a, (struct ratio){1, 1});
}

// The second argument fixes the order of the loop's axes: an element of an array that no graph has.
static struct form *of_running(struct prover *p, struct term *t)
{
  enum { NO_ARRAY = -1 };
  struct digits d = {0};
  int n = t->n / 2;
  const struct form *x = form_of(p, t->x), *order = x ? element(p, NO_ARRAY, n, t->at + n) : NULL;
  const struct form *now = order ? element(p, NO_ARRAY, n, t->at) : NULL;
  if (!now) return NULL;
  const struct atom *axes = order->m[0].f[0].a, *here = now->m[0].f[0].a;
  for (int i = 0; i < axes->nfree; i++) digits_add(p, &d, axes->free[i]);
  struct atom a = {
      .kind = ATOM_RUNNING, .tag = t->change, .nat = n, .at = here->at, .f = {x, order}, .nbound = d.n, .bound = d.d};
  return form_atom(p, a, (struct ratio){1, 1});
}

static struct form *of_product(struct prover *p, struct term *t)
{
  const struct form *x = form_of(p, t->x), *y = x ? form_of(p, t->y) : NULL;
  struct form *r = form_mul(p, x, y);
  if (r) r->nonneg |= x == y || form_same(p, x, y);
  return r;
}

static struct form *made(struct prover *p, struct term *t)
{
  switch (t->kind) {
  case TERM_NUMBER: return form_constant(p, t->number);
  case TERM_CONSTANT: return of_constant(p, t);
  case TERM_ELEMENT: return of_element(p, t);
  case TERM_ADD: return form_add(p, form_of(p, t->x), form_of(p, t->y));
  case TERM_MUL: return of_product(p, t);
  case TERM_INVERSE: return form_inverse(p, form_of(p, t->x));
  case TERM_EXP: return form_exp(p, form_of(p, t->x));
  case TERM_SQRT: return form_root(p, form_of(p, t->x));
  case TERM_OPAQUE: return of_opaque(p, t);
  case TERM_SUM: return of_sum(p, t);
  case TERM_MAX: return of_max(p, t);
  case TERM_RUNNING: return of_running(p, t);
  }
  return NULL;
}

const struct form *form_of(struct prover *p, struct term *t)
{
  if (p->why || !t) return NULL;
  if (!t->form) t->form = made(p, t);
  return p->why ? NULL : t->form;
}

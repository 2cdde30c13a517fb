// Decides which forms are never negative: by the signs of their parts, because |x| is at least x, or because a graph takes their root or logarithm.
// Such a fact holds for all values of the digits that the graph binds, but not of the output's digits. It is stored as a branch, whose digit names do
// not matter.
#include "verify/prove.h"

enum { MOST_FACTS = 64, MOST_LOOKED_AT = 40 };

static const struct ratio ONE = {1, 1}, MINUS_ONE = {-1, 1};

const struct form *form_alone(struct prover *p, const struct atom *a) { return a->kind == ATOM_BASE ? a->f[0] : form_factor(p, a, ONE); }

// ---- facts ----

static struct monomial fact_of(struct prover *p, const struct form *f)
{
  struct digits d = {0};
  for (int i = 0; i < f->n; i++)
    for (int k = 0; k < f->m[i].nfactors; k++) {
      const struct atom *a = f->m[i].f[k].a;
      for (int x = 0; x < a->nfree; x++)
        if (!p->digits[a->free[x]].output) digits_add(p, &d, a->free[x]);
    }
  return branch_close(p, &(struct branch){f, d.n, d.d});
}

// Whether f is among the first n facts.
static bool asserted(struct prover *p, const struct form *f, int n)
{
  if (!n || p->why) return false;
  struct monomial m = fact_of(p, f);
  for (int i = 0; i < n && !p->why; i++)
    if (p->facts[i].hash == m.hash && monomial_same(p, &p->facts[i], &m)) return true;
  return false;
}

void form_assert(struct prover *p, const struct form *f)
{
  if (p->running || p->why || p->nfacts == MOST_FACTS || asserted(p, f, p->nfacts)) return;
  PUSH(p->mem, p->facts, p->nfacts, p->facts_cap) = fact_of(p, f);
}

// ---- signs ----

enum sign atom_sign(struct prover *p, const struct atom *a)
{
  if (a->sign || !p->known) return a->sign;
  return asserted(p, form_alone(p, a), p->known) ? NONNEGATIVE : ANY_SIGN;
}

// A nonnegative factor with a negative power is not 0. A fractional power is a power of the absolute value.
enum sign factor_sign(struct prover *p, const struct factor *f)
{
  enum sign s = atom_sign(p, f->a);
  if (s == ANY_SIGN && (f->e.d > 1 || f->e.n % 2 == 0)) s = NONNEGATIVE;
  return s && f->e.n < 0 ? POSITIVE : s;
}

static enum sign monomial_sign(struct prover *p, const struct monomial *m)
{
  enum sign s = m->c.n > 0 ? POSITIVE : ANY_SIGN;
  for (int i = 0; i < m->nfactors && s; i++) {
    enum sign t = factor_sign(p, &m->f[i]);
    s = MIN(s, t);
  }
  return s;
}

static struct form lone(const struct monomial *m) { return (struct form){.n = 1, .m = (struct monomial *)m}; }

// For a monomial c u |x| or c u max(x, 0), returns c u x. *bars: it is the first kind. NULL: it is neither.
static struct form *without_bars(struct prover *p, const struct monomial *m, bool *bars)
{
  struct form f = lone(m);
  for (int i = 0; i < m->nfactors && !m->nbound; i++) {
    const struct atom *a = m->f[i].a;
    *bars = a->kind == ATOM_ABS;
    const struct form *x = *bars ? a->f[0] : atom_ramp(a);
    if (x && ratio_is(m->f[i].e, 1)) return form_mul(p, form_times(p, &f, a, MINUS_ONE), x);
  }
  return NULL;
}

// The factor by which the first monomial of x occurs in f; 0 if it does not.
static struct ratio share(struct prover *p, const struct form *f, const struct form *x)
{
  for (int i = 0; i < f->n; i++)
    if (f->m[i].hash == x->m[0].hash && monomial_same(p, &f->m[i], &x->m[0])) return ratio_mul(p, f->m[i].c, ratio_inverse(x->m[0].c));
  return (struct ratio){0, 1};
}

// If f contains c u (|x| + r x), -1 <= r <= 1, or c u (max(x, 0) + r x), -1 <= r <= 0, with c u nonnegative: f without it, if that is smaller.
static const struct form *without_pair(struct prover *p, const struct form *f)
{
  for (int i = 0; i < f->n && !p->why; i++) {
    bool bars;
    struct form one = lone(&f->m[i]);
    const struct form *x = monomial_sign(p, one.m) ? without_bars(p, one.m, &bars) : NULL;
    const struct form *rest = x && x->n ? form_add(p, f, form_scale(p, &one, MINUS_ONE)) : NULL;
    struct ratio r = rest ? share(p, rest, x) : (struct ratio){0, 1};
    if (!r.n || ratio_order(p, ratio_abs(r), ONE) > 0 || (!bars && r.n > 0)) continue;
    const struct form *less = form_add(p, rest, form_scale(p, x, (struct ratio){-r.n, r.d}));
    if (less && less->n < rest->n) return less;
  }
  return NULL;
}

static bool asserted_up_to_scale(struct prover *p, const struct form *f)
{
  if (!p->known) return false;
  const struct form *x = form_scale(p, f, ratio_inverse(ratio_abs(form_lead(p, f))));
  return x && asserted(p, x, p->known);
}

enum sign form_sign(struct prover *p, const struct form *f)
{
  enum sign s = f->sign, all = POSITIVE, any = ANY_SIGN;
  if (!f->n) return NONNEGATIVE;
  for (int i = 0; i < f->n && s != POSITIVE && all; i++) {
    enum sign t = monomial_sign(p, &f->m[i]);
    all = MIN(all, t), any = MAX(any, t);
  }
  if (s != POSITIVE && all) return any;
  if (s || f->n > MOST_LOOKED_AT || p->why) return s;
  const struct form *less = without_pair(p, f);
  if (less && form_sign(p, less)) return NONNEGATIVE;
  return asserted_up_to_scale(p, f) ? NONNEGATIVE : ANY_SIGN;
}

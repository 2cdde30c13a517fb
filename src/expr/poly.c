// The algebra of normal forms: N[M], the multisets over the monoid M of monomials. M is a product of
// monoids that can all be cancelled (sum factors under *, multisets of atoms and of exponents, and
// under multiplication the radicands, squares and denominators, which are themselves in N[M]), and it
// is ordered (order.c). Hence N[M] has no zero divisors, a quotient is unique when it exists, and
// long division finds it. Sizes are exact without building anything: |ab| = |a||b|, since nothing
// cancels, which is how a size limit can answer before the work is done.
//
// 0 is the answer for "past a limit" and for "does not divide".
#include "expr/normal.h"

static nf add_anew(struct expr *ex, nf a, nf b)
{
  const struct poly *p = poly_at(ex, a), *q = poly_at(ex, b);
  if (p->n + q->n > ex->limit) return 0;
  struct arena_mark top = arena_mark(&ex->tmp);
  struct poly *sum = draft_poly(ex, p->n + q->n);
  multi_union(ex, order_mono, p->m, p->n, q->m, q->n, sum->m);
  nf r = intern_poly(ex, sum);
  arena_reset(&ex->tmp, top);
  return r;
}

nf poly_add(struct expr *ex, nf a, nf b)
{
  if (a == NF_EMPTY || b == NF_EMPTY) return a == NF_EMPTY ? b : a;
  nf r, x = MIN(a, b), y = MAX(a, b);
  if (memo_find(ex, OP_ADD, x, y, &r)) return r;
  return memo_put(ex, OP_ADD, x, y, add_anew(ex, x, y));
}

// The terms of p times m, sorted like p; false past a cap.
static bool scale(struct expr *ex, const struct poly *p, uint32_t m, uint32_t *out)
{
  for (uint32_t i = 0; i < p->n; i++)
    if (!(out[i] = mono_mul(ex, p->m[i], m))) return false;
  return true;
}

nf poly_scale(struct expr *ex, nf a, uint32_t m)
{
  const struct poly *p = poly_at(ex, a);
  if (!m || p->n > ex->limit) return 0;
  struct arena_mark top = arena_mark(&ex->tmp);
  struct poly *r = draft_poly(ex, p->n);
  nf result = scale(ex, p, m, r->m) ? intern_poly(ex, r) : 0;
  arena_reset(&ex->tmp, top);
  return result;
}

// p times q, row after row of q merged in.
static nf product(struct expr *ex, const struct poly *p, const struct poly *q)
{
  uint32_t n = p->n * q->n;
  uint32_t *row = NEWS(&ex->tmp, uint32_t, p->n), *sum = NEWS(&ex->tmp, uint32_t, n);
  struct poly *r = draft_poly(ex, n);
  for (uint32_t j = 0; j < q->n; j++) {
    if (!scale(ex, p, q->m[j], row)) return 0;
    uint32_t fill = multi_union(ex, order_mono, sum, j * p->n, row, p->n, r->m);
    for (uint32_t i = 0; i < fill; i++) sum[i] = r->m[i];
  }
  return intern_poly(ex, r);
}

static nf mul_anew(struct expr *ex, nf a, nf b)
{
  const struct poly *p = poly_at(ex, a), *q = poly_at(ex, b);
  if ((uint64_t)p->n * q->n > ex->limit) return 0;
  if (p->n == 1) return poly_scale(ex, b, p->m[0]);
  if (q->n == 1) return poly_scale(ex, a, q->m[0]);
  struct arena_mark top = arena_mark(&ex->tmp);
  nf r = p->n > q->n ? product(ex, p, q) : product(ex, q, p);
  arena_reset(&ex->tmp, top);
  return r;
}

nf poly_mul(struct expr *ex, nf a, nf b)
{
  if (a == NF_ONE || b == NF_ONE) return a == NF_ONE ? b : a;
  nf r, x = MIN(a, b), y = MAX(a, b);
  if (memo_find(ex, OP_MUL, x, y, &r)) return r;
  return memo_put(ex, OP_MUL, x, y, mul_anew(ex, x, y));
}

uint32_t mono_mul(struct expr *ex, uint32_t a, uint32_t b)
{
  if (a == MONO_UNIT || b == MONO_UNIT) return a == MONO_UNIT ? b : a;
  const struct expr_mono *s = mono_at(ex, a), *t = mono_at(ex, b);
  DRAFT_MONO(draft);
  struct expr_mono *m = &draft.m;
  if (s->n + t->n > MAX_ATOMS || __builtin_mul_overflow(s->k, t->k, &m->k)) return 0;
  m->x = poly_add(ex, s->x, t->x);
  m->s = poly_mul(ex, s->s, t->s);
  m->q = poly_mul(ex, s->q, t->q);
  m->d = poly_mul(ex, s->d, t->d);
  if (!m->x || !m->s || !m->q || !m->d) return 0;
  m->n = multi_union(ex, order_atom, s->a, s->n, t->a, t->n, m->a);
  return intern_mono(ex, m);
}

static nf poly_minus(struct expr *ex, nf t, nf e)
{
  if (e == NF_EMPTY || t == e) return e == NF_EMPTY ? t : NF_EMPTY;
  const struct poly *p = poly_at(ex, t), *q = poly_at(ex, e);
  if (p->n <= q->n) return 0;
  struct arena_mark top = arena_mark(&ex->tmp);
  struct poly *r = draft_poly(ex, p->n - q->n);
  nf result = multi_minus(p->m, p->n, q->m, q->n, r->m) < 0 ? 0 : intern_poly(ex, r);
  arena_reset(&ex->tmp, top);
  return result;
}

uint32_t mono_div(struct expr *ex, uint32_t t, uint32_t e)
{
  if (e == MONO_UNIT || t == e) return e == MONO_UNIT ? t : MONO_UNIT;
  const struct expr_mono *p = mono_at(ex, t), *q = mono_at(ex, e);
  if (p->k % q->k || p->n < q->n || q->h.mask & ~p->h.mask) return 0;
  DRAFT_MONO(draft);
  struct expr_mono *m = &draft.m;
  m->k = p->k / q->k;
  int n = multi_minus(p->a, p->n, q->a, q->n, m->a);
  if (n < 0 || !(m->x = poly_minus(ex, p->x, q->x)) || !(m->d = poly_quot(ex, p->d, q->d)) || !(m->s = poly_quot(ex, p->s, q->s)) ||
      !(m->q = poly_quot_lax(ex, p->q, q->q)))
    return 0;
  m->n = (uint32_t)n;
  return intern_mono(ex, m);
}

// Takes e * m out of the sorted rest[0 .. *n); false when it is not in it.
static bool take_out(struct expr *ex, const struct poly *e, uint32_t m, uint32_t *rest, uint32_t *n)
{
  uint32_t *row = NEWS(&ex->tmp, uint32_t, e->n), *left = NEWS(&ex->tmp, uint32_t, *n);
  if (!scale(ex, e, m, row)) return false;
  int fill = multi_minus(rest, *n, row, e->n, left);
  if (fill < 0) return false;
  for (int i = 0; i < fill; i++) rest[i] = left[i];
  *n = (uint32_t)fill;
  return true;
}

// Long division: what is largest in the rest is what is largest in e times the next monomial.
static nf divide(struct expr *ex, const struct poly *t, const struct poly *e, bool lax)
{
  if (e->n == 0 || t->n % e->n || e->h.mask & ~t->h.mask) return 0;
  uint32_t n = t->n, *rest = NEWS(&ex->tmp, uint32_t, n);
  for (uint32_t i = 0; i < n; i++) rest[i] = t->m[i];
  struct poly *q = draft_poly(ex, t->n / e->n);
  for (uint32_t i = 0; i < q->n; i++) {
    uint32_t m = mono_div(ex, rest[0], e->m[0]);
    if (!m || (!lax && !has_numerator(mono_at(ex, m))) || !take_out(ex, e, m, rest, &n)) return 0;
    q->m[i] = m;
  }
  return intern_poly(ex, q);
}

static nf quot(struct expr *ex, nf t, nf e, bool lax)
{
  if (e == NF_ONE || t == e) return e == NF_ONE ? t : NF_ONE;
  nf r;
  enum expr_op op = lax ? OP_QUOT_LAX : OP_QUOT;
  if (memo_find(ex, op, t, e, &r)) return r;
  struct arena_mark top = arena_mark(&ex->tmp);
  r = divide(ex, poly_at(ex, t), poly_at(ex, e), lax);
  arena_reset(&ex->tmp, top);
  return memo_put(ex, op, t, e, r);
}

// A denominator or radicand grows only by terms, so its quotient must be one: S64 Y is not Y * S64.
nf poly_quot(struct expr *ex, nf t, nf e) { return quot(ex, t, e, false); }

// sq(P) keeps P without the factors common to its monomials, so that P may have monomials such as 1.
nf poly_quot_lax(struct expr *ex, nf t, nf e) { return quot(ex, t, e, true); }

// The square of a sum. sq(A + B) expanded is A^2 + AB + AB + B^2, and a residual under two norms has
// nine monomials inside a radicand; so a sum is squared as a component Q of its own, under the laws
//
//   sq(a) = a * a for a monomial        sq(x) sq(y) = sq(xy)
//
// as far as they can be had in a normal form: what is common to all monomials of x leaves the square
// (the gcd of sum factors, common atoms and exponents, a denominator or radicand that divides all
// others), and Q holds the rest. Without greatest common divisors of denominators, and with squares
// inside squares left where they are, some equations of this kind are lost; that is what opaque means,
// and the option expand_squares has them all.
//
// For the test: let t = c^2 sq(P) ... be a monomial of the target. Whatever was squared on the way to it is
// N' = c P', with c^2 in t and P' a factor of P, so a subexpression of it times something lies in g P, where g is the
// largest thing whose square is in t. g P is therefore a position. Its sum factor, atoms and exponents
// are exact; a denominator or radicand is taken whole when it may contain a square at all (keeping a
// little more than necessary), else not.
#include "expr/normal.h"

static uint64_t gcd(uint64_t a, uint64_t b)
{
  while (b) {
    uint64_t r = a % b;
    a = b, b = r;
  }
  return a;
}

// The common divisor of one component of all monomials, if it is among these components. It is then the least in an admissible order.
static nf common(struct expr *ex, const struct poly *p, nf (*component)(const struct expr_mono *))
{
  nf least = component(mono_at(ex, p->m[0]));
  for (uint32_t i = 1; i < p->n; i++) {
    nf d = component(mono_at(ex, p->m[i]));
    least = order_poly(ex, d, least) < 0 ? d : least;
  }
  for (uint32_t i = 0; i < p->n; i++)
    if (!poly_quot(ex, component(mono_at(ex, p->m[i])), least)) return NF_ONE;
  return least;
}

static nf radicand(const struct expr_mono *m) { return m->s; }
static nf denominator(const struct expr_mono *m) { return m->d; }

static nf meet_exponents(struct expr *ex, nf a, nf b)
{
  const struct poly *p = poly_at(ex, a), *q = poly_at(ex, b);
  struct arena_mark top = arena_mark(&ex->tmp);
  struct poly *r = draft_poly(ex, MIN(p->n, q->n));
  r->n = multi_meet(ex, order_mono, p->m, p->n, q->m, q->n, r->m);
  nf result = intern_poly(ex, r);
  arena_reset(&ex->tmp, top);
  return result;
}

// The factor that can be moved out of the square of p.
static uint32_t content(struct expr *ex, const struct poly *p)
{
  DRAFT_MONO(draft);
  struct expr_mono *c = &draft.m;
  const struct expr_mono *first = mono_at(ex, p->m[0]);
  *c = (struct expr_mono){.k = first->k, .x = first->x, .q = NF_ONE, .n = first->n};
  for (uint32_t i = 0; i < c->n; i++) c->a[i] = first->a[i];
  for (uint32_t i = 1; i < p->n; i++) {
    const struct expr_mono *m = mono_at(ex, p->m[i]);
    uint32_t shared[MAX_ATOMS];
    c->k = gcd(c->k, m->k);
    c->x = meet_exponents(ex, c->x, m->x);
    c->n = multi_meet(ex, order_atom, c->a, c->n, m->a, m->n, shared);
    for (uint32_t j = 0; j < c->n; j++) c->a[j] = shared[j];
  }
  c->s = common(ex, p, radicand);
  c->d = common(ex, p, denominator);
  return intern_mono(ex, c);
}

static nf sq_of_sum(struct expr *ex, const struct poly *p)
{
  struct arena_mark top = arena_mark(&ex->tmp);
  uint32_t c = content(ex, p);
  struct poly *rest = draft_poly(ex, p->n);
  for (uint32_t i = 0; i < p->n; i++) rest->m[i] = mono_div(ex, p->m[i], c);
  DRAFT_MONO(draft);
  draft.m = (struct expr_mono){.k = 1, .x = NF_EMPTY, .s = NF_ONE, .q = intern_poly(ex, rest), .d = NF_ONE};
  uint32_t sq = intern_mono(ex, &draft.m), cc = mono_mul(ex, c, c);
  arena_reset(&ex->tmp, top);
  return sq && cc ? poly_of_mono(ex, mono_mul(ex, sq, cc)) : 0;
}

nf expr_square(struct expr *ex, nf x)
{
  if (!nf_known(x)) return x;
  const struct poly *p = poly_at(ex, x);
  if (ex->expand_squares || p->n == 1) return expr_mul(ex, x, x);
  nf r;
  if (!memo_find(ex, OP_SQUARE, x, 0, &r)) r = memo_put(ex, OP_SQUARE, x, 0, sq_of_sum(ex, p));
  return nf_settle(ex, r);
}

// The largest r whose square divides k: trial division up to the cube root; what is left has at most
// two prime factors.
static uint64_t square_part(uint64_t k)
{
  uint64_t r = 1;
  for (uint64_t p = 2; p <= k / p / p; p++) {
    for (; k % (p * p) == 0; k /= p * p) r *= p;
    if (k % p == 0) k /= p;
  }
  uint64_t lo = 1, hi = UINT32_MAX;
  while (lo < hi) {
    uint64_t mid = (lo + hi + 1) / 2;
    if (mid <= k / mid)
      lo = mid;
    else
      hi = mid - 1;
  }
  return lo * lo == k ? r * lo : r;
}

static bool has_twins(const uint32_t *a, uint32_t n)
{
  for (uint32_t i = 1; i < n; i++)
    if (a[i] == a[i - 1]) return true;
  return false;
}

static uint32_t halve(const uint32_t *a, uint32_t n, uint32_t *out)
{
  uint32_t fill = 0;
  for (uint32_t i = 1; i < n; i++)
    if (a[i] == a[i - 1]) out[fill++] = a[i++];
  return fill;
}

// Whether f may be d * d * e for a term d. A sum d contributes a square number of products; a monomial d appears twice in every monomial of f.
static bool may_hide_square(const struct expr *ex, nf f)
{
  const struct poly *p = poly_at(ex, f);
  if (f == NF_ONE) return false;
  for (uint32_t i = 2; i <= p->n / i; i++)
    if (p->n % (i * i) == 0) return true;
  for (uint32_t i = 0; i < p->n; i++) {
    const struct expr_mono *m = mono_at(ex, p->m[i]);
    const struct poly *x = poly_at(ex, m->x);
    if (!has_twins(m->a, m->n) && !has_twins(x->m, x->n) && !may_hide_square(ex, m->s) && !may_hide_square(ex, m->q)) return false;
  }
  return true;
}

nf square_inside(struct expr *ex, uint32_t t)
{
  const struct expr_mono *m = mono_at(ex, t);
  const struct poly *x = poly_at(ex, m->x);
  struct arena_mark top = arena_mark(&ex->tmp);
  struct poly *half = draft_poly(ex, x->n);
  half->n = halve(x->m, x->n, half->m);
  DRAFT_MONO(draft);
  struct expr_mono *g = &draft.m;
  *g = (struct expr_mono){.k = square_part(m->k), .x = intern_poly(ex, half), .q = NF_ONE};
  g->s = may_hide_square(ex, m->s) ? m->s : NF_ONE;
  g->d = may_hide_square(ex, m->d) ? m->d : NF_ONE;
  g->n = halve(m->a, m->n, g->a);
  nf inside = poly_scale(ex, m->q, intern_mono(ex, g));
  arena_reset(&ex->tmp, top);
  return inside;
}

// One order by content for atoms, monomials and normal forms. It makes printing deterministic, and it
// is admissible: a > b implies a * m > b * m. Two things follow that the rest of the component relies on.
// Multiplying a sorted normal form by a monomial leaves it sorted, and the largest monomial of a
// product is the product of the largest ones, so that division is long division without choices.
//
// Why it is admissible: a multiset, sorted largest first, is larger when the first difference is in its
// favour or the other one ends there. That says: at the largest element whose multiplicities differ it
// has more. Uniting both with a third changes no difference of multiplicities, so the order stays (atoms
// and exponents); for normal forms it says that the leading coefficient of a - b is positive, which
// survives multiplication because monomials have no zero divisors (radicands, squares, denominators).
// A monomial compares its components one after the other, and each of them can be cancelled.
#include "expr/normal.h"

// Earlier inputs come first, as a program names them.
int order_atom(const struct expr *ex, uint32_t a, uint32_t b)
{
  if (a == b) return 0;
  const struct expr_atom *s = atom_at(ex, a), *t = atom_at(ex, b);
  if (s->kind != t->kind) return s->kind < t->kind ? 1 : -1;
  if (s->tag != t->tag) return s->tag < t->tag ? 1 : -1;
  if (s->n != t->n) return s->n > t->n ? 1 : -1;
  for (uint32_t i = 0; i < s->n; i++)
    if (s->arg[i] != t->arg[i]) return order_poly(ex, s->arg[i], t->arg[i]);
  CHECK(!"two atoms of one content");
}

static inline int order_multiset(const struct expr *ex, order_fn *order, const uint32_t *a, uint32_t na, const uint32_t *b, uint32_t nb)
{
  for (uint32_t i = 0; i < na && i < nb; i++)
    if (a[i] != b[i]) return order(ex, a[i], b[i]);
  return na == nb ? 0 : na > nb ? 1 : -1;
}

int order_mono(const struct expr *ex, uint32_t a, uint32_t b)
{
  if (a == b) return 0;
  const struct expr_mono *s = mono_at(ex, a), *t = mono_at(ex, b);
  int c = order_multiset(ex, order_atom, s->a, s->n, t->a, t->n);
  if (!c) c = order_poly(ex, s->x, t->x);
  if (!c) c = order_poly(ex, s->s, t->s);
  if (!c) c = order_poly(ex, s->q, t->q);
  if (!c) c = order_poly(ex, s->d, t->d);
  if (!c) c = s->k > t->k ? 1 : -1;
  return c;
}

int order_poly(const struct expr *ex, nf a, nf b)
{
  if (a == b) return 0;
  const struct poly *p = poly_at(ex, a), *q = poly_at(ex, b);
  return order_multiset(ex, order_mono, p->m, p->n, q->m, q->n);
}

uint32_t multi_union(const struct expr *ex, order_fn *order, const uint32_t *a, uint32_t na, const uint32_t *b, uint32_t nb, uint32_t *out)
{
  uint32_t i = 0, j = 0, n = 0;
  while (i < na && j < nb) out[n++] = order(ex, a[i], b[j]) >= 0 ? a[i++] : b[j++];
  while (i < na) out[n++] = a[i++];
  while (j < nb) out[n++] = b[j++];
  return n;
}

uint32_t multi_meet(const struct expr *ex, order_fn *order, const uint32_t *a, uint32_t na, const uint32_t *b, uint32_t nb, uint32_t *out)
{
  uint32_t i = 0, j = 0, n = 0;
  while (i < na && j < nb) {
    int c = order(ex, a[i], b[j]);
    if (c == 0) out[n++] = a[i];
    i += c >= 0;
    j += c <= 0;
  }
  return n;
}

int multi_minus(const uint32_t *a, uint32_t na, const uint32_t *b, uint32_t nb, uint32_t *out)
{
  if (na < nb) return -1;
  uint32_t j = 0, n = 0;
  for (uint32_t i = 0; i < na; i++) {
    if (j < nb && a[i] == b[j])
      j++;
    else if (n == na - nb)
      return -1;
    else
      out[n++] = a[i];
  }
  return (int)n;
}

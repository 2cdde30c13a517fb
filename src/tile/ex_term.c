// Sums under construction and their terms. terms_done converts every sum to a node; there x / d * d + x mod d becomes x.
#include "tile/ex_pool.h"

#include <string.h>

static bool single(struct ex_range r) { return r.lo == r.hi && r.lo >= -EX_BIG && r.lo < EX_BIG; }

void terms_const(struct ex_pool *p, struct terms *s, __int128 c) { s->c = ex_value(ex_number(p, s->c + c)); }

static void drop(struct terms *s, int i)
{
  memmove(s->t + i, s->t + i + 1, (size_t)(s->n - i - 1) * sizeof *s->t);
  memmove(s->k + i, s->k + i + 1, (size_t)(s->n - i - 1) * sizeof *s->k);
  s->n--;
}

static void insert(struct ex_pool *p, struct terms *s, ex t, int64_t k)
{
  int i = 0;
  while (i < s->n && s->t[i] < t) i++;
  if (i < s->n && s->t[i] == t) {
    s->k[i] = ex_value(ex_number(p, (__int128)s->k[i] + k));
    if (!s->k[i]) drop(s, i);
    return;
  }
  if (s->n == EX_TERMS) {
    p->overflow = true;
    return;
  }
  memmove(s->t + i + 1, s->t + i, (size_t)(s->n - i) * sizeof *s->t);
  memmove(s->k + i + 1, s->k + i, (size_t)(s->n - i) * sizeof *s->k);
  s->t[i] = t, s->k[i] = k, s->n++;
}

// k * (M / 128) is k / 128 * M if M and k are multiples of 128.
static bool exact(struct ex_pool *p, struct terms *s, ex t, int64_t k)
{
  struct mono m;
  mono_of(p, t, k, &m);
  for (int i = 0; i < m.n; i++) {
    if (!ex_is(p, m.f[i], EX_DIV)) continue;
    const struct ex_node *n = ex_node(p, m.f[i]);
    int64_t d = ex_is_const(n->arg[1]) ? ex_value(n->arg[1]) : 0;
    if (!d || k % d || ex_multiple(p, n->arg[0]) % d) continue;
    m.k = k / d;
    memmove(m.f + i, m.f + i + 1, (size_t)(m.n - i - 1) * sizeof *m.f);
    m.n--;
    terms_add(p, s, ex_mul(p, mono_done(p, &m), n->arg[0]), 1);
    return true;
  }
  return false;
}

void terms_add(struct ex_pool *p, struct terms *s, ex x, int64_t k)
{
  if (k == 0) return;
  struct ex_range r = ex_range(p, x);
  if (single(r)) {
    terms_const(p, s, (__int128)r.lo * k);
  } else if (ex_is(p, x, EX_SUM)) {
    const struct ex_node *n = ex_node(p, x);
    terms_const(p, s, (__int128)n->c * k);
    for (int i = 0; i < n->n; i++) terms_add(p, s, n->arg[i], ex_value(ex_number(p, (__int128)n->coef[i] * k)));
  } else if (!exact(p, s, x, k)) {
    insert(p, s, x, k);
  }
}

void terms_of(struct ex_pool *p, ex x, struct terms *s)
{
  s->c = 0, s->n = 0;
  if (ex_is(p, x, EX_SUM)) {
    const struct ex_node *n = ex_node(p, x);
    s->c = n->c, s->n = n->n;
    memcpy(s->t, n->arg, (size_t)n->n * sizeof *s->t);
    memcpy(s->k, n->coef, (size_t)n->n * sizeof *s->k);
  } else {
    terms_add(p, s, x, 1);
  }
}

// ---- from terms to nodes ----

static bool has_kind(const struct ex_pool *p, const struct terms *s, enum ex_kind kind)
{
  struct mono m;
  for (int i = 0; i < s->n; i++) {
    mono_of(p, s->t[i], 1, &m);
    for (int j = 0; j < m.n; j++)
      if (ex_is(p, m.f[j], kind)) return true;
  }
  return false;
}

static bool contains(const struct terms *s, const struct terms *part)
{
  for (int i = 0, j = 0; i < part->n; i++) {
    while (j < s->n && s->t[j] < part->t[i]) j++;
    if (j == s->n || s->t[j] != part->t[i] || s->k[j] != part->k[i]) return false;
  }
  return part->n > 0;
}

// Term i is rest * (y mod d). If rest * d * (y / d) is also a term, both become rest * y.
static bool rejoin(struct ex_pool *p, struct terms *s, int i)
{
  struct mono m, rest;
  struct terms quotient;
  mono_of(p, s->t[i], s->k[i], &m);
  for (int j = 0; j < m.n; j++) {
    if (!ex_is(p, m.f[j], EX_MOD)) continue;
    const struct ex_node *n = ex_node(p, m.f[j]);
    ex y = n->arg[0], d = n->arg[1];
    rest = m;
    memmove(rest.f + j, rest.f + j + 1, (size_t)(m.n - j - 1) * sizeof *m.f);
    rest.n--;
    ex factor = mono_done(p, &rest);
    terms_of(p, ex_mul(p, ex_mul(p, factor, d), ex_div(p, y, d)), &quotient);
    if (!contains(s, &quotient)) continue;
    terms_const(p, s, -(__int128)quotient.c);
    for (int q = 0; q < quotient.n; q++) terms_add(p, s, quotient.t[q], -quotient.k[q]);
    terms_add(p, s, ex_mul(p, factor, m.f[j]), -1);
    terms_add(p, s, ex_mul(p, factor, y), 1);
    return true;
  }
  return false;
}

ex terms_done(struct ex_pool *p, struct terms *s)
{
  while (s->n > 1 && has_kind(p, s, EX_MOD) && has_kind(p, s, EX_DIV)) {
    int i = 0;
    while (i < s->n && !rejoin(p, s, i)) i++;
    if (i == s->n) break;
  }
  if (!s->n) return ex_number(p, s->c);
  if (s->n == 1 && s->k[0] == 1 && !s->c) return s->t[0];
  return ex_make(p, EX_SUM, s->n, s->t, s->k, s->c);
}

// ---- terms as products ----

void mono_of(const struct ex_pool *p, ex t, int64_t k, struct mono *m)
{
  m->k = k;
  if (ex_is(p, t, EX_PROD)) {
    const struct ex_node *n = ex_node(p, t);
    m->n = n->n;
    memcpy(m->f, n->arg, (size_t)n->n * sizeof *m->f);
  } else {
    m->n = 1, m->f[0] = t;
  }
}

bool mono_of_ex(const struct ex_pool *p, ex x, struct mono *m)
{
  m->n = 0;
  if (ex_is_const(x)) return m->k = ex_value(x), true;
  const struct ex_node *n = ex_node(p, x);
  if (n->kind != EX_SUM) return mono_of(p, x, 1, m), true;
  return n->n == 1 && !n->c ? mono_of(p, n->arg[0], n->coef[0], m), true : false;
}

static ex factors(struct ex_pool *p, int n, const ex *f) { return n == 1 ? f[0] : ex_make(p, EX_PROD, n, f, NULL, 0); }

ex mono_product(struct ex_pool *p, ex a, ex b)
{
  struct mono x, y;
  ex f[2 * EX_FACTORS];
  mono_of(p, a, 1, &x);
  mono_of(p, b, 1, &y);
  int n = 0, i = 0, j = 0;
  while (i < x.n || j < y.n) f[n++] = j == y.n || (i < x.n && x.f[i] <= y.f[j]) ? x.f[i++] : y.f[j++];
  if (n > EX_FACTORS) return p->overflow = true, EX_C(0);
  return factors(p, n, f);
}

bool mono_divide(const struct mono *a, const struct mono *b, struct mono *q)
{
  if (!b->k || a->k % b->k) return false;
  q->k = a->k / b->k, q->n = 0;
  int j = 0;
  for (int i = 0; i < a->n; i++) {
    if (j < b->n && a->f[i] == b->f[j])
      j++;
    else
      q->f[q->n++] = a->f[i];
  }
  return j == b->n;
}

void mono_gcd(const struct mono *a, const struct mono *b, struct mono *g)
{
  g->k = ex_gcd(a->k, b->k), g->n = 0;
  for (int i = 0, j = 0; i < a->n && j < b->n;) {
    if (a->f[i] == b->f[j])
      g->f[g->n++] = a->f[i], i++, j++;
    else if (a->f[i] < b->f[j])
      i++;
    else
      j++;
  }
}

ex mono_done(struct ex_pool *p, const struct mono *m)
{
  if (!m->n || !m->k) return ex_number(p, m->n ? 0 : m->k);
  return ex_mul(p, EX_C(m->k), factors(p, m->n, m->f));
}

// The pool of integer expressions; sums and products. A node is interned by its content, so equal expressions have equal numbers. Simplification
// happens before a node is made, in the files that ex_pool.h lists. Constants need no node.
#include "tile/ex_pool.h"

#include <string.h>

struct ex_pool *ex_open(struct arena *mem)
{
  struct ex_pool *p = NEW(mem, struct ex_pool);
  p->mem = mem;
  return p;
}

const struct ex_node *ex_node(const struct ex_pool *p, ex x) { return &ex_full(p, x)->node; }
int ex_vars(const struct ex_pool *p) { return p->vars; }
bool ex_overflowed(const struct ex_pool *p) { return p->overflow; }
void ex_forgive_overflow(struct ex_pool *p) { p->overflow = false; }

ex ex_number(struct ex_pool *p, __int128 v)
{
  if (v < -EX_BIG) return p->overflow = true, EX_C(-EX_BIG);
  if (v >= EX_BIG) return p->overflow = true, EX_C(EX_BIG - 1);
  return EX_C(v);
}

// ---- interning ----

static bool same(const struct ex_full *a, const struct ex_full *b)
{
  const struct ex_node *x = &a->node, *y = &b->node;
  return a->hash == b->hash && x->kind == y->kind && x->n == y->n && x->c == y->c && !memcmp(x->arg, y->arg, (size_t)x->n * sizeof(ex)) &&
         (x->kind != EX_SUM || !memcmp(x->coef, y->coef, (size_t)x->n * sizeof(int64_t)));
}

static void insert(struct ex_pool *p, uint32_t node)
{
  uint32_t i = (uint32_t)p->node[node]->hash & (p->slots - 1);
  while (p->slot[i]) i = (i + 1) & (p->slots - 1);
  p->slot[i] = node + 1;
}

static ex append(struct ex_pool *p, const struct ex_full *f)
{
  struct ex_full *kept = arena_copy(p->mem, f, sizeof *f); // copied first: the pool survives a call that runs out of memory
  if (2 * p->n >= p->slots) {
    const uint32_t slots = p->slots ? 2 * p->slots : 64;
    p->slot = NEWS(p->mem, uint32_t, slots), p->slots = slots;
    for (uint32_t i = 0; i < p->n; i++)
      if (p->node[i]->node.kind != EX_VAR) insert(p, i);
  }
  PUSH(p->mem, p->node, p->n, p->cap) = kept;
  if (f->node.kind != EX_VAR) insert(p, p->n - 1);
  return (ex)(p->n - 1) * 2 + 1;
}

static void measure(const struct ex_pool *p, struct ex_full *f)
{
  const struct ex_node *n = &f->node;
  uint64_t h = hash_mix(n->kind, (uint64_t)n->c);
  f->weight = 1;
  for (int i = 0; i < n->n; i++) {
    h = hash_mix(h, (uint64_t)n->arg[i]);
    if (n->coef) h = hash_mix(h, (uint64_t)n->coef[i]);
    if (ex_is_const(n->arg[i])) continue;
    const struct ex_full *a = ex_full(p, n->arg[i]);
    f->weight = MIN(f->weight + a->weight, EX_WEIGHT + 1);
    f->depth = MAX(f->depth, a->depth);
    f->vars |= a->vars;
  }
  f->hash = h;
  f->depth++;
}

static uint32_t found(const struct ex_pool *p, const struct ex_full *f)
{
  if (!p->slots) return 0;
  uint32_t i = (uint32_t)f->hash & (p->slots - 1);
  while (p->slot[i] && !same(p->node[p->slot[i] - 1], f)) i = (i + 1) & (p->slots - 1);
  return p->slot[i];
}

ex ex_make(struct ex_pool *p, enum ex_kind kind, int n, const ex *arg, const int64_t *coef, int64_t c)
{
  struct ex_full f = {.node = {.kind = kind, .n = n, .arg = arg, .coef = coef, .c = c}};
  measure(p, &f);
  uint32_t known = found(p, &f);
  if (known) return (ex)(known - 1) * 2 + 1;
  if (f.weight > EX_WEIGHT || f.depth > EX_DEPTH) return p->overflow = true, EX_C(0);
  ex_bound(p, &f.node);
  if (f.node.range.lo == f.node.range.hi && f.node.range.lo < EX_BIG && f.node.range.lo >= -EX_BIG) return EX_C(f.node.range.lo);
  f.node.arg = arena_copy(p->mem, arg, (size_t)n * sizeof *arg);
  if (coef) f.node.coef = arena_copy(p->mem, coef, (size_t)n * sizeof *coef);
  return append(p, &f);
}

ex ex_var(struct ex_pool *p, const char *name, int64_t lo, int64_t hi, int64_t multiple)
{
  struct ex_full f = {.node = {.kind = EX_VAR, .c = p->vars, .name = arena_strdup(p->mem, name)}};
  int64_t m = multiple < 1 ? 1 : multiple;
  lo = lo < -EX_BIG ? -EX_INF : MIN(lo, EX_BIG - 1), hi = hi >= EX_BIG ? EX_INF : MAX(hi, -EX_BIG);
  if (lo > -EX_INF && m < EX_BIG / 2) lo = -ex_floor(-lo, m) * m;
  if (hi < EX_INF && m < EX_BIG / 2) hi = ex_floor(hi, m) * m;
  f.node.range = (struct ex_range){lo, MAX(lo, hi)};
  f.node.multiple = lo == 0 && hi <= 0 ? 0 : m;
  f.weight = f.depth = 1;
  f.vars = 1ull << (p->vars % 64);
  p->vars++;
  return append(p, &f);
}

// ---- sums and products ----

ex ex_add(struct ex_pool *p, ex a, ex b)
{
  if (!((a | b) & 1)) {
    int64_t r;
    return __builtin_add_overflow(a, b, &r) ? ex_number(p, (__int128)(a >> 1) + (b >> 1)) : r;
  }
  if (!a) return b;
  if (!b) return a;
  struct terms s;
  terms_of(p, a, &s);
  terms_add(p, &s, b, 1);
  return terms_done(p, &s);
}

ex ex_sub(struct ex_pool *p, ex a, ex b)
{
  if (!((a | b) & 1)) {
    int64_t r;
    return __builtin_sub_overflow(a, b, &r) ? ex_number(p, (__int128)(a >> 1) - (b >> 1)) : r;
  }
  if (a == b) return EX_C(0);
  struct terms s;
  terms_of(p, a, &s);
  terms_add(p, &s, b, -1);
  return terms_done(p, &s);
}

static ex scaled(struct ex_pool *p, ex x, int64_t k)
{
  if (k == 0) return EX_C(0);
  if (k == 1) return x;
  struct terms s = {0};
  terms_add(p, &s, x, k);
  return terms_done(p, &s);
}

// Multiplies every term by every term. If there would be too many terms, the sums stay as factors.
static ex product(struct ex_pool *p, ex a, ex b)
{
  struct terms x, y, s;
  terms_of(p, a, &x);
  terms_of(p, b, &y);
  if (x.n * y.n > EX_TERMS / 2) return mono_product(p, a, b);
  s.n = 0, s.c = 0;
  terms_const(p, &s, (__int128)x.c * y.c);
  for (int i = 0; i < x.n; i++) terms_add(p, &s, x.t[i], ex_value(ex_number(p, (__int128)x.k[i] * y.c)));
  for (int j = 0; j < y.n; j++) terms_add(p, &s, y.t[j], ex_value(ex_number(p, (__int128)y.k[j] * x.c)));
  for (int i = 0; i < x.n; i++)
    for (int j = 0; j < y.n; j++) terms_add(p, &s, mono_product(p, x.t[i], y.t[j]), ex_value(ex_number(p, (__int128)x.k[i] * y.k[j])));
  return terms_done(p, &s);
}

ex ex_mul(struct ex_pool *p, ex a, ex b)
{
  if (!((a | b) & 1)) {
    int64_t r;
    return __builtin_mul_overflow(a, b >> 1, &r) ? ex_number(p, (__int128)(a >> 1) * (b >> 1)) : r;
  }
  if (ex_is_const(a)) return scaled(p, b, ex_value(a));
  if (ex_is_const(b)) return scaled(p, a, ex_value(b));
  return product(p, a, b);
}

// Prime-field pairs: functions too long for field.h. Powers by squaring. Exponentials use a table of omega's powers,
// because every exponential of a test has the same base.
#include "eval/field.h"

#include "base/rational.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct modulus mod_open(uint64_t n)
{
  struct modulus m = {.n = n};
  uint64_t inv = n; // correct to 3 bits; Newton's iteration doubles them
  for (int i = 0; i < 5; i++) inv *= 2 - n * inv;
  m.minv = -inv;
  m.one = (uint64_t)(((unsigned __int128)1 << 64) % n);
  m.sq = (uint64_t)((unsigned __int128)m.one * m.one % n);
  return m;
}

uint64_t mod_pow(const struct modulus *m, uint64_t x, uint64_t e)
{
  uint64_t low[16] = {m->one, x};
  for (int i = 2; i < 16; i++) low[i] = mod_mul(m, low[i - 1], x);
  uint64_t r = m->one;
  int at = e ? (63 - __builtin_clzll(e)) & ~3 : 0;
  for (; at >= 0; at -= 4) {
    for (int i = 0; i < 4; i++) r = mod_mul(m, r, r);
    r = mod_mul(m, r, low[e >> at & 15]);
  }
  return r;
}

static void fill_powers(struct field *F)
{
  uint64_t base = F->omega;
  for (int i = 0; i < FF_ROWS; i++) {
    F->power[i][0] = F->P.one;
    for (int j = 1; j < 1 << FF_WINDOW; j++) F->power[i][j] = mod_mul(&F->P, F->power[i][j - 1], base);
    base = mod_mul(&F->P, F->power[i][(1 << FF_WINDOW) - 1], base);
  }
}

void field_open(struct field *F, struct primes primes, uint64_t seed)
{
  struct rng r = {seed ^ 0x6d6963612d666621u};
  *F = (struct field){.P = mod_open(primes.p), .Q = mod_open(primes.q), .key = rng_next(&r)};
  do F->omega = mod_pow(&F->P, rng_below(&r, primes.p - 1) + 1, (primes.p - 1) / primes.q);
  while (F->omega == F->P.one);
  fill_powers(F);
}

struct ffv field_random(const struct field *F, struct rng *r)
{
  uint64_t p = rng_below(r, F->P.n);
  return (struct ffv){p, rng_below(r, F->Q.n)};
}

// The last inverse is cached, because all elements of a row are divided by the same value.
struct ffv ff_inv(struct field *F, struct ffv x)
{
  if (!x.p || !x.q) F->zero_divisions++;
  if (x.p == F->inv_of.p && x.q == F->inv_of.q) return F->inv_is;
  struct ffv r = {mod_pow(&F->P, x.p, F->P.n - 2), ff_lost(x) ? FF_NONE : mod_pow(&F->Q, x.q, F->Q.n - 2)};
  F->inv_of = x, F->inv_is = r;
  return r;
}

static uint64_t root(const struct modulus *m, uint64_t x)
{
  return mod_pow(m, x, m->n / 4 + 1); // n = 3 mod 4
}

struct ffv ff_sqrt(const struct field *F, struct ffv x) { return (struct ffv){root(&F->P, x.p), ff_lost(x) ? FF_NONE : root(&F->Q, x.q)}; }

struct ffv ff_exp(struct field *F, struct ffv x)
{
  if (ff_lost(x)) {
    F->lost_exps++;
    return ff_opaque(F, -1, x, x);
  }
  uint64_t r = F->P.one, e = mod_from(&F->Q, x.q);
  for (int i = 0; e; i++, e >>= FF_WINDOW) r = mod_mul(&F->P, r, F->power[i][e & ((1 << FF_WINDOW) - 1)]);
  return (struct ffv){r, FF_NONE};
}

static uint64_t hashed(uint64_t h, uint64_t n) { return (uint64_t)((unsigned __int128)h * n >> 64); }

bool ff_small(const struct field *F, struct ffv x, int64_t most, int64_t *out)
{
  const uint64_t v = mod_from(&F->P, x.p), n = F->P.n;
  if (2 * (uint64_t)most >= n) return false;
  if (v <= (uint64_t)most) return *out = (int64_t)v, true;
  return *out = -(int64_t)(n - v), n - v <= (uint64_t)most;
}

struct ffv ff_opaque(const struct field *F, int op, struct ffv x, struct ffv y)
{
  uint64_t h = hash_mix(hash_mix(hash_mix(F->key, (uint64_t)op), x.p), y.p);
  struct rng r = {h};
  uint64_t p = hashed(rng_next(&r), F->P.n);
  return (struct ffv){p, hashed(rng_next(&r), F->Q.n)};
}

// A bijection of 64-bit words, so there are no ties.
static uint64_t rank(const struct field *F, struct ffv x)
{
  struct rng r = {x.p ^ F->key};
  return rng_next(&r);
}

static struct ffv pick(const struct field *F, struct ffv x, struct ffv y, bool larger)
{
  if (x.p == y.p) return ff_lost(x) ? y : x;
  const int op = larger ? -2 : -3;
  if (F->opaque_max) return x.p < y.p ? ff_opaque(F, op, x, y) : ff_opaque(F, op, y, x);
  return (rank(F, x) > rank(F, y)) == larger ? x : y;
}
struct ffv ff_max(const struct field *F, struct ffv x, struct ffv y) { return pick(F, x, y, true); }
struct ffv ff_min(const struct field *F, struct ffv x, struct ffv y) { return pick(F, x, y, false); }

static uint64_t power_mod(const struct modulus *m, uint64_t base, int exponent)
{
  uint64_t x = mod_pow(m, mod_to(m, base), (uint64_t)abs(exponent));
  return exponent < 0 ? mod_pow(m, x, m->n - 2) : x;
}

static uint64_t rational_mod(const struct modulus *m, const struct rational *c)
{
  uint64_t r = mod_mul(m, mod_to(m, c->n), mod_pow(m, mod_to(m, c->d), m->n - 2));
  r = mod_mul(m, r, mod_mul(m, power_mod(m, 10, c->tens), power_mod(m, 2, c->twos)));
  return c->negative ? mod_sub(m, 0, r) : r;
}

static struct ffv const_value(const struct field *F, double c)
{
  if (!isfinite(c)) {
    struct ffv tag = {isnan(c) ? 1 : c > 0 ? 2 : 3, 0};
    return ff_opaque(F, -4, tag, tag);
  }
  struct rational r = rational_of(c);
  return (struct ffv){rational_mod(&F->P, &r), rational_mod(&F->Q, &r)};
}

struct ffv ff_const(struct field *F, double c)
{
  uint64_t bits;
  memcpy(&bits, &c, sizeof bits);
  int i = (int)(hash_mix(0, bits) % FF_CONSTS);
  if (!F->consts[i].set || memcmp(&F->consts[i].c, &c, sizeof c)) {
    F->consts[i].v = const_value(F, c);
    F->consts[i].c = c, F->consts[i].set = true;
  }
  return F->consts[i].v;
}

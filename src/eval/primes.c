// Pairs of primes. Quadratic reciprocity turns the wanted quadratic characters into residues of q modulo small primes. The
// Chinese remainder theorem combines them into one residue class. Candidates of the class are tried until q and 2 q + 1 are
// prime.
#include "eval/field.h"
#include "eval/primes.h"

enum { MOST = 40, TRIES = 1 << 21, FREE_BITS = 22 };

static const uint64_t BASE[] = {3, 5, 7, 11, 13, 17, 19, 23, 29};

int jacobi(uint64_t a, uint64_t n)
{
  int s = 1;
  for (a %= n; a; a %= n) {
    int twos = __builtin_ctzll(a);
    a >>= twos;
    if ((twos & 1) && (n % 8 == 3 || n % 8 == 5)) s = -s;
    if (a % 4 == 3 && n % 4 == 3) s = -s;
    uint64_t t = a;
    a = n, n = t;
  }
  return n == 1 ? s : 0;
}

// Miller-Rabin test with bases that decide every number below 2^64.
static bool witness(const struct modulus *m, uint64_t base)
{
  uint64_t n = m->n, minus = n - m->one, odd = (n - 1) >> __builtin_ctzll(n - 1);
  uint64_t x = mod_pow(m, mod_to(m, base), odd);
  if (x == m->one || x == minus) return false;
  for (uint64_t e = odd; e * 2 < n - 1; e *= 2) {
    x = mod_mul(m, x, x);
    if (x == minus) return false;
  }
  return true;
}

bool prime_is(uint64_t x)
{
  static const uint64_t bases[] = {2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37};
  for (size_t i = 0; i < COUNT(bases); i++)
    if (x % bases[i] == 0) return x == bases[i];
  if (x < 2) return false;
  struct modulus m = mod_open(x);
  for (size_t i = 0; i < COUNT(bases); i++)
    if (witness(&m, bases[i])) return false;
  return true;
}

static void add_factor(uint64_t f, int most, uint64_t *out, int *n)
{
  for (int i = 0; i < *n; i++)
    if (out[i] == f) return;
  if (*n < most) out[(*n)++] = f;
}

void prime_factors(uint64_t x, int most, uint64_t *out, int *n)
{
  for (uint64_t f = 2; f < 1 << 16 && f * f <= x; f += 1 + (f > 2)) {
    if (x % f == 0) add_factor(f, most, out, n);
    while (x % f == 0) x /= f;
  }
  if (x > 1) add_factor(x, most, out, n);
}

struct primes_search {
  uint64_t step, first; // q = first mod step
  uint64_t check[MOST]; // must be residues: tested for each candidate
  int nchecks;
};

static bool fits(uint64_t r, uint64_t q) // r odd, q a residue class modulo r
{
  uint64_t p = (2 * q + 1) % r;
  int wanted = r % 4 == 1 ? 1 : -1; // (r / p) = (p / r) (-1)^((r - 1) / 2), since p = 3 mod 4
  return jacobi(q, r) == wanted && jacobi(p, r) == wanted;
}

// Fixes q modulo r to a class in which r is a quadratic residue of both q and 2 q + 1.
static void fix(struct primes_search *s, struct rng *rng, uint64_t r)
{
  uint64_t at = rng_below(rng, r), q = 0;
  for (uint64_t i = 0; i < r && !q; i++)
    if (fits(r, (at + i) % r)) q = (at + i) % r;
  if (!q) return;
  while (s->first % r != q) s->first += s->step;
  s->step *= r;
}

static void want(struct primes_search *s, struct rng *rng, int bits, uint64_t r)
{
  while (r % 2 == 0) r /= 2;
  if (r == 1 || s->step % r == 0) return;
  bool small = r < 1 << 12 && s->step < ((uint64_t)1 << (bits - 1 - FREE_BITS)) / r && prime_is(r);
  if (small)
    fix(s, rng, r);
  else if (s->nchecks < MOST)
    s->check[s->nchecks++] = r;
}

static bool residues(const struct primes_search *s, uint64_t q)
{
  for (int i = 0; i < s->nchecks; i++)
    if (jacobi(s->check[i], q) != 1 || jacobi(s->check[i], 2 * q + 1) != 1) return false;
  return true;
}

static bool divisible(uint64_t q)
{
  static const uint8_t small[] = {3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97};
  for (size_t i = 0; i < COUNT(small); i++) {
    uint64_t r = q % small[i];
    if (r == 0 || 2 * r + 1 == small[i]) return true;
  }
  return false;
}

static bool draw(int bits, uint64_t seed, int n, const uint64_t *wanted, struct primes *out)
{
  struct rng rng = {seed ^ 0x70616972u};
  struct primes_search s = {.step = 8, .first = 7};
  size_t base = bits < 40 ? 2 : COUNT(BASE);
  for (size_t i = 0; i < base; i++) want(&s, &rng, bits, BASE[i]);
  for (int i = 0; i < n; i++) want(&s, &rng, bits, wanted[i]);
  uint64_t least = (uint64_t)1 << (bits - 2), range = least / s.step;
  for (int i = 0; i < TRIES; i++) {
    uint64_t q = (least / s.step + 1 + rng_below(&rng, range - 1)) * s.step + s.first;
    if (divisible(q) || !residues(&s, q) || !prime_is(q) || !prime_is(2 * q + 1)) continue;
    return *out = (struct primes){2 * q + 1, q}, true;
  }
  return false;
}

struct primes primes_draw(int bits, uint64_t seed, int n, const uint64_t *wanted)
{
  struct primes r;
  CHECK(bits >= 24 && bits <= 62);
  for (; !draw(bits, seed, n, wanted, &r); n--, seed++) CHECK(n >= 0);
  return r;
}

// Ranges and divisors. A range contains every value of the node for variables in their ranges. EX_INF and -EX_INF mean no bound and are preserved by
// arithmetic. The divisor divides every value.
#include "tile/ex_pool.h"

static const struct ex_range EVERYTHING = {-EX_INF, EX_INF};

int64_t ex_gcd(int64_t a, int64_t b)
{
  uint64_t x = a < 0 ? -(uint64_t)a : (uint64_t)a, y = b < 0 ? -(uint64_t)b : (uint64_t)b;
  while (y) {
    uint64_t r = x % y;
    x = y, y = r;
  }
  return x > INT64_MAX ? INT64_MAX / 2 + 1 : (int64_t)x;
}

int64_t ex_floor(int64_t a, int64_t b) { return a / b - (a % b < 0); }

static int64_t low(__int128 v) { return v < -EX_BIG ? -EX_INF : v > EX_BIG ? EX_BIG : (int64_t)v; }
static int64_t high(__int128 v) { return v > EX_BIG ? EX_INF : v < -EX_BIG ? -EX_BIG : (int64_t)v; }

struct ex_range ex_range_add(struct ex_range a, struct ex_range b)
{
  return (struct ex_range){a.lo == -EX_INF || b.lo == -EX_INF ? -EX_INF : low((__int128)a.lo + b.lo),
                           a.hi == EX_INF || b.hi == EX_INF ? EX_INF : high((__int128)a.hi + b.hi)};
}

// An infinite bound is 2^63 - 1, which stays beyond EX_BIG for every factor but 0.
struct ex_range ex_range_mul(struct ex_range a, struct ex_range b)
{
  __int128 v[] = {(__int128)a.lo * b.lo, (__int128)a.lo * b.hi, (__int128)a.hi * b.lo, (__int128)a.hi * b.hi};
  __int128 least = v[0], most = v[0];
  for (int i = 1; i < 4; i++) least = MIN(least, v[i]), most = MAX(most, v[i]);
  return (struct ex_range){low(least), high(most)};
}

static int64_t corner(int64_t a, int64_t d) // floor(a / d) with infinities
{
  bool endless = a == EX_INF || a == -EX_INF;
  if (d == EX_INF) return endless ? a : a < 0 ? -1 : 0;
  return endless ? a : ex_floor(a, d);
}

static struct ex_range quotient(struct ex_range a, struct ex_range d)
{
  d.lo = MAX(d.lo, 1), d.hi = MAX(d.hi, d.lo);
  return (struct ex_range){corner(a.lo, a.lo < 0 ? d.lo : d.hi), corner(a.hi, a.hi < 0 ? d.hi : d.lo)};
}

// A remainder is a multiple of the common divisor, so its maximum is the divisor minus that.
static struct ex_range remainder_of(struct ex_range a, struct ex_range d, int64_t multiple)
{
  struct ex_range r = {0, d.hi == EX_INF ? EX_INF : MAX(d.hi - MAX(multiple, 1), 0)};
  if (a.lo >= 0) r.hi = MIN(r.hi, a.hi);
  return r;
}

static int64_t ones(int64_t x) // the least 2^n - 1 that is >= x
{
  return x <= 0 ? 0 : x >= EX_BIG ? EX_INF : (int64_t)(~0ull >> __builtin_clzll((uint64_t)x));
}

static struct ex_range bits(enum ex_kind kind, struct ex_range a, struct ex_range b)
{
  if (a.lo < 0 || b.lo < 0) return EVERYTHING;
  if (kind == EX_AND) return (struct ex_range){0, MIN(a.hi, b.hi)};
  return (struct ex_range){0, ones(MAX(a.hi, b.hi))};
}

static struct ex_range sum(const struct ex_pool *p, const struct ex_node *n)
{
  struct ex_range r = {n->c, n->c};
  for (int i = 0; i < n->n; i++) r = ex_range_add(r, ex_range_mul(ex_range(p, n->arg[i]), (struct ex_range){n->coef[i], n->coef[i]}));
  return r;
}

static struct ex_range shifted(struct ex_range a, struct ex_range b)
{
  if (a.lo < 0) return (struct ex_range){MIN(a.lo, -1), a.hi < 0 ? -1 : a.hi};
  int64_t least = MIN(MAX(b.lo, 0), 63), most = MIN(MAX(b.hi, 0), 63);
  return (struct ex_range){a.lo >> most, a.hi == EX_INF ? EX_INF : a.hi >> least};
}

static struct ex_range range_of(const struct ex_pool *p, const struct ex_node *n)
{
  struct ex_range r[3] = {{0}};
  for (int i = 0; i < MIN(n->n, 3); i++) r[i] = ex_range(p, n->arg[i]);
  switch (n->kind) {
  case EX_VAR: return n->range;
  case EX_SUM: return sum(p, n);
  case EX_PROD:
    for (int i = 1; i < n->n; i++) r[0] = ex_range_mul(r[0], ex_range(p, n->arg[i]));
    return r[0];
  case EX_DIV: return quotient(r[0], r[1]);
  case EX_MOD: return remainder_of(r[0], r[1], n->multiple);
  case EX_MIN: return (struct ex_range){MIN(r[0].lo, r[1].lo), MIN(r[0].hi, r[1].hi)};
  case EX_MAX: return (struct ex_range){MAX(r[0].lo, r[1].lo), MAX(r[0].hi, r[1].hi)};
  case EX_XOR:
  case EX_AND: return bits(n->kind, r[0], r[1]);
  case EX_SHR: return shifted(r[0], r[1]);
  case EX_LT:
  case EX_EQ: return (struct ex_range){0, 1};
  case EX_BOTH: return (struct ex_range){r[0].lo && r[1].lo, r[0].hi && r[1].hi};
  case EX_EITHER: return (struct ex_range){r[0].lo || r[1].lo, r[0].hi || r[1].hi};
  case EX_SELECT: return (struct ex_range){MIN(r[1].lo, r[2].lo), MAX(r[1].hi, r[2].hi)};
  }
  return EVERYTHING;
}

// The product, or one factor if it is too large: a divisor of the divisor is valid too.
static int64_t times(int64_t a, int64_t b)
{
  int64_t r;
  return __builtin_mul_overflow(a, b, &r) || r == INT64_MIN ? MAX(a, b) : r < 0 ? -r : r;
}

static int64_t low_bit(int64_t x) { return x ? x & -x : EX_BIG; }

static int64_t multiple_of(const struct ex_pool *p, const struct ex_node *n)
{
  int64_t m[3] = {1, 1, 1};
  for (int i = 0; i < MIN(n->n, 3); i++) m[i] = ex_multiple(p, n->arg[i]);
  switch (n->kind) {
  case EX_VAR: return n->multiple;
  case EX_SUM: {
    int64_t g = n->c;
    for (int i = 0; i < n->n; i++) {
      int64_t k = n->coef[i] < 0 ? -n->coef[i] : n->coef[i];
      g = ex_gcd(g, times(k, ex_multiple(p, n->arg[i])));
    }
    return g;
  }
  case EX_PROD:
    for (int i = 1; i < n->n; i++) m[0] = times(m[0], ex_multiple(p, n->arg[i]));
    return m[0];
  case EX_DIV: return ex_is_const(n->arg[1]) && m[0] % ex_value(n->arg[1]) == 0 ? m[0] / ex_value(n->arg[1]) : 1;
  case EX_MOD:
  case EX_MIN:
  case EX_MAX: return ex_gcd(m[0], m[1]);
  case EX_XOR: return MIN(low_bit(m[0]), low_bit(m[1]));
  case EX_AND: return MAX(low_bit(m[0]), low_bit(m[1]));
  case EX_SELECT: return ex_gcd(m[1], m[2]);
  case EX_SHR:
  case EX_LT:
  case EX_EQ:
  case EX_BOTH:
  case EX_EITHER: return 1;
  }
  return 1;
}

void ex_bound(const struct ex_pool *p, struct ex_node *n)
{
  n->multiple = multiple_of(p, n);
  n->range = range_of(p, n);
}

struct ex_range ex_range(const struct ex_pool *p, ex x)
{
  if (ex_is_const(x)) return (struct ex_range){ex_value(x), ex_value(x)};
  return ex_full(p, x)->node.range;
}

int64_t ex_multiple(const struct ex_pool *p, ex x)
{
  if (ex_is_const(x)) return ex_value(x) < 0 ? -ex_value(x) : ex_value(x);
  return ex_full(p, x)->node.multiple;
}

// Exact rationals of 128 bits; on overflow the check gives up.
#include "base/rational.h"
#include "verify/prove.h"

#include <math.h>

static whole gcd(whole a, whole b)
{
  while (b) {
    whole r = a % b;
    a = b, b = r;
  }
  return a < 0 ? -a : a;
}

static struct ratio overflow(struct prover *p)
{
  prove_give_up(p, "a coefficient has more than 127 bits");
  return (struct ratio){1, 1};
}

struct ratio ratio_of(struct prover *p, whole n, whole d)
{
  if (!d) return overflow(p);
  whole g = gcd(n, d);
  if (d < 0) g = -g;
  return (struct ratio){n / g, d / g};
}

struct ratio ratio_mul(struct prover *p, struct ratio x, struct ratio y)
{
  whole g = gcd(x.n, y.d), h = gcd(y.n, x.d), n, d;
  if (!x.n || !y.n) return (struct ratio){0, 1};
  if (__builtin_mul_overflow(x.n / g, y.n / h, &n) || __builtin_mul_overflow(x.d / h, y.d / g, &d)) return overflow(p);
  return (struct ratio){n, d};
}

struct ratio ratio_add(struct prover *p, struct ratio x, struct ratio y)
{
  whole a, b, n, d;
  if (__builtin_mul_overflow(x.n, y.d, &a) || __builtin_mul_overflow(y.n, x.d, &b) || __builtin_add_overflow(a, b, &n) ||
      __builtin_mul_overflow(x.d, y.d, &d))
    return overflow(p);
  return ratio_of(p, n, d);
}

struct ratio ratio_inverse(struct ratio x) { return x.n < 0 ? (struct ratio){-x.d, -x.n} : (struct ratio){x.d, x.n}; }
bool ratio_is(struct ratio x, int n) { return x.n == n && x.d == 1; }

int ratio_order(struct prover *p, struct ratio x, struct ratio y)
{
  struct ratio d = ratio_add(p, x, (struct ratio){-y.n, y.d});
  return (d.n > 0) - (d.n < 0);
}

whole ratio_floor(struct ratio x) { return x.n / x.d - (x.n < 0 && x.n % x.d); }

bool ratio_meant(double c, struct ratio *r)
{
  if (!isfinite(c)) return false;
  struct rational x = rational_of(c);
  if (x.rounded || !rational_fraction(x, &r->n, &r->d)) return false;
  if (x.negative) r->n = -r->n;
  return true;
}

// Exact rationals of 128 bits; what does not fit is given up. And what constants mean: a graph holds the double nearest
// to a number that somebody wrote, 0.00001 or the 1/n of a mean. Each double has one meaning, in both graphs.
#include "verify/prove.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SHORT = 9 }; // digits of a decimal text that is taken at its word

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
  if (__builtin_mul_overflow(x.n, y.d, &a) || __builtin_mul_overflow(y.n, x.d, &b) ||
      __builtin_add_overflow(a, b, &n) || __builtin_mul_overflow(x.d, y.d, &d))
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

// "-12.5e-3" without its exponent is n / 10^k.
static bool decimal(const char *text, whole *n, int *scale)
{
  int digits = 0;
  *n = 0, *scale = 0;
  for (bool point = false; *text && *text != 'e'; text++) {
    if (*text == '-') continue;
    if (*text == '.')
      point = true;
    else if (*text < '0' || *text > '9')
      return false;
    else
      *n = *n * 10 + (*text - '0'), *scale += point, digits += *n != 0;
    if (digits > SHORT) return false;
  }
  if (*text == 'e') *scale -= atoi(text + 1);
  return abs(*scale) <= 18;
}

bool ratio_meant(double c, struct ratio *r)
{
  char text[32];
  whole n, ten = 1;
  int scale;
  double k = c != 0 ? round(1 / fabs(c)) : 0;
  if (!isfinite(c)) return false;
  if (c == trunc(c) && fabs(c) < 0x1p53) return *r = (struct ratio){(whole)c, 1}, true;
  if (k > 0 && k < 0x1p40 && fabs(c) == 1 / k) return *r = (struct ratio){c < 0 ? -1 : 1, (whole)k}, true;
  str_double(text, c);
  if (!decimal(text, &n, &scale)) return false;
  for (int i = 0; i < abs(scale); i++) ten *= 10;
  if (c < 0) n = -n;
  whole d = scale > 0 ? ten : 1, g = gcd(scale > 0 ? n : n * ten, d);
  *r = (struct ratio){(scale > 0 ? n : n * ten) / g, d / g};
  return true;
}

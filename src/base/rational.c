// The meaning of constants (rational.h), and exact arithmetic on numbers that are known while a program is read.
#include "base/rational.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef __int128 whole;

static const double LARGEST_PRODUCT = 0x1p46; // of numerator and denominator of a fraction
enum { SHORT_DIGITS = 9, LONG_DIGITS = 15 };

static whole gcd(whole a, whole b)
{
  while (b) {
    whole r = a % b;
    a = b, b = r;
  }
  return a;
}

// ---- the meaning of a double ----

// The decimal of at most `digits` digits that rounds to x > 0.
static bool decimal(double x, int digits, struct rational *r)
{
  char text[40], *end;
  snprintf(text, sizeof text, "%.*e", digits - 1, x);
  if (strtod(text, NULL) != x) return false;
  *r = (struct rational){.d = 1};
  for (end = text; *end != 'e'; end++)
    if (*end != '.') r->n = r->n * 10 + (uint64_t)(*end - '0');
  r->tens = atoi(end + 1) - (digits - 1);
  for (; r->n % 10 == 0; r->tens++) r->n /= 10;
  return true;
}

// The fraction of a small product that rounds to x > 0. A fraction so near to x is a convergent of x (Legendre).
static bool fraction(double x, struct rational *r)
{
  int e;
  double m = frexp(x, &e);
  if (e > 46 || e < -46) return false;
  whole n = (whole)ldexp(m, 53), d = (whole)1 << (53 - e);
  double n1 = 1, n0 = 0, d1 = 0, d0 = 1; // the last two convergents; whole numbers below 2^53
  while (d) {
    double a = (double)(n / d), n2 = a * n1 + n0, d2 = a * d1 + d0;
    if (n2 * d2 > LARGEST_PRODUCT) return false;
    n0 = n1, n1 = n2, d0 = d1, d1 = d2;
    whole rest = n % d;
    n = d, d = rest;
    if (n1 > 0 && n1 / d1 == x) return *r = (struct rational){.n = (uint64_t)n1, .d = (uint64_t)d1}, true;
  }
  return false;
}

static struct rational itself(double x)
{
  int e;
  struct rational r = {.n = (uint64_t)ldexp(frexp(x, &e), 53), .d = 1, .rounded = true};
  for (r.twos = e - 53; r.n % 2 == 0; r.twos++) r.n /= 2;
  return r;
}

struct rational rational_of(double x)
{
  struct rational r = {.d = 1};
  double size = fabs(x);
  if (size == trunc(size) && size < 0x1p53)
    r.n = (uint64_t)size;
  else if (!decimal(size, SHORT_DIGITS, &r) && !fraction(size, &r) && !decimal(size, LONG_DIGITS, &r))
    r = itself(size);
  r.negative = x < 0;
  return r;
}

// ---- literals ----

struct rational_digits { // d[0] . d[1] d[2] ... * 10^exponent, without zeros at the ends
  char d[64];
  int n, exponent;
};

static struct rational_digits digits_of(const char *text)
{
  struct rational_digits r = {.exponent = -1};
  bool point = false;
  for (; *text && *text != 'e' && *text != 'E'; text++) {
    if (*text == '.') point = true;
    if (*text < '0' || *text > '9') continue;
    bool leads = !r.n && *text == '0';
    r.exponent += leads ? -point : !point;
    if (!leads && r.n < (int)sizeof r.d) r.d[r.n++] = *text;
  }
  while (r.n && r.d[r.n - 1] == '0') r.n--;
  if (*text) r.exponent += atoi(text + 1);
  return r;
}

bool rational_written(const char *text, double x)
{
  char shortest[32];
  str_double(shortest, x);
  struct rational_digits a = digits_of(text), b = digits_of(shortest);
  return a.n == b.n && (!a.n || (a.exponent == b.exponent && !memcmp(a.d, b.d, (size_t)a.n)));
}

// ---- arithmetic ----

static bool times(whole *x, int base, int exponent)
{
  for (; exponent > 0; exponent--)
    if (__builtin_mul_overflow(*x, (whole)base, x)) return false;
  return true;
}

bool rational_fraction(struct rational x, whole *n, whole *d)
{
  *n = (whole)x.n, *d = (whole)x.d;
  if (!times(n, 10, x.tens) || !times(n, 2, x.twos) || !times(d, 10, -x.tens) || !times(d, 2, -x.twos)) return false;
  whole g = x.n ? gcd(*n, *d) : *d;
  *n /= g, *d /= g;
  return true;
}

static bool signed_fraction(double x, whole *n, whole *d)
{
  struct rational r = rational_of(x);
  if (r.rounded || !rational_fraction(r, n, d)) return false;
  if (r.negative) *n = -*n;
  return true;
}

// Nearest to n / d where both are exact doubles, as those of short decimals and of small fractions are.
static double nearest(whole n, whole d) { return (double)n / (double)d; }

static bool combine(int op, whole a, whole b, whole c, whole d, whole *n, whole *m)
{
  whole u, v;
  switch (op) {
  case '*': return !__builtin_mul_overflow(a, c, n) && !__builtin_mul_overflow(b, d, m);
  case '/': return !__builtin_mul_overflow(a, d, n) && !__builtin_mul_overflow(b, c, m);
  default:
    if (__builtin_mul_overflow(a, d, &u) || __builtin_mul_overflow(c, b, &v)) return false;
    if (op == '-' ? __builtin_sub_overflow(u, v, n) : __builtin_add_overflow(u, v, n)) return false;
    return !__builtin_mul_overflow(b, d, m);
  }
}

bool rational_fold(int op, double x, double y, double *r)
{
  whole a, b, c, d, n, m;
  if (!isfinite(x) || !isfinite(y) || !signed_fraction(x, &a, &b) || !signed_fraction(y, &c, &d)) return false;
  if ((op == '/' && !c) || !combine(op, a, b, c, d, &n, &m)) return false;
  if (!n) return *r = 0, true;
  *r = nearest(n, m);
  return isfinite(*r);
}

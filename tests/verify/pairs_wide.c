// Functions of 113-bit floating point by series and Newton's iteration, from double's as first guesses. Their errors
// are below 1e-31 of the result for the arguments that occur; the truth asks for 1e-26.
#include "pairs.h"

#include <math.h>

static const wide LN2_HIGH = 0.69314718055994528623; // the double
static const wide LN2_LOW = (wide)2.3190468138462996e-17 + (wide)5.707708438416212e-34;

wide wide_nan(void) { return (wide)NAN; }
wide wide_abs(wide x) { return x < 0 ? -x : x; }
bool wide_ok(wide x) { return x - x == 0; }

// x * 2^n
static wide scaled(wide x, int n)
{
  for (; n > 1000; n -= 1000) x *= 0x1p1000;
  for (; n < -1000; n += 1000) x *= 0x1p-1000;
  return x * (wide)ldexp(1, n);
}

wide wide_sqrt(wide x)
{
  if (!(x >= 0) || !wide_ok(x)) return wide_nan();
  if (x == 0) return 0;
  int n = 0;
  while (x > 0x1p500) x *= 0x1p-500, n += 250;
  while (x < 0x1p-500) x *= 0x1p500, n -= 250;
  wide r = (wide)sqrt((double)x);
  for (int i = 0; i < 3; i++) r = (r + x / r) / 2;
  return scaled(r, n);
}

wide wide_exp(wide x)
{
  if (!wide_ok(x) || x > 11000) return wide_nan();
  if (x < -11000) return 0;
  int n = (int)rint((double)x / 0.693147180559945286);
  wide r = (x - n * LN2_HIGH - n * LN2_LOW) / 256, term = 1, sum = 0;
  for (int i = 1; i < 20; i++) sum += term *= r / i; // exp(r) - 1
  for (int i = 0; i < 8; i++) sum = sum * (2 + sum);
  return scaled(1 + sum, n);
}

wide wide_log(wide x)
{
  if (!(x > 0) || !wide_ok(x)) return wide_nan();
  int n = 0;
  for (; x > 0x1p500; n += 500) x *= 0x1p-500;
  for (; x < 0x1p-500; n -= 500) x *= 0x1p500;
  wide y = (wide)log((double)x);
  for (int i = 0; i < 3; i++) { // Halley: cubic
    wide e = wide_exp(y);
    y += 2 * (x - e) / (x + e);
  }
  return y + n * LN2_HIGH + n * LN2_LOW;
}

// erf(x) = 2 / sqrt(pi) * exp(-x^2) * sum of x (2 x^2)^k / (1 3 5 ... (2 k + 1)): all terms have one sign.
wide wide_erf(wide x)
{
  static const wide TWO_OVER_ROOT_PI = (wide)1.1283791670955126 + (wide)1.533545961316588e-17 + (wide)-4.765684596693686e-34;
  if (!wide_ok(x)) return wide_nan();
  if (x < 0) return -wide_erf(-x);
  if (x > 9) return 1;
  wide term = x, sum = x;
  for (int k = 1; k < 400 && term > sum * 1e-36; k++) sum += term *= 2 * x * x / (2 * k + 1);
  return TWO_OVER_ROOT_PI * wide_exp(-x * x) * sum;
}

static wide power(wide x, int64_t n)
{
  wide r = 1;
  for (uint64_t k = (uint64_t)(n < 0 ? -n : n); k; k >>= 1, x *= x)
    if (k & 1) r *= x;
  return n < 0 ? 1 / r : r;
}

wide wide_pow(wide x, wide y)
{
  if (!wide_ok(x) || !wide_ok(y)) return wide_nan();
  if (wide_abs(y) < 1000 && y == (int)y) return power(x, (int)y);
  if (x == 0 && y > 0) return 0;
  return wide_exp(y * wide_log(x));
}

// Floating-point types of at most 8 bits, by the rows of small.def: values and rounding.
#include "onnx/onnx.h"

#include <math.h>

enum special { INFINITIES, ONE_NAN, ONLY_NAN, NO_NAN, POWERS };
static const struct small_row {
  int type, exponent, mantissa, bias;
  enum special special;
} rows[] = {
#define SMALL(type, exponent, mantissa, bias, special) {ONNX_##type, exponent, mantissa, bias, special},
#include "onnx/small.def"
#undef SMALL
};

static const struct small_row *row_of(int type)
{
  for (size_t i = 0; i < COUNT(rows); i++)
    if (rows[i].type == type) return &rows[i];
  return NULL;
}

bool onnx_small(int type) { return row_of(type) != NULL; }

// The value of a finite pattern, without its sign.
static double number(const struct small_row *r, int bits)
{
  int e = bits >> r->mantissa, f = bits & ((1 << r->mantissa) - 1);
  if (r->special == POWERS) return ldexp(1, e - r->bias);
  double x = ldexp(f, -r->mantissa);
  return e ? ldexp(1 + x, e - r->bias) : ldexp(x, 1 - r->bias);
}

double onnx_small_read(int type, int bits)
{
  const struct small_row *r = row_of(type);
  int top = 1 << (r->exponent + r->mantissa), rest = bits & (top - 1), infinity = top - (1 << r->mantissa);
  bool minus = bits & top;
  if (r->special == POWERS) return bits == 255 ? (double)NAN : number(r, bits);
  if (r->special == ONE_NAN && rest == top - 1) return NAN;
  if (r->special == ONLY_NAN && bits == top) return NAN;
  if (r->special == INFINITIES && rest > infinity) return NAN;
  double x = r->special == INFINITIES && rest == infinity ? (double)INFINITY : number(r, rest);
  return minus ? -x : x;
}

static double largest(const struct small_row *r)
{
  int top = 1 << (r->exponent + r->mantissa);
  if (r->special == POWERS) return number(r, 254);
  return number(r, r->special == INFINITIES ? top - (1 << r->mantissa) - 1 : r->special == ONE_NAN ? top - 2 : top - 1);
}

static double power_of_two(double x, enum onnx_rounding rounding)
{
  if (!(x > 0x1p-127)) return isnan(x) ? (double)NAN : 0x1p-127;
  int e;
  double f = frexp(x, &e); // x = 2 f 2^(e - 1), 1 <= 2 f < 2
  bool up = rounding == ROUND_UP ? f > 0.5 : rounding == ROUND_DOWN ? false : f >= 0.75;
  return ldexp(1, e - 1 + up);
}

double onnx_small_round(int type, double x, bool saturate, enum onnx_rounding rounding)
{
  const struct small_row *r = row_of(type);
  double most = largest(r), beyond = r->special == INFINITIES ? INFINITY : NAN;
  if (isnan(x)) return r->special == NO_NAN ? 0 : x;
  if (r->special == NO_NAN) saturate = true;
  if (r->special == POWERS && isfinite(x)) x = power_of_two(x, rounding);
  if (isfinite(x) && r->special != POWERS) {
    int e = x == 0 ? 0 : ilogb(x);
    double step = ldexp(1, MAX(e, 1 - r->bias) - r->mantissa);
    x = nearbyint(x / step) * step;
  }
  if (fabs(x) > most) return copysign(saturate ? most : beyond, x);
  return x == 0 && r->special == ONLY_NAN ? 0 : x;
}

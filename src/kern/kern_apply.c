// Elementwise operators over double: the FLOAT column of ir/op.def, and kern_op.def's own.
#include "kern/kern.h"
#define NUM double
#include "eval/real.h"

#include <float.h>
#include <math.h>

// A product with c has a relative rounding error of 2^-24, and a fused c x - (c m) with equal x and m is that error. Its power of 2 is a factor of
// all powers of a row, which a quotient by their sum cancels. From 2^128 on no such number exists.
double kern_guard_limit(double c) { return fmin(0x1p30 / fabs(c), FLT_MAX); }

// A product with a power of 2 is exact. This one is at most 1, so that no product overflows, or as large as a large c needs.
double kern_guard_power(double c)
{
  const int e = ilogb(c);
  return copysign(ldexp(1, MAX(MIN(e, 0), e - 4)), c);
}

double kern_apply(int op, const struct attrs *a, double x, double y)
{
  const double r = 0;
  ATTR_LOCALS(a);
  (void)r;
  switch (op) {
#define OP(id, name, least, most, rule, levels, attrs, flags, code, field, abstract, range, cost, doc) \
  case OP_##id:                                                                                        \
    return code;
#include "ir/op.def"
#undef OP
#define KERN_OP(id, name, tile, nin, attrs, flags, cost, value) \
  case KERN_##id:                                               \
    return value;
#include "kern/kern_op.def"
#undef KERN_OP
  default: return 0;
  }
}

// Evaluates elementwise operators in double, from the FLOAT column of ir/op.def and the value column of kern_op.def.
#include "kern/kern.h"
#define NUM double
#include "eval/real.h"

#include <float.h>
#include <math.h>

// GPUs compute c x - (c m) as one fused instruction, in which only c m is rounded, with a relative error of 2^-24. For x = m the result is that
// error. 2 to the power of the error is then a factor of all exponentials of a row, and dividing by their sum cancels it. The factor must be finite:
// below this limit the error is at most 2^6, and 2^(2^6) is finite.
double kern_guard_limit(double c) { return fmin(0x1p30 / fabs(c), FLT_MAX); }

// A power of 2 near c: products with it are exact. It is at most 1, so that no product overflows, but not below c / 32 for a large c.
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

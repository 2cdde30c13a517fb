// The interpreter's loops over double, where a comparison takes numbers that are nearly equal as equal, and a number that is nearly whole as
// whole. Results that differ from those of f64.c are near a jump, so that rounding may have decided them. A comparison of what is not finite is
// NaN: over the reals it is not defined.
#define NUM double
#define DOMAIN domain_close
#define DOMAIN_RUN run_close
#define DOMAIN_PRODUCT product_close
#define DOMAIN_STRIP strip_close
#include "eval/real.h"
#include "eval/run.h"

#undef m_less
#undef m_less_equal
#undef m_equal
#undef m_floor
#define m_less(x, y) holds(x, y, (x) < (y) && !eval_close(x, y))
#define m_less_equal(x, y) holds(x, y, (x) <= (y) || eval_close(x, y))
#define m_equal(x, y) holds(x, y, eval_close(x, y))
#define m_floor(x) floor_close(x)

bool eval_close(double x, double y)
{
  const double apart = fabs(x - y);
  return (x <= y && x >= y) || (isfinite(apart) && apart <= 0x1p-40 + 0x1p-30 * fmax(fabs(x), fabs(y)));
}

static double holds(double x, double y, bool condition) { return !isfinite(x) || !isfinite(y) ? NAN : condition; }

static double floor_close(double x)
{
  const double above = ceil(x);
  return eval_close(x, above) ? above : floor(x);
}

#include "eval/domain.inc"

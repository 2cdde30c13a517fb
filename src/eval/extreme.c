// Products along a dimension in the two extreme orders. Generated code multiplies the factors in any order, in fp32. A partial product may leave
// the range although the product does not. The order with factors below 1 first has the smallest partial products of all orders. The order with
// factors above 1 first has the largest. A subnormal partial product is 0 here, as in code that flushes subnormals.
#include "eval/run.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

static int by_magnitude(const void *a, const void *b)
{
  const double x = fabs(*(const double *)a), y = fabs(*(const double *)b);
  return isnan(x) || isnan(y) ? isnan(x) - isnan(y) : (x > y) - (x < y);
}

static double in_range(double x) { return fabs(x) < FLT_MIN ? copysign(0, x) : fabs(x) > FLT_MAX ? copysign(INFINITY, x) : x; }

static double product(double *x, int64_t n, bool rising)
{
  double r = 1;
  qsort(x, (size_t)n, sizeof *x, by_magnitude);
  for (int64_t i = 0; i < n; i++) r = in_range(r * x[rising ? i : n - 1 - i]);
  return r;
}

static void fold(bool rising, struct field *F, enum op op, bool fresh, const struct fold *f, void *o, const void *x)
{
  if (op_rows[op].abstract != AE_PROD || !fresh) {
    domain_f64.fold(F, op, fresh, f, o, x);
    return;
  }
  struct arena mem = {0};
  double *factors = NEWS(&mem, double, f->len + 1), *to = o;
  const double *from = x;
  for (int64_t g = 0; g < f->outer * f->groups; g++, from += f->len * f->inner)
    for (int64_t i = 0; i < f->inner; i++) {
      for (int64_t l = 0; l < f->len; l++) factors[l] = from[l * f->inner + i];
      *to++ = product(factors, f->len, rising);
    }
  arena_close(&mem);
}

void fold_rising(struct field *F, enum op op, bool fresh, const struct fold *f, void *o, const void *x) { fold(true, F, op, fresh, f, o, x); }
void fold_falling(struct field *F, enum op op, bool fresh, const struct fold *f, void *o, const void *x) { fold(false, F, op, fresh, f, o, x); }

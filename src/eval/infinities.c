// Sums and products of matrices in which infinities of both signs do not make NaN. Over the reals x (A B) is (x A) B, and code takes either. If
// A B has an infinity in two rows, the first may add inf to -inf where the second has one infinity. Here an infinity counts as a number that
// is larger than all others, so NaN comes of NaN alone, and what is not the same as with infinities depends on the order.
#include "eval/run.h"

#include <math.h>

static const double LARGER = 0x1p500, LEAST = 0x1p300; // than any number of a dtype; of what has one of these as a factor or a term

static void make_finite(double *x, int64_t n)
{
  for (int64_t i = 0; i < n; i++)
    if (isinf(x[i])) x[i] = copysign(LARGER, x[i]);
}

static void make_infinite(double *x, int64_t n)
{
  for (int64_t i = 0; i < n; i++)
    if (fabs(x[i]) >= LEAST) x[i] = copysign(INFINITY, x[i]);
}

static double *finite_copy(struct arena *mem, const void *x, int64_t n)
{
  double *copy = arena_copy(mem, x, sizeof(double) * (size_t)n);
  make_finite(copy, n);
  return copy;
}

void fold_meeting(struct field *F, enum op op, bool fresh, const struct fold *f, void *o, const void *x)
{
  struct arena mem = {0};
  const int64_t lines = f->outer * f->groups * f->inner;
  const double *from = finite_copy(&mem, x, lines * f->len);
  if (!fresh) make_finite(o, lines);
  domain_f64.fold(F, op, fresh, f, o, from);
  make_infinite(o, lines);
  arena_close(&mem);
}

void contract_meeting(struct field *F, enum op op, bool exps, int threads, stop_flag stop, struct eval_value o, struct eval_value x,
                      struct eval_value y)
{
  struct arena mem = {0};
  const int64_t n = shape_size(&o.s);
  x.p = (char *)finite_copy(&mem, x.p, shape_size(&x.s)), y.p = (char *)finite_copy(&mem, y.p, shape_size(&y.s));
  make_finite((double *)o.p, n);
  domain_f64.contract(F, op, exps, threads, stop, o, x, y);
  make_infinite((double *)o.p, n);
  arena_close(&mem);
}

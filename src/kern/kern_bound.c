// Bounds of values: the largest magnitude of a value's finite elements. Constants and the types of loads give bounds. Elements may also be infinite
// or NaN. If an operator maps one of these to a finite number, as tanh does, the bound includes that number.
#include "kern/kern.h"

#include <math.h>

// The operators with these flags have their largest magnitude at the bounds of the operands. Infinities and NaN as operands are tried too.
static double of_map(const struct kern_value *v, const double *bound)
{
  enum { BOUNDS = 2, POINTS = 5 };
  double at[2][POINTS] = {{0}}, most = 0;
  if (!(kern_op(v->op).flags & (CORNERS | RISES | BRACKET))) return INFINITY;
  for (int n = 0; n < v->nin; n++) {
    const double b = bound[v->in[n]], points[POINTS] = {b, -b, INFINITY, -INFINITY, NAN};
    for (int i = 0; i < POINTS; i++) at[n][i] = points[i];
  }
  for (int i = 0; i < POINTS; i++)
    for (int j = 0; j < (v->nin > 1 ? POINTS : 1); j++) {
      const double y = fabs(kern_apply(v->op, &v->a, at[0][i], at[1][j]));
      if (isfinite(y))
        most = fmax(most, y);
      else if (i < BOUNDS && j < BOUNDS)
        return INFINITY;
    }
  return most;
}

static double of_value(const struct kern *k, const struct kern_value *v, const double *bound)
{
  const double n = (double)kern_extent(k, v->folded), x = v->nin ? bound[v->in[0]] : 0;
  switch (v->kind) {
  case KERN_LOAD:
  case KERN_CHOSEN:
  case KERN_TOP_AT: return v->at.index ? (double)v->at.elements : dtype_largest(v->at.type);
  case KERN_CONST: return isfinite(v->a.scalar) ? fabs(v->a.scalar) : 0;
  case KERN_MAP: return of_map(v, bound);
  case KERN_SPREAD:
  case KERN_PLACED:
  case KERN_MAX:
  case KERN_RUN_MAX:
  case KERN_TOP: return x;
  case KERN_RUN_MOVE: return 2 * x;
  case KERN_SUM:
  case KERN_SCAN: return n * x;
  case KERN_PRODUCT: return n * x * bound[v->in[1]];
  case KERN_PROD: return fmax(x, pow(x, n));
  case KERN_RESCALE:
  case KERN_KINDS: break;
  }
  return INFINITY;
}

double kern_bound(const struct kern *k, int v)
{
  struct arena mem = {0};
  double *bound = NEWS(&mem, double, v + 1);
  for (int i = 0; i <= v; i++) {
    bound[i] = of_value(k, &k->v[i], bound);
    if (isnan(bound[i])) bound[i] = INFINITY;
  }
  const double most = bound[v];
  arena_close(&mem);
  return most;
}

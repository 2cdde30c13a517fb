// Computes the mean and the variance of a row in one pass. In sum (x - mean)^2 the second sum waits for the first: two reductions, or two passes over
// a row that does not fit into registers. For any number c,
//   sum (x - mean)^2  =  sum (x - c)^2  -  n (mean - c)^2
// and both sums can be computed together. c is the first element of the row. Then (mean - c)^2 is at most n - 1 times the variance, so cancellation
// costs at most log2(n) of the 24 bits of fp32. It costs little if c is close to the other elements. With c = 0, a large mean could cost all bits.
#include "kern/kern_rule.h"

#include <math.h>

// Whether v is a sum of squared differences between a load and its mean over the same axes.
static bool is_spread(const struct kern *k, const struct kern_value *v, int *x, int *mean)
{
  if (v->kind != KERN_SUM || !kern_is_map(&k->v[v->in[0]], OP_SQUARE)) return false;
  const struct kern_value *difference = &k->v[k->v[v->in[0]].in[0]];
  if (!kern_is_map(difference, OP_SUB)) return false;
  const int turned = k->v[difference->in[0]].kind != KERN_LOAD; // it is mean - x, which has the same square
  *x = difference->in[turned], *mean = difference->in[!turned];
  if (k->v[*x].kind != KERN_LOAD || !kern_is_map(&k->v[*mean], OP_MUL_SCALAR)) return false;
  const struct kern_value *total = &k->v[k->v[*mean].in[0]];
  double n = (double)kern_extent(k, v->folded);
  return total->kind == KERN_SUM && total->in[0] == *x && total->folded == v->folded && fabs(k->v[*mean].a.scalar * n - 1) < 1e-12;
}

bool rule_moments(struct kern *k, const struct kern_value *v, int *out)
{
  int x, mean, about = v->about;
  if (!is_spread(k, v, &x, &mean)) return false;
  struct kern_access first = k->v[x].at;
  EACH_AXIS(a, v->folded) first.stride[a] = 0;
  int c = kern_load(k, &first, k->v[x].about);
  int squares = kern_map(k, OP_SQUARE, NULL, kern_map(k, OP_SUB, NULL, x, c, about), -1, about),
      sum = kern_fold(k, KERN_SUM, squares, v->folded, about);
  int far = kern_map(k, OP_SQUARE, NULL, kern_map(k, OP_SUB, NULL, mean, c, about), -1, about);
  int rest = kern_map(k, OP_SUB, NULL, sum, kern_scaled(k, far, (double)kern_extent(k, v->folded), about), about);
  return *out = kern_map(k, OP_MAXIMUM, NULL, rest, kern_const(k, 0, about), about), true; // rounding could make it negative
}

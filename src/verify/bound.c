// The error of one random test: how likely an unequal pair passes it.
//
// Without exponentials the cross-multiplied difference is a polynomial of degree d, which vanishes at a random
// point of the field of p with probability at most d/p (Schwartz and Zippel). With m square roots reaching it, at
// most 4^m d/p: 2^m choices of what a root takes in the field (of x or of -x), and the norm over the 2^m signs has
// degree at most 2^m d. With k exponentials, at most 8 d k^4 / q + q^(-1/k^2) (the bound of the later version of
// the paper; the conference version's Theorem 2 has 1 - 1/k). Unknown functions are fresh random variables unless
// two different arguments collide; the union over pairs of evaluations is added.
#include "verify/trial.h"

#include <math.h>

static double error_of(double k, double d, bool exp, double roots, const struct primes_row *r)
{
  if (k > 1e9 || roots > 40) return 1;
  double degree = MAX(d, 1) * pow(4, roots), e = degree / (double)r->p;
  if (exp) e = 8 * degree * k * k * k * k / (double)r->q + pow((double)r->q, -1 / (k * k));
  return MIN(e, 1);
}

static struct bound difference(const struct measure *a, const struct measure *b, const struct primes_row *r)
{
  struct bound x = {.exp = a->exp || b->exp, .roots = a->roots + b->roots};
  x.k = x.exp ? a->k * b->dk + b->k * a->dk : 1;
  x.d = MAX(MAX(a->d + b->dd, b->d + a->dd), MAX(a->dd + b->dd, a->ed + b->ed));
  x.error = a->covered && b->covered ? error_of(x.k, x.d, x.exp, x.roots, r) : 1;
  return x;
}

struct bound bound_pair(struct arena *mem, const struct graph *a, const struct graph *b, const struct primes_row *primes)
{
  int n = graph_outputs(a, NULL);
  struct measure *x = NEWS(mem, struct measure, n + 1), *y = NEWS(mem, struct measure, n + 1);
  struct opaques o = {.arg = {.covered = true, .dk = 1}};
  degree_outputs(mem, a, x, &o);
  degree_outputs(mem, b, y, &o);
  struct bound worst = {0};
  for (int i = 0; i < n; i++) {
    struct bound one = difference(&x[i], &y[i], primes);
    if (one.error >= worst.error) worst = one;
  }
  if (o.n > 0) worst.error = MIN(1, worst.error + o.n * o.n / 2 * difference(&o.arg, &o.arg, primes).error);
  return worst;
}

int bound_tests(const struct bound *b, double delta, int most)
{
  if (b->error >= 1) return most;
  double n = ceil(log(delta) / log(b->error));
  return n < 1 ? 1 : n > most ? most : (int)n;
}

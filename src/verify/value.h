// Knowledge of one element of a tensor without looking at it: numerator / product of denominators, where the
// numerator and each denominator are sums of terms polynomial * exp(fraction) (paper, section 5.1, Equation 2).
// Bounds hold for every element of the tensor. A denominator remembers along which dimensions and loop axes it
// changes: a sum along others keeps it, a sum along those multiplies all of them together.
#ifndef MICA_VALUE_H
#define MICA_VALUE_H

#include "verify/proof.h"

enum { DENS = 12, ROOTS = 12, LOOP_BIT = MAX_DIMS, CONTRACTED_BIT = 24 }; // bits of a mask

struct den {
  int id;
  unsigned mask; // dimensions; LOOP_BIT + MAX_LOOPS * (level - BLOCK) + axis; CONTRACTED_BIT
  double power;
  struct size one; // of its first power
};
struct root { // a square root
  int id;
  unsigned mask;
  double count; // how many different ones reach an element
};
struct value {
  int id; // names the value as a denominator
  struct size num;
  int ndens, nroots;
  struct den den[DENS];
  struct root root[ROOTS];
};
struct bounder { // one walk over a pair
  int ids;
  struct bound *out;
};

struct size size_add(struct size x, struct size y);
struct size size_mul(struct size x, struct size y);
struct size size_power(struct size x, double n);

struct value value_atom(double degree);
struct value value_add(struct bounder *b, const struct value *x, const struct value *y);
struct value value_mul(struct bounder *b, const struct value *x, const struct value *y);
// mask: where y, seen as a denominator, changes.
struct value value_div(struct bounder *b, const struct value *x, const struct value *y, unsigned mask);
struct value value_exp(struct bounder *b, const struct value *x);
struct value value_sqrt(struct bounder *b, const struct value *x, unsigned mask);
// An unknown function of x; `times` applications in one evaluation.
struct value value_opaque(struct bounder *b, const struct value *x, double times);
// The sum of n along the index of `bit`; keep: it goes on changing along it (sums of groups).
struct value value_sum(struct bounder *b, const struct value *x, int bit, double n, bool keep);
// Either x or y.
struct value value_either(struct bounder *b, const struct value *x, const struct value *y);
struct size value_dens(const struct value *x); // of the product of all denominators
double value_roots(const struct value *x);

#endif

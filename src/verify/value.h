// Static bounds on an element of a tensor as a fraction: numerator / product of denominators. The numerator and each denominator are sums of terms
// polynomial * exp(fraction) (paper, section 5.1, Equation 2). Bounds hold for every element of the tensor. A denominator records the dimensions and
// loop axes along which it varies. A sum along these multiplies all its values together; a sum along others keeps it.
#ifndef MICA_VALUE_H
#define MICA_VALUE_H

#include "verify/proof.h"

enum { DENS = 12, ROOTS = 12, LOOP_BIT = MAX_DIMS, CONTRACTED_BIT = 24 }; // bits of a mask

struct den {
  int id;
  unsigned mask; // dimensions; LOOP_BIT + MAX_LOOPS * (level - BLOCK) + axis; CONTRACTED_BIT
  double power;
  struct size one; // for its first power
};
struct root { // a square root
  int id;
  unsigned mask;
  double count; // number of different roots that an element depends on
};
struct value {
  int id; // identifies the value as a denominator
  struct size num;
  int ndens, nroots;
  struct den den[DENS];
  struct root root[ROOTS];
};
struct bounder { // state of one traversal of a pair
  int ids;
  struct bound *out;
};

struct size size_add(struct size x, struct size y);
struct size size_mul(struct size x, struct size y);
struct size size_power(struct size x, double n);

struct value value_atom(double degree);
struct value value_add(struct bounder *b, const struct value *x, const struct value *y);
struct value value_mul(struct bounder *b, const struct value *x, const struct value *y);
// mask: along which y, as a denominator, varies.
struct value value_div(struct bounder *b, const struct value *x, const struct value *y, unsigned mask);
struct value value_exp(struct bounder *b, const struct value *x);
struct value value_sqrt(struct bounder *b, const struct value *x, unsigned mask);
// An unknown function of x; `times`: its applications in one evaluation.
struct value value_opaque(struct bounder *b, const struct value *x, double times);
// The sum of n along the index of `bit`; keep: the result still varies along it (sums of groups).
struct value value_sum(struct bounder *b, const struct value *x, int bit, double n, bool keep);
// Either x or y.
struct value value_either(struct bounder *b, const struct value *x, const struct value *y);
struct size value_dens(const struct value *x); // the product of all denominators
double value_roots(const struct value *x);

#endif

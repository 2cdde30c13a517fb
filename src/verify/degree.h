// degree: what degree.c computes with, an upper bound on the shape of every element of a tensor.
#ifndef MICA_VERIFY_DEGREE_H
#define MICA_VERIFY_DEGREE_H

#include "verify/trial.h"

// Dimensions along which something differs from element to element: bits 0 to 7; and two that are no dimensions.
enum { VARY_LOOP = 1 << 8, VARY_SUMMED = 1 << 9, MAX_FACTORS = 24 };

// A factor of the denominator, or a square root: which tensor's elements, along which dimensions, how many.
struct factor {
  uint64_t id;
  unsigned vary;
  double count;
  double k, d, ed; // of one: exponentials, degree, degree of exponents
  bool exp;
};
// An element: sum of k exponentials with coefficients of degree d, over the product of the factors.
struct val {
  double k, d, ed;
  bool exp, covered;
  unsigned vary;   // where the exponents differ
  int nf, nr;
  struct factor f[MAX_FACTORS], r[MAX_FACTORS];
};

struct val val_fresh(double d);                             // a polynomial
struct val val_add(const struct val *x, const struct val *y);
struct val val_either(const struct val *x, const struct val *y); // one or the other
struct val val_mul(const struct val *x, const struct val *y);
struct val val_inverse(const struct val *y, uint64_t id, unsigned vary);
struct val val_exp(const struct val *x, unsigned vary);
struct val val_root(const struct val *x, uint64_t id, unsigned vary);
struct val val_sum(const struct val *x, double n, unsigned along); // n elements that differ in `along`
// Renames what varies along any of `dims` (all of it, when 0): its elements are other ones now.
void val_rename(struct val *x, unsigned dims, uint64_t with);
void val_vary(struct val *x, unsigned (*to)(const void *arg, unsigned vary), const void *arg); // maps every mask
struct measure val_measure(const struct val *x);
bool val_lost(const struct val *x); // holds an exponential, above or below the bar
#endif

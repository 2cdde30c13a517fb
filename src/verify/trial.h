// trial, degree, bound, shrink: for the files of this room only.
#ifndef MICA_VERIFY_TRIAL_H
#define MICA_VERIFY_TRIAL_H

#include "verify/verify.h"

// ---- trial.c ---------------------------------------------------------------------------------------

struct pair {
  const struct graph *a, *b; // expanded, same signature
  bool *need_q;              // by input: does it reach an exponential in either graph?
  bool opaque_max;           // maxima as unknown functions instead of a random order
};
enum verdict { SAME, DIFFERENT, DIVIDES_BY_ZERO, STOPPED };
struct trial {
  enum verdict verdict;
  int output;             // where they differ first
  int64_t element;
  struct ffv x, y;        // the values there, out of Montgomery form
  uint64_t lost_exps;     // exponentials of exponentials met
};
void pair_open(struct arena *mem, struct pair *p, const struct graph *a, const struct graph *b, bool opaque_max);
// One test; a divisor that is zero makes it start again with other inputs, up to `attempts` times.
struct trial pair_test(const struct pair *p, int bits, uint64_t seed, int attempts, stop_flag stop);
double pair_ops(const struct pair *p);   // field operations of one test
double pair_bytes(const struct pair *p); // memory of one test
bool graph_has(const struct graph *g, bool (*what)(enum op op)); // at any level
bool op_is_max(enum op op);

// ---- degree.c --------------------------------------------------------------------------------------

// An output element as a quotient: of sums of k exponentials with polynomial coefficients over a product of such
// sums (paper, equation 2). Numbers that pass HUGE_COUNT stand for "too many for any theorem".
#define HUGE_COUNT 1e150
struct measure {
  double k, d;     // numerator: exponentials, degree of coefficients
  double dk, dd;   // denominator
  double ed;       // degree of the exponents
  double roots;    // distinct square roots
  bool exp, covered;
};
struct opaques {
  double n;           // evaluations of unknown functions
  struct measure arg; // the largest argument
};
// One measure an output of g, into out[]; adds to *o.
void degree_outputs(struct arena *mem, const struct graph *g, struct measure *out, struct opaques *o);

// ---- bound.c ---------------------------------------------------------------------------------------

struct bound {
  double error;  // of one test; 1 where no theorem covers the pair
  double k, d;   // exponentials of the cross-multiplied difference, degree
  bool exp;
  double roots;
};
struct bound bound_pair(struct arena *mem, const struct graph *a, const struct graph *b, const struct primes_row *primes);
int bound_tests(const struct bound *b, double delta, int most); // tests for delta, at most `most`

#endif

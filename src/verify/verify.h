// verify: are two kernel graphs equal? Random tests over finite fields, after the paper's section 5: a cheap
// filter during the search, and a certificate that says what was tested and how likely a wrong answer is; and a formal
// check by normal forms, which needs no tests where it succeeds.
// proof.h is the map of the room.
#ifndef MICA_VERIFY_H
#define MICA_VERIFY_H

#include "eval/eval.h"

struct certificate {
  bool equal;
  bool proved;           // by normal forms (verify_prove), besides the tests
  char proof[160];       // why it is not
  double delta;          // bound on the probability that unequal graphs pass; 1 where no theorem covers the case
  int tests;             // random tests passed (or up to the one that failed)
  int k, degree;         // exponentials in the cross-multiplied difference; polynomial degree
  uint64_t p, q, seed;   // the primes, the seed of the first test
  bool reduced;          // the theorem's tests ran at reduced extents, listed in `extents`
  bool full_size;        // one more test at full size passed
  char extents[256];     // "Q [4, 8, 2], K [...]"
  char note[256];        // what is not covered, or which element differed
};

struct verify_opts {
  double delta;          // wanted bound; 0 means 1e-9
  uint64_t seed;
  int64_t full_size_ops; // do the full-size test only up to this many field operations; 0 means 2e9
  int threads;
  stop_flag stop;
};

// Full verification of two checked kernel graphs (composites allowed). OK with c->equal set either way; errors
// only where the graphs cannot be compared (other inputs or outputs) or were stopped.
int verify_equal(const struct graph *a, const struct graph *b, const struct verify_opts *o, struct certificate *c,
                 struct err *e);

// The formal check: are both graphs equal by the laws of real arithmetic, exp and square roots, for all inputs on which
// both are defined, at these extents and whatever the unknown functions are? True is a proof (docs/theory.md). False
// says nothing about the graphs: the reason is in `why`. Bounded work, no random numbers. Composites allowed.
bool verify_prove(const struct graph *a, const struct graph *b, char why[160]);

// "equal: 2008 tests at reduced extents ...", a few lines for people.
void certificate_text(const struct certificate *c, struct str *out);

// One test at reduced extents with the 32-bit row of primes.def, whose exponents have square roots too; eight where
// there are maxima. False means certainly unequal, or that nothing could be compared. True where extents cannot be
// reduced and a full-size test is not cheap.
bool verify_filter(const struct graph *a, const struct graph *b, uint64_t seed);

// The pair at reduced extents: every grid, loop and tile factor of every index class small but at least 2 where
// it was, different from class to class where possible; false where a reshape fixes the sizes.
bool verify_shrink(struct arena *mem, const struct graph *a, const struct graph *b, struct graph **sa, struct graph **sb);

// The same kernel graph with fewer blocks and iterations, every tile as it is; false where that cannot be. What its kernels do in
// one block is what those of g do.
bool verify_shrink_axes(struct arena *mem, const struct graph *g, struct graph **out);
#endif

// verify: are two kernel graphs equal? A formal check by normal forms comes first and its yes is a proof. If that does
// not decide, the pair is tested: over finite fields, after the paper's section 5, and in float64, at full size where
// that is affordable and at reduced extents where it is not. The certificate says which evidence there is, and never
// more. proof.h is the map of this component.
#ifndef MICA_VERIFY_H
#define MICA_VERIFY_H

#include "eval/eval.h"

// The answer. UNDECIDED: there is evidence for neither answer; such a pair is not accepted.
enum finding { FOUND_UNDECIDED, FOUND_EQUAL, FOUND_UNEQUAL };
// The evidence of equality.
enum evidence {
  EVIDENCE_NONE,    // not equal, or undecided
  EVIDENCE_PROVED,  // a proof by normal forms, at full size, for all inputs on which both graphs are defined
  EVIDENCE_FULL,    // every random test passed at full size
  EVIDENCE_REDUCED, // tests passed at the tested, smaller extents; nothing is known of the full size
};
const char *finding_name(enum finding f);   // "undecided", "equal", "not equal"
const char *evidence_name(enum evidence s); // "none", "proved", "full", "reduced"

struct certificate {
  bool equal; // finding == FOUND_EQUAL; look at `scope` for what that rests on
  enum finding finding;
  enum evidence scope;
  char proof[160]; // why there is no proof by normal forms
  double delta;    // bound on the probability that unequal graphs pass the tests; 1 where no theorem covers the case
  int tests;       // tests over fields that passed (or up to the one that failed); 0 with a proof
  int k, degree;   // exponentials in the cross-multiplied difference; polynomial degree
  uint64_t p, q;   // primes of the first test; 0 with a proof
  uint64_t seed;
  char extents[256]; // of a reduced scope: "Q [4, 8, 2], K [...]"
  char note[256];    // what is not covered, or which element differed
};

struct verify_opts {
  double delta;          // wanted bound; 0 means 1e-9
  uint64_t seed;         // of the tests; primes are drawn by it and by the graphs
  int64_t full_size_ops; // test at full size only up to this many field operations; 0 means 2e9
  int threads;
  stop_flag stop;
  bool no_proof; // tests only: for tests of the tests
};

// Full verification of two checked kernel graphs (composites allowed; of worlds as all ranks together). OK with c->finding set whichever it is; errors
// only where the graphs cannot be compared (other inputs or outputs) or were stopped.
int verify_equal(const struct graph *a, const struct graph *b, const struct verify_opts *o, struct certificate *c, struct err *e);

// The formal check: are both graphs equal by the laws of real arithmetic, exp and square roots, for all inputs on which
// both are defined, at these extents and whatever the opaque functions are? True is a proof (docs/theory.md). False
// says nothing about the graphs: the reason is in `why`. Bounded work, no random numbers. Composites allowed.
bool verify_prove(const struct graph *a, const struct graph *b, char why[160]);

// "equal: proved by normal forms ...", a few lines for people; also of a certificate that says no.
void certificate_text(const struct certificate *c, struct str *out);

// One test at reduced extents with primes of 32 bits; eight where there are maxima. A filter of the search: false means
// that the pair is not worth a verification. True where extents cannot be reduced and a full-size test is not cheap.
bool verify_filter(const struct graph *a, const struct graph *b, uint64_t seed);

// The same kernel graph with fewer blocks and iterations, every tile as it is; false where that cannot be. In one block its kernels
// do the same as those of g. Loops and grids keep more than one of the steps that a kernel takes at a time.
struct shrink_steps {
  int64_t step, cols; // elements of a loop, columns of what is saved; 0: as the block graph has it
};
bool verify_shrink_axes(struct arena *mem, const struct graph *g, struct shrink_steps at_once, struct graph **out);
#endif

// verify: decides whether two kernel graphs are equal. A formal check by normal forms comes first; if it succeeds, that is a proof. Otherwise the
// pair is tested over finite fields, after the paper's section 5, and in float64: at full size if that is affordable, else at reduced extents. The
// certificate states which evidence there is, and claims no more. proof.h describes this component's files.
#ifndef MICA_VERIFY_H
#define MICA_VERIFY_H

#include "eval/eval.h"

// The answer. UNDECIDED: no evidence for either answer; such a pair is not accepted.
enum finding { FOUND_UNDECIDED, FOUND_EQUAL, FOUND_UNEQUAL };
// The evidence of equality.
enum evidence {
  EVIDENCE_NONE,    // not equal, or undecided
  EVIDENCE_PROVED,  // a proof by normal forms, at full size, for all inputs on which both graphs are defined
  EVIDENCE_FULL,    // every random test passed at full size
  EVIDENCE_REDUCED, // tests passed at the tested, smaller extents; the full size is not covered
};
const char *finding_name(enum finding f);   // "undecided", "equal", "not equal"
const char *evidence_name(enum evidence s); // "none", "proved", "full", "reduced"

struct certificate {
  bool equal; // finding == FOUND_EQUAL; `scope` says on which evidence
  enum finding finding;
  enum evidence scope;
  char proof[160]; // reason for the missing proof by normal forms
  double delta;    // bound on the probability that unequal graphs pass the tests; 1 if no theorem applies
  int tests;       // tests over fields that passed, or up to the first that failed; 0 with a proof
  int k, degree;   // exponentials in the cross-multiplied difference; polynomial degree
  uint64_t p, q;   // primes of the first test; 0 with a proof
  uint64_t seed;
  char extents[256]; // extents of a reduced scope: "Q [4, 8, 2], K [...]"
  char note[256];    // limits of the evidence, or the element that differed
};

struct verify_opts {
  double delta;          // requested bound; 0 means 1e-9
  uint64_t seed;         // of the tests; primes depend on it and on the graphs
  int64_t full_size_ops; // test at full size only up to this many field operations; 0 means 2e9
  int threads;
  stop_flag stop;
  bool no_proof; // only tests, to test the tests
};

// Fully verifies two checked kernel graphs. Composites are allowed. A world is compared as one program over all its ranks. Returns OK for every
// finding, with c->finding set. Errors: the graphs cannot be compared (other inputs or outputs), or a stop.
int verify_equal(const struct graph *a, const struct graph *b, const struct verify_opts *o, struct certificate *c, struct err *e);

// The formal check: whether both graphs are equal by the laws of real arithmetic, exp and square roots. It covers all inputs on which both are
// defined and any opaque functions, at these extents. True is a proof (docs/theory.md). False says nothing about the graphs; `why` has the reason.
// Its work is bounded, and it uses no random numbers. Composites are allowed.
bool verify_prove(const struct graph *a, const struct graph *b, char why[160]);

// Prints any certificate in a few lines, such as "equal: proved by normal forms ...".
void certificate_text(const struct certificate *c, struct str *out);

// The filter of the search: one test at reduced extents with primes of 32 bits, or eight if there are maxima. False: the pair differs in a test and
// the formal check does not prove it equal. True if extents cannot be reduced and a full-size test is expensive.
bool verify_filter(const struct graph *a, const struct graph *b, uint64_t seed);

// The same kernel graph with fewer blocks and iterations and unchanged tiles. Each block does the same work as a block of g. Loops and grids keep
// more than one step. False: that is impossible.
struct shrink_steps {
  int64_t step, cols; // elements of a loop step, and columns that are saved; 0: as in the block graph
  int64_t sharing;    // blocks that share the steps of a loop; 0: one has all
  int64_t rows;       // rows of a tile that the kernel takes at a time, one independent of the other; 0: tiles are unchanged
};
bool verify_shrink_axes(struct arena *mem, const struct graph *g, struct shrink_steps at_once, struct graph **out);
#endif

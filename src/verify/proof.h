// proof: the private header of the verifier.
//
// Files
//   equal.c         verify_equal: the order of evidence and the verdict
//   tests.c         the tests to run, and the evidence that they give
//   cut.c           tensors that both graphs compute alike become inputs
//   input_parts.c   parts of inputs that a pair reads become inputs
//   real.c          both graphs in float64 and float32: evidence of a difference over the reals
//   signature.c     whether inputs and outputs agree
//   attest.c        prints a certificate
//   filter.c        verify_filter: one cheap test
//   series.c        tests over fields: the same random inputs through both graphs, every element compared
//   size.c          bounds on the number of exponentials and the degree of a value
//   size_walk.c     these bounds for every tensor of a graph
//   verify_work.c   field operations and bytes of one evaluation
//   reduce.c        shrink_pair: collects (reduce_rules.c), solves (reduce_solve.c), rebuilds (reduce_build.c)
//   prove*.c        verify_prove, the formal check: prove.h lists the files
//   rescale.c       constants 1/n of a reduction over n elements, at reduced extents
//
// Glossary
//   trial          one test: one seed, one field, fresh inputs
//   variable       in shrink: the extent of one dimension of one tensor, of one axis, or of one attribute
//   class          variables that must have the same value; named by a root variable
//   product        a constraint: the variables on the left and those on the right have the same product
//   size           of a sum of terms polynomial * exp(fraction): number of terms, degrees outside and inside
//   denominator    a divisor of a value, with the dimensions and loop axes along which it varies
#ifndef MICA_PROOF_H
#define MICA_PROOF_H

#include "verify/verify.h"

// ---- shrink: variables and constraints -------------------------------------------------------------

enum { SIDE = 24, ONE = 0 }; // variables on a side of a product; the variable that is always 1

struct verify_product {
  int n[2];
  int v[2][SIDE];
};
struct total { // out = the sum of `in`
  int out, n, in[64];
};
struct margin { // whole = part + rest; the part keeps its remainder modulo `aligned`, so that rows stay aligned as they are
  int whole, part;
  int64_t rest, aligned;
};
struct frame { // variables of one graph; sub[i]: those of the graph in node i
  const struct graph *g;
  int *dims; // first variable of tensor t
  int axes;  // grid axes, then loop axes at axes + MAX_GRID
  int *attr; // of node i: its group, extent, times
  struct frame **sub;
};
struct system {
  struct arena *mem;
  int *parent, nvars, parent_cap;
  int64_t *full; // value at full size
  int full_n, full_cap;
  bool *fixed; // keeps the value at full size
  int fixed_n, fixed_cap;
  bool *axis; // extent of a grid or loop axis
  int axis_n, axis_cap;
  int64_t *least; // least value; 0: no limit
  int least_n, least_cap;
  struct verify_product *products;
  int nproducts, products_cap;
  struct total *totals;
  int ntotals, totals_cap;
  bool margins_stay; // a slice whose extents have no common divisor keeps what is before and behind it; otherwise it keeps its extents
  struct margin *margins;
  int nmargins, margins_cap;
  int64_t *small; // the solution, indexed by root
  bool failed;
  int64_t largest; // largest extent that may be proposed
};
// Choice of small values. TINY: 2 for every class. VARIED: 2 and 3 alternately. OTHER: 3 and 4, so no class has its value of TINY. APART: different
// values for free classes with different full extents.
enum shrink_style { VARIED, TINY, OTHER, APART };

int shrink_find(struct system *s, int v);
int64_t shrink_value(struct system *s, int v);
void shrink_same(struct system *s, int u, int v);
int shrink_var(struct system *s, int64_t full);
int shrink_constant(struct system *s, int64_t value);
void shrink_product(struct system *s, int nl, const int *l, int nr, const int *r);
struct frame *shrink_collect(struct system *s, const struct graph *g);                  // reduce_rules.c
bool shrink_solve(struct system *s, enum shrink_style style);                           // reduce_solve.c
struct graph *shrink_build(struct system *s, const struct frame *f, struct arena *mem); // reduce_build.c, NULL: impossible
// Builds the pair at reduced extents. Every grid, loop and tile factor of every index class becomes small, but stays at least 2 if it was. Classes
// differ if possible. False: that is impossible, or a reshape fixes the sizes.
bool shrink_pair(struct arena *mem, const struct graph *a, const struct graph *b, enum shrink_style style, struct graph **sa, struct graph **sb);

// ---- rescale.c ---------------------------------------------------------------------------------------

// Replaces constants 1/n (or n) that follow a reduction over n elements in `small`, the reduced form of `full`, by 1/n', where n' is the number of
// elements in `small`. Returns the number of replacements.
int rescale_constants(struct graph *small, const struct graph *full);

// ---- size.c, size_walk.c ------------------------------------------------------------------------------

struct size {
  double k;    // number of terms, that is, of different exponentials
  double d, h; // degrees of the polynomials outside and inside the exponentials
};
struct bound {
  struct size diff; // for the cross-multiplied difference of two outputs
  double roots;     // square roots that one element depends on
  double pairs;     // pairs of arguments of unknown functions that may collide
  double inner;     // degree of the difference of such a pair
  bool exps;        // the theorem with exponentials is needed
  const char *gap;  // reason why no theorem covers the pair, or NULL
  bool maxima;      // has max, min or a running maximum
  bool nested;      // has a square root of square roots
};
// Bounds for the worst output element. Both graphs are plain and have the same outputs.
struct bound size_pair(const struct graph *a, const struct graph *b);
// Upper bound on the probability that one test passes an unequal pair; 1 if the theorem does not apply.
double size_error(const struct bound *b, uint64_t p, uint64_t q);

// ---- verify_work.c, series.c: random tests over fields -------------------------------------------------------------

int64_t work_ops(const struct graph *g);   // field multiply-adds of one evaluation
int64_t work_bytes(const struct graph *g); // kernel tensors as field elements
// Whether a difference over fields implies a difference over the reals. True for graphs of field operations and exponentials only. False for roots,
// maxima and opaque functions, for constants that may represent another number, and for integers, which have few values.
bool work_faithful(const struct graph *g);

enum verdict { SAME, DIFFERENT, ZERO_DIVISOR, BROKEN };
enum { MOST_RESIDUES = 24 };
struct trial {
  const struct graph *a, *b;
  int bits;        // of the primes: PRIMES_FILTER or PRIMES_TEST
  bool opaque_max; // treat maxima as opaque functions
  int threads;     // threads for one evaluation
  stop_flag stop;
  int nresidues; // numbers that must be quadratic residues of the primes: trial_residues
  uint64_t residues[MOST_RESIDUES];
};
struct verify_place { // position of the first element that differs
  int output;
  int64_t index;
};
// Sets t->residues: the prime factors of constants and of the element counts of means.
void trial_residues(struct trial *t);
uint64_t trial_seed(uint64_t seed, int i);                        // seed of test i of trial_many
struct primes trial_primes(const struct trial *t, uint64_t seed); // the primes that trial_run draws
// Runs one test, with primes drawn by the seed. BROKEN: *e has the error (stopped, out of memory).
enum verdict trial_run(const struct trial *t, uint64_t seed, struct verify_place *where, struct err *e);
// Runs `n` tests with seeds from `seed` on, on `threads` threads. A test with a zero divisor is repeated up to 16 times. *passed counts the tests
// before the first one that failed; the result is the verdict of that one.
enum verdict trial_many(const struct trial *t, int n, uint64_t seed, int threads, int *passed, struct verify_place *where, struct err *e);
void place_text(char out[160], const struct graph *g, const struct verify_place *w);

// ---- tests.c -------------------------------------------------------------------------------------------------

struct testing { // tests of one pair of graphs at one size
  const struct verify_opts *o;
  uint64_t seed;
  const struct graph *a, *b;
  struct bound bound;
  double error;              // failure probability of one test
  int wanted;                // number of tests for delta; 1000000000 if no number suffices
  int64_t ops;               // operations of one test
  bool faithful;             // a difference over fields implies one over the reals
  int passed;                // results: number of passed tests,
  struct verify_place where; // the first difference,
  struct primes first;       // primes of the first test
};
struct testing testing_of(const struct verify_opts *o, uint64_t seed, const struct graph *a, const struct graph *b);
// Runs as many tests over fields as delta requires, at least one, and at most as many as `ops` operations allow.
enum verdict testing_fields(struct testing *t, int64_t ops, struct err *e);
void testing_credit(const struct testing *t, struct certificate *c); // adds the evidence of the passed tests

// ---- real.c: the same inputs in float64 and in float32 ---------------------------------------------------------

// AGREES: all differences are explained by rounding, and every output has elements that both graphs define. DIFFERS: an element differs by far more.
// UNKNOWN: no draw defines an output on both sides, or rounding hides all differences.
enum numbers { NUMBERS_AGREE, NUMBERS_DIFFER, NUMBERS_UNKNOWN, NUMBERS_BROKEN };
enum numbers real_compare(const struct graph *a, const struct graph *b, uint64_t seed, int threads, stop_flag stop, struct verify_place *where,
                          struct err *e);

// ---- cut.c -----------------------------------------------------------------------------------------------------

// Makes inputs of tensors that both graphs compute with the same operators from the same inputs, and drops what no output then needs. If the
// resulting graphs are equal, so are a and b. False: there is no such tensor.
bool cut_common(struct arena *mem, const struct graph *a, const struct graph *b, struct graph **ca, struct graph **cb);

// ---- input_parts.c ---------------------------------------------------------------------------------------------
// The pair with parts of inputs as inputs. False: it reads no parts. These graphs are equal if and only if a and b are.
bool parts_as_inputs(struct arena *mem, const struct graph *a, const struct graph *b, struct graph **pa, struct graph **pb);

// ---- signature.c, attest.c ------------------------------------------------------------------------

// Checks that inputs and outputs agree by position and shape; ERR_MISMATCH names the difference.
int signature_match(const struct graph *a, const struct graph *b, struct err *e);
void certificate_note(struct certificate *c, const char *fmt, ...) PRINTF(2, 3); // appends to c->note, separated by "; "
void certificate_extents(struct certificate *c, const struct graph *g);

#endif

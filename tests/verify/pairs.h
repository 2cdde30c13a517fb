// pairs: an attack on the verifier by generated pairs of programs. A pair is drawn by a seed as two terms. They are
// printed as programs, which the verifier gets, and computed on random inputs in 113-bit floating point by an evaluator
// of its own. Nothing of src/eval or src/verify takes part in the second, so a mistake of theirs cannot hide itself.
//
// Glossary
//   term       an expression with a shape; constants are exact rationals
//   kind       a class of pairs, equal or not: pairs.def
//   law        a row of pairs_law.def: two terms over x, y, z and constants that are equal, or are not though they look
//   it truth      what the computed values say: equal, different or unclear. A pair whose truth is not what its kind
//   says is thrown away scale      every pair is drawn twice by the same random numbers: at full extents for the
//   verifier and, where an extent cannot
//              matter for the question, at a small one for the truth (`extent`)
//
// Files
//   pairs_wide.c    113-bit functions
//   pairs_term.c    terms and their shapes
//   pairs_text.c    terms as programs
//   pairs_truth.c   values of terms, the truth
//   pairs_draw.c    constants, inputs, shapes, contexts by the seed
//   pairs_law.c     kinds made of laws; pairs_size.c of extents, pairs_view.c of views, pairs_number.c of numbers,
//   pairs_tree.c of
//                   random trees, pairs_mutant.c of muGraphs
//   pairs.c         the table of kinds; a pair from its seed
//   pairs_judge.c   what the verifier says
#ifndef MICA_TEST_VERIFY_PAIRS_H
#define MICA_TEST_VERIFY_PAIRS_H

#include "ir/ir.h"

// ---- pairs_wide.c ----
#ifdef __SIZEOF_FLOAT128__
typedef __float128 wide;
#else
typedef long double wide; // 113 bits on 64-bit ARM
#endif
wide wide_nan(void);
bool wide_ok(wide x); // neither infinite nor NaN
wide wide_abs(wide x);
wide wide_sqrt(wide x);
wide wide_exp(wide x);
wide wide_log(wide x);
wide wide_erf(wide x);
wide wide_pow(wide x, wide y); // of x < 0 for whole y

// ---- pairs_term.c ----
enum { MOST_ARGUMENTS = 8, MOST_INPUTS = 16, MOST_RESULTS = 4 };

// How an input is drawn where its term is to be defined, or to differ.
enum habit { ANY, NEAR_ONE };

struct rat { // an exact number
  int64_t p, q;
};
enum truth { TRUTH_EQUAL, TRUTH_DIFFERENT, TRUTH_UNCLEAR };
struct term {
  enum op op; // OP_INPUT, OP_CONST (a number of the text), or an operator of the language
  int nin;
  struct term *in[MOST_ARGUMENTS];
  struct shape s;
  struct rat c;           // of OP_CONST
  struct rat lo, hi, eps; // of clamp and norms
  const char *digits;     // how the constant is written, or NULL
  int dim;
  int64_t parts, index, times, group;
  struct shape perm;
  bool as_split; // a part that is written as one result of `split`
  enum habit habit;
  int number; // of an input; of a statement while it is printed
  int uses;
  wide *v;        // while it is computed
  long double *e; // bounds of errors
};
struct pair {
  struct term *a[MOST_RESULTS], *b[MOST_RESULTS];
  int n, ninputs;
  struct term *input[MOST_INPUTS];
  const char *dtype;
  bool written; // as texts already, with their truth: muGraphs
  struct str text[2];
  enum truth truth;
};
struct gen {
  struct arena *mem;
  struct rng r;
  bool truth;   // small extents
  bool extreme; // a constant does not suit 16-bit dtypes
  struct pair *p;
};

struct term *term_input(struct gen *g, struct shape s);
struct term *term_number(struct gen *g, struct rat c);
struct term *term_digits(struct gen *g, struct rat c, const char *digits);
struct term *term_one(struct gen *g, enum op op, struct term *x);
struct term *term_two(struct gen *g, enum op op, struct term *x, struct term *y);
struct term *term_matmul(struct gen *g, struct term *x, struct term *y);
struct term *term_along(struct gen *g, enum op op, struct term *x,
                        int dim); // sum, mean, max, softmax; a negative dim counts from the end
struct term *term_groups(struct gen *g, struct term *x, int dim, int64_t group);
struct term *term_norm(struct gen *g, enum op op, struct term *x, struct rat eps);
struct term *term_clamp(struct gen *g, struct term *x, struct rat lo, struct rat hi);
struct term *term_reshape(struct gen *g, struct term *x, struct shape s);
struct term *term_transpose(struct gen *g, struct term *x, struct shape perm); // no perm: the last two
struct term *term_repeat(struct gen *g, struct term *x, int dim, int64_t times);
struct term *term_concat(struct gen *g, int n, struct term *const *x, int dim);
struct term *term_chunk(struct gen *g, struct term *x, int dim, int64_t parts, int64_t index);
struct term *term_copy(struct gen *g, const struct term *t); // the node, not what it reads
struct shape shape2(int64_t rows, int64_t columns);
struct shape shape3(int64_t a, int64_t b, int64_t c);

struct rat rat(int64_t p, int64_t q); // in lowest terms
struct rat rat_mul(struct rat a, struct rat b);
struct rat rat_add(struct rat a, struct rat b);
struct rat rat_inv(struct rat a);
struct rat rat_neg(struct rat a);

// ---- pairs_text.c ----
void pair_text(const struct pair *p, bool second, struct str *out);

// ---- pairs_truth.c ----
enum truth pair_truth(struct arena *mem, struct pair *p, uint64_t seed);

// ---- pairs_draw.c ----
int draw(struct gen *g, int n); // [0, n)
int64_t draw_of(struct gen *g, int n, const int64_t *x);
int64_t extent(struct gen *g, int64_t small, int64_t full); // one that does not matter for the question
struct rat draw_constant(struct gen *g);                    // positive, not 1, its fourth power fits
struct shape draw_shape(struct gen *g);                     // of two dimensions
struct term *draw_input(struct gen *g, struct shape s);
struct term *draw_argument(struct gen *g, struct shape s);          // an input, or a small term
void draw_context(struct gen *g, struct term **a, struct term **b); // the same around both
void draw_heavy(struct gen *g);                                     // an expensive product around both
void result(struct gen *g, struct term *a, struct term *b);

// ---- pairs.c ----
enum kind_id {
#define KIND(id, ...) KIND_##id,
#include "pairs.def"
#undef KIND
  KINDS
};
struct kind {
  const char *name;
  bool equal;
  bool beyond; // equal by laws that nobody asks for: undecided is no fault
  void (*make)(struct gen *g, enum kind_id k);
  const char *doc;
};
extern const struct kind pair_kinds[KINDS];
// The texts of a pair. False where its truth is not what the kind says, or is unclear. heavy: percent of pairs that get
// an expensive product.
bool pair_draw(enum kind_id k, uint64_t seed, int heavy, struct str text[2]);

#define KIND(id, name, equal, beyond, make, doc) void make(struct gen *g, enum kind_id k);
#include "pairs.def"
#undef KIND

// ---- pairs_judge.c ----
enum judgement { PROVED, FULL, REDUCED, UNDECIDED, NOT_EQUAL, REFUSED, JUDGEMENTS };
extern const char *const judgement_names[JUDGEMENTS];
enum judgement judge(const struct graph *a, const struct graph *b, uint64_t seed, int threads, char note[256]);

#endif

// prove: the private header of the formal check. Both graphs are read once, with symbols in place of indices. Every output element becomes a normal
// form. Equal normal forms are a proof for all inputs at the graphs' extents. docs/theory.md defines the algebra and explains why it is sound.
//
// Files
//   prove.c           verify_prove: outputs, cases, common denominators
//   prove_index.c     digits and subscripts
//   prove_unfold.c    graphs -> terms: kernel graphs, blocks, views, sums
//   prove_loop.c      graphs -> terms: accumulators
//   prove_at.c        data-dependent indices
//   prove_term.c      terms of sums, maxima and operators
//   law_term.h        the terms of which the laws of operators consist
//   prove_form.c      sums and products of forms
//   prove_make.c      terms -> forms
//   prove_atom.c      atoms, free and bound digits
//   prove_power.c     quotients and exponentials of forms
//   prove_root.c      roots and logarithms of forms
//   prove_max.c       maxima and absolute values of forms
//   prove_branch.c    the branches of a maximum
//   prove_gather.c    sums of separate parts as sums over an index
//   prove_sign.c      forms that are never negative, and the facts that roots and logarithms imply
//   prove_match.c     whether two forms are equal up to the names of bound digits
//   prove_number.c    exact rationals, and the number that a graph's constant means
//
// Glossary
//   digit       a variable of range 0 .. extent - 1: an output's index, or bound by a sum or a maximum
//   piece       a part of a digit, digit / div % extent, or a fixed number below extent
//   whole       of a piece: it is all of its digit
//   composite   a digit that names several adjacent pieces, so that a part of them may end inside a piece. An atom may contain only whole composites,
//               which are their pieces again
//   subscript   an index along one dimension: pieces in mixed radix, the most significant first
//   case        a value given to a digit, if the parts of a concatenation must be distinguished
//   scope       the context in which a graph is read: the block, and the iteration or the code after the loop
//   term        one element of a tensor, as the graph computes it
//   form        a normal form: a sum of monomials
//   monomial    coefficient * (sum over bound digits of) a product of powers of atoms
//   atom        an element of an input, a constant, exp of a monomial, a base, a logarithm, an absolute value, an unknown function of forms, a
//               maximum, or a maximum up to some iteration of a loop
//   base        a form in a denominator or under a root
//   ramp        the maximum of a form and 0
//   branch      an argument of a maximum, for all values of the digits that it binds
//   fact        a form that is not negative wherever both graphs are defined, because one of them takes its root or logarithm
//   primitive   of a base: no factor can be moved out of it
#ifndef MICA_PROVE_H
#define MICA_PROVE_H

#include "verify/verify.h"

struct verify_piece {
  int digit; // or -1: the fixed number `at`
  int64_t at, div, extent;
};
struct subscript {
  int n;
  const struct verify_piece *p;
};
struct digit {
  int64_t extent, value;  // value: in the current case, or -1
  int high, low;          // the digits that replace it, or -1
  bool output;            // part of an output's index: it is not interchangeable with others
  struct subscript parts; // parts of a composite
  struct term *chosen;    // the data-dependent index that it represents while operators are traversed; or NULL
};
struct made_array { // a result that is treated as a separate array
  const struct graph *g;
  int tensor;
};

struct prover {
  struct arena *mem;
  struct digit *digits;
  int ndigits, digits_cap;
  const char *why; // reason for giving up; NULL otherwise
  int need;        // digit that must get a value first, or -1
  int64_t steps;
  int depth;
  struct unfolder *unfolder;
  struct made_array *made;
  int nmade, made_cap;
  int round;              // number of the round of facts; forms of earlier rounds are rebuilt
  struct monomial *facts; // each fact is a branch; the first `known` ones may be used in this round
  int nfacts, facts_cap, known;
  bool numbered, gathers; // numbered: some index is a number; gathers: parts of sums are joined
  int running;            // nesting depth of running maxima, in which no facts are recorded
};

// A function below that returns a pointer returns NULL once `why` or `need` is set.
void *prove_give_up(struct prover *p, const char *why); // records the first reason; returns NULL
bool prove_step(struct prover *p);                      // counts a step; false if there were too many

// ---- prove_index.c ---------------------------------------------------------------------------------------

int digit_new(struct prover *p, int64_t extent, bool output);
struct subscript subscript_of(struct prover *p, int digit);
struct subscript subscript_fixed(struct prover *p, int64_t at, int64_t extent);
// Replaces digits by their parts and values, drops pieces of extent 1, and joins adjacent pieces.
struct subscript subscript_expand(struct prover *p, struct subscript s);
struct subscript subscript_join(struct prover *p, struct subscript high, struct subscript low);
bool subscript_composite(const struct prover *p, struct subscript s); // whether a part of a composite remains in it
// Splits off the low part of that extent. False: it gave up.
bool subscript_cut(struct prover *p, struct subscript s, int64_t extent, struct subscript *high, struct subscript *low);
// Replaces digit u by w. With v >= 0, replaces u followed by v, both whole. With u = -1, replaces the number 0 where it is below w's extent.
struct subscript subscript_rename(struct prover *p, struct subscript s, int u, int v, int w);
// Replaces a digit by a high and a low digit; the low one has that extent.
void digit_cut(struct prover *p, int digit, int64_t extent);
int digit_isolate(struct prover *p, struct verify_piece x); // splits x's digit so that x is a digit of its own, and returns that

// ---- prove_number.c: exact rationals ------------------------------------------------------------------------

typedef __int128 whole;
struct ratio {
  whole n, d; // lowest terms, d > 0
};
struct ratio ratio_of(struct prover *p, whole n, whole d);
struct ratio ratio_add(struct prover *p, struct ratio x, struct ratio y);
struct ratio ratio_mul(struct prover *p, struct ratio x, struct ratio y);
struct ratio ratio_inverse(struct ratio x);
bool ratio_is(struct ratio x, int n);
static inline struct ratio ratio_abs(struct ratio x) { return (struct ratio){x.n < 0 ? -x.n : x.n, x.d}; }
int ratio_order(struct prover *p, struct ratio x, struct ratio y); // -1, 0, 1
whole ratio_floor(struct ratio x);
// The rational number that a constant of a graph means (base/rational.h). False: the constant stays an unnamed number.
bool ratio_meant(double c, struct ratio *r);

// ---- prove_unfold.c, prove_loop.c, prove_term.c: terms --------------------------------------------------------------------

enum term_kind {
  TERM_NUMBER,
  TERM_CONSTANT,
  TERM_ELEMENT,
  TERM_ADD,
  TERM_MUL,
  TERM_INVERSE,
  TERM_EXP,
  TERM_SQRT,
  TERM_LOG,
  TERM_POWER,
  TERM_LARGER,
  TERM_LOGISTIC,
  TERM_OPAQUE,
  TERM_SUM,
  TERM_MAX,
  TERM_RUNNING,
};
enum { INDEX_ARRAY = -2 }; // the array of all indices
struct term {
  enum term_kind kind;
  struct term *x, *y;
  struct ratio number;
  double constant;
  enum op op;                    // of an unknown function f
  int parity;                    // with f(-x) = parity f(x); 0: nothing is known
  int array;                     // of an element: number of the input, or INDEX_ARRAY
  int n;                         // subscripts of an element; digits that are bound, as one subscript; or twice the number of loop axes of a running
  const struct subscript *at;    // maximum: the subscripts of this iteration, one for each axis, then those of any iteration in x
  bool change;                   // for a running maximum: its change in this iteration instead of its value
  const struct scope *scope;     // of a running maximum: where it is evaluated,
  const struct node *running;    // its accum_max,
  const struct subscript *place; // and its element of the tile
  const struct node *rises;      // the increasing operator that computes it,
  struct term *argument;         // and that operator's argument
  const struct form *form;       // NULL until it is computed
  int round;                     // the round of facts in which `form` was computed
};
struct scope {
  const struct graph *g;
  const struct scope *above;                        // NULL: a kernel graph
  const struct node *nest;                          // the node of above->g that holds g
  struct subscript grid[MAX_GRID], loop[MAX_LOOPS]; // block index; loop: iteration index
  bool after;                                       // the code after the loop
  int64_t id;
};
struct step { // one element of one result of a node
  struct prover *p;
  const struct scope *s;
  const struct node *n;
  int t;                      // the tensor
  const struct subscript *at; // one subscript for each dimension
};
// Element `at` of tensor t.
struct term *unfold(struct prover *p, const struct scope *s, int t, const struct subscript *at);
struct term *unfold_argument(const struct step *w, const struct scope *s, int i); // broadcast to the result
struct term *unfold_accumulator(const struct step *w);                            // prove_loop.c
struct scope *unfold_scope(struct prover *p, const struct graph *g, const struct scope *above, const struct node *nest);

// ---- prove_at.c ----
bool subscript_chosen(const struct prover *p, struct subscript s); // whether it contains a data-dependent index
// Element `at` of an array of n dimensions; subscripts may be data-dependent.
struct term *unfold_element(const struct step *w, int array, const struct subscript *at, int n);
struct term *unfold_chosen(const struct step *w);                       // RULE_AT
struct term *unfold_index(const struct step *w, struct subscript flat); // if `flat` is data-dependent: that element of all indices, else NULL

// ---- prove_term.c ----
struct term *term_new(struct prover *p, enum term_kind kind, struct term *x, struct term *y);
struct term *term_ratio(struct prover *p, whole n, whole d);
struct term *term_constant(struct prover *p, double c);
struct term *term_map(struct prover *p, const struct node *n, struct term *x, struct term *y); // elementwise; y may be NULL
// The sum over `over`, whose digits the body may use. If the body needs the value of a digit, the sum is by cases.
typedef struct term *(*term_body)(const void *arg);
struct term *term_sum(struct prover *p, struct subscript over, term_body body, const void *arg);
struct term *term_max(struct prover *p, struct subscript over, struct term *x);
struct verify_fold { // of `len` elements
  struct prover *p;
  int64_t len;
  struct subscript over;
  term_body body;
  const void *arg;
};
struct term *term_fold(const struct verify_fold *f, enum op op);

// ---- forms ---------------------------------------------------------------------------------------------------

enum verify_atom_kind {
  ATOM_ELEMENT,
  ATOM_CONSTANT,
  ATOM_EXP,
  ATOM_BASE,
  ATOM_LOG,
  ATOM_ABS,
  ATOM_OPAQUE,
  ATOM_MAX,
  ATOM_BRANCH,
  ATOM_RUNNING,
};
enum sign { ANY_SIGN, NONNEGATIVE, POSITIVE }; // ascending
struct atom {
  enum verify_atom_kind kind;
  uint64_t hash;    // independent of the names of bound digits
  uint64_t outline; // independent of all subscripts too
  int tag;          // array, operator, or whether it is a change
  double value;     // of a constant
  int nat;
  const struct subscript *at;
  const struct form *f[2]; // arguments; of a maximum the sum of its branches
  int nbound;              // of running maxima
  const int *bound;
  int nfree;
  const int *free; // digits that are not bound inside, ascending
  enum sign sign;
  bool primitive;
  bool numbered; // an index has a number as a part
  int weight;    // number of atoms in it, including itself
};
struct factor {
  const struct atom *a;
  struct ratio e; // exponent, not 0
};
struct monomial {
  struct ratio c;
  int nbound, nfactors, bound_cap, factors_cap;
  int *bound;
  struct factor *f;
  uint64_t hash; // hash of everything but c
};
struct form {
  int n, cap;
  struct monomial *m; // no two differ in c only
  enum sign sign;     // sign known from its terms; form_sign may derive more
};

// ---- prove_atom.c ----
struct digits { // a set
  int n, cap;
  int *d;
};
void digits_add(struct prover *p, struct digits *s, int digit);
const struct atom *atom_make(struct prover *p, struct atom a); // completed with its hash and free digits
bool atom_has(const struct atom *a, int digit);                // whether it is free in the atom
uint64_t form_hash(const struct form *f);
uint64_t monomial_hash(const struct prover *p, const struct monomial *m);              // of everything but c
uint64_t monomial_outline(const struct monomial *m);                                   // combines the outlines of its factors
bool monomial_binds(const struct monomial *m, const struct atom *a);                   // binds a digit of a
void monomial_rename(struct prover *p, struct monomial *m, int i);                     // renames bound digit number i
struct monomial monomial_vary(struct prover *p, const struct monomial *m, int w);      // replaces 0 by w, below its extent
struct monomial monomial_renew(struct prover *p, const struct monomial *m, int digit); // after a digit got a value
// Splits bound digits of which only parts occur, then merges those that are always adjacent.
void monomial_merge(struct prover *p, struct monomial *m);

// ---- prove_make.c ----
const struct form *form_of(struct prover *p, struct term *t);

// ---- prove_form.c ----
struct form *form_atom(struct prover *p, struct atom a, struct ratio c);
struct form *form_factor(struct prover *p, const struct atom *a, struct ratio e);
struct form *form_sum(struct prover *p, const struct form *f, int n, const int *digits); // sums over these digits
struct form *form_constant(struct prover *p, struct ratio c);
struct form *form_add(struct prover *p, const struct form *x, const struct form *y);
struct form *form_mul(struct prover *p, const struct form *x, const struct form *y);
struct form *form_scale(struct prover *p, const struct form *x, struct ratio c);
struct form *form_finish(struct prover *p, const struct monomial *m); // completes a product
struct monomial monomial_one(struct ratio c);
void monomial_factor(struct prover *p, struct monomial *m, const struct atom *a, struct ratio e);

// ---- prove_gather.c ----
const struct form *form_gather(struct prover *p, const struct form *f); // returns f unless p->gathers

// ---- prove_power.c ----
struct form *form_inverse(struct prover *p, const struct form *f);
struct form *form_exp(struct prover *p, const struct form *f);
struct form *form_power(struct prover *p, const struct form *f, whole e);
// Multiplies by the denominators of its monomials.
const struct form *form_clear(struct prover *p, const struct form *f);
struct split { // f = c * content * rest
  struct ratio c;
  struct monomial content;
  const struct form *rest;
};
bool form_split(struct prover *p, const struct form *f, struct split *s);
bool form_is_one(const struct form *f);
void monomial_base(struct prover *p, struct monomial *m, const struct form *f, bool primitive, struct ratio e);
// f times a power of a. An opposite power in f cancels before anything is multiplied out.
struct form *form_times(struct prover *p, const struct form *f, const struct atom *a, struct ratio e);
// An atom of the content of f, with the power that removes it from f. Every common factor occurs in the first monomial.
enum common { COMMON, COMMON_DENOMINATORS, COMMON_NONNEGATIVE };
bool form_common(struct prover *p, const struct form *f, enum common which, struct factor *out);
struct ratio form_lead(struct prover *p, const struct form *f); // a coefficient that does not depend on names or order

// ---- prove_root.c ----
struct form *form_root(struct prover *p, const struct form *f, struct ratio e); // f^e for a fraction e > 0
struct form *form_log(struct prover *p, const struct form *f);

// ---- prove_max.c, prove_branch.c ----
struct branch { // f for all values of the digits
  const struct form *f;
  int n;
  const int *digits;
};
struct branches {
  int n, cap;
  struct branch *b;
};
const struct form *form_max(struct prover *p, const struct branches *b);
const struct form *form_larger(struct prover *p, const struct form *x, const struct form *y);
const struct form *factor_abs_root(struct prover *p, const struct factor *f, struct ratio e); // |a^f|^e
const struct form *factor_abs(struct prover *p, const struct factor *f);
const struct form *atom_ramp(const struct atom *a);                     // x if a is max(x, 0)
struct monomial branch_close(struct prover *p, const struct branch *b); // as a monomial in a maximum's argument
void branch_add(struct prover *p, struct branches *s, struct branch b);
bool branch_has(const struct branch *b, const struct monomial *m); // whether m depends on a digit that b binds
// Repeats until nothing changes: drops branches that are never above another one, moves common summands to *shift, and replaces a maximum by its
// branches.
bool branches_settle(struct prover *p, struct branches *s, const struct form **shift);

// ---- prove_sign.c ----
enum sign atom_sign(struct prover *p, const struct atom *a);
enum sign factor_sign(struct prover *p, const struct factor *f);
enum sign form_sign(struct prover *p, const struct form *f);
void form_assert(struct prover *p, const struct form *f);              // records that f is not negative where both graphs are defined
const struct form *form_alone(struct prover *p, const struct atom *a); // the form of an atom; for a base its own form

// ---- prove_match.c ----
bool atom_same(struct prover *p, const struct atom *a, const struct atom *b);
bool monomial_same(struct prover *p, const struct monomial *a, const struct monomial *b); // except for c
bool form_same(struct prover *p, const struct form *a, const struct form *b);

#endif

// prove: the private header of the formal check. Both graphs are read as they are written, once, with symbols in place
// of indices; every output element becomes a normal form, and equal normal forms are a proof for all inputs at the
// graphs' own extents. docs/theory.md has the algebra and why it is sound.
//
// Files
//   prove.c           verify_prove: outputs, cases, common denominators
//   prove_index.c     digits and subscripts
//   prove_unfold.c    graphs -> terms: kernel graphs, blocks, views, sums; prove_loop.c does accumulators
//   prove_form.c      terms -> forms: sums and products
//   prove_atom.c      atoms, free and bound digits
//   prove_power.c     quotients, roots and exponentials of forms
//   prove_match.c     are two forms the same up to the names of bound digits?
//   prove_number.c    exact rationals, and which numbers a graph's constants mean
//
// Glossary
//   digit       a variable of range 0 .. extent - 1: an output's index, or bound by a sum or a maximum
//   piece       a part of a digit, digit / div % extent, or a fixed number below extent
//   whole       of a piece: all of its digit
//   composite   a name for several pieces in a row, so that parts of them can be spoken of that end inside a piece. Only
//               whole ones, which are the pieces again, may be left in an atom
//   subscript   an index along one dimension: pieces in mixed radix, the most significant first
//   case        a value given to a digit, where the parts of a concatenation have to be told apart
//   scope       one reading of a graph: which block, which iteration, or after the loop
//   term        one element of a tensor, as the graph computes it
//   form        a normal form: a sum of monomials
//   monomial    coefficient * (sum over bound digits of) a product of powers of atoms
//   atom        an element of an input, a constant, exp of a monomial, a base, an unknown function of forms, a maximum of
//               a form over bound digits, or such a maximum up to some iteration of a loop
//   base        a form in a denominator or under a root
//   primitive   of a base: no factor that could stand outside is left in it
#ifndef MICA_PROVE_H
#define MICA_PROVE_H

#include "verify/verify.h"

struct piece {
  int digit; // or -1: the fixed number `at`
  int64_t at, div, extent;
};
struct subscript {
  int n;
  const struct piece *p;
};
struct digit {
  int64_t extent, value;  // value: of the case, or -1
  int high, low;          // the digits that it was replaced by, or -1
  bool output;            // part of an output's index: has an identity of its own
  struct subscript parts; // of a composite
};

struct prover {
  struct arena *mem;
  struct digit *digits;
  int ndigits, digits_cap;
  const char *why; // why it gave up; NULL while it has not
  int need;        // the digit that has to get a value first, or -1
  int64_t steps;
  int depth;
  struct unfolder *unfolder;
};

// Every function below that returns a pointer returns NULL once `why` or `need` is set.
void *prove_give_up(struct prover *p, const char *why); // keeps the first reason; NULL
bool prove_step(struct prover *p);                      // counts a step; false once there are too many

// ---- prove_index.c ---------------------------------------------------------------------------------------

int digit_new(struct prover *p, int64_t extent, bool output);
struct subscript subscript_of(struct prover *p, int digit);
struct subscript subscript_fixed(struct prover *p, int64_t at, int64_t extent);
// With digits replaced by what they were cut into and by their values; without pieces of extent 1; neighbours joined.
struct subscript subscript_expand(struct prover *p, struct subscript s);
struct subscript subscript_join(struct prover *p, struct subscript high, struct subscript low);
bool subscript_composite(const struct prover *p, struct subscript s); // a part of a composite is left in it
// Cuts off the low part of that extent; false: it gave up.
bool subscript_cut(struct prover *p, struct subscript s, int64_t extent, struct subscript *high, struct subscript *low);
// Digit w in place of u, or, with v >= 0, in place of u and of v behind it, which are whole.
struct subscript subscript_rename(struct prover *p, struct subscript s, int u, int v, int w);
// Replaces a digit by a high and a low one, the low one of that extent.
void digit_cut(struct prover *p, int digit, int64_t extent);
int digit_isolate(struct prover *p, struct piece x); // replaces x's digit so that x is a digit of its own, and returns it

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
int ratio_order(struct prover *p, struct ratio x, struct ratio y); // -1, 0, 1
whole ratio_floor(struct ratio x);
// The rational that a constant of a graph stands for (base/rational.h). False: the constant stays a number without a name.
bool ratio_meant(double c, struct ratio *r);

// ---- prove_unfold.c, prove_loop.c: terms --------------------------------------------------------------------

enum term_kind {
  TERM_NUMBER, TERM_CONSTANT, TERM_ELEMENT, TERM_ADD, TERM_MUL, TERM_INVERSE, TERM_EXP, TERM_SQRT, TERM_OPAQUE, TERM_SUM,
  TERM_MAX, TERM_RUNNING,
};
struct term {
  enum term_kind kind;
  struct term *x, *y;
  struct ratio number;
  double constant, lo, hi;       // lo, hi: of an unknown function
  enum op op;                    // of an unknown function
  int array;                     // of an element: the number of the input
  int n;                         // subscripts of an element, bound digits as one subscript, or iterations of a running
  const struct subscript *at;    // maximum: this one's subscripts, a loop axis each, then those of any one in x
  bool change;                   // of a running maximum: how it changed in this iteration, instead of its value
  const struct scope *scope;     // where that is,
  const struct node *running;    // its accum_max,
  const struct subscript *place; // and its place in the tile
  const struct form *form;       // once it is known
};
struct scope {
  const struct graph *g;
  const struct scope *above;                        // NULL: a kernel graph
  const struct node *nest;                          // the node of above->g that holds g
  struct subscript grid[MAX_GRID], loop[MAX_LOOPS]; // loop: of the iteration
  bool after;                                       // the loop is over
  int64_t id;
};
struct step { // one element of one result of a node
  struct prover *p;
  const struct scope *s;
  const struct node *n;
  int t;                      // the tensor
  const struct subscript *at; // its subscripts, one a dimension
};
// Element `at` of tensor t.
struct term *unfold(struct prover *p, const struct scope *s, int t, const struct subscript *at);
struct term *unfold_argument(const struct step *w, const struct scope *s, int i); // broadcast to the result
struct term *unfold_accumulator(const struct step *w);                            // prove_loop.c
struct scope *unfold_scope(struct prover *p, const struct graph *g, const struct scope *above, const struct node *nest);
struct term *term_new(struct prover *p, enum term_kind kind, struct term *x, struct term *y);
struct term *term_ratio(struct prover *p, whole n, whole d);
// The sum over `over`, whose digits the body may use; by cases where it needs them.
typedef struct term *(*term_body)(const void *arg);
struct term *term_sum(struct prover *p, struct subscript over, term_body body, const void *arg);
struct term *term_max(struct prover *p, struct subscript over, struct term *x);

// ---- forms ---------------------------------------------------------------------------------------------------

enum atom_kind { ATOM_ELEMENT, ATOM_CONSTANT, ATOM_EXP, ATOM_BASE, ATOM_OPAQUE, ATOM_MAX, ATOM_RUNNING };
struct atom {
  enum atom_kind kind;
  uint64_t hash;   // the same for all names of bound digits
  int tag;         // array, operator, or whether it is a change
  double lo, hi;   // lo: a constant's value
  int nat;
  const struct subscript *at;
  const struct form *f[2]; // arguments
  int nbound;              // of maxima
  const int *bound;
  int nfree;
  const int *free;         // digits that are not bound inside, ascending
  bool nonneg;             // never negative
  bool primitive;
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
  uint64_t hash; // of all but c
};
struct form {
  int n, cap;
  struct monomial *m; // no two that differ in c only
  bool nonneg;
};

// ---- prove_atom.c ----
struct digits { // a set
  int n, cap;
  int *d;
};
void digits_add(struct prover *p, struct digits *s, int digit);
const struct atom *atom_make(struct prover *p, struct atom a); // completed with its hash and free digits
bool atom_has(const struct atom *a, int digit);                // free
uint64_t form_hash(const struct form *f);
uint64_t monomial_hash(const struct prover *p, const struct monomial *m); // of all but c
bool monomial_binds(const struct monomial *m, const struct atom *a);      // a digit of a
void monomial_rename(struct prover *p, struct monomial *m, int i);        // gives bound digit number i another name
// Divides bound digits of which parts occur, then merges those that are always neighbours.
void monomial_merge(struct prover *p, struct monomial *m);

// ---- prove_form.c ----
const struct form *form_of(struct prover *p, struct term *t);
struct form *form_constant(struct prover *p, struct ratio c);
struct form *form_add(struct prover *p, const struct form *x, const struct form *y);
struct form *form_mul(struct prover *p, const struct form *x, const struct form *y);
struct form *form_scale(struct prover *p, const struct form *x, struct ratio c);
struct form *form_finish(struct prover *p, const struct monomial *m); // of a product that was put together
struct monomial monomial_one(struct ratio c);
void monomial_factor(struct prover *p, struct monomial *m, const struct atom *a, struct ratio e);

// ---- prove_power.c ----
struct form *form_inverse(struct prover *p, const struct form *f);
struct form *form_root(struct prover *p, const struct form *f); // square root
struct form *form_exp(struct prover *p, const struct form *f);
struct form *form_power(struct prover *p, const struct form *f, whole e);
// Multiplied by the denominators that its monomials have.
const struct form *form_clear(struct prover *p, const struct form *f);

// ---- prove_match.c ----
bool atom_same(struct prover *p, const struct atom *a, const struct atom *b);
bool monomial_same(struct prover *p, const struct monomial *a, const struct monomial *b); // but for c
bool form_same(struct prover *p, const struct form *a, const struct form *b);

#endif

// expr: abstract expressions, and the one question the search asks about them: can this value still
// become part of the target? (paper, section 4.3)
//
// An abstract expression forgets which element of a tensor is used where and keeps sums, products,
// quotients, exponentials and the lengths of reductions. The paper asks an SMT solver whether
// subexpr(E, E_O) follows from the axioms of its Table 2; this room decides it exactly and without a
// solver, because every term has a normal form in which the question is containment of multisets.
//
//   expr.c        a context: open, close, options, the memo of operations
//   intern.c      hash-consing of atoms, monomials and normal forms
//   expr_order.c  the order by content, which multiplication respects
//   poly.c        sum, product, difference and exact quotient of normal forms
//   normal.c      one builder an operator: term in, normal form out
//   square.c      sq of a sum: what leaves the square, and what may have been inside
//   subexpr.c     positions of the target and the test
//   expr_copy.c   from one context to another
//   expr_print.c  "S64 exp(S64 QK)V / S64 exp(S64 QK)"
//
// Glossary
//   atom        an input tensor or scalar, or f(...) of an operator without laws
//   monomial    sum factor * atoms * exp(X) * sqrt(S) * sq(Q) / D
//   normal form (nf) a non-empty multiset of monomials, read as their sum; interned, so equal means same id
//   sum factor  the length k of a reduction, sum(k, .); S64 in print. 2A is A + A and differs from S2 A
//   target      E_O, the expression of the whole program; several when it has several outputs
//   position    a normal form inside the target where a subexpression may sit: the target itself and
//               every argument, exponent, radicand and denominator in it
//   keep, prune the two answers; "keep" exactly when the axioms prove subexpr(e, target)
#ifndef MICA_EXPR_H
#define MICA_EXPR_H

#include "base/base.h"

typedef uint32_t nf;

// Two ids that are not normal forms. Every operation propagates them, EXPR_NEVER before EXPR_UNKNOWN.
enum {
  EXPR_UNKNOWN = 0, // a hard cap was exceeded while no target was set: the test answers keep
  EXPR_NEVER = 1,   // larger than any part of the target: the test answers prune, for every larger term too
};

struct expr; // a context; contexts share nothing, so each thread has one

struct expr_stats {
  uint64_t queries, memo_hits; // of the test
  uint64_t kept, pruned;       // its answers
  uint64_t interned;           // normal forms held
  uint64_t too_big;            // operations answered EXPR_UNKNOWN or EXPR_NEVER because of a size
};

// ---- expr.c ------------------------------------------------------------------------------------

struct expr *expr_open(void);
void expr_close(struct expr *ex);
// Set options before the first expression is built.
void expr_option_exp_laws(struct expr *ex, bool on);       // exp(x)exp(y) = exp(x+y), sqrt likewise; on unless told
void expr_option_expand_squares(struct expr *ex, bool on); // square of a sum = its product with itself; off unless told
struct expr_stats expr_stats(const struct expr *ex);
// A hash of the content: equal in every context and process, for any order of construction.
uint64_t expr_hash(const struct expr *ex, nf e);

// ---- normal.c, square.c ------------------------------------------------------------------------

nf expr_atom(struct expr *ex, uint32_t id);                          // the caller chooses the ids
nf expr_opaque(struct expr *ex, uint32_t fn, int n, const nf *args); // f(args) without laws
nf expr_add(struct expr *ex, nf x, nf y);
nf expr_neg(struct expr *ex, nf x); // returns x: signs are dropped, see normal.c
nf expr_mul(struct expr *ex, nf x, nf y);
nf expr_div(struct expr *ex, nf x, nf y);
nf expr_sum(struct expr *ex, uint64_t k, nf x); // k >= 1
nf expr_exp(struct expr *ex, nf x);
nf expr_sqrt(struct expr *ex, nf x);
nf expr_square(struct expr *ex, nf x);
nf expr_max(struct expr *ex, uint64_t k, nf x); // max-reduction over k >= 1 elements
nf expr_ewmax(struct expr *ex, nf x, nf y);
nf expr_ewmin(struct expr *ex, nf x, nf y);

// ---- subexpr.c ---------------------------------------------------------------------------------

// Sets the target to these outputs; expressions built before stay valid. While a target is set, any larger expression becomes EXPR_NEVER. So remove
// the old target with n = 0 before the next one is built.
void expr_target(struct expr *ex, int n, const nf *targets);
// Do the axioms prove that e is a subexpression of a target? True before any target is set.
bool expr_sub(struct expr *ex, nf e);

// ---- expr_copy.c, expr_print.c -----------------------------------------------------------------

nf expr_copy(struct expr *dst, const struct expr *src, nf e);

struct expr_names {
  const char *(*atom)(void *arg, uint32_t id);
  const char *(*fn)(void *arg, uint32_t fn);
  void *arg;
};
// Deterministic text; juxtaposition binds tighter than " / ", so "X / AB" is X/(AB).
void expr_print(const struct expr *ex, nf e, const struct expr_names *names, struct str *out);

#endif

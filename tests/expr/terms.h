// Terms for the tests of the oracle: a parser, a random generator, a random rewriter by the axioms.
//
// The notation is the printer's: one-letter atoms, juxtaposition as the tightest product, S64 for
// sum(64, .) of the product to its right, "2AB" for AB + AB, X^2, and exp, sqrt, sq, max64, ewmax, ewmin
// and the opaque functions f and g by name.
#ifndef MICA_TESTS_EXPR_TERMS_H
#define MICA_TESTS_EXPR_TERMS_H

#include "expr/expr.h"

enum term_op { T_ATOM, T_ADD, T_MUL, T_DIV, T_SUM, T_EXP, T_SQRT, T_SQ, T_F, T_MAX, T_EWMAX, T_EWMIN };

struct term {
  enum term_op op;
  uint64_t k; // ATOM: letter; SUM, MAX: length; F: name
  const struct term *a, *b;
};

const struct term *mk(struct arena *m, enum term_op op, uint64_t k, const struct term *a, const struct term *b);
const struct term *parse(struct arena *m, const char *text);
nf build(struct expr *ex, const struct term *t);
nf build_text(struct expr *ex, const char *text);
char *text_of(struct arena *m, const struct expr *ex, nf e);
int term_size(const struct term *t);
bool term_same(const struct term *s, const struct term *t);

// Which laws a term may exercise: those of Table 2, also exp and sqrt, also all others.
enum laws { LAWS_PAPER, LAWS_EXP, LAWS_ALL };
const struct term *random_term(struct arena *m, struct rng *r, int ops, int letters, enum laws laws);
// One attempt at a random place; t itself where no rule applies.
const struct term *rewrite(struct arena *m, struct rng *r, const struct term *t, enum laws laws);

#endif

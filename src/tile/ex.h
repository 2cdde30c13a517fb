// ex: integer expressions over named variables (sizes of a kernel, loop variables, thread and block indices), hash-consed
// in a pool and kept in one normal form: a sum of products with integer coefficients. The atoms of a product are
// variables and what does not distribute (quotients, remainders, minima, xor). Every expression knows a range and a
// divisor, so that (8*i + j) / 8 is i where 0 <= j < 8. Layouts, offsets, bounds and predicates are made of these; the
// interpreter evaluates them and the printers print them.
//
//   ex.c        the pool, sums, products;   ex_divide.c, ex_logic.c  the other operations
//   ex_text.c   printing as tile IR text;   ex_eval.c  evaluating, substituting;   ex_pool.h  the inside
#ifndef MICA_TILE_EX_H
#define MICA_TILE_EX_H

#include "base/base.h"

// A constant c is 2c, node i of the pool is 2i + 1: equal numbers of one pool mean equal expressions.
typedef int64_t ex;
#define EX_C(c) ((ex)(c)*2)
static inline bool ex_is_const(ex x) { return !(x & 1); }
static inline int64_t ex_value(ex x) { return x >> 1; } // of a constant

enum ex_kind {
  EX_VAR,  // a name with a range and a divisor
  EX_SUM,  // c + sum of coef[i] * arg[i]; arg[i] atoms or EX_PROD, sorted, each once, coef[i] never 0
  EX_PROD, // product of atoms, sorted, with repetition
  EX_DIV,
  EX_MOD, // floor division and its remainder; the divisor is positive
  EX_MIN,
  EX_MAX,
  EX_XOR,
  EX_AND,
  EX_SHR, // two arguments
  EX_LT,
  EX_EQ, // 0 or 1; a <= b is a < b + 1, a != b is 1 - (a = b)
  EX_BOTH,
  EX_EITHER, // of truth values
  EX_SELECT, // arg[0] ? arg[1] : arg[2]
};

struct ex_range { // inclusive
  int64_t lo, hi;
};

struct ex_node {
  enum ex_kind kind;
  int n;               // arguments
  const ex *arg;       //
  const int64_t *coef; // EX_SUM
  int64_t c;           // EX_SUM: the constant. EX_VAR: its number in the pool, from 0
  const char *name;    // EX_VAR
  struct ex_range range;
  int64_t multiple; // divides the value always; 0 for the value 0
};

struct ex_pool;
struct ex_pool *ex_open(struct arena *mem);
const struct ex_node *ex_node(const struct ex_pool *p, ex x); // x must not be a constant
int ex_vars(const struct ex_pool *p);                         // number of variables
// Whether a value made in the pool exceeded 62 bits or was too large to keep (ex_pool.h). Expressions made since then are invalid.
bool ex_overflowed(const struct ex_pool *p);
void ex_forgive_overflow(struct ex_pool *p); // for a caller that has discarded the expressions made since then

// Makes a new variable with range lo..hi, whose value is a multiple of `multiple` (1: any). hi INT64_MAX: no upper bound. A variable with one
// possible value is replaced by that value; an empty range counts as the value lo.
ex ex_var(struct ex_pool *p, const char *name, int64_t lo, int64_t hi, int64_t multiple);
ex ex_add(struct ex_pool *p, ex a, ex b);
ex ex_sub(struct ex_pool *p, ex a, ex b);
ex ex_mul(struct ex_pool *p, ex a, ex b);
ex ex_div(struct ex_pool *p, ex a, ex b); // floor; b > 0 for every value of the variables (the caller checks)
ex ex_mod(struct ex_pool *p, ex a, ex b); // in [0, b)
ex ex_ceil_div(struct ex_pool *p, ex a, ex b);
ex ex_min(struct ex_pool *p, ex a, ex b);
ex ex_max(struct ex_pool *p, ex a, ex b);
ex ex_xor(struct ex_pool *p, ex a, ex b);
ex ex_bits(struct ex_pool *p, ex a, ex b); // a & b, both nonnegative
ex ex_shr(struct ex_pool *p, ex a, ex b);
ex ex_lt(struct ex_pool *p, ex a, ex b);
ex ex_le(struct ex_pool *p, ex a, ex b);
ex ex_eq(struct ex_pool *p, ex a, ex b);
ex ex_both(struct ex_pool *p, ex a, ex b);
ex ex_either(struct ex_pool *p, ex a, ex b);
ex ex_not(struct ex_pool *p, ex a);
ex ex_select(struct ex_pool *p, ex c, ex a, ex b);

struct ex_range ex_range(const struct ex_pool *p, ex x);
int64_t ex_multiple(const struct ex_pool *p, ex x);
// Proofs from ranges and divisors. False from a `..._proved` function means unknown.
bool ex_true(struct ex_pool *p, ex cond);       // cond is never 0
bool ex_divides(struct ex_pool *p, ex d, ex x); // x % d is always 0

int64_t ex_eval(const struct ex_pool *p, ex x, const int64_t *vars); // vars is indexed by the number of the variable
ex ex_subst(struct ex_pool *p, ex x, ex var, ex by);
bool ex_mentions(const struct ex_pool *p, ex x, ex var);
void ex_text(const struct ex_pool *p, ex x, struct str *out); // text that can be parsed again, with the fewest parentheses

#endif

// law_term: the l_ functions of op.def's LAW as terms of the formal check (prove_term.c). Equations are known for these terms only (docs/theory.md),
// so the check needs nothing but the LAW of a new operator.
#ifndef MICA_LAW_TERM_H
#define MICA_LAW_TERM_H

#define l_num(c) term_constant(p, c)
#define l_int(n) term_ratio(p, n, 1)
#define l_add(x, y) plus(p, x, y)
#define l_sub(x, y) plus(p, x, negative(p, y))
#define l_mul(x, y) times(p, x, y)
#define l_div(x, y) times(p, x, l_inv(y))
#define l_neg(x) negative(p, x)
#define l_inv(x) term_new(p, TERM_INVERSE, x, NULL)
#define l_square(x) times(p, x, x)
#define l_exp(x) term_new(p, TERM_EXP, x, NULL)
#define l_log(x) term_new(p, TERM_LOG, x, NULL)
#define l_sqrt(x) term_new(p, TERM_SQRT, x, NULL)
#define l_pow(x, y) term_new(p, TERM_POWER, x, y)
#define l_logistic(x) term_new(p, TERM_LOGISTIC, x, NULL)
#define l_max(x, y) term_new(p, TERM_LARGER, x, y)
#define l_min(x, y) smaller(p, x, y)
#define l_at_least(x, c) at_least(p, x, c)
#define l_at_most(x, c) at_most(p, x, c)
#define l_fn(op, x) unknown(p, OP_##op, x, NULL)
#define l_odd(op, x) of_parity(p, OP_##op, x, -1)
#define l_even(op, x) of_parity(p, OP_##op, x, 1)
#define l_fn2(op, x, y) unknown(p, OP_##op, x, y)
#define l_fn3(op, x, y, z) prove_give_up(p, "an unknown function of three values")
#define l_proof(elsewhere, proof) proof

#endif

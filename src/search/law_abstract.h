// law_abstract: the l_ functions of op.def's LAW as abstract expressions of ex (search/abstract.c).
#ifndef MICA_LAW_ABSTRACT_H
#define MICA_LAW_ABSTRACT_H

#define l_num(c) expr_atom(ex, atom_scalar(c))
#define l_int(n) expr_atom(ex, atom_scalar(n))
#define l_add(x, y) expr_add(ex, x, y)
#define l_sub(x, y) expr_add(ex, x, expr_neg(ex, y))
#define l_mul(x, y) expr_mul(ex, x, y)
#define l_div(x, y) expr_div(ex, x, y)
#define l_neg(x) expr_neg(ex, x)
#define l_inv(x) expr_div(ex, l_int(1), x)
#define l_square(x) expr_square(ex, x)
#define l_exp(x) expr_exp(ex, x)
#define l_sqrt(x) expr_sqrt(ex, x)
#define l_max(x, y) expr_ewmax(ex, x, y)
#define l_min(x, y) expr_ewmin(ex, x, y)
#define l_fn(op, x) expr_opaque(ex, OP_##op, 1, (nf[]){x})
#define l_odd(op, x) l_fn(op, x) // -x and x are the same expression
#define l_even(op, x) l_fn(op, x)
#define l_fn2(op, x, y) expr_opaque(ex, OP_##op, 2, (nf[]){x, y})
#define l_fn3(op, x, y, z) expr_opaque(ex, OP_##op, 3, (nf[]){x, y, z})
#define l_proof(elsewhere, proof) elsewhere

#endif

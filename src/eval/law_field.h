// law_field: the l_ functions of op.def's LAW over a finite field F, in terms of the ff_ functions that the including file defines.
#ifndef MICA_LAW_FIELD_H
#define MICA_LAW_FIELD_H

#define l_num(c) ff_const(F, c)
#define l_int(n) ff_const(F, n)
#define l_add(x, y) ff_add(F, x, y)
#define l_sub(x, y) ff_sub(F, x, y)
#define l_mul(x, y) ff_mul(F, x, y)
#define l_div(x, y) ff_div(F, x, y)
#define l_neg(x) ff_neg(F, x)
#define l_inv(x) ff_inv(F, x)
#define l_square(x) ff_mul(F, x, x)
#define l_exp(x) ff_exp(F, x)
#define l_sqrt(x) ff_sqrt(F, x)
#define l_max(x, y) ff_max(F, x, y)
#define l_min(x, y) ff_min(F, x, y)
#define l_fn(op, x) ff_opaque(F, OP_##op, x, x)
#define l_odd(op, x) ff_sub(F, l_fn(op, x), l_fn(op, l_neg(x)))  // every odd function is g(x) - g(-x) for some g
#define l_even(op, x) ff_add(F, l_fn(op, x), l_fn(op, l_neg(x))) // and every even one g(x) + g(-x)
#define l_fn2(op, x, y) ff_opaque(F, OP_##op, x, y)
#define l_fn3(op, x, y, z) ff_opaque(F, OP_##op, x, ff_sub(F, y, ff_opaque(F, OP_##op, z, z)))
#define l_proof(elsewhere, proof) elsewhere

#endif

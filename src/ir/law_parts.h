// law_parts: the l_ functions of op.def's LAW as bit sets: the operators from which the value is computed.
#ifndef MICA_LAW_PARTS_H
#define MICA_LAW_PARTS_H

#define l_bit(op) OP_BIT(OP_##op)
#define l_num(c) ((void)(c), 0)
#define l_int(n) 0
#define l_add(x, y) ((x) | (y) | l_bit(ADD))
#define l_sub(x, y) ((x) | (y) | l_bit(SUB))
#define l_mul(x, y) ((x) | (y) | l_bit(MUL))
#define l_div(x, y) ((x) | (y) | l_bit(DIV))
#define l_neg(x) ((x) | l_bit(NEG))
#define l_inv(x) ((x) | l_bit(DIV))
#define l_square(x) ((x) | l_bit(SQUARE))
#define l_exp(x) ((x) | l_bit(EXP))
#define l_sqrt(x) ((x) | l_bit(SQRT))
#define l_max(x, y) ((x) | (y) | l_bit(MAXIMUM))
#define l_min(x, y) ((x) | (y) | l_bit(MINIMUM))
#define l_fn(op, x) ((x) | l_bit(op))
#define l_odd(op, x) l_fn(op, x)
#define l_even(op, x) l_fn(op, x)
#define l_fn2(op, x, y) ((x) | (y) | l_bit(op))
#define l_fn3(op, x, y, z) ((x) | (y) | (z) | l_bit(op))
#define l_proof(elsewhere, proof) elsewhere

#endif

// law_size: the l_ functions of op.def's LAW as bounds on values (verify/size_walk.c), for elementwise operators that their law defines by others.
#ifndef MICA_LAW_SIZE_H
#define MICA_LAW_SIZE_H

#define l_num(c) ((void)(c), value_atom(0))
#define l_int(n) value_atom(0)
#define l_add(x, y) added(w, x, y)
#define l_sub(x, y) added(w, x, y)
#define l_mul(x, y) multiplied(w, x, y)
#define l_div(x, y) divided(w, x, y, mask)
#define l_neg(x) (x)
#define l_inv(x) divided(w, value_atom(0), x, mask)
#define l_square(x) multiplied(w, x, x)
#define l_exp(x) exponential(w, x)
#define l_sqrt(x) root(w, x, mask)
#define l_max(x, y) either(w, n, x, y, true)
#define l_min(x, y) either(w, n, x, y, true)
#define l_fn(op, x) either(w, n, x, x, false)
#define l_odd(op, x) of_both_signs(w, n, x)
#define l_even(op, x) of_both_signs(w, n, x)
#define l_fn2(op, x, y) either(w, n, x, y, false)
#define l_fn3(op, x, y, z) l_fn2(op, l_fn2(op, x, y), z)
#define l_proof(elsewhere, proof) elsewhere

#endif

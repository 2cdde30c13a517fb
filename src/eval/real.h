// real: what FLOAT texts of op.def mean over double and float. Only f64.c and f32.c include it, and front/number.c for numbers.
// NaN goes through m_min and m_max, whichever side it is on.
#ifndef MICA_EVAL_REAL_H
#define MICA_EVAL_REAL_H

#include <tgmath.h>

#define VALUE(real, field) real
#define K(c) ((NUM)(c))
#define m_exp(x) exp(x)
#define m_log(x) log(x)
#define m_sqrt(x) sqrt(x)
#define m_abs(x) fabs(x)
#define m_tanh(x) tanh(x)
#define m_pow(x, y) pow(x, y)
#define m_gelu(x) (x * K(0.5) * (K(1) + erf(x * K(0.70710678118654752440))))
#define m_max(x, y) max_of(x, y)
#define m_min(x, y) min_of(x, y)
#define m_max_c(c, x) max_of(x, c)
#define m_min_c(c, x) min_of(x, c)
#define CONSTANT(c) K(c)
#define OVER(x, y) ((x) / (y))
#define ROOT(x) sqrt(x)

static inline NUM max_of(NUM x, NUM y) { return isnan(x) || x > y ? x : y; }
static inline NUM min_of(NUM x, NUM y) { return isnan(x) || x < y ? x : y; }
#endif

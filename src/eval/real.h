// real: the meaning of op.def's FLOAT texts over double and float. The evaluators f64.c, f32.c and eval_element.c include it; so do the
// interpreter of tile programs (sim/point.c), kernel IR (kern/kern_apply.c) and constants of programs (front/number.c).
// The CUDA text of float64 references contains it (gpu/plain.cuh).
// m_min and m_max return NaN if either argument is NaN.
#ifndef MICA_EVAL_REAL_H
#define MICA_EVAL_REAL_H

#include "base/parts.h"
#include "eval/real_fn.h"
#include <tgmath.h>

#define VALUE(real, field) real
#define K(c) ((NUM)(c))
#define m_max(x, y) max_of(x, y)
#define m_min(x, y) min_of(x, y)
#define m_max_c(c, x) max_of(x, c)
#define m_min_c(c, x) min_of(x, c)
#define CONSTANT(c) K(c)
#define OVER(x, y) ((x) / (y))
#define ROOT(x) sqrt(x)

#define m_less(x, y) ((x) < (y) ? K(1) : K(0))
#define m_less_equal(x, y) ((x) <= (y) ? K(1) : K(0))
#define m_equal(x, y) ((x) <= (y) && (x) >= (y) ? K(1) : K(0))
#define m_mask(x, y) (is_zero(x) || is_zero(y) ? K(0) : (x) * (y))
static inline int is_zero(NUM x) { return x <= 0 && x >= 0; }
static inline NUM max_of(NUM x, NUM y) { return isnan(x) || x > y ? x : y; }
static inline NUM min_of(NUM x, NUM y) { return isnan(x) || x < y ? x : y; }
#endif

// real_fn: the m_ functions of op.def's FLOAT, from the C library, base/order.h and base/parts.h.
// tile/device.h has them for CUDA.
#ifndef MICA_EVAL_REAL_FN_H
#define MICA_EVAL_REAL_FN_H

#define m_exp(x) exp(x)
#define m_log(x) log(x)
#define m_log1p(x) log1p(x)
#define m_sqrt(x) sqrt(x)
#define m_abs(x) fabs(x)
#define m_tanh(x) tanh(x)
#define m_sin(x) sin(x)
#define m_cos(x) cos(x)
#define m_erf(x) erf(x)
#define m_floor(x) floor(x)
#define m_pow(x, y) pow(x, y)
#define m_order(x) mica_order(x)
#define m_ordered(x) mica_ordered(x)
#define m_place(x) mica_place(x)
#define m_bf16_high(x) mica_bf16_high((float)(x))
#define m_bf16_middle(x) mica_bf16_middle((float)(x))
#define m_bf16_low(x) mica_bf16_low((float)(x))
#define m_gelu(x) (x * K(0.5) * (K(1) + erf(x * K(0.70710678118654752440))))

#endif

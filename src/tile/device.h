// device: the m_ functions of op.def's FLOAT in CUDA C++, in fp32. v__ is the value in instr.def, w__ its constant.
#ifndef MICA_TILE_DEVICE_H
#define MICA_TILE_DEVICE_H

#define K(c) float(c)
#define m_exp(x) __expf(x)
#define m_log(x) __logf(x)
#define m_log1p(x) log1pf(x)
#define m_sqrt(x) sqrtf(x)
#define m_abs(x) fabsf(x)
#define m_floor(x) floorf(x)
#define m_bf16_high(x) mica_bf16_high(x)
#define m_bf16_middle(x) mica_bf16_middle(x)
#define m_bf16_low(x) mica_bf16_low(x)
#define m_tanh(x) tanhf(x)
#define m_sin(x) sinf(x)
#define m_cos(x) cosf(x)
#define m_erf(x) erff(x)
#define m_max(x, y) mica_max(x, y)
#define m_min(x, y) mica_min(x, y)
#define m_max_c(c, x) mica_max(x, c)
#define m_min_c(c, x) mica_min(x, c)

#endif

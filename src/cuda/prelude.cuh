// Prelude of Mica's kernels, in place of the vendor's headers: small float types, reinterpretation of words, addresses.
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;
typedef u64 uint64_t;
#define MICA __device__ __forceinline__

struct __align__(2) __half { u16 w; };
struct __align__(2) __nv_bfloat16 { u16 w; };
struct __align__(4) __half2 { u32 w; };
struct __align__(4) __nv_bfloat162 { u32 w; };
struct __align__(128) mica_map { u64 w[16]; };

template <class T, class U> MICA T &mica_as(U &x) { return *(T *)&x; }
template <class T, class U> MICA const T &mica_as(const U &x) { return *(const T *)&x; }
template <class T> MICA T mica_to(float x);
template <class T> MICA T mica_to2(float2 x);
template <class T, class U> MICA T mica_bits(U x) { return *(const T *)&x; }
template <class T> MICA T mica_div(T a, T b) { T q = a / b; return q - (a % b < 0); }
template <class T> MICA T mica_mod(T a, T b) { T r = a % b; return r < 0 ? r + b : r; }
template <int N> MICA void mica_hold(float (&x)[N])
{
#pragma unroll
  for (int i = 0; i < N; i++) asm volatile("" : "+f"(x[i]) : : "memory");
}
template <class T, int N> MICA void mica_hold(T (&x)[N])
{
#pragma unroll
  for (int i = 0; i < N; i += 4 / sizeof(T)) asm volatile("" : "+r"(mica_as<u32>(x[i])) : : "memory");
}
// Eight elements of 2 bytes from number n on, 0 <= n <= 8, of two vectors one after the other. Whole words are selected first, then halves are
// shifted out.
MICA uint4 mica_shift(uint4 a, uint4 b, int n)
{
  if (n & 8) a = b;
  if (n & 4) a = uint4{a.z, a.w, b.x, b.y}, b = uint4{b.z, b.w, 0, 0};
  if (n & 2) a = uint4{a.y, a.z, a.w, b.x}, b.x = b.y;
  const u32 by = (n & 1) * 16;
  return uint4{__funnelshift_r(a.x, a.y, by), __funnelshift_r(a.y, a.z, by), __funnelshift_r(a.z, a.w, by), __funnelshift_r(a.w, b.x, by)};
}
MICA u32 mica_shared(const void *p) { return (u32)__cvta_generic_to_shared(p); }
MICA u64 mica_matrix(u32 a, u32 units, u64 rest) { return rest >> 32 << 32 | (u32)((u32)rest + ((a & 0x3ffff) >> 4) + units); }
MICA u32 mica_peer(u32 a, u32 rank) { u32 r; asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(rank)); return r; }

#define OP1(name, ptx, T, c) MICA T name(T a) { T r; asm(ptx " %0, %1;" : "=" c(r.w) : c(a.w)); return r; }
#define OP2(name, ptx, T, c) MICA T name(T a, T b) { T r; asm(ptx " %0, %1, %2;" : "=" c(r.w) : c(a.w), c(b.w)); return r; }
#define OP3(name, ptx, T, c) MICA T name(T a, T b, T d) { T r; asm(ptx " %0, %1, %2, %3;" : "=" c(r.w) : c(a.w), c(b.w), c(d.w)); return r; }
#define HALF(suffix, T, t, c) \
  OP2(__hadd##suffix, "add.rn." t, T, c) OP2(__hsub##suffix, "sub.rn." t, T, c) OP2(__hmul##suffix, "mul.rn." t, T, c) \
  OP2(__hmin##suffix##_nan, "min.NaN." t, T, c) OP2(__hmax##suffix##_nan, "max.NaN." t, T, c) OP3(__hfma##suffix, "fma.rn." t, T, c) \
  OP1(__hneg##suffix, "neg." t, T, c) OP1(__habs##suffix, "abs." t, T, c)
HALF(, __half, "f16", "h")
HALF(2, __half2, "f16x2", "r")
// Before sm_90, bfloat16 sums and products use fused multiply-add: a * 1 + b and a * b - 0 round in the same way.
#define BF16(suffix, T, t, c, one, minus_one, minus_zero) \
  OP2(__hmin##suffix##_nan, "min.NaN." t, T, c) OP2(__hmax##suffix##_nan, "max.NaN." t, T, c) OP3(__hfma##suffix, "fma.rn." t, T, c) \
  OP1(__hneg##suffix, "neg." t, T, c) OP1(__habs##suffix, "abs." t, T, c) \
  MICA T __hadd##suffix(T a, T b) { return __hfma##suffix(a, T{one}, b); } \
  MICA T __hsub##suffix(T a, T b) { return __hfma##suffix(b, T{minus_one}, a); } \
  MICA T __hmul##suffix(T a, T b) { return __hfma##suffix(a, b, T{minus_zero}); }
BF16(, __nv_bfloat16, "bf16", "h", 0x3f80, 0xbf80, 0x8000)
BF16(2, __nv_bfloat162, "bf16x2", "r", 0x3f803f80, 0xbf80bf80, 0x80008000)
MICA __half2 mica_relu2(__half2 a) { return __hmax2_nan(a, __half2{0}); }
MICA __nv_bfloat162 mica_relu2(__nv_bfloat162 a) { return __hmax2_nan(a, __nv_bfloat162{0}); }
// NaN if either operand is NaN, as in numpy and torch; fminf and fmaxf return the other operand.
MICA float mica_min(float a, float b) { float r; asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r; }
MICA float mica_max(float a, float b) { float r; asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r; }
// Approximations without the scaling by which ex2 and division reach denormal numbers: these are 0 here. Arguments of rcp are at least 1.
MICA float mica_exp2(float x) { float r; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }
MICA float mica_rcp(float x) { float r; asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }
MICA float mica_logistic2(float x) { return mica_rcp(1.0f + mica_exp2(-x)); } // of x ln 2
// x times the normal distribution function of x, as relu(x) - |x| Q. The tail Q is p(t) exp(-x^2 / 2) with t = 1 / (1 + 0.2316419 |x|) (Abramowitz and
// Stegun, 26.2.17). The absolute error is at most 3.4e-7. An infinite x gives what the definition gives: inf, and NaN of -inf.
MICA float mica_gelu(float x)
{
  const float a = fabsf(mica_min(x, 100.0f)), t = mica_rcp(fmaf(0.2316419f, a, 1.0f));
  const float p = fmaf(fmaf(fmaf(fmaf(0.5307027145f, t, -0.7265760135f), t, 0.7107068705f), t, -0.142248368f), t, 0.127414796f) * t;
  return fmaxf(x, 0.0f) - a * (p * mica_exp2(a * a * -0.72134752f));
}
MICA float mica_le(float a, float b) { return a <= b ? 1.0f : 0.0f; }
MICA float mica_eq(float a, float b) { return a == b ? 1.0f : 0.0f; }
MICA float mica_mask(float a, float b) { return a == 0 || b == 0 ? 0.0f : a * b; }
MICA __half mica_min(__half a, __half b) { return __hmin_nan(a, b); }
MICA __half mica_max(__half a, __half b) { return __hmax_nan(a, b); }
MICA __nv_bfloat16 mica_min(__nv_bfloat16 a, __nv_bfloat16 b) { return __hmin_nan(a, b); }
MICA __nv_bfloat16 mica_max(__nv_bfloat16 a, __nv_bfloat16 b) { return __hmax_nan(a, b); }
template <class T> MICA T mica_min(T a, T b) { return a != a || a < b ? a : b; }
template <class T> MICA T mica_max(T a, T b) { return a != a || a > b ? a : b; }
// log(1 + exp(x)) as relu(x) + log(1 + e) with e = exp(-|x|). The logarithm is e times a polynomial on [0, 1] (Chebyshev), whose relative error is at
// most 5e-7. The rounding of x in the exponential adds 3e-6 for x near -80.
MICA float mica_softplus(float x)
{
  const float e = mica_exp2(fabsf(x) * -1.44269504f);
  const float high = fmaf(fmaf(fmaf(fmaf(-0.008574676203f, e, 0.04421419233f), e, -0.1078536792f), e, 0.1775702399f), e, -0.2449961172f);
  const float low = fmaf(fmaf(fmaf(high, e, 0.3327617657f), e, -0.4999744938f), e, 0.9999998102f);
  return fmaf(low, e, mica_max(x, 0.0f));
}
// Keys of topk: base/order.h.
MICA i64 mica_order(float x) { return mica_key_of(__float_as_uint(x)); }
MICA float mica_ordered(i64 key) { return __uint_as_float(mica_key_bits(key)); }
MICA int mica_place(i64 key) { return mica_key_index(key); }
MICA i64 mica_below(i64 a, i64 b) { return a < b ? a : -0x7fffffffffffffffll - 1; }

MICA float __half2float(__half a) { float r; asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(a.w)); return r; }
MICA __half __float2half_rn(float a) { __half r; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r.w) : "f"(a)); return r; }
MICA __half2 __float22half2_rn(float2 a) { __half2 r; asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r.w) : "f"(a.y), "f"(a.x)); return r; }
MICA float2 __half22float2(__half2 a) { return float2{__half2float(__half{u16(a.w)}), __half2float(__half{u16(a.w >> 16)})}; }
MICA float __bfloat162float(__nv_bfloat16 a) { return __uint_as_float((u32)a.w << 16); }
MICA __nv_bfloat16 __float2bfloat16_rn(float a) { __nv_bfloat16 r; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r.w) : "f"(a)); return r; }
MICA __nv_bfloat162 __float22bfloat162_rn(float2 a) { __nv_bfloat162 r; asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r.w) : "f"(a.y), "f"(a.x)); return r; }
MICA float2 __bfloat1622float2(__nv_bfloat162 a) { return float2{__uint_as_float(a.w << 16), __uint_as_float(a.w & 0xffff0000u)}; }
template <> MICA __half mica_to<__half>(float x) { return __float2half_rn(x); }
template <> MICA __nv_bfloat16 mica_to<__nv_bfloat16>(float x) { return __float2bfloat16_rn(x); }
MICA u32 mica_pair(__half x) { return x.w * 0x10001u; }
MICA u32 mica_pair(__nv_bfloat16 x) { return x.w * 0x10001u; }
// Floats of 8 bits, with the instructions of sm_89. Conversion saturates to the largest number.
#define F8(T, T2, t) \
  struct T { u8 w; }; \
  struct __align__(2) T2 { u16 w; }; \
  template <> MICA T2 mica_to2<T2>(float2 a) { T2 r; asm("cvt.rn.satfinite." t "x2.f32 %0, %1, %2;" : "=h"(r.w) : "f"(a.y), "f"(a.x)); return r; } \
  MICA float2 mica_float2(T2 a) { __half2 r; asm("cvt.rn.f16x2." t "x2 %0, %1;" : "=r"(r.w) : "h"(a.w)); return __half22float2(r); } \
  template <> MICA T mica_to<T>(float x) { return T{u8(mica_to2<T2>(float2{x, 0.0f}).w)}; } \
  MICA float mica_float(T a) { return mica_float2(T2{a.w}).x; } \
  MICA u32 mica_pair(T x) { return x.w * 0x1010101u; }
F8(__nv_fp8_e4m3, __nv_fp8x2_e4m3, "e4m3")
F8(__nv_fp8_e5m2, __nv_fp8x2_e5m2, "e5m2")
MICA u32 mica_pair(float x) { return __float_as_uint(x); }
MICA u32 mica_pair(int x) { return x; }
MICA u32 mica_pair(u32 x) { return x; }
#undef OP1
#undef OP2
#undef OP3
#undef HALF
#undef BF16
#undef F8
#undef MICA

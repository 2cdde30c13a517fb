/* Prelude of Mica's C kernels: 16-bit numbers, operators, atomics. A register of a warp is a row of 32 lanes:
 * float sum[4][32]. Compile with -std=c17 -O3 -march=native -fopenmp (without OpenMP the blocks run one
 * after the other). In GNU modes add -ffp-contract=off, so that every sum and product is rounded. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define MICA static inline __attribute__((unused))
#if defined(__clang__) /* iterations of a loop over lanes are independent */
#define MICA_LANES _Pragma("clang loop vectorize(assume_safety)")
#else
#define MICA_LANES _Pragma("GCC ivdep")
#endif
typedef uint16_t mica_f16;  /* bits of an IEEE half */
typedef uint16_t mica_bf16; /* bfloat16 */

/* ---- integers: quotients round down, a swizzle changes low bits of an index by higher ones ---- */
MICA int64_t mica_quot(int64_t a, int64_t b) { return a / b - (a % b < 0); }
MICA int64_t mica_rem(int64_t a, int64_t b) { return a % b < 0 ? a % b + b : a % b; }
MICA int64_t mica_least(int64_t a, int64_t b) { return a < b ? a : b; }
MICA int64_t mica_most(int64_t a, int64_t b) { return a > b ? a : b; }
MICA int64_t mica_swizzle(int64_t x, int bits, int base, int shift)
{
  int64_t key = x >> (base + (shift > 0 ? shift : 0)) & ((INT64_C(1) << bits) - 1);
  return x ^ key << (base + (shift < 0 ? -shift : 0));
}

/* ---- numbers of 16 bits; rounding is to nearest, ties to even ---- */
MICA float mica_bits_f32(uint32_t u)
{
  float f;
  memcpy(&f, &u, 4);
  return f;
}
MICA uint32_t mica_f32_bits(float f)
{
  uint32_t u;
  memcpy(&u, &f, 4);
  return u;
}
MICA float mica_from_f16(mica_f16 h) /* exponents differ by 112; subnormal halves are normal floats */
{
  uint32_t u = mica_f32_bits(mica_bits_f32((uint32_t)(h & 0x7fff) << 13) * 0x1p112f);
  return mica_bits_f32(u | ((h & 0x7c00) == 0x7c00 ? 0x7f800000u : 0) | (uint32_t)(h & 0x8000) << 16);
}
MICA mica_f16 mica_to_f16(float x)
{
  uint32_t u = mica_f32_bits(x), sign = u >> 16 & 0x8000, a = u & 0x7fffffff;
  uint32_t normal = (a - 0x38000000 + 0xfff + (a >> 13 & 1)) >> 13;
  uint32_t small = mica_f32_bits(mica_bits_f32(a) + 0.5f) - 0x3f000000; /* one ulp of 0.5f is one unit of subnormal halves */
  uint32_t r = a < 0x38800000 ? small : normal;
  r = a >= 0x477ff000 ? 0x7c00 : r;
  r = a > 0x7f800000 ? 0x7e00 | (a >> 13 & 0x3ff) : r;
  return (mica_f16)(sign | r);
}
MICA float mica_from_bf16(mica_bf16 b) { return mica_bits_f32((uint32_t)b << 16); }
MICA mica_bf16 mica_to_bf16(float x)
{
  uint32_t u = mica_f32_bits(x);
  return (mica_bf16)((u & 0x7fffffff) > 0x7f800000 ? u >> 16 | 0x40 : (u + 0x7fff + (u >> 16 & 1)) >> 16);
}

/* Conversions round towards zero and saturate at the limits of the type, as cvt.rzi does. */
MICA double mica_clamp(double x, double least, double most) { return x != x ? 0 : x < least ? least : x > most ? most : x; }
MICA int32_t mica_to_i32(double x) { return (int32_t)mica_clamp(x, INT32_MIN, INT32_MAX); }
MICA uint32_t mica_to_u32(double x) { return (uint32_t)mica_clamp(x, 0, UINT32_MAX); }
MICA uint8_t mica_to_bool(double x) { return (uint8_t)mica_clamp(x, 0, 1); }
MICA int64_t mica_to_i64(double x) { return (int64_t)mica_clamp(x, -0x1p63, 0x1.fffffffffffffp62); }

/* ---- operators ---- */
MICA int64_t mica_add_i64(int64_t x, int64_t y) { return (int64_t)((uint64_t)x + (uint64_t)y); }
MICA int64_t mica_sub_i64(int64_t x, int64_t y) { return (int64_t)((uint64_t)x - (uint64_t)y); }
MICA int64_t mica_mul_i64(int64_t x, int64_t y) { return (int64_t)((uint64_t)x * (uint64_t)y); }
MICA int64_t mica_div_i64(int64_t x, int64_t y) { return !y ? 0 : y == -1 ? (int64_t) - (uint64_t)x : x / y; }
MICA int64_t mica_min_i64(int64_t x, int64_t y) { return x < y ? x : y; }
MICA int64_t mica_max_i64(int64_t x, int64_t y) { return x > y ? x : y; }
MICA int64_t mica_lt_i64(int64_t x, int64_t y) { return x < y; }
MICA int64_t mica_le_i64(int64_t x, int64_t y) { return x <= y; }
MICA int64_t mica_eq_i64(int64_t x, int64_t y) { return x == y; }
MICA int64_t mica_below_i64(int64_t x, int64_t y) { return x < y ? x : INT64_MIN; }
MICA int64_t mica_mask_i64(int64_t x, int64_t y) { return (int64_t)((uint64_t)x * (uint64_t)y); }

MICA double mica_odd_f64(double hi, double lo) /* hi + lo rounded to odd, so that a second rounding to a narrower type is correct */
{
  uint64_t u;
  memcpy(&u, &hi, 8);
  if (lo != 0 && isfinite(hi) && !(u & 1)) u += (lo > 0) == (hi > 0) ? 1 : (uint64_t)-1;
  memcpy(&hi, &u, 8);
  return hi;
}
MICA float mica_odd_f32(double x)
{
  float f = (float)x;
  uint32_t u = mica_f32_bits(f);
  if ((double)f != x && isfinite(f) && !(u & 1)) u += fabs((double)f) < fabs(x) ? 1 : (uint32_t)-1;
  return mica_bits_f32(u);
}
MICA float mica_fma_odd(float a, float b, float c) /* a * b + c in fp32, rounded to odd: for types of 16 bits */
{
  double p = (double)a * b, s = p + c, t = s - p;
  return s == 0 ? (float)s : mica_odd_f32(mica_odd_f64(s, (p - (s - t)) + (c - t)));
}
MICA mica_f16 mica_fma_f16(mica_f16 a, mica_f16 b, mica_f16 c)
{
  return mica_to_f16(mica_fma_odd(mica_from_f16(a), mica_from_f16(b), mica_from_f16(c)));
}
MICA mica_bf16 mica_fma_bf16(mica_bf16 a, mica_bf16 b, mica_bf16 c)
{
  return mica_to_bf16(mica_fma_odd(mica_from_bf16(a), mica_from_bf16(b), mica_from_bf16(c)));
}

/* Atomically sets *p to `value`, an expression in `old`, the previous value. T: element type, U: integer of its bits. */
#define MICA_ATOMIC(name, T, U, value)                                                                      \
  MICA T name(T *p, T v)                                                                                    \
  {                                                                                                         \
    U was, to;                                                                                              \
    T old, now;                                                                                             \
    __atomic_load((U *)(void *)p, &was, __ATOMIC_RELAXED);                                                  \
    do {                                                                                                    \
      memcpy(&old, &was, sizeof old);                                                                       \
      now = (T)(value);                                                                                     \
      memcpy(&to, &now, sizeof to);                                                                         \
    } while (!__atomic_compare_exchange((U *)(void *)p, &was, &to, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)); \
    return old;                                                                                             \
  }
typedef uint16_t __attribute__((may_alias)) mica_word16;
typedef uint32_t __attribute__((may_alias)) mica_word32;
typedef uint64_t __attribute__((may_alias)) mica_word64;

/* ---- shuffles: the source lane, for a group of `width` lanes from `first` on ---- */
MICA int64_t mica_source(int64_t lane, int64_t first, int64_t width, int64_t at) { return (at < 0 || at >= width ? lane : first + at) & 31; }

/* An fp32 number x as the sum of three bf16 numbers: its first 8 significant bits, the next 8 and the last 8, all of its sign. A part is at least 2^-133,
 * the least number of bf16, and never 0: an infinity times it is an infinity. The sum differs from x by at most 2^-132, and from a denormal number by all
 * of it. So a number below 2^-108 has fewer than 24 bits, and one near 2^-126 has 6. All parts of an infinity are that infinity, and all parts of NaN are NaN.
 * Infinities and NaN of sums of products of parts are those of the product of f32, unless an operand is denormal or a sum overflows in one order only.
 * CUDA text begins with this file, and generated C contains it where a kernel uses parts. */
#if defined __CUDACC__ || !defined MICA_PARTS_H /* a C++ source may have the CUDA text in several namespaces */
#define MICA_PARTS_H

#ifdef __CUDACC__
#define MICA_PART __device__ __forceinline__
#define MICA_PART_BITS(x) __float_as_uint(x)
#define MICA_PART_FLOAT(u) __uint_as_float(u)
#else
#include <stdint.h>
#include <string.h>
#define MICA_PART static inline __attribute__((unused))
#define MICA_PART_BITS(x) mica_part_bits(x)
#define MICA_PART_FLOAT(u) mica_part_float(u)

MICA_PART unsigned mica_part_bits(float x)
{
  unsigned u;
  memcpy(&u, &x, 4);
  return u;
}

MICA_PART float mica_part_float(unsigned u)
{
  float x;
  memcpy(&x, &u, 4);
  return x;
}
#endif

/* The first 8 bits of x, as they are. */
MICA_PART float mica_part_cut(float x) { return MICA_PART_FLOAT(MICA_PART_BITS(x) & 0xffff0000u); }

/* A part of x, which is a number, as it is kept. */
MICA_PART float mica_part_of(float x, float part)
{
  const unsigned sign = MICA_PART_BITS(x) & 0x80000000u, size = MICA_PART_BITS(x) & 0x7fffffffu;
  const unsigned least = sign | (size < 0x00800000u ? 0 : 0x00010000u);
  const int lost = size < 0x00800000u || !(MICA_PART_BITS(part) & 0x7fffffffu);
  return size >= 0x7f800000u ? x : lost ? MICA_PART_FLOAT(least) : part;
}

MICA_PART float mica_bf16_high(float x) { return mica_part_of(x, mica_part_cut(x)); }
MICA_PART float mica_bf16_middle(float x) { return mica_part_of(x, mica_part_cut(x - mica_part_cut(x))); }
MICA_PART float mica_bf16_low(float x)
{
  const float rest = x - mica_part_cut(x);
  return mica_part_of(x, mica_part_cut(rest - mica_part_cut(rest)));
}

#undef MICA_PART
#undef MICA_PART_BITS
#undef MICA_PART_FLOAT
#endif

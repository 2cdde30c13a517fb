/* Numbers of at most 32 bits, with their indices, as whole numbers in the order of topk: the largest number is the largest key, NaN is larger
 * than infinity, 0 and -0 are equal, and of equal numbers the one with the least index is the largest. CUDA text begins with this file, and
 * generated C contains it where a kernel uses keys.
 *
 *   key = 2^21 * (the bits of the number as a sign and a magnitude) + 2 * (2^20 - 1 - index) + (1 where the number is -0) */
#if defined __CUDACC__ || !defined MICA_ORDER_H /* a C++ source may have the CUDA text in several namespaces */
#define MICA_ORDER_H

#ifdef __CUDACC__
#define MICA_ORDER __device__ __forceinline__
#else
#include <stdint.h>
#include <string.h>
#define MICA_ORDER static inline __attribute__((unused))
#endif

enum { MICA_KEYS = 1 << 20 }; /* indices that keys number */

/* The key of the fp32 number with these bits at index 0; at index i it is less by 2 i, for i below MICA_KEYS. */
MICA_ORDER long long mica_key_of(unsigned bits)
{
  const int magnitude = (int)(bits & 0x7fffffff), number = magnitude > 0x7f800000 ? 0x7fffffff : bits >> 31 ? -magnitude : magnitude;
  return (long long)number * (2 * MICA_KEYS) + 2 * (MICA_KEYS - 1) + (bits == 0x80000000u ? 1 : 0);
}

/* The bits of a key's number: of -0 below all keys. */
MICA_ORDER unsigned mica_key_bits(long long key)
{
  const int number = key > -0x4000000000000000ll ? (int)(key >> 21) : -0x7fffffff - 1;
  return number < 0 || (!number && key & 1) ? 0x80000000u | (0u - (unsigned)number) : (unsigned)number;
}

/* The index of a key. */
MICA_ORDER int mica_key_index(long long key) { return MICA_KEYS - 1 - ((int)(key >> 1) & (MICA_KEYS - 1)); }

#ifndef __CUDACC__
/* The same of numbers in double, in which a key is exact. */
MICA_ORDER double mica_order(double x)
{
  const float f = (float)x;
  uint32_t bits;
  memcpy(&bits, &f, 4);
  return (double)mica_key_of(bits);
}

/* As an integer, also what is no key. */
MICA_ORDER int64_t mica_key(double key) { return key < 0x1p62 ? key > -0x1p62 ? (int64_t)key : -((int64_t)1 << 62) : (int64_t)1 << 62; }

MICA_ORDER double mica_ordered(double key)
{
  const uint32_t bits = mica_key_bits(mica_key(key));
  float f;
  memcpy(&f, &bits, 4);
  return (double)f;
}

MICA_ORDER double mica_place(double key) { return (double)mica_key_index(mica_key(key)); }
#endif

#undef MICA_ORDER
#endif

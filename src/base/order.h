/* Numbers of at most 32 bits, with their indices, as whole numbers in the order of topk: the largest number is the largest key, NaN is larger
 * than infinity, 0 and -0 are equal, and of equal numbers the one with the least index is the largest. A key is exact in double. Generated C
 * contains this file where a kernel uses keys; cuda/prelude.cuh has the same functions.
 *
 *   key = 2^21 * (the bits of the number as a sign and a magnitude) + 2 * (2^20 - 1 - index) + (1 where the number is -0) */
#ifndef MICA_ORDER_H
#define MICA_ORDER_H

#include <stdint.h>
#include <string.h>

#define MICA_ORDER static inline __attribute__((unused))

/* The key of x at index 0; at index i it is less by 2 i, for i below 2^20. */
MICA_ORDER double mica_order(double x)
{
  const float f = (float)x;
  uint32_t bits;
  memcpy(&bits, &f, 4);
  const int64_t magnitude = bits & 0x7fffffff, number = x != x ? 0x7fffffff : bits >> 31 ? -magnitude : magnitude;
  return (double)(number * 0x200000 + 0x1ffffe + (bits == 0x80000000u));
}

/* As an integer, also what is no key. */
MICA_ORDER int64_t mica_key(double key) { return key < 0x1p62 ? key > -0x1p62 ? (int64_t)key : -((int64_t)1 << 62) : (int64_t)1 << 62; }

/* The number of a key. */
MICA_ORDER double mica_ordered(double key)
{
  const int64_t k = mica_key(key), number = (k - (k & 0x1fffff)) / 0x200000;
  const uint32_t bits = number < 0 || (!number && k & 1) ? 0x80000000u | (uint32_t)-number : (uint32_t)number;
  float f;
  memcpy(&f, &bits, 4);
  return (double)f;
}

/* The index of a key. */
MICA_ORDER double mica_place(double key) { return (double)(0xfffff - (mica_key(key) >> 1 & 0xfffff)); }

#undef MICA_ORDER
#endif

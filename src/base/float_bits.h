/* Floating-point formats of at most 32 bits: a value from its bits, and the bits of a value. `exponent` and `mantissa` are the widths of
 * the two fields, and `special` is a rule below. Every other conversion in the library is made of these two functions. Generated C
 * contains this file where it stores a dtype that mica_cpu.h does not know. */
#ifndef MICA_FLOAT_BITS_H
#define MICA_FLOAT_BITS_H

#include <stdint.h>
#include <string.h>

enum {
  MICA_IEEE,      /* infinities and NaN have the largest exponent; a number that is too large becomes an infinity */
  MICA_SATURATES, /* the same bits; a number that is too large, and an infinity, becomes the largest number */
  MICA_FINITE     /* all ones are NaN and there is no infinity; what is too large becomes the largest number */
};

#define MICA_BITS static inline __attribute__((always_inline, unused))

/* Exact. NaN keeps its sign and the bits of its mantissa, and is quiet. */
MICA_BITS float mica_float_from(uint32_t bits, int exponent, int mantissa, int special)
{
  const int width = exponent + mantissa, bias = (1 << (exponent - 1)) - 1, up = 23 - mantissa;
  const uint32_t magnitude = bits & (((uint32_t)1 << width) - 1), top = (((uint32_t)1 << exponent) - 1) << mantissa;
  const uint32_t sign = (bits >> width & 1) << 31, all = ((uint32_t)1 << width) - 1;
  const uint32_t unit = (uint32_t)(bias == 127 ? 0 : 128 - bias - mantissa) << 23; /* 2^(1 - bias - mantissa), the least number */
  uint32_t u = (magnitude << up) + ((uint32_t)(127 - bias) << 23), small;
  float scale, x;
  memcpy(&scale, &unit, 4);
  x = (float)(int32_t)magnitude * scale;
  memcpy(&small, &x, 4);
  if (bias != 127 && magnitude >> mantissa == 0) u = small; /* a denormal number; with the exponent of a float it is one there too */
  if (special == MICA_FINITE ? magnitude == all : magnitude >= top)
    u = 0x7f800000 | (magnitude & ~top) << up | (special == MICA_FINITE || magnitude > top ? 0x400000 : 0);
  u |= sign;
  memcpy(&x, &u, 4);
  return x;
}

/* To nearest, ties to even, in one rounding. NaN keeps its sign and the first bits of its mantissa, and is quiet. */
MICA_BITS uint32_t mica_float_bits(double x, int exponent, int mantissa, int special)
{
  const int width = exponent + mantissa, bias = (1 << (exponent - 1)) - 1, down = 52 - mantissa;
  const uint64_t all = ((uint64_t)1 << width) - 1, top = (((uint64_t)1 << exponent) - 1) << mantissa;
  const uint64_t infinity = (uint64_t)0x7ff << 52, normal = (uint64_t)(1024 - bias) << 52;
  const uint64_t largest = special == MICA_FINITE ? all - 1 : top - 1;
  const uint64_t half = (uint64_t)(1076 - bias - mantissa) << 52; /* 2^(53 - bias - mantissa): the last place of it is that of denormal numbers */
  uint64_t u, magnitude, r;
  double y;
  memcpy(&u, &x, 8);
  magnitude = u & ~((uint64_t)1 << 63);
  r = ((magnitude + (((uint64_t)1 << (down - 1)) - 1) + (magnitude >> down & 1)) >> down) - ((uint64_t)(1023 - bias) << mantissa);
  if (magnitude < normal) {
    memcpy(&x, &magnitude, 8), memcpy(&y, &half, 8);
    y += x;
    memcpy(&r, &y, 8);
    r -= half;
  } else if (r > largest)
    r = special == MICA_IEEE ? top : largest;
  if (magnitude > infinity)
    r = special == MICA_FINITE ? all : top | (uint64_t)1 << (mantissa - 1) | (magnitude >> down & (((uint64_t)1 << mantissa) - 1));
  return (uint32_t)(r | u >> 63 << width);
}

#undef MICA_BITS
#endif

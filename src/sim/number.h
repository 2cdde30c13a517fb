// Numbers of the element types, 32 lanes at a time, with the rounding of the GPU: to nearest, ties to even.
#ifndef MICA_SIM_NUMBER_H
#define MICA_SIM_NUMBER_H

#include "tile/tile.h"

#include <string.h>

static inline float num_half(uint16_t bits)
{
  _Float16 h;
  memcpy(&h, &bits, 2);
  return (float)h;
}
static inline uint16_t num_to_half(float x)
{
  _Float16 h = (_Float16)x;
  uint16_t bits;
  memcpy(&bits, &h, 2);
  return bits;
}
static inline float num_bf16(uint16_t bits)
{
  uint32_t u = (uint32_t)bits << 16;
  float f;
  memcpy(&f, &u, 4);
  return f;
}
static inline uint16_t num_to_bf16(float x)
{
  uint32_t u;
  memcpy(&u, &x, 4);
  if (x != x) return (uint16_t)(u >> 16 | 0x40);
  return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

// 32 elements, contiguous. Floating types go through double, the others through 64-bit integers.
bool num_is_float(enum tile_type t);
void num_load(enum tile_type t, const void *p, double out[32]);
void num_store(enum tile_type t, const double in[32], void *p);
void num_load_int(enum tile_type t, const void *p, int64_t out[32]);
void num_store_int(enum tile_type t, const int64_t in[32], void *p);
void num_load_float(enum tile_type t, const void *p, float out[32]); // of fp16, bf16, fp32
double num_one(enum tile_type t, const void *p);
void num_set(enum tile_type t, double x, void *p);
// c[i] = a[i] * b[i] + c[i], rounded once.
void num_fma(enum tile_type t, const void *a, const void *b, void *c);

#endif

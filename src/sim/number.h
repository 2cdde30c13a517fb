// Conversions of element types, 32 lanes at a time, rounded as on the GPU: to nearest, ties to even.
#ifndef MICA_SIM_NUMBER_H
#define MICA_SIM_NUMBER_H

#include "tile/tile.h"

// 32 elements, contiguous. Floating types go through double, the others through 64-bit integers.
void num_load(enum tile_type t, const void *p, double out[32]);
void num_store(enum tile_type t, const double in[32], void *p);
void num_load_int(enum tile_type t, const void *p, int64_t out[32]);
void num_store_int(enum tile_type t, const int64_t in[32], void *p);
void num_load_float(enum tile_type t, const void *p, float out[32]); // floating-point types of at most 32 bits
void num_store_float(enum tile_type t, const float in[32], void *p);
double num_one(enum tile_type t, const void *p);
void num_set(enum tile_type t, double x, void *p);
// c[i] = a[i] * b[i] + c[i], rounded once.
void num_fma(enum tile_type t, const void *a, const void *b, void *c);

#endif

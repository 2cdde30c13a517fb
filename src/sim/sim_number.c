// Conversions and the fused multiply-add. Sums, products, quotients and roots of fp16, bf16 and fp32 may be computed in
// double and then rounded to the type, even in two steps: the wider type has at least 2p + 2 digits for p digits of the
// narrower one (Figueroa, "When is double rounding innocuous?"). A fused multiply-add needs more digits. Its sum is rounded
// to odd first, so that later roundings are correct (Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums").
#include "sim/number.h"

#include <math.h>
#include <string.h>

enum { N = 32 };

static bool is_float(enum tile_type t) { return num_floats(&tile_types[t]); }

// One loop for each row of types: with constant fields it can be vectorized.
#define CASE(id, loop)                \
  case TT_##id:                       \
    for (int i = 0; i < N; i++) loop; \
    break;

void num_load_float(enum tile_type t, const void *p, float out[N])
{
  switch ((int)t) {
#define DTYPE(id, name, e, m, rule, ...) CASE(id, out[i] = mica_float_from(num_word(p, i, 1 + e + m), e, m, MICA_##rule))
#include "base/dtype.def"
  default: break;
  }
}

void num_store_float(enum tile_type t, const float in[N], void *p)
{
  switch ((int)t) {
#define DTYPE(id, name, e, m, rule, ...) CASE(id, num_set_word(p, i, 1 + e + m, mica_float_bits((double)in[i], e, m, MICA_##rule)))
#include "base/dtype.def"
  default: break;
  }
}

void num_load(enum tile_type t, const void *p, double out[N])
{
  if (t == TT_F64) {
    memcpy(out, p, N * sizeof *out);
  } else if (is_float(t)) {
    float f[N];
    num_load_float(t, p, f);
    for (int i = 0; i < N; i++) out[i] = (double)f[i];
  } else {
    int64_t v[N];
    num_load_int(t, p, v);
    for (int i = 0; i < N; i++) out[i] = (double)v[i];
  }
}

static int64_t to_int(double x, double least, double most)
{
  if (x != x) return 0;
  return (int64_t)(x < least ? least : x > most ? most : x); // rounds towards zero and saturates, as cvt.rzi does
}

void num_store(enum tile_type t, const double in[N], void *p)
{
  if (t == TT_F64) {
    memcpy(p, in, N * sizeof *in);
  } else if (is_float(t)) { // to single precision first, in which the GPU computes
    float f[N];
    for (int i = 0; i < N; i++) f[i] = (float)in[i];
    num_store_float(t, f, p);
  } else {
    int64_t v[N];
    for (int i = 0; i < N; i++)
      v[i] = t == TT_I32    ? to_int(in[i], INT32_MIN, INT32_MAX)
             : t == TT_BOOL ? to_int(in[i], 0, 1)
             : t == TT_U32  ? to_int(in[i], 0, UINT32_MAX)
                            : to_int(in[i], -0x1p63, 0x1.fffffffffffffp62);
    num_store_int(t, v, p);
  }
}

void num_load_int(enum tile_type t, const void *p, int64_t out[N])
{
  const int32_t *s = p;
  const uint32_t *u = p;
  if (t == TT_I32)
    for (int i = 0; i < N; i++) out[i] = s[i];
  else if (t == TT_U32)
    for (int i = 0; i < N; i++) out[i] = u[i];
  else if (t == TT_BOOL)
    for (int i = 0; i < N; i++) out[i] = num_word(p, i, 8);
  else
    memcpy(out, p, N * sizeof *out);
}

void num_store_int(enum tile_type t, const int64_t in[N], void *p)
{
  uint32_t *u = p;
  if (t == TT_I32 || t == TT_U32)
    for (int i = 0; i < N; i++) u[i] = (uint32_t)in[i];
  else if (t == TT_BOOL)
    for (int i = 0; i < N; i++) num_set_word(p, i, 8, (uint32_t)in[i]);
  else
    memcpy(p, in, N * sizeof *in);
}

double num_one(enum tile_type t, const void *p)
{
  uint64_t lanes[N] = {0};
  double out[N];
  if ((int)t < DTYPES && is_float(t)) return num_read((enum dtype)t, p, 0);
  memcpy(lanes, p, (size_t)tile_types[t].bytes);
  num_load(t, lanes, out);
  return out[0];
}

void num_set(enum tile_type t, double x, void *p)
{
  uint64_t lanes[N];
  double in[N] = {x};
  if ((int)t < DTYPES && is_float(t)) {
    num_write((enum dtype)t, p, 0, x);
    return;
  }
  num_store(t, in, lanes);
  memcpy(p, lanes, (size_t)tile_types[t].bytes);
}

// hi + lo rounded to odd in single precision; |lo| must be less than half an ulp of hi.
static float odd_float(double hi, double lo)
{
  if (lo != 0 && isfinite(hi)) {
    uint64_t u;
    memcpy(&u, &hi, 8);
    if (!(u & 1)) u += (lo > 0) == (hi > 0) ? 1 : (uint64_t)-1;
    memcpy(&hi, &u, 8);
  }
  float f = (float)hi;
  if ((double)f != hi && isfinite(f)) {
    uint32_t u;
    memcpy(&u, &f, 4);
    if (!(u & 1)) u += (fabs((double)f) < fabs(hi)) ? 1 : (uint32_t)-1;
    memcpy(&f, &u, 4);
  }
  return f;
}

static float fma_odd(float a, float b, float c)
{
  double p = (double)a * b, s = p + c, t = s - p; // p is exact; s plus the error term is the exact sum (Knuth)
  if (s == 0) return (float)s;
  return odd_float(s, (p - (s - t)) + (c - t));
}

void num_fma(enum tile_type t, const void *a, const void *b, void *c)
{
  if (t == TT_F32) {
    const float *x = a, *y = b;
    float *z = c;
    for (int i = 0; i < N; i++) z[i] = fmaf(x[i], y[i], z[i]);
  } else if (t == TT_F64) {
    const double *x = a, *y = b;
    double *z = c;
    for (int i = 0; i < N; i++) z[i] = fma(x[i], y[i], z[i]);
  } else if (is_float(t)) {
    float x[N], y[N], z[N];
    num_load_float(t, a, x), num_load_float(t, b, y), num_load_float(t, c, z);
    for (int i = 0; i < N; i++) z[i] = fma_odd(x[i], y[i], z[i]);
    num_store_float(t, z, c);
  } else {
    int64_t x[N], y[N], z[N];
    num_load_int(t, a, x), num_load_int(t, b, y), num_load_int(t, c, z);
    for (int i = 0; i < N; i++) z[i] = (int64_t)((uint64_t)x[i] * (uint64_t)y[i] + (uint64_t)z[i]);
    num_store_int(t, z, c);
  }
}

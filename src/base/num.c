// The rows of dtype.def, and elements of arrays.
#include "base/num.h"

#include <math.h>
#include <string.h>

const struct num_row num_rows[] = {
#define FLOATS(e, m, rule) .bits = 1 + (e) + (m), .bytes = (1 + (e) + (m)) / 8, .exponent = (e), .mantissa = (m), .special = MICA_##rule
#define DTYPE(id, text, e, m, rule, ...) {.dtype = text, FLOATS(e, m, rule), __VA_ARGS__},
#define WIDE(id, text, e, m, rule, ...) {.name = text, FLOATS(e, m, rule), __VA_ARGS__},
#define WORD(id, text, n, ...) {.name = text, .bits = (n), .bytes = (n) / 8, __VA_ARGS__},
#define WHOLE(id, text, n, ...) {.dtype = text, .name = text, .bits = (n), .bytes = (n) / 8, __VA_ARGS__},
#include "base/dtype.def"
};

double num_largest(const struct num_row *f)
{
  if (!num_floats(f)) return f->bits == 8 ? 1 : ldexp(1, f->bits - 1) - 1;
  int bias = (1 << (f->exponent - 1)) - 1;
  if (f->special == MICA_FINITE) return ldexp(2 - ldexp(2, -f->mantissa), bias + 1);
  return ldexp(2 - ldexp(1, -f->mantissa), bias);
}

// Half the spacing of subnormal numbers. With the exponents of f32 it is the least normal number, since kernels may flush smaller ones to 0.
double num_underflow(const struct num_row *f)
{
  if (!num_floats(f)) return 0;
  return f->exponent == 8 ? num_normal(f) : num_normal(f) * ldexp(0.5, -f->mantissa);
}
double num_normal(const struct num_row *f) { return num_floats(f) ? ldexp(1, 2 - (1 << (f->exponent - 1))) : 1; }

const char *num_names(void)
{
  static const char names[] =
#define DTYPE(id, text, ...) ", " text
#define WHOLE DTYPE
#include "base/dtype.def"
      ;
  return names + 2;
}

// ---- whole numbers ----

// x as an integer of that many bits, or the nearest one; a byte is 0 or 1.
static int64_t whole_of(int bits, double x)
{
  const double most = bits == 8 ? 1 : ldexp(1, bits - 1), least = bits == 8 ? 0 : -most;
  if (!(x > least)) return x <= least ? (bits == 64 ? INT64_MIN : (int64_t)least) : 0;
  if (x >= most) return bits == 8 ? 1 : (int64_t)(((uint64_t)1 << (bits - 1)) - 1);
  return (int64_t)rint(x);
}

static double whole_read(int bits, const void *p, int64_t i)
{
  int64_t wide;
  if (bits == 64) return memcpy(&wide, (const char *)p + i * 8, 8), (double)wide;
  return bits == 8 ? (double)(num_word(p, i, 8) != 0) : (double)(int32_t)num_word(p, i, 32);
}

static void whole_write(int bits, void *p, int64_t i, double x)
{
  const int64_t wide = whole_of(bits, x);
  if (bits == 64)
    memcpy((char *)p + i * 8, &wide, 8);
  else
    num_set_word(p, i, bits, (uint32_t)wide);
}

// ---- all ----

// clang-format off
double num_read(enum dtype t, const void *p, int64_t i)
{
  switch (t) {
#define DTYPE(id, text, e, m, rule, ...) case id: return (double)mica_float_from(num_word(p, i, 1 + e + m), e, m, MICA_##rule);
#define WHOLE(id, text, bits, ...) case id: return whole_read(bits, p, i);
#include "base/dtype.def"
  case DTYPES: break;
  }
  return 0;
}

void num_read_all(enum dtype t, const void *p, int64_t from, int64_t n, double *out)
{
  switch (t) {
#define DTYPE(id, text, e, m, rule, ...) case id: \
    for (int64_t i = 0; i < n; i++) out[i] = (double)mica_float_from(num_word(p, from + i, 1 + e + m), e, m, MICA_##rule); \
    break;
#define WHOLE(id, text, bits, ...) case id: \
    for (int64_t i = 0; i < n; i++) out[i] = whole_read(bits, p, from + i); \
    break;
#include "base/dtype.def"
  case DTYPES: break;
  }
}

void num_write(enum dtype t, void *p, int64_t i, double x)
{
  switch (t) {
#define DTYPE(id, text, e, m, rule, ...) case id: num_set_word(p, i, 1 + e + m, mica_float_bits(x, e, m, MICA_##rule)); break;
#define WHOLE(id, text, bits, ...) case id: whole_write(bits, p, i, x); break;
#include "base/dtype.def"
  case DTYPES: break;
  }
}
// clang-format on

double num_round(enum dtype t, double x)
{
  uint64_t bits = 0;
  num_write(t, &bits, 0, x);
  return num_read(t, &bits, 0);
}

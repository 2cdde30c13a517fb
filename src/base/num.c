// The rows of dtype.def, and elements of arrays.
#include "base/num.h"

#include <math.h>

const struct num_row num_rows[] = {
#define FLOATS(e, m, rule) .bits = 1 + (e) + (m), .bytes = (1 + (e) + (m)) / 8, .exponent = (e), .mantissa = (m), .special = MICA_##rule
#define DTYPE(id, text, e, m, rule, ...) {.dtype = text, FLOATS(e, m, rule), __VA_ARGS__},
#define WIDE(id, text, e, m, rule, ...) {.name = text, FLOATS(e, m, rule), __VA_ARGS__},
#define WORD(id, text, n, ...) {.name = text, .bits = (n), .bytes = (n) / 8, __VA_ARGS__},
#include "base/dtype.def"
};

double num_largest(const struct num_row *f)
{
  int bias = (1 << (f->exponent - 1)) - 1;
  if (f->special == MICA_FINITE) return ldexp(2 - ldexp(2, -f->mantissa), bias + 1);
  return ldexp(2 - ldexp(1, -f->mantissa), bias);
}

// Half the spacing of the denormal numbers. With the exponents of f32 it is the least normal number, since kernels may flush those below to 0.
double num_underflow(const struct num_row *f) { return f->exponent == 8 ? num_normal(f) : num_normal(f) * ldexp(0.5, -f->mantissa); }
double num_normal(const struct num_row *f) { return ldexp(1, 2 - (1 << (f->exponent - 1))); }

const char *num_names(void)
{
  static const char names[] =
#define DTYPE(id, text, ...) ", " text
#include "base/dtype.def"
      ;
  return names + 2;
}

// clang-format off
double num_read(enum dtype t, const void *p, int64_t i)
{
  switch (t) {
#define DTYPE(id, text, e, m, rule, ...) case id: return (double)mica_float_from(num_word(p, i, 1 + e + m), e, m, MICA_##rule);
#include "base/dtype.def"
  case DTYPES: break;
  }
  return 0;
}

static uint32_t bits_of(enum dtype t, double x)
{
  switch (t) {
#define DTYPE(id, text, e, m, rule, ...) case id: return mica_float_bits(x, e, m, MICA_##rule);
#include "base/dtype.def"
  case DTYPES: break;
  }
  return 0;
}
// clang-format on

void num_write(enum dtype t, void *p, int64_t i, double x) { num_set_word(p, i, num_rows[t].bits, bits_of(t, x)); }

double num_round(enum dtype t, double x)
{
  uint32_t bits = bits_of(t, x);
  return num_read(t, &bits, 0);
}

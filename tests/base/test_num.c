// Conversion of every bit pattern of every narrow dtype, and rounding at every number, every midpoint, and next to these. The expected result is
// the nearest value in an ordered list of all values of the format, and of two nearest values the one with an even pattern.
#include "base/num.h"
#include "base/base.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static const struct format {
  enum dtype t;
  const char *name;
  int bits, mantissa, least; // least: exponent of the smallest number above 0
  double largest, above;     // above: what a number becomes that is too large
} formats[] = {
    {F16, "f16", 16, 10, -24, 65504, INFINITY},
    {BF16, "bf16", 16, 7, -133, 0x1.fep127, INFINITY},
    {F8E4M3, "f8e4m3", 8, 3, -9, 448, 448},
    {F8E5M2, "f8e5m2", 8, 2, -16, 57344, 57344},
};

static double value_of(const struct format *f, uint32_t magnitude)
{
  uint32_t field = magnitude >> f->mantissa, rest = magnitude & ((1u << f->mantissa) - 1);
  return field ? ldexp(ldexp(1, f->mantissa) + rest, f->least + (int)field - 1) : ldexp(rest, f->least);
}

static uint32_t bits_of(const struct format *f, double x)
{
  uint32_t bits = 0xa5a5a5a5;
  num_write(f->t, &bits, 0, x);
  assert_int_equal(bits >> (f->bits - 1) >> 1, 0xa5a5a5a5 >> (f->bits - 1) >> 1); // what lies behind it stays
  return bits & (f->bits == 32 ? ~0u : (1u << f->bits) - 1);
}

static double read(const struct format *f, uint32_t bits)
{
  if (f->bits == 8) return num_read(f->t, &(uint8_t){(uint8_t)bits}, 0);
  return num_read(f->t, &(uint16_t){(uint16_t)bits}, 0);
}

static void expect(const struct format *f, double x, uint32_t magnitude)
{
  uint32_t sign = 1u << (f->bits - 1);
  assert_int_equal(bits_of(f, x), magnitude);
  assert_int_equal(bits_of(f, -x), sign | magnitude);
  double y = read(f, magnitude);
  assert_true(num_round(f->t, x) == y && num_round(f->t, -x) == -y);
}

// Patterns of numbers, infinities and NaN; rounding of what lies between two numbers.
static void patterns(void **state)
{
  (void)state;
  for (const struct format *f = formats; f < formats + COUNT(formats); f++) {
    uint32_t sign = 1u << (f->bits - 1), last = 0;
    while (value_of(f, last) < f->largest) last++;
    assert_true(value_of(f, last) == f->largest && num_largest(&num_rows[f->t]) == f->largest);
    assert_true(num_normal(&num_rows[f->t]) == ldexp(1, f->least + f->mantissa));
    assert_string_equal(num_rows[f->t].dtype, f->name);
    for (uint32_t i = 0; i <= last; i++) {
      double x = value_of(f, i), next = i < last ? value_of(f, i + 1) : INFINITY, middle = x + (next - x) / 2;
      assert_true(read(f, i) == x && read(f, sign | i) == -x && signbit(read(f, sign | i)));
      expect(f, x, i);
      if (i == last) continue;
      expect(f, middle, i + (i & 1));
      expect(f, nextafter(middle, 0), i), expect(f, nextafter(middle, INFINITY), i + 1);
      expect(f, nextafter(x, INFINITY), i), expect(f, nextafter(next, 0), i + 1);
    }
    for (uint32_t i = 0; i + 3 <= last; i++) {
      unsigned char words[16] = {0};
      double three[3];
      for (int k = 0; k < 4; k++) num_set_word(words, k, f->bits, i + (uint32_t)MAX(k - 1, 0));
      num_read_all(f->t, words, 1, 3, three);
      for (int k = 0; k < 3; k++) assert_true(three[k] == read(f, i + (uint32_t)k));
    }
    double unit = value_of(f, last) - value_of(f, last - 1), end = f->largest + unit / 2;
    bool infinite = isinf(f->above);
    expect(f, nextafter(end, 0), last);
    expect(f, end, infinite ? last + 1 : last), expect(f, f->largest * 2, infinite ? last + 1 : last);
    expect(f, 1e300, infinite ? last + 1 : last), expect(f, INFINITY, infinite ? last + 1 : last);
    for (uint32_t i = last + 1; i < sign; i++) {
      bool is_infinite = i == last + 1 && (i & ((1u << f->mantissa) - 1)) == 0;
      assert_true(is_infinite ? isinf(read(f, i)) && isinf(read(f, sign | i)) && read(f, sign | i) < 0
                              : isnan(read(f, i)) && isnan(read(f, sign | i)));
    }
    assert_true(isnan(read(f, bits_of(f, NAN))) && isnan(read(f, bits_of(f, -NAN))) && isnan(num_round(f->t, NAN)));
    assert_int_equal(bits_of(f, copysign(NAN, -1)), bits_of(f, copysign(NAN, 1)) | sign);
  }
}

// The machine has single precision itself.
static void singles(void **state)
{
  (void)state;
  struct rng r = {1};
  for (int i = 0; i < 1000000; i++) {
    uint32_t word = (uint32_t)rng_next(&r), back;
    float f;
    memcpy(&f, &word, 4);
    double x = num_read(F32, &word, 0);
    assert_true(isnan(f) ? isnan(x) : x == (double)f);
    num_write(F32, &back, 0, x);
    assert_int_equal(back, isnan(f) ? word | 0x400000 : word);
    double y = ldexp(1 + rng_unit(&r), (int)rng_below(&r, 300) - 160);
    float nearest = (float)y;
    num_write(F32, &back, 0, y), memcpy(&f, &back, 4);
    assert_true(f == nearest && num_round(F32, y) == (double)nearest);
  }
}

// Whole numbers: the nearest, at the limits of the type; NaN is 0, and a byte is 0 or 1.
static void wholes(void **state)
{
  (void)state;
  static const struct {
    enum dtype t;
    double x, want;
  } cases[] = {{I32, 3, 3},
               {I32, -2.6, -3},
               {I32, NAN, 0},
               {I32, 1e20, 2147483647},
               {I32, -INFINITY, -2147483648.0},
               {I64, 16777217, 16777217},
               {I64, -5e18, -5e18},
               {I64, NAN, 0},
               {I64, INFINITY, 0x1p63},
               {BOOL, 0, 0},
               {BOOL, 1, 1},
               {BOOL, 7, 1},
               {BOOL, NAN, 0},
               {BOOL, -3, 0}};
  for (size_t i = 0; i < COUNT(cases); i++) assert_true(num_round(cases[i].t, cases[i].x) == cases[i].want);
  unsigned char truth[2] = {0, 255};
  assert_true(num_read(BOOL, truth, 0) == 0 && num_read(BOOL, truth, 1) == 1);
  const int32_t some[4] = {9, -7, 2147483647, 0};
  double three[3];
  num_read_all(I32, some, 1, 3, three);
  assert_true(three[0] == -7 && three[1] == 2147483647 && three[2] == 0);
}

// Two rows never have the same name, and each knows its bytes.
static void names(void **state)
{
  (void)state;
  for (int i = 0; i < DTYPES; i++) {
    const struct num_row *f = &num_rows[i];
    assert_true(f->dtype && f->name && f->array && f->typestr && f->format && f->cuda && f->c && f->bytes * 8 == f->bits);
    if (num_whole((enum dtype)i)) { // exact
      assert_true(f->tolerance == 0 && f->kernel == 0 && f->low < 0);
      continue;
    }
    assert_true(f->tolerance > 0 && f->kernel > 0 && f->low < 0 && -2 * f->low <= num_largest(f) && exp(f->low / 2) < 1e-40);
    for (int j = 0; j < i; j++)
      assert_true(strcmp(num_rows[j].dtype, f->dtype) && strcmp(num_rows[j].name, f->name) && strcmp(num_rows[j].array, f->array));
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(patterns), cmocka_unit_test(singles), cmocka_unit_test(wholes), cmocka_unit_test(names)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

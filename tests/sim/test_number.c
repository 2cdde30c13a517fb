// Numbers of a warp: loads and stores, and fused multiply-adds of fp16 and bf16 against exact arithmetic.
#include "tiles.h"

#include "sim/number.h"

#include <math.h>

enum { N = 32, MANY = 200000 };

// The value of a float, rounded to a type of `digits` digits and least exponent e0, by counting units in its last
// place.
static double rounded(long double x, int digits, int e0, double largest)
{
  if (x == 0 || isnan(x) || isinf(x)) return (double)x;
  int e;
  frexpl(x, &e);
  int unit = MAX(e - digits, e0);
  long double units = rintl(ldexpl(x, -unit)), r = ldexpl(units, unit);
  return fabsl(r) > (long double)largest ? copysign(INFINITY, (double)x) : (double)r;
}

static double exact_half(long double x) { return rounded(x, 11, -24, 65504); }
static double exact_bf16(long double x) { return rounded(x, 8, -133, 0x1.fep127); }

static bool same(double a, double b) { return a == b || (a != a && b != b); }

// A warp's loads and stores are those of single elements (tests/base/test_num.c), after single precision.
static void lanes(void **state)
{
  (void)state;
  struct rng r = {3};
  for (int i = 0; i < MANY / N; i++)
    for (int t = 0; t < DTYPES; t++) {
      uint32_t from[N], to[N] = {0}, one = 0;
      double x[N];
      if (num_whole((enum dtype)t)) continue; // towards zero, as instructions do
      for (int l = 0; l < N; l++) from[l] = (uint32_t)rng_next(&r);
      num_load(tile_type_of((enum dtype)t), from, x);
      for (int l = 0; l < N; l++) assert_true(same(x[l], num_read((enum dtype)t, from, l)));
      num_store(tile_type_of((enum dtype)t), x, to);
      for (int l = 0; l < N; l++) assert_true(same(num_read((enum dtype)t, to, l), num_round((enum dtype)t, x[l])));
      for (int l = 0; l < N; l++) x[l] = rng_normal(&r) * ldexp(1, (int)rng_below(&r, 60) - 30);
      num_store(tile_type_of((enum dtype)t), x, to);
      for (int l = 0; l < N; l++)
        num_write((enum dtype)t, &one, 0, (float)x[l]), assert_true(num_read((enum dtype)t, to, l) == num_read((enum dtype)t, &one, 0));
    }
}

// The sum of an exact product and a third number fits 64 binary digits where exponents are within 40 of one another.
static void fma_of(enum tile_type t, double (*exact)(long double), int spread, uint64_t seed)
{
  struct rng r = {seed};
  for (int i = 0; i < MANY / N; i++) {
    uint16_t a[N], b[N], c[N], d[N];
    for (int l = 0; l < N; l++) {
      double x = ldexp(1 + rng_unit(&r), (int)rng_below(&r, (uint64_t)spread) - spread / 2) * (rng_next(&r) & 1 ? 1 : -1);
      double y = ldexp(1 + rng_unit(&r), (int)rng_below(&r, (uint64_t)spread) - spread / 2);
      double z =
          rng_next(&r) & 1 ? -x * y * (1 + ldexp(rng_unit(&r), -9)) : ldexp(1 + rng_unit(&r), (int)rng_below(&r, (uint64_t)(2 * spread)) - spread);
      num_set(t, x, &a[l]), num_set(t, y, &b[l]), num_set(t, z, &c[l]);
    }
    memcpy(d, c, sizeof d);
    num_fma(t, a, b, d);
    for (int l = 0; l < N; l++) {
      long double sum = (long double)num_one(t, &a[l]) * num_one(t, &b[l]) + num_one(t, &c[l]);
      if (!same(num_one(t, &d[l]), exact(sum)))
        fail_msg("%a * %a + %a is %a, not %a", num_one(t, &a[l]), num_one(t, &b[l]), num_one(t, &c[l]), num_one(t, &d[l]), exact(sum));
    }
  }
}

static void fused(void **state)
{
  (void)state;
  fma_of(TT_F16, exact_half, 14, 5);
  fma_of(TT_BF16, exact_bf16, 20, 6);
}

// A case that double rounding gets wrong: the sum is half a unit and a little more, which single precision forgets.
static void halfway(void **state)
{
  (void)state;
  uint16_t a[N] = {0}, b[N] = {0}, c[N] = {0};
  num_set(TT_F16, 1 + 0x1p-10, &a[0]), num_set(TT_F16, 0x1p-24, &b[0]), num_set(TT_F16, 1 + 0x1p-10, &c[0]);
  num_set(TT_F16, 0x1p-11, &a[1]), num_set(TT_F16, 1 + 0x1p-10, &b[1]), num_set(TT_F16, 1, &c[1]);
  num_fma(TT_F16, a, b, c);
  assert_true(num_one(TT_F16, &c[0]) == 1 + 0x1p-10);
  assert_true(num_one(TT_F16, &c[1]) == 1 + 0x1p-10);
}

static void integers(void **state)
{
  (void)state;
  int32_t a[N], b[N], c[N];
  double x[N];
  for (int l = 0; l < N; l++) a[l] = l - 16, b[l] = 3 * l, c[l] = l == 31 ? INT32_MAX : 7;
  num_fma(TT_I32, a, b, c);
  for (int l = 0; l < N - 1; l++) assert_int_equal(c[l], (l - 16) * 3 * l + 7);
  assert_int_equal(c[31], (int32_t)((uint32_t)INT32_MAX + 15u * 93u)); // wraps around
  for (int l = 0; l < N; l++) x[l] = l == 0 ? 1e30 : l == 1 ? -1e30 : l == 2 ? NAN : -2.7;
  num_store(TT_I32, x, a);
  assert_int_equal(a[0], INT32_MAX), assert_int_equal(a[1], INT32_MIN), assert_int_equal(a[2], 0), assert_int_equal(a[3], -2);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(lanes), cmocka_unit_test(fused), cmocka_unit_test(halfway), cmocka_unit_test(integers)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

// The rational numbers of constants, and exact arithmetic on them.
#include "base/rational.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void is(double c, bool negative, uint64_t n, uint64_t d, int tens, bool rounded)
{
  struct rational r = rational_of(c);
  if (r.negative != negative || r.n != n || r.d != d || r.tens != tens || r.rounded != rounded)
    fail_msg("%.17g is %s%llu/%llu 10^%d 2^%d%s", c, r.negative ? "-" : "", (unsigned long long)r.n, (unsigned long long)r.d, r.tens, r.twos,
             r.rounded ? ", rounded" : "");
}

static void meanings(void **state)
{
  (void)state;
  is(0, false, 0, 1, 0, false), is(-0.0, false, 0, 1, 0, false);
  is(7, false, 7, 1, 0, false), is(-100, true, 100, 1, 0, false), is(0x1p52 + 1, false, ((uint64_t)1 << 52) + 1, 1, 0, false);
  is(0.13, false, 13, 1, -2, false), is(-1e-5, true, 1, 1, -5, false), is(1e300, false, 1, 1, 300, false);
  is(0.123456789, false, 123456789, 1, -9, false);
  is(1.0 / 48, false, 1, 48, 0, false), is(-2.0 / 3, true, 2, 3, 0, false), is(1.0 / 4097, false, 1, 4097, 0, false);
  is(1e5 / 48611, false, 100000, 48611, 0, false);
  is(0.123456789012345, false, 123456789012345, 1, -15, false);
  struct rational r = rational_of(0x1.3c0ca428c59fbp-2);
  assert_true(r.rounded && r.n == 0x13c0ca428c59fb && r.twos == -54);
}

// Every fraction of a small product is found again, and no two doubles next to each other mean the same.
static void fractions(void **state)
{
  (void)state;
  struct rng r = {1};
  for (int i = 0; i < 20000; i++) {
    uint64_t n = 1 + rng_below(&r, (uint64_t)1 << (1 + rng_below(&r, 22))), d = 1 + rng_below(&r, (uint64_t)1 << (1 + rng_below(&r, 22)));
    double c = (double)n / (double)d;
    struct rational x = rational_of(c);
    __int128 a = 0, b = 0, k, l;
    assert_true(!x.rounded && rational_fraction(x, &a, &b));
    if (a * (__int128)d != b * (__int128)n) fail_msg("%llu / %llu", (unsigned long long)n, (unsigned long long)d);
    struct rational y = rational_of(nextafter(c, INFINITY));
    if (rational_fraction(y, &k, &l)) assert_false(a == k && b == l);
  }
}

static void literals(void **state)
{
  (void)state;
  static const char *const good[] = {"0.1",     "0.10",   "00.1e0", "1e-1", "1E+2", "100", "0", "0.0", "3.141592653589793", "0.3333333333333333",
                                     "1.5e300", "5e-324", "2.5"};
  static const char *const bad[] = {"0.100000000000000008",
                                    "0.10000000000000001",
                                    "1.000000000000000004",
                                    "0.333333333333333333",
                                    "3.14159265358979323846",
                                    "9007199254740993.0",
                                    "1e-400",
                                    "0.5000000000000000000001"};
  for (size_t i = 0; i < COUNT(good); i++)
    if (!rational_written(good[i], strtod(good[i], NULL))) fail_msg("%s", good[i]);
  for (size_t i = 0; i < COUNT(bad); i++)
    if (rational_written(bad[i], strtod(bad[i], NULL))) fail_msg("%s", bad[i]);
  struct rng r = {2};
  for (int i = 0; i < 20000; i++) { // what is printed is read
    char text[32];
    double x = rng_normal(&r) * exp2((double)rng_below(&r, 200) - 100);
    str_double(text, fabs(x));
    assert_true(rational_written(text, fabs(x)));
  }
}

static double fold(int op, double x, double y)
{
  double r = NAN;
  return rational_fold(op, x, y, &r) ? r : NAN;
}

static void arithmetic(void **state)
{
  (void)state;
  assert_true(fold('+', 0.1, 0.2) == 0.3 && 0.1 + 0.2 != 0.3);
  assert_true(fold('/', 1.0 / 3, 7) == 1.0 / 21 && fold('*', 1.0 / 49, 49) == 1);
  assert_true(fold('-', 0.3, 0.1) == 0.2 && fold('-', 1, 1) == 0);
  assert_true(fold('/', -1, 48) == -1.0 / 48);
  assert_true(isnan(fold('/', 1, 0)) && isnan(fold('+', INFINITY, 1)) && isnan(fold('*', 1e300, 1e300)));
  assert_true(isnan(fold('*', 0x1.3c0ca428c59fbp-2, 2))); // a rounded operand
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(meanings), cmocka_unit_test(fractions), cmocka_unit_test(literals),
                                     cmocka_unit_test(arithmetic)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

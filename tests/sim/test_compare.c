// Comparison of two results of a kernel by their bits and by their norms.
#include "sim/sim.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <math.h>

static void results_are_compared(void **state)
{
  (void)state;
  float a[4] = {1, 2, 2, -INFINITY}, b[4] = {1, 2, 2, -INFINITY};
  struct sim_difference d = sim_compare(TT_F32, a, b, 4);
  assert_int_equal(d.other, 0);
  assert_int_equal(d.first, -1);
  assert_true(d.relative == 0);
  a[1] = 2.3f;
  d = sim_compare(TT_F32, a, b, 3);
  assert_int_equal(d.other, 1);
  assert_int_equal(d.first, 1);
  assert_true(fabs(d.relative - 0.1) < 1e-6);
  a[2] = b[2] = NAN; // the same bits, and still no result
  d = sim_compare(TT_F32, a, b, 3);
  assert_false(d.relative <= 1e9);
  uint16_t zero[2] = {0, 0x8000}, one[2] = {0, 0}; // -0 is not +0
  d = sim_compare(TT_F16, zero, one, 2);
  assert_int_equal(d.other, 1);
  assert_true(d.relative == 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(results_are_compared)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

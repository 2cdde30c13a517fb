// Timing of calls while other processes use the machine.
#include "rt/rt.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { CALLS = 20 };

// Among twenty calls, `quiet` are spread among the others, which take up to twice as long and more.
static void fill(double *t, int quiet, double least)
{
  for (int i = 0; i < CALLS; i++) t[i] = least * (1.4 + 0.1 * (i * 7 % CALLS));
  for (int i = 0; i < quiet; i++) t[i * 5 % CALLS + i / 4] = least * (1 + 0.005 * i);
}

// The figure is the same as long as three calls are undisturbed. Two calls that are too fast do not change it.
static void test_quiet(void **state)
{
  (void)state;
  double t[CALLS];
  for (int quiet = 3; quiet < CALLS; quiet++) {
    fill(t, quiet, 1e-3);
    struct timing x = timing_of(t, CALLS);
    assert_true(x.quiet >= 1e-3 && x.quiet <= 1.0101e-3);
    assert_true(x.least <= x.quiet && x.quiet <= x.median && x.p25 <= x.median && x.median <= x.p75 && x.p75 <= x.most);
    assert_int_equal(x.runs, CALLS);
  }
  fill(t, 5, 1e-3);
  t[3] = t[7] = 0.5e-3;
  assert_true(timing_of(t, CALLS).quiet >= 1e-3);
  assert_true(timing_of((double[]){3, 1}, 2).quiet == 3 && timing_of((double[]){2}, 1).quiet == 2);
}

static void test_enough(void **state)
{
  (void)state;
  double t[CALLS];
  for (int quiet = 1; quiet < 6; quiet++) {
    fill(t, quiet, 1e-3);
    assert_int_equal(timing_quiet(t, CALLS), quiet >= 3);
  }
  assert_false(timing_quiet((double[]){1, 1}, 2));
}

// Rounds go on beyond the time until each of two modules had its quiet calls, and not for ever.
static void test_goes_on(void **state)
{
  (void)state;
  enum { LEAST_ROUNDS = 5 };
  double t[2 * CALLS];
  fill(t, 5, 1e-3), fill(t + CALLS, 2, 3e-3);
  assert_true(timing_goes_on(t, 2, CALLS, CALLS, CALLS, LEAST_ROUNDS, 0.1, 0.15)); // there is time
  assert_true(timing_goes_on(t, 2, CALLS, CALLS, CALLS, LEAST_ROUNDS, 0.2, 0.15)); // the second was disturbed
  assert_false(timing_goes_on(t, 2, CALLS, CALLS, CALLS, LEAST_ROUNDS, 0.6, 0.15));
  assert_false(timing_goes_on(t, 1, CALLS, CALLS, CALLS, LEAST_ROUNDS, 0.2, 0.15));
  fill(t + CALLS, 3, 3e-3);
  assert_false(timing_goes_on(t, 2, CALLS, CALLS, CALLS, LEAST_ROUNDS, 0.2, 0.15));
  assert_true(timing_goes_on(t, 2, CALLS, LEAST_ROUNDS - 1, LEAST_ROUNDS - 1, LEAST_ROUNDS, 9, 0.15)); // too few rounds
  assert_true(timing_goes_on(t, 1, CALLS, LEAST_ROUNDS - 1, CALLS, LEAST_ROUNDS, 0.2, 0.15));          // too few were kept
  assert_false(timing_goes_on(t, 1, CALLS, 0, CALLS, LEAST_ROUNDS, 0.6, 0.15));                        // that is how it stays
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_quiet), cmocka_unit_test(test_enough), cmocka_unit_test(test_goes_on)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

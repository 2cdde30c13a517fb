// What times of calls say where others use the machine as well.
#include "rt/rt.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { CALLS = 20 };

// Of twenty calls, `quiet` are spread among the others, which take up to twice as long and more.
static void fill(double *t, int quiet, double least)
{
  for (int i = 0; i < CALLS; i++) t[i] = least * (1.4 + 0.1 * (i * 7 % CALLS));
  for (int i = 0; i < quiet; i++) t[i * 5 % CALLS + i / 4] = least * (1 + 0.005 * i);
}

// However many calls are disturbed, up to all but three, the same figure comes out; and two flattered ones do not change it.
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

// A module whose calls take 6 ms but for some that take 2: the 21st, 22nd and 23rd.
static const char disturbed[] =
    "#include <time.h>\n"
    "int mica_p(const void *const *in, void *const *out, void *w)\n"
    "{\n"
    "  static int calls;\n"
    "  (void)in, (void)out, (void)w;\n"
    "  calls++;\n"
    "  nanosleep(&(struct timespec){0, calls > 20 && calls < 24 ? 2000000 : 6000000 + 400000 * (calls % 16)}, 0);\n"
    "  return 0;\n"
    "}\n"
    "unsigned long mica_p_workspace(void) { return 0; }\n";

// Rounds go on beyond the time until the quiet calls have come, and no further.
static void test_goes_on(void **state)
{
  (void)state;
  struct module *m;
  struct buffers b = {0};
  struct timing t;
  struct err e = {0};
  if (module_build(disturbed, "p", &m, &e) != OK) fail_msg("%s", e.text);
  assert_int_equal(measure(&m, 1, &b, 0.15, (stop_flag){0}, &t, &e), OK);
  assert_true(t.runs >= 21 && t.quiet < 1.5 * t.least);
  module_close(m);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_quiet), cmocka_unit_test(test_enough), cmocka_unit_test(test_goes_on)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

// Attention whose keys are hidden by conditions on indices: clean in the interpreter and equal to float64, by all choices.
// test: timeout 300
// test: quick release
#include "held.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void by_all_choices(void **state)
{
  (void)state;
  hold_choices("hidden", INT_MAX);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(by_all_choices)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

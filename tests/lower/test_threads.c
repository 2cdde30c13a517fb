// Block graphs with thread graphs that reduce, add up and multiply parts: clean in the interpreter and equal to float64, by all choices.
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
  hold("threads");
  hold_choices("threads", INT_MAX);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(by_all_choices)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

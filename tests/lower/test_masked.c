// Attention with masks of booleans and numbers: clean in the interpreter and equal to float64.
// test: quick release
#include "held.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { CHOICES = 6 };

static void by_first_choices(void **state)
{
  (void)state;
  hold_choices("masked", CHOICES);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(by_first_choices)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

// Loops whose last iteration has less than the others: clean in the interpreter and equal to float64, at each choice of the scheme too.
// test: timeout 300
#include "held.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { FEW = 3 }; // rows of the table that are tried at all that the scheme chooses

static void test_keys(void **state)
{
  (void)state;
  hold("ragged_keys");
}

static void test_choices(void **state)
{
  (void)state;
  hold_choices("ragged_keys", FEW);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_keys), cmocka_unit_test(test_choices)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

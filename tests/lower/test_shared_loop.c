// Blocks that share a loop: clean in the interpreter and equal to float64, at each choice of the scheme too.
// test: timeout 300
#include "held.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { FEW = 2 }; // rows of the table that are tried at all that the scheme chooses

static void test_parts(void **state)
{
  (void)state;
  hold("shared_loop");
}

static void test_choices(void **state)
{
  (void)state;
  hold_choices("shared_loop", FEW);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_parts), cmocka_unit_test(test_choices)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

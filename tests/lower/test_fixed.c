// Products whose operands a loop does not change, beside and inside loops, at many layouts of warps. src/legal/steps.c puts many of them
// into steps of the loop; here they are as a block graph may have them.
// test: timeout 300
#include "held.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void test_layouts(void **state)
{
  (void)state;
  assert_true(hold_layouts("fixed") > 80);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_layouts)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

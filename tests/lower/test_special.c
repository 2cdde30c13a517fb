// Kernels of all schemes on NaN, infinities and rows that are -inf everywhere or in parts, in the interpreter of tile kernels.
// test: timeout 300
#include "held.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void by_rows(void **state)
{
  (void)state;
  hold_choices("special_rows", INT_MAX);
}

static void of_products(void **state)
{
  (void)state;
  hold_choices("special_products", INT_MAX);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(by_rows), cmocka_unit_test(of_products)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

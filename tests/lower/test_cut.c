// Kernels whose grid is cut anew: clean in the interpreter and equal to float64.
// test: timeout 300
#include "held.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define TEST(table)                      \
  static void test_##table(void **state) \
  {                                      \
    (void)state;                         \
    hold("cut_" #table);                 \
  }
TEST(by_mma)
TEST(by_wgmma)

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_by_mma), cmocka_unit_test(test_by_wgmma)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

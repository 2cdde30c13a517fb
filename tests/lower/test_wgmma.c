// Kernels of the scheme wgmma: clean in the interpreter and equal to float64.
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
    hold("wgmma_" #table);               \
  }
TEST(products)
TEST(chains)
TEST(stores)
TEST(layers)
TEST(large)
TEST(pairs)
TEST(wide)
TEST(brought)
TEST(split)
TEST(pair_split)
TEST(alternate)
TEST(hidden)

static void test_anywhere(void **state)
{
  (void)state;
  hold("wgmma_anywhere");
  hold_choices("wgmma_anywhere", 4);
  hold_bf16("wgmma_anywhere");
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_products),   cmocka_unit_test(test_chains),    cmocka_unit_test(test_stores),
                                     cmocka_unit_test(test_layers),     cmocka_unit_test(test_large),     cmocka_unit_test(test_pairs),
                                     cmocka_unit_test(test_wide),       cmocka_unit_test(test_brought),   cmocka_unit_test(test_split),
                                     cmocka_unit_test(test_pair_split), cmocka_unit_test(test_alternate), cmocka_unit_test(test_hidden),
                                     cmocka_unit_test(test_anywhere)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

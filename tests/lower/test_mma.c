// Kernels of the scheme mma: clean in the interpreter and equal to float64, at sizes that tiles do and do not divide.
// test: timeout 300
#include "held.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define TEST(table)                      \
  static void test_##table(void **state) \
  {                                      \
    (void)state;                         \
    hold("mma_" #table);                 \
  }
TEST(gemm)
TEST(joined)
TEST(chains)
TEST(shared)
TEST(sums)
TEST(refused)

// Not only at the knobs of the tables.
static void test_choices(void **state)
{
  (void)state;
  hold_choices("mma_gemm", INT_MAX);
  hold_choices("mma_joined", INT_MAX);
  hold_choices("mma_chains", INT_MAX);
}

static void test_bf16(void **state)
{
  (void)state;
  hold_bf16("mma_gemm");
  hold_bf16("mma_joined");
  hold_bf16("mma_chains");
}

static void test_sm80(void **state)
{
  (void)state;
  hold_sm80("mma_gemm");
  hold_sm80("mma_joined");
  hold_sm80("mma_chains");
  hold_sm80("mma_shared");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_gemm),    cmocka_unit_test(test_joined), cmocka_unit_test(test_chains),
      cmocka_unit_test(test_shared),  cmocka_unit_test(test_sums),   cmocka_unit_test(test_refused),
      cmocka_unit_test(test_choices), cmocka_unit_test(test_bf16),   cmocka_unit_test(test_sm80),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

// Algorithm 1 of the paper, naively, against the search: guarantee.c says what is compared.
// test: release
// test: timeout 300
#include "naive.h"
#include "examples.h"

static void test_small(void **state)
{
  (void)state;
  guarantee_check(false);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_small)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

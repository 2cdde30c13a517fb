// The search without its oracle up to 5 and 6 block operators: rules.c says what is compared.
// test: check-all
// test: release
// test: timeout 600
#include "naive.h"
#include "examples.h"

static void test_without_oracle(void **state)
{
  (void)state;
  blind_check(true);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_without_oracle)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

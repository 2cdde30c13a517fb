// Algorithm 1 of the paper against the search on the larger rows of guarantee.c.
// test: check-all
// test: release
// test: timeout 600
#include "naive.h"
#include "examples.h"

static void test_deep(void **state)
{
  (void)state;
  guarantee_check(true);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_deep)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

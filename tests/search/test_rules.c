// Each pruning rule switched off, on small programs: rules.c says what is compared. The oracle (rule `expr`) up to 4
// block operators, in one program 5; test_rules_deep.c goes to 5 and 6.
// test: timeout 300
// test: quick sanitized
#include "naive.h"
#include "examples.h"

static void test_rules(void **state)
{
  (void)state;
  rules_check();
}

static void test_without_oracle(void **state)
{
  (void)state;
  blind_check(false);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_rules), cmocka_unit_test(test_without_oracle)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

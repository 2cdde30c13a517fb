// At least 5,000 mutants of what the search finds: found.h.
// test: check-all
// test: timeout 3000
#include "found.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void test_found(void **state)
{
  (void)state;
  hunt_examples(false);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_found)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

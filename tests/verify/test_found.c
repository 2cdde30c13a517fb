// A few mutants of what the search finds: found.h.
// test: timeout 300
// test: quick release
#include "found.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void test_found(void **state)
{
  (void)state;
  hunt_examples(true);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_found)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

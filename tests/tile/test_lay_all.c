// Every seventh pair of small layouts (about 1.9 million cases of laws), and nested ones drawn at random.
// test: check-all
// test: release
// test: timeout 600
#include "laws.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void all_pairs(void **state)
{
  (void)state;
  struct tally t = {0};
  laws_of_pairs(0, 7, &t); // 7 is prime to their number in a row, so that all left and all right sides occur
  long cases = 0;
  for (int law = 0; law < LAWS; law++) {
    print_message("law %d: %ld cases, %ld not refused\n", law, t.cases[law], t.held[law]);
    assert_true(t.held[law] > 100);
    cases += t.cases[law];
  }
  assert_true(cases > 1000000);
}

static void many_at_random(void **state)
{
  (void)state;
  struct tally t = {0};
  laws_of_random(200000, &t);
  for (int law = 0; law < LAWS; law++) assert_true(t.held[law] > 1000);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(all_pairs), cmocka_unit_test(many_at_random)};
  return cmocka_run_group_tests_name("layouts, all", tests, NULL, NULL);
}

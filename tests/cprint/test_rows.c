// Every row of the instruction table that can be printed as C, on registers.
// test: timeout 300
#include "rows.h"

#include "held.h"
#include "thin.h"

static void rows_in_registers(void **state)
{
  (void)state;
  int n = rows_held(false, 80, 0);
  print_message("%d rows\n", n);
  assert_true(n > 300 / thinned(3) / quick_step(2));
}

static void rows_of_sm90(void **state)
{
  (void)state;
  assert_true(rows_held(false, 90, 80) >= 9); // stmatrix, red of vectors
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(rows_in_registers), cmocka_unit_test(rows_of_sm90)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

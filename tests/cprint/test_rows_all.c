// The rows of the instruction table that take operands from any memory, on global memory.
// test: check-all
// test: timeout 300
#include "rows.h"

#include "held.h"
#include "thin.h"

static void rows_in_memory(void **state)
{
  (void)state;
  int n = rows_held(true, 80, 0);
  print_message("%d rows\n", n);
  assert_true(n > 150 / quick_step(2));
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(rows_in_memory)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

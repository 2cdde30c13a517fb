// The instruction table compiled by NVRTC for the architectures that test_rows.c leaves out.
// test: check-all
// test: timeout 300
#include "rows.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>

static void every_row_compiles(void **state)
{
  (void)state;
  struct nvrtc *r = rows_compiler();
  if (!r) skip();
  for (int i = 0; i < target_gpus(); i++) {
    int n = rows_compile(r, target_gpu_at(i)->arch);
    print_message("%s: %d rows\n", target_gpu_at(i)->name, n);
    assert_true(n > 100);
  }
  nvrtc_close(r);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_row_compiles)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

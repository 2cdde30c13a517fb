// Every row of the instruction table, printed and, if NVRTC is installed, compiled for sm_90a. Needs no GPU.
// test: timeout 300
#include "rows.h"
#include "thin.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>

static void every_row_is_printed(void **state)
{
  (void)state;
  int n;
  const struct instr *rows = instr_rows(&n);
  assert_true(n > 100);
  for (int i = 0; i < n; i++) {
    struct arena mem = {0};
    const struct instr *row = &rows[i];
    const char *text = rows_printed(&mem, &row, 1, 90);
    assert_non_null(text);
    const char *kernel = strstr(text, "extern \"C\"");
    assert_non_null(kernel);
    assert_null(strchr(kernel, '$'));
    arena_close(&mem);
  }
}

static void every_row_compiles(void **state)
{
  (void)state;
  struct nvrtc *r = rows_compiler();
  if (!r || thinned(2) > 1) nvrtc_close(r), skip(); // the sanitizers see nothing of NVRTC
  assert_true(rows_compile(r, 90) > 100);
  nvrtc_close(r);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_row_is_printed), cmocka_unit_test(every_row_compiles)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

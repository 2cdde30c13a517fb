// Functions on large memory, which use all cores. Sizes next to multiples of a piece are filled, copied and compared.
#include "base/base.h"
#include "base/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static void whole(void **state)
{
  (void)state;
  static const size_t sizes[] = {0, 1, (4 << 20) - 1, 4 << 20, (4 << 20) + 1, 9 << 20};
  for (size_t k = 0; k < COUNT(sizes); k++) {
    const size_t n = sizes[k];
    char *x = MEM_NEWS(char, (int64_t)n + 2), *y = MEM_NEWS(char, (int64_t)n + 2);
    x[n] = y[n] = 3; // behind the memory that is written
    large_fill(x, 7, n), large_copy(y, x, n);
    assert_true(large_same(x, y, n) && x[n] == 3 && y[n] == 3);
    for (size_t i = 0; i < n; i += 4095) assert_true(x[i] == 7 && y[i] == 7);
    if (n) {
      y[n - 1] = 8;
      assert_false(large_same(x, y, n));
    }
    mem_free(x), mem_free(y);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(whole)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

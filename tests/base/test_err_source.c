// Source lines below error messages: the line that the error names, and a mark below the column. If there is no such line, nothing is printed.
#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const char *shown(const char *text, int line, int col)
{
  static char out[3 * ERR_SOURCE];
  struct err e = {0};
  err_set(&e, ERR_SYNTAX, (struct loc){"f", line, col}, "x");
  err_source(&e, text, strlen(text));
  err_source_text(out, sizeof out, &e);
  return out;
}

static void test_lines(void **state)
{
  (void)state;
  assert_string_equal(shown("a\nbcd\ne", 2, 3), "  2 | bcd\n    |   ^\n");
  assert_string_equal(shown("a\r\nbcd\r\ne", 2, 1), "  2 | bcd\n    | ^\n");
  assert_string_equal(shown("ab", 1, 3), "  1 | ab\n    |   ^\n"); // the end of the line
  assert_string_equal(shown("\tx", 1, 2), "  1 | \tx\n    | \t^\n");
  assert_string_equal(shown("\xc3\xa4 = x", 1, 4), "  1 | \xc3\xa4 = x\n    |   ^\n"); // one column a character
  assert_string_equal(shown("a\nb", 2, 0), "  2 | b\n");
}

static void test_none(void **state)
{
  (void)state;
  assert_string_equal(shown("a\nb", 3, 1), "");
  assert_string_equal(shown("a\n", 2, 1), "");
  assert_string_equal(shown("a\n\nb", 2, 1), "");
  assert_string_equal(shown("ab", 1, 9), "");
  assert_string_equal(shown("ab", 0, 0), "");
  assert_string_equal(shown("", 1, 1), "");
}

// A long line is shown around the column, at characters' limits.
static void test_long(void **state)
{
  (void)state;
  char text[2 * 4000 + 1];
  for (int i = 0; i < 4000; i++) memcpy(text + 2 * i, "\xc3\xa4", 2);
  text[8000] = 0;
  for (int col = 1; col <= 8001; col++) {
    const char *s = shown(text, 1, col), *below = strchr(s, '\n');
    assert_non_null(below);
    assert_true(below - s < 6 + ERR_SOURCE);
    assert_int_equal((below - s) % 2, 0); // "  1 | ", and whole characters
    assert_non_null(strchr(below, '^'));
    assert_true(strlen(below) <= (size_t)(below - s) + 4);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_lines), cmocka_unit_test(test_none), cmocka_unit_test(test_long)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

// Encoding of kernels and of their sizes as arrays of words, and lists of these.
#include "sim/tile_host.h"
#include "folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>

static void a_word(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct err e = {0};
  struct tile_words w;
  assert_int_equal(tile_host_words(&mem, "kernels/a.tile,M=-5,%W=0.25,N=2147483647,%b=0", &w, &e), OK);
  assert_string_equal(w.path, "kernels/a.tile");
  assert_int_equal(w.nset, 2);
  assert_string_equal(w.set[0].name, "M");
  assert_int_equal(w.set[0].value, -5);
  assert_string_equal(w.set[1].name, "N");
  assert_int_equal(w.set[1].value, INT32_MAX);
  assert_int_equal(w.nfills, 2);
  assert_string_equal(w.fills[0].buffer, "W");
  assert_true(w.fills[0].scale == 0.25);
  assert_string_equal(w.fills[1].buffer, "b");
  assert_true(w.fills[1].scale == 0);
  arena_close(&mem);
}

static void wrong_words(void **state)
{
  (void)state;
  static const struct {
    const char *word, *said;
  } cases[] = {
      {"", "a kernel is FILE.tile"},           {"a.tile,M", "M is not NAME=VALUE"},
      {"a.tile,=3", "=3 is not NAME=VALUE"},   {"a.tile,M=", "M= is no 32-bit integer"},
      {"a.tile,M=3x", "is no 32-bit integer"}, {"a.tile,M=2147483648", "is no 32-bit integer"},
      {"a.tile,%W=x", "%W=x is no number"},    {"a.tile,%W=inf", "is no number"},
      {"a.tile,%W=nan", "is no number"},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    struct arena mem = {0};
    struct err e = {0};
    struct tile_words w;
    assert_int_equal(tile_host_words(&mem, cases[i].word, &w, &e), USER);
    if (!strstr(e.text, cases[i].said)) fail_msg("%s: %s", cases[i].word, e.text);
    arena_close(&mem);
  }
}

static void a_list(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct err e = {0};
  struct tile_list l;
  char path[64];
  static const char text[] = "# a comment\na.tile,M=1 --against p.mica # of a\n\n\tb.tile \r\n";
  static const char *const expected[] = {"x.tile", "a.tile,M=1", "--against", "p.mica", "b.tile", "--time", "y.tile"};
  snprintf(path, sizeof path, "%s/k.list", folder);
  assert_int_equal(file_write(path, text, strlen(text), &e), OK);
  const char *words[] = {"x.tile", path, "--time", "y.tile"};
  assert_int_equal(tile_host_list(&mem, COUNT(words), words, &l, &e), OK);
  assert_int_equal(l.n, COUNT(expected));
  for (int i = 0; i < l.n; i++) assert_string_equal(l.word[i], expected[i]);
  const char *none[] = {"nowhere.list"};
  assert_int_equal(tile_host_list(&mem, 1, none, &l, &e), ENV);
  arena_close(&mem);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_word), cmocka_unit_test(wrong_words), cmocka_unit_test(a_list)};
  return cmocka_run_group_tests(tests, folder_enter, folder_leave);
}

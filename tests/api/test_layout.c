// Layouts by the public interface.
#include "mica.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static struct mica_layout *read_layout(struct mica_context *m, const char *text)
{
  struct mica_layout *l = NULL;
  assert_int_equal(mica_layout_parse(m, text, false, &l), MICA_OK);
  return l;
}

static void operations(void **state)
{
  (void)state;
  struct mica_context *m = mica_open();
  struct mica_layout *r, *a = read_layout(m, "(6,2):(8,2)"), *b = read_layout(m, "(4,3):(3,1)");
  assert_int_equal(mica_layout_size(a), 12);
  assert_int_equal(mica_layout_cosize(a), 43);
  assert_int_equal(mica_layout_at(a, 7), 10);
  assert_int_equal(mica_layout_at(a, -1), -1);
  assert_int_equal(mica_layout_compose(m, a, b, &r), MICA_OK);
  assert_string_equal(mica_layout_text(r), "((2,2),3):((24,2),8)");
  for (int64_t i = 0; i < 12; i++) assert_int_equal(mica_layout_at(r, i), mica_layout_at(a, mica_layout_at(b, i)));
  assert_int_equal(mica_layout_complement(m, read_layout(m, "4:2"), 24, &r), MICA_OK);
  assert_string_equal(mica_layout_text(r), "(2,3):(1,8)");
  assert_int_equal(mica_layout_coalesce(m, read_layout(m, "2,6"), &r), MICA_OK);
  assert_string_equal(mica_layout_text(r), "12:1");
  assert_int_equal(mica_layout_divide(m, r, read_layout(m, "4"), &r), MICA_OK);
  assert_string_equal(mica_layout_text(r), "(4,3):(1,4)");
  assert_int_equal(mica_layout_zipped_divide(m, read_layout(m, "4,8"), read_layout(m, "2,4:1,1"), &r), MICA_OK);
  assert_string_equal(mica_layout_text(r), "((2,4),(2,2)):((1,4),(2,16))");
  assert_int_equal(mica_layout_product(m, read_layout(m, "4"), read_layout(m, "3"), &r), MICA_OK);
  assert_string_equal(mica_layout_text(r), "(4,3):(1,4)");
  assert_int_equal(mica_layout_reshape(m, read_layout(m, "4:8"), read_layout(m, "2,2:2,1"), &r), MICA_OK);
  assert_string_equal(mica_layout_text(r), "(2,2):(16,8)");
  assert_int_equal(mica_layout_right_inverse(m, read_layout(m, "4,8:8,1"), &r), MICA_OK);
  assert_string_equal(mica_layout_text(r), "(8,4):(4,1)");
  assert_int_equal(mica_layout_left_inverse(m, read_layout(m, "4,8:8,1"), &r), MICA_OK);
  assert_string_equal(mica_layout_text(r), "(8,4):(4,1)");
  mica_close(m);
}

static void tiles_of_unknown_size(void **state)
{
  (void)state;
  struct mica_context *m = mica_open();
  struct mica_layout *outer, *inner;
  bool partial[2];
  assert_int_equal(mica_layout_tile(m, read_layout(m, "M,K:K,1"), read_layout(m, "128,_"), &outer, &inner, partial), MICA_OK);
  assert_string_equal(mica_layout_text(outer), "((M + 127) / 128,1):(K * 128,0)");
  assert_string_equal(mica_layout_text(inner), "(128,K):(K,1)");
  assert_true(partial[0] && !partial[1]);
  assert_int_equal(mica_layout_size(inner), -1);
  assert_int_equal(mica_layout_at(inner, 0), -1);
  mica_close(m);
}

static void errors(void **state)
{
  (void)state;
  struct mica_context *m = mica_open(), *other = mica_open();
  struct mica_layout *r, *a = read_layout(m, "(4,2):(1,100)");
  assert_int_equal(mica_layout_parse(m, "(4,2", false, &r), MICA_USER);
  assert_non_null(strstr(mica_error(m), "column"));
  assert_int_equal(mica_layout_compose(m, a, read_layout(m, "(2,2):(3,2)"), &r), MICA_NO);
  assert_non_null(strstr(mica_error(m), "2:3 and 2:2"));
  assert_int_equal(mica_layout_complement(m, a, 0, &r), MICA_USER);
  assert_int_equal(mica_layout_compose(m, a, read_layout(other, "4"), &r), MICA_USER);
  assert_non_null(strstr(mica_error(m), "another context"));
  // An overflow is over with the operation that it was in.
  assert_int_equal(mica_layout_parse(m, "1000000000000,1000000000000:1,1", false, &r), MICA_USER);
  assert_int_equal(mica_layout_product(m, a, read_layout(m, "1000000:1000000000000"), &r), MICA_NO);
  assert_int_equal(mica_layout_coalesce(m, a, &r), MICA_OK);
  assert_string_equal(mica_error(m), "");
  mica_close(m);
  mica_close(other);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(operations), cmocka_unit_test(tiles_of_unknown_size), cmocka_unit_test(errors)};
  return cmocka_run_group_tests_name("layouts", tests, NULL, NULL);
}

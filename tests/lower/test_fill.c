// Templates of tile text: holes, conditions, loops, declarations, who does a spec; what a template opens is closed, and what text_begin
// leaves open stays open.
#include "given.h"
#include "lower/lower_emit.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void expect(const char *template, const struct hole *holes, const char *want)
{
  struct str out = {0};
  struct text t = {.out = &out};
  text_fill(&t, template, holes);
  assert_string_equal(str_text(&out), want);
  assert_int_equal(t.indent, 0);
  str_free(&out);
}

static void holes_are_numbers_and_texts(void **state)
{
  (void)state;
  const struct hole *outer = HOLES(NULL, INT(n, 4), STR(type, "fp16")), *all = HOLES(outer, INT(i, -2), STR(type, "fp32"), STR(none, ""));
  expect("%x$i:[$n].$type.RF", all, "%x-2:[4].fp32.RF\n"); // the inner list comes first
  expect("@a = ${none}b + ${n}c", all, "@a = b + 4c\n");
  struct arena mem = {0};
  assert_string_equal(text_of(&mem, "($n + $i)", all), "(4 + -2)");
  assert_string_equal(text_join(&mem, text_join(&mem, "", ", ", "%d", 1), ", ", "x%d", 2), "1, x2");
  assert_string_equal(text_number(&mem, 0.5), "0.50000000000000000");
  arena_close(&mem);
}

static void lines_stand_where_conditions_hold(void **state)
{
  (void)state;
  const struct hole *h = HOLES(NULL, INT(yes, 2), INT(no, 0), STR(some, "s"), STR(none, ""));
  expect("?yes @a = 1\n?no @b = 1\n?!no @c = 1\n?!yes @d = 1", h, "@a = 1\n@c = 1\n");
  expect("?some @a = 1\n?none @b = 1\n?!none ?yes @c = 1\n?some ?no @d = 1", h, "@a = 1\n@c = 1\n");
}

static void specs_are_done_by_someone(void **state)
{
  (void)state;
  expect("%a <- Move(%b)", NULL, "%a <- Move<<<#grid, #me>>>(%b)\n");
  expect("%a[0] <- MatMul#lanes(%b, %c[1, 2])", NULL, "%a[0] <- MatMul<<<#grid, #lanes>>>(%b, %c[1, 2])\n");
  expect("Sync<cp.wait, 0>()\nSync<barrier>#t()", NULL, "Sync<cp.wait, 0><<<#grid, #me>>>()\nSync<barrier><<<#grid, #t>>>()\n");
  expect("%x:[2].fp32.RF <- Init<-inf>()", NULL, "%x:[2].fp32.RF\n%x <- Init<-inf><<<#grid, #me>>>()\n");
  expect("#me = #t.scalar()\n%x:[].i32.RF", NULL, "#me = #t.scalar()\n%x:[].i32.RF\n");
}

static void what_is_open_is_closed(void **state)
{
  (void)state;
  const char *loops = "for (s = 0; s < 2; s += 1) unroll {\n  for (n3 = 0; n3 < 8; n3 += 1) unroll {\n    if (@a) {\n      @b = 1\n    }\n  }\n}\n";
  expect("each s:2 n3:8\nif (@a) {\n@b = 1", NULL, loops);
  expect("each s:2 n3:8\nif (@a) {\n@b = 1\n}\n}", NULL, loops); // the second } closes both loops
  struct str out = {0};
  struct text t = {.out = &out};
  text_begin(&t, "if (@a) {\neach i:2", NULL);
  assert_int_equal(t.indent, 2);
  text_fill(&t, "each j:3\n@b = 1\n}\n@c = 1", NULL);
  assert_int_equal(t.indent, 2);
  text_until(&t, 1);
  assert_int_equal(t.indent, 1);
  text_until(&t, 0);
  assert_string_equal(str_text(&out),
                      "if (@a) {\n  for (i = 0; i < 2; i += 1) unroll {\n    for (j = 0; j < 3; j += 1) unroll {\n      @b = 1\n    }\n"
                      "    @c = 1\n  }\n}\n");
  str_free(&out);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(holes_are_numbers_and_texts), cmocka_unit_test(lines_stand_where_conditions_hold),
                                     cmocka_unit_test(specs_are_done_by_someone), cmocka_unit_test(what_is_open_is_closed)};
  return cmocka_run_group_tests_name("fill", tests, NULL, NULL);
}

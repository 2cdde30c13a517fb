// Several programs in one text: their graphs, their shared tensors, and errors.
#include "front/front.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int parse(struct arena *mem, const char *text, const char *entry, struct graph **g, struct err *e)
{
  const struct setting set = {.name = "entry", .entry = entry};
  return front_parse(mem, text, strlen(text), "test", entry ? 1 : 0, &set, g, e);
}

static const char text[] =
    "model m(d = 8) {\n"
    "  unused: dim <= 4\n  n: dim <= 16\n  A: f32[d, d]\n  B: f32[n, d]\n  K: f32[16, d] state\n  c = 1 / sqrt(d)\n  T = A * c\n"
    "  program first {\n    return matmul(B, T)\n  }\n"
    "  program second {\n    at: i32[1] < 16\n    x: f32[1, d]\n    K[at] = x\n    return sum(K[:n], dim=0)\n  }\n"
    "  program third { x: f32[d]; return x * c }\n}\n";

// The same as programs of their own.
static const char *const alone[][2] = {
    {"first", "program first {\n  n: dim <= 16\n  A: f32[8, 8]\n  B: f32[n, 8]\n  return matmul(B, A * (1 / sqrt(8)))\n}"},
    {"second",
     "program second {\n  n: dim <= 16\n  K: f32[16, 8] state\n  at: i32[1] < 16\n  x: f32[1, 8]\n  K[at] = x\n  return sum(K[:n], dim=0)\n}"},
    {"third", "program third {\n  x: f32[8]\n  return x * (1 / sqrt(8))\n}"},
};

static void test_entries(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(alone); i++) {
    struct arena mem = {0};
    struct err e = {0};
    struct graph *g, *same;
    struct str a = {0}, b = {0};
    if (parse(&mem, text, alone[i][0], &g, &e) || parse(&mem, alone[i][1], NULL, &same, &e)) {
      err_print(stderr, &e);
      fail();
    }
    assert_string_equal(g->name, alone[i][0]);
    graph_print(g, &a), graph_print(same, &b);
    struct graph *back;
    assert_int_equal(parse(&mem, str_text(&a), NULL, &back, &e), OK);
    assert_true(graph_same(g, back));
    assert_int_equal(graph_inputs(g, NULL), graph_inputs(same, NULL));
    int in[8], other[8], n = graph_inputs(g, in);
    graph_inputs(same, other);
    for (int k = 0; k < n; k++) {
      assert_string_equal(g->tensors[in[k]].name, same->tensors[other[k]].name);
      assert_memory_equal(g->tensors[in[k]].runs, same->tensors[other[k]].runs, sizeof g->tensors->runs);
    }
    str_free(&a), str_free(&b);
    arena_close(&mem);
  }
}

static void test_told(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct err e = {0};
  struct front_model m, none;
  assert_int_equal(front_model_of(&mem, text, strlen(text), "test", &m, &e), OK);
  static const char *const shared[] = {"unused", "n", "A", "B", "K"};
  assert_string_equal(m.name, "m");
  assert_int_equal(m.nentries, 3);
  for (int i = 0; i < 3; i++) assert_string_equal(m.entry[i].name, alone[i][0]);
  assert_int_equal(m.nshared, (int)COUNT(shared));
  for (int i = 0; i < m.nshared; i++) assert_string_equal(m.shared[i], shared[i]);
  assert_int_equal(front_check(&mem, text, strlen(text), "test", &e), OK);
  assert_int_equal(front_model_of(&mem, alone[0][1], strlen(alone[0][1]), "test", &none, &e), OK);
  assert_int_equal(none.nentries, 0);
  arena_close(&mem);
}

static const struct {
  const char *text, *entry;
  enum errid id;
  int line;
  const char *says, *hint;
} mistakes[] = {
    {"model m {\n A: f32[8]\n program a { return A }\n program b { return A * 2 }\n}", NULL, ERR_ENTRY, 1, "the entry points a, b", "--entry a"},
    {"model m {\n A: f32[8]\n program a { return A }\n program b { return A * 2 }\n}", "c", ERR_ENTRY, 1, "no entry point `c`", "it has a, b"},
    {"program p {\n A: f32[8]\n return A\n}", "c", ERR_ENTRY, 1, "the text is the program p", "leave out"},
    {"model m {\n A: f32[8]\n}", NULL, ERR_ENTRY, 1, "has no entry point", "program step"},
    {"model m {\n A: f32[8]\n program a { return A }\n B: f32[8]\n}", NULL, ERR_SYNTAX, 4, "behind an entry point", "before them"},
    {"model m {\n A: f32[8]\n return A\n program a { return A }\n}", NULL, ERR_SYNTAX, 3, "`return` outside", "program step"},
    {"model m {\n K: f32[8] state\n x: f32[]\n K[0] = x\n program a { return x }\n}", NULL, ERR_SYNTAX, 4, "an update", "program step"},
    {"model m {\n A: f32[8]\n program a(b = 1) { return A }\n}", NULL, ERR_SYNTAX, 3, "with parameters", "of the model"},
    {"model m {\n A: f32[8]\n program a { return A }\n program a { return A }\n}", "a", ERR_DUPLICATE, 4, "`a` is already defined", ""},
    {"model m {\n A: f32[8]\n program a { B = A }\n}", NULL, ERR_SYNTAX, 3, "ends without `return`", ""},
    {"model m {\n A: f32[8]\n program a { return A }\n program b { return A\n}", "a", ERR_SYNTAX, 5, "the file ends inside", "opened at line 1"},
    {"model m {\n A: f32[8]\n program a { return A }\n program b { return A\n", "a", ERR_SYNTAX, 5, "the file ends inside", "opened at line 4"},
};

static void test_mistakes(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(mistakes); i++) {
    struct arena mem = {0};
    struct err e = {0};
    struct graph *g;
    assert_int_equal(parse(&mem, mistakes[i].text, mistakes[i].entry, &g, &e), USER);
    if (e.id != mistakes[i].id || e.at.line != mistakes[i].line || !strstr(e.text, mistakes[i].says) || !strstr(e.hint, mistakes[i].hint)) {
      err_print(stderr, &e);
      fail_msg("%s", mistakes[i].text);
    }
    arena_close(&mem);
  }
}

// A mistake in any entry point is found by those who check the whole text.
// A model has 64 entry points at most, and a text as many bytes as one of a program.
static void test_limits(void **state)
{
  (void)state;
  for (int n = 64; n <= 65; n++) {
    struct arena mem = {0};
    struct err e = {0};
    struct front_model m;
    struct graph *g;
    struct str s = {0};
    str_add(&s, "model m {\n A: f32[8]\n");
    for (int i = 0; i < n; i++) str_add(&s, " program p%d { return A }\n", i);
    str_add(&s, "}\n");
    const int want = n > 64 ? USER : OK;
    assert_int_equal(front_model_of(&mem, str_text(&s), s.n, "test", &m, &e), want);
    assert_int_equal(front_check(&mem, str_text(&s), s.n, "test", &e), want);
    assert_int_equal(parse(&mem, str_text(&s), "p63", &g, &e), want);
    if (want) assert_true(e.id == ERR_LIMIT && e.at.line == 67 && strstr(e.text, "64 entry points"));
    if (!want) assert_int_equal(m.nentries, 64);
    for (int i = 0; i < FRONT_BYTES; i++) str_add(&s, " ");
    struct err large = {0};
    assert_int_equal(front_model_of(&mem, str_text(&s), s.n, "test", &m, &large), USER);
    assert_true(large.id == ERR_LIMIT && strstr(large.text, "larger than"));
    str_free(&s);
    arena_close(&mem);
  }
}

static void test_check(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct err e = {0};
  const char *wrong = "model m {\n A: f32[8]\n program a { return A }\n program b { return B }\n}";
  assert_int_equal(front_check(&mem, wrong, strlen(wrong), "test", &e), USER);
  assert_int_equal(e.id, ERR_NAME);
  assert_int_equal(e.at.line, 4);
  arena_close(&mem);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_entries), cmocka_unit_test(test_told), cmocka_unit_test(test_mistakes),
                                     cmocka_unit_test(test_check), cmocka_unit_test(test_limits)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

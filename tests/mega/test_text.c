// The text form: a model that is printed and read again is the same, and its plan too; what is wrong is said with its place.
#include "megas.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const struct mega_sizes plain = {.context = -1};

static void round_trip(const char *file, int rows, int workers)
{
  struct megas x;
  struct mega_sizes s = mega_tiny(rows, workers, 7, 4);
  struct mega_model *again;
  struct mega_plan *plan;
  struct str first = {0}, second = {0}, events[2] = {{0}};
  mega_open(&x, file, &s);
  mega_print(x.m, x.p, &first);
  int status = mega_parse(&x.mem, str_text(&first), first.n, "again.mega", &plain, &again, &x.err);
  if (status == OK) status = mega_plan_make(&x.mem, again, &plan, &x.err);
  if (status != OK) err_print(stderr, &x.err);
  assert_int_equal(status, OK);
  mega_print(again, plan, &second);
  assert_string_equal(str_text(&first), str_text(&second));
  assert_int_equal(mega_dump(&x.mem, x.p, "events", &events[0], &x.err), OK);
  assert_int_equal(mega_dump(&x.mem, plan, "events", &events[1], &x.err), OK);
  assert_string_equal(str_text(&events[0]), str_text(&events[1]));
  str_free(&first), str_free(&second), str_free(&events[0]), str_free(&events[1]);
  mega_close(&x);
}

static void texts_read_back(void **state)
{
  (void)state;
  round_trip("examples/mega/tiny_llama.json", 1, 3);
  round_trip("examples/mega/tiny_qwen3.json", 1, 5);
  round_trip("examples/mega/tiny_qwen3.json", 12, 17);
  round_trip("examples/mega/tiny_qwen3_moe.json", 2, 5);
}

// ---- mistakes ----

#define HEAD "mega m(rows = 2) {\n  x: f32[rows, 32] state\n  w: f32[3, 32, 32] weights\n  y: f32[rows, 32] activation\n"
#define OP "  operator a[3] {\n    layer linear\n    reads x, w\n    writes y\n    tiles 4\n"
static const struct text_row {
  const char *text;
  int line;
  const char *says;
} mistakes[] = {
    {"mega m() {\n}\n", 0, "has no operators"},
    {"graph m() {\n", 1, "expected `mega`"},
    {"mega m(cols = 2) {\n", 1, "expected rows or context"},
    {"mega m(rows = 65) {\n", 1, "65 is not an integer from 1 to 64"},
    {"mega m() {\n  x: f33[2] state\n", 2, "f33 is not a type"},
    {"mega m() {\n  x: f32[2] stat\n", 2, "stat is not a kind of tensor"},
    {"mega m() {\n  x: f32[2] state\n  x: f32[2] state\n", 3, "x is already declared"},
    {"mega m() {\n  x: f32[1, 1, 1, 1, 1, 1, 1] state\n", 2, "at most 6 dimensions"},
    {"mega m() {\n  x: f32[0] state\n", 2, "0 is not an integer"},
    {"mega m() {\n  x: f32[1000000000000, 1000] state\n", 2, "dimension 1 is 1000"},
    {HEAD "  operator a {\n    layer liner\n", 6, "there is no layer liner"},
    {HEAD OP "    with eps = 1\n  }\n}\n", 10, "layer linear has no attribute eps"},
    {HEAD "  operator a[3] {\n    layer linear\n    reads x, v\n", 7, "there is no tensor v"},
    {HEAD "  operator a[3] {\n    layer linear\n    reads x\n", 7, "the next tensor of the layer"},
    {HEAD "  operator a[3] {\n    layer linear\n    reads x, w\n  }\n", 5, "does not say which tensors it writes"},
    {HEAD "  operator a[2] {\n    layer linear\n    reads x, w\n    writes y\n    tiles 4\n  }\n}\n", 5,
     "dimension 0 of w is 3, but the number of layers of linear is 2"},
    {HEAD "  operator a[3] {\n    layer linear\n    reads x, w\n    writes y\n    tiles 31\n  }\n}\n", 5, "31 tiles divide dimension"},
    {HEAD "  operator a[3] {\n    layer linear\n    reads y, w\n    writes y\n    tiles 4\n  }\n}\n", 5, "reads y before any operator writes it"},
    {HEAD "  operator a[3] {\n    layer linear\n    reads x, w\n    writes w\n    tiles 4\n  }\n}\n", 5, "writes w, which it names twice"},
    {HEAD "  operator a[3] {\n    layer linear\n    reads x, x\n    writes y\n    tiles 4\n  }\n}\n", 5, "x has 2 dimensions, but linear takes 3"},
    {HEAD OP "    after b\n  }\n}\n", 10, "does not wait for b"},
    {HEAD OP "    after a[-1] tagged\n  }\n}\n", 10, "no such event is derived"},
    {HEAD OP "    after a lock\n", 10, "lock is not a kind of event"},
    {HEAD "  pipeline 4 x 16\n" OP "  }\n}\n", 6, "the smallest piece of w has 32 bytes"},
    {HEAD OP "  }\n"
             "  operator b {\n    layer argmax\n    reads y\n    writes x\n  }\n}\n",
     11, "y has 2 dimensions"},
    {"mega m() {\n  x: f32[1, 4] activation\n  y: f32[1, 5, 2] activation\n  z: f32[1, 4] weights\n  operator n { layer silu_mul; reads z, z; writes "
     "x }\n"
     "  operator a {\n    layer choose_experts\n    reads x\n    writes y\n  }\n}\n",
     6, "operator a chooses 5 of 4 experts"},
    {HEAD OP "  }\n}\nmore\n", 12, "expected the end of the file"},
    {HEAD "  y2: f32[rows, 32] activation versions 2\n  operator a {\n    layer silu_mul\n    reads x, x\n    writes y2\n  }\n}\n", 0,
     "y2 has 2 versions"},
};

static void mistakes_are_said(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(mistakes); i++) {
    struct arena mem = {0};
    struct err e = {0};
    struct mega_model *m;
    struct mega_plan *p;
    int status = mega_parse(&mem, mistakes[i].text, strlen(mistakes[i].text), "m.mega", &plain, &m, &e);
    if (status == OK) status = mega_plan_make(&mem, m, &p, &e);
    if (status != USER || !strstr(e.text, mistakes[i].says) || e.at.line != mistakes[i].line)
      fail_msg("row %zu: status %d, line %d: %s", i, status, e.at.line, e.text);
    arena_close(&mem);
  }
}

// Every prefix and every text with one byte changed is read or refused.
static void any_bytes_are_safe(void **state)
{
  struct megas x;
  struct mega_sizes s = mega_tiny(1, 2, 3, 4);
  struct str text = {0};
  struct rng r = {5};
  (void)state;
  mega_open(&x, "examples/mega/tiny_llama.json", &s);
  mega_print(x.m, x.p, &text);
  char *copy = arena_strdup(&x.mem, str_text(&text));
  for (int i = 0; i < 600; i++) {
    struct arena mem = {0};
    struct err e = {0};
    struct mega_model *m;
    struct mega_plan *p;
    size_t at = rng_below(&r, text.n), n = i % 2 ? at : text.n;
    char was = copy[at];
    copy[at] = i % 2 ? was : "0179[]{},-x\n"[rng_below(&r, 12)];
    if (mega_parse(&mem, copy, n, "m.mega", &plain, &m, &e) == OK) {
      int status = mega_plan_make(&mem, m, &p, &e);
      assert_true(status == OK || (status == USER && *e.text));
    } else
      assert_true(*e.text);
    copy[at] = was;
    arena_close(&mem);
  }
  str_free(&text);
  mega_close(&x);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(texts_read_back), cmocka_unit_test(mistakes_are_said), cmocka_unit_test(any_bytes_are_safe)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

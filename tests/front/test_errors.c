// Errors: number, place and hint.
#include "front/front.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct row {
  const char *text; // "P:" puts it into a program over X: f16[4, 8] whose body starts at line 2, "G:" into a graph
  enum errid id;
  int line, col;
  const char *says, *hint; // parts of text and hint
};
static const struct row rows[] = {
    // tokens
    {"", ERR_SYNTAX, 1, 1, "no program", "program name"},
    {"\n# nothing\n", ERR_SYNTAX, 3, 1, "no program", ""},
    {"\x7f"
     "ELF\x02\x01",
     ERR_SYNTAX, 1, 5, "not a text file: byte 0x02 at offset 4", "UTF-8"},
    {"\x08\x09\x12", ERR_SYNTAX, 1, 1, "not a text file: byte 0x08 at offset 0", "ONNX model"},
    {"program f { X: f16[4] \x01", ERR_SYNTAX, 1, 23, "not a text file", ""},
    {"P:return X ^ 2", ERR_SYNTAX, 2, 10, "`^`", ""},
    {"P:return X * 2x", ERR_SYNTAX, 2, 12, "`2x`", ""},
    {"P:return X * 1e", ERR_SYNTAX, 2, 12, "exponent", ""},
    {"P:return X * 1e999", ERR_SYNTAX, 2, 12, "too large", ""},
    {"P:return X * \"2\"", ERR_SYNTAX, 2, 12, "no meaning", ""},
    {"P:return \xc3\xa9", ERR_SYNTAX, 2, 8, "byte 0xc3", ""},
    // structure
    {"kernel f {}", ERR_SYNTAX, 1, 1, "expected `program` or `graph`, found `kernel`", "program name"},
    {"program {", ERR_SYNTAX, 1, 9, "name", ""},
    {"program f\n X: f16[4]", ERR_SYNTAX, 2, 2, "`{`", ""},
    {"program f {\n X: f16[4]\n return X\n", ERR_SYNTAX, 4, 1, "ends inside `{`", "line 1, column 11"},
    {"P:return X\n} more", ERR_SYNTAX, 3, 3, "`more`", "one program"},
    {"P:Y = exp(X)", ERR_SYNTAX, 3, 1, "without `return`", "return Y"},
    {"P:Y = exp(X\n return Y", ERR_SYNTAX, 3, 2, "`,` or `)`", "line 2, column 8"},
    {"P:Y = X X", ERR_SYNTAX, 2, 7, "end of the statement", ""},
    {"P:return X\n Y = X", ERR_SYNTAX, 3, 2, "after `return`", ""},
    {"P:exp(X); return X", ERR_SYNTAX, 2, 1, "dropped", "name it"},
    {"P:return 3", ERR_GRAPH, 2, 8, "number", ""},
    {"P:return X +", ERR_SYNTAX, 3, 1, "an expression", ""},
    {"P:Y, = X", ERR_SYNTAX, 2, 4, "a name", ""},
    {"P:3 = X", ERR_SYNTAX, 2, 1, "a statement", ""},
    {"P:inf = X", ERR_SYNTAX, 2, 1, "word of the language", "another name"},
    {"P:return return", ERR_SYNTAX, 2, 8, "word of the language", ""},
    // names
    {"P:return exp(Y)", ERR_NAME, 2, 12, "`Y` is not defined", "before they are used"},
    {"P:return exp(x)", ERR_NAME, 2, 12, "`x`", "did you mean `X`"},
    {"P:weights = X; return exp(weigths)", ERR_NAME, 2, 25, "`weigths`", "did you mean `weights`"},
    {"P:X = exp(X)", ERR_DUPLICATE, 2, 1, "already", "line 1"},
    {"program f(b = 1, b = 2) {", ERR_DUPLICATE, 1, 18, "`b`", ""},
    {"P:a, a = split(X, dim=0, parts=2)", ERR_DUPLICATE, 2, 4, "`a`", ""},
    // inputs and parameters
    {"P:Z: f8[2]", ERR_DTYPE, 2, 4, "`f8`", "bf16"},
    {"P:Z: f16[0]", ERR_EXTENT, 2, 8, "not 0", ""},
    {"P:Z: f16[-3]", ERR_EXTENT, 2, 8, "not -3", ""},
    {"P:Z: f16[7/2]", ERR_EXTENT, 2, 8, "leaves a remainder", "exactly"},
    {"P:Z: f16[2.5]", ERR_EXTENT, 2, 8, "decimal", ""},
    {"P:Z: f16[9223372036854775807 + 1]", ERR_EXTENT, 2, 8, "beyond 64-bit", ""},
    {"P:Z: f16[99999999999999999999]", ERR_EXTENT, 2, 8, "beyond 64-bit", ""},
    {"P:Z: f16[1099511627776]", ERR_EXTENT, 2, 8, "1099511627775", ""},
    {"P:Z: f16[4 % 0]", ERR_ATTRIBUTE, 2, 10, "division by zero", ""},
    {"P:Z: f16[99999999999, 999]", ERR_EXTENT, 2, 1, "input Z [99999999999, 999]", ""},
    {"P:Z: f16[X]", ERR_EXTENT, 2, 8, "not a tensor", ""},
    {"P:Z: f16[1,1,1,1,1,1,1,1,1]", ERR_LIMIT, 2, 24, "at most 8", ""},
    {"P:Z: f16[1099511627775, 1099511627775]", ERR_EXTENT, 2, 1, "2^40", ""},
    {"P:Y: f16[99511627775, 1]; Z: f16[1, 99511627775]; Y + Z", ERR_EXTENT, 2, 51, "2^40", ""},
    {"P:return repeat(X, dim=0, times=1099511627775)", ERR_EXTENT, 2, 8, "repeat of [4, 8]", ""},
    {"P:return reshape(X, [1099511627775, 1099511627775])", ERR_EXTENT, 2, 8, "reshape of [4, 8]", ""},
    {"program f(b) {", ERR_OPTION, 1, 11, "`b` has no value", "--set b=1"},
    // calls
    {"P:return matmlu(X, X)", ERR_FUNCTION, 2, 8, "`matmlu`", "did you mean `matmul`"},
    {"P:return input(X)", ERR_FUNCTION, 2, 8, "`input`", "mica ops"},
    {"P:return exp()", ERR_ARITY, 2, 8, "exp takes 1 tensor", "exp(x)"},
    {"P:return exp(X, X)", ERR_ARITY, 2, 15, "too many", "exp(x)"},
    {"P:return matmul(X, 2)", ERR_ARITY, 2, 18, "not a number", "matmul(x, y)"},
    {"P:return matmul(X, X)", ERR_SHAPE, 2, 8, "matmul of [4, 8] and [4, 8]", ""},
    {"P:Y: f16[4, 3]; return exp(X) * Y", ERR_SHAPE, 2, 29, "mul of [4, 8] and [4, 3]", ""},
    {"P:return sum(X)", ERR_ATTRIBUTE, 2, 8, "needs `dim`", "sum(x, dim, group=)"},
    {"P:return sum(X, dmi=1)", ERR_ATTRIBUTE, 2, 15, "`dmi`", "did you mean `dim`"},
    {"P:return sum(X, dim=1, dim=0)", ERR_ATTRIBUTE, 2, 22, "twice", ""},
    {"P:return sum(X, dim=X)", ERR_ATTRIBUTE, 2, 19, "not a tensor", ""},
    {"P:return sum(X, dim=1/2)", ERR_ATTRIBUTE, 2, 19, "remainder", ""},
    {"P:return sum(X, dim=2)", ERR_ATTRIBUTE, 2, 8, "2 dimensions", ""},
    {"P:return sum(X, [1])", ERR_ARITY, 2, 15, "too many", ""},
    {"P:return reshape(X, [3, -1])", ERR_SHAPE, 2, 8, "[3, -1]", ""},
    {"P:return reshape(X, [4, 8)", ERR_SYNTAX, 2, 24, "`,` or `]`", "column 19"},
    {"P:return reshape(X, [1,1,1,1,1,1,1,1,4])", ERR_LIMIT, 2, 36, "more than 8", ""},
    {"P:return exp(split(X, dim=1, parts=2))", ERR_ARITY, 2, 12, "2 tensors", "name them"},
    {"P:return split(X, dim=1, parts=2) + 1", ERR_ARITY, 2, 8, "2 tensors", "name them"},
    {"P:Y = split(X, dim=1, parts=2)", ERR_ARITY, 2, 1, "1 name for 2 results", "`_`"},
    {"P:return split(X, dim=1, parts=1000000)", ERR_ATTRIBUTE, 2, 8, "equal parts", ""},
    {"P:return accum(X)", ERR_LEVEL, 2, 8, "block and thread", ""},
    {"P:save(X)", ERR_LEVEL, 2, 1, "block and thread", "return"},
    {"P:return X / 0", ERR_ATTRIBUTE, 2, 10, "division by zero", ""},
    {"P:return X * log(-1)", ERR_ATTRIBUTE, 2, 12, "log", "floating point"},
    {"P:return X * exp(1000)", ERR_ATTRIBUTE, 2, 12, "too large", ""},
    {"P:return X % 2", ERR_DTYPE, 2, 10, "whole numbers", ""},
    // frozen inputs
    {"P:n: dim <= 8\nZ: f32[n] frozen\nreturn Z", ERR_EXTENT, 3, 4, "a frozen input has a run-time extent", "without `frozen`"},
    {"P:Z: f32[4] frozen\nt: i32[1] < 4\nZ[t] = reshape(Z[0:1], [1])\nreturn t", ERR_NOT_A_STATE, 4, 1, "`Z` is no state", "state"},
    {"P:Z: f32[4] state frozen\nreturn Z", ERR_SYNTAX, 2, 17, "`frozen`", "grammar"},
    // several devices
    {"program f {\nworld 3", ERR_WORLD, 2, 1, "a world of 3 devices", "1, 2, 4 or 8"},
    {"program f {\nworld 0", ERR_WORLD, 2, 1, "a world of 0 devices", "1, 2, 4 or 8"},
    {"program f {\nworld -2", ERR_WORLD, 2, 1, "a world of -2 devices", "1, 2, 4 or 8"},
    {"program f {\nworld 2.5", ERR_WORLD, 2, 7, "decimal", ""},
    {"program f {\nworld n", ERR_NAME, 2, 7, "`n`", ""},
    {"program f {\nworld 2\nworld 2", ERR_WORLD, 3, 1, "at line 2", "one world"},
    {"P:world 2", ERR_WORLD, 2, 1, "behind an input", "first statement"},
    {"P:Z: f16[4] shard(0)", ERR_WORLD, 2, 11, "one device", "world 4"},
    {"program f {\nworld 2\nZ: f16[4] shard", ERR_SYNTAX, 3, 16, "`(` and a dimension", ""},
    {"program f {\nworld 2\nZ: f16[4] shard(Z", ERR_NAME, 3, 17, "`Z`", ""},
    {"program f {\nworld 2\nZ: f16[4] shard(1)", ERR_ATTRIBUTE, 3, 11, "shard(1) of a tensor of 1 dimensions", ""},
    {"program f {\nworld 2\nZ: f16[7] shard(0)", ERR_SHAPE, 3, 11, "no 2 equal parts", "whole tensor"},
    {"program f {\nworld 2\nZ: f16[4] state\nY: f16[4] shard(0)\nt: i32[2] < 4, distinct\nZ[t] = Y\nreturn t\n}", ERR_WORLD, 6, 1,
     "the state `Z` would make it different on each device", "declare the state as divided"},
    {"program f {\nworld 2\nZ: f16[4] shard(0) state\nY: f16[2]\nt: i32[2] < 2, distinct\nZ[t] = Y\nreturn t\n}", ERR_WORLD, 6, 1,
     "`Z` chooses places along the dimension in which it is divided", "another dimension"},
    {"program f {\nworld 2\nZ: f16[4, 4] shard(1) state\nY: f16[1, 4] shard(1)\nt: i32[2] < 4 shard(0)\nZ[t] = Y\nreturn Y\n}", ERR_WORLD, 6, 1,
     "`Z` writes other places on each device", "all devices have"},
    {"graph f {\nworld 2\nZ: f16[4, 4] shard(1) state\nY: f16[1, 4] shard(1)\nt: i32[1] < 4\nU = block() { z = iter(Z)\n y = iter(Y)\n a = iter(t)\n "
     "save(update(z, a, y, dim=0)) "
     "}\nreturn t\n}",
     ERR_WORLD, 6, 5, "`Z` is part of a kernel", "kernel graph"},
    {"program f {\nworld 2\nZ: f16[4, 4, 4] shard(2) state\nY: f16[1, 4] shard(1)\nt: i32[1] < 4\nZ[t, t] = Y\nreturn t\n}", ERR_WORLD, 6, 1,
     "`Z` has several indices", "one index tensor"},
    {"program f {\nworld 2\nZ: f16[4] shard(0)\nreturn Z\n}", ERR_WORLD, 4, 8, "`Z` may be different on each of the 2 devices", "all_gather"},
    {"program f {\nworld 2\nZ: f16[4]\nreturn reduce_scatter(Z, 0)\n}", ERR_WORLD, 4, 8, "this result may be different", "all_gather"},
    {"program f {\nworld 2\nZ: f16[4] shard(0)\nreturn exp(shard(Z, 0))\n}", ERR_WORLD, 4, 8, "exp reads what `shard` leaves divided", "all_gather"},
    {"program f {\nworld 1\nZ: f16[4] shard(0)\nreturn shard(Z, 0) + Z\n}", ERR_WORLD, 4, 20, "add reads what `shard` leaves divided", "all_gather"},
    {"program f {\nworld 2\nZ: f16[4] shard(0)\nreturn shard(Z)\n}", ERR_ATTRIBUTE, 4, 8, "shard needs", ""},
    {"program f {\nworld 2\nZ: f16[4] shard(0)\nreturn shard(Z, 1)\n}", ERR_ATTRIBUTE, 4, 8, "1 dimensions", ""},
    {"program f {\nworld 2\nZ: f16[4]\nreturn shard(iota([4]), 0)\n}", ERR_WORLD, 4, 8, "all ranks have the same", ""},
    {"program f {\nworld 8\nZ: f16[549755813888]\nreturn shard(Z, 0)\n}", ERR_EXTENT, 4, 8, "extent", ""},
    {"program f {\nworld 4\nZ: f16[8] shard(0)\nreturn reduce_scatter(Z, 0)\n}", ERR_SHAPE, 4, 8, "no 4 equal parts, one a rank", ""},
    {"program f {\nworld 2\nZ: f16[4]\nreturn all_gather(Z, 1)\n}", ERR_ATTRIBUTE, 4, 8, "1 dimensions", ""},
    {"program f {\nworld 4\nZ: f16[4]\nreturn Z * all_reduce(iota([4]))\n}", ERR_WORLD, 4, 12, "all ranks have the same", "x * 4"},
    {"program f {\nworld 8\nZ: f16[549755813888]\nreturn all_gather(Z, 0)\n}", ERR_EXTENT, 4, 8, "extent", ""},
    {"program f {\nworld 8\nZ: i32[4] < 9999999\nreturn all_reduce(Z)\n}", ERR_INTEGER_RANGE, 4, 8, "all_reduce may reach", ""},
    // block and thread statements
    {"P:Y = block(x=2) { a = iter(X); save(a) }", ERR_LEVEL, 2, 5, "no block statements", "`graph` in place of `program`"},
    {"G:Y = thread(x=2) { a = iter(X); save(a) }", ERR_LEVEL, 2, 5, "kernel graph", ""},
    {"G:Y = 1 + block(x=2) { a = iter(X); save(a) }", ERR_SYNTAX, 2, 9, "stands alone", ""},
    {"G:block(x=2) { a = iter(X, {x:0}); save(a, {x:0}) }", ERR_SYNTAX, 2, 1, "no names", ""},
    {"G:Y = block(y=2) {", ERR_ATTRIBUTE, 2, 11, "expected axis `x`, found `y`", "x, y, z"},
    {"G:Y = block(x=2, y=2, z=2, x=2) {", ERR_ATTRIBUTE, 2, 26, "expected no further axis", ""},
    {"G:Y = block(x=0) {", ERR_EXTENT, 2, 13, "not 0", ""},
    {"G:Y = block(x=1000000, y=1000000, z=1000000) {", ERR_LIMIT, 2, 35, "2^40", ""},
    {"G:Y = block(x=2) { a = iter(X, imap={x:0}) }", ERR_GRAPH, 2, 5, "saves nothing", ""},
    {"G:Y = block(x=2) { save(const(1)) }", ERR_GRAPH, 2, 5, "loads nothing", ""},
    {"G:Y = block(x=2) { save(X) }", ERR_NAME, 2, 23, "graph around this block", "iter(X"},
    {"G:Y = block(x=2) { a = iter(Z) }", ERR_NAME, 2, 27, "`Z`", ""},
    {"G:Y = block(x=2) { a = iter(X); b = iter(a) }", ERR_NAME, 2, 40, "inside this block", ""},
    {"G:Y = block(x=2) { a = iter(exp(X)) }", ERR_SYNTAX, 2, 27, "name of a tensor", ""},
    {"G:Y = block(x=2) { a = iter(X, imap={y:0}) }", ERR_ATTRIBUTE, 2, 36, "no entry for `y`", ""},
    {"G:Y = block(x=2) { a = iter(X, imap={x:0, x:1}) }", ERR_ATTRIBUTE, 2, 41, "twice", ""},
    {"G:Y = block(x=2) { a = iter(X, imap={x:-1}) }", ERR_ATTRIBUTE, 2, 38, "not -1", ""},
    {"G:Y = block(x=2) { a = iter(X, imap={x:5}) }", ERR_ATTRIBUTE, 2, 22, "dimension 5", ""},
    {"G:Y = block(x=3) { a = iter(X, imap={x:0}) }", ERR_SHAPE, 2, 22, "3 equal parts", ""},
    {"G:Y = block(x=2) { Z: f16[2] }", ERR_LEVEL, 2, 18, "kernel graph", "iter"},
    {"G:Y = block(x=2) {\n a = iter(X)\n return a }", ERR_SYNTAX, 4, 2, "`return` in a block", "line 2"},
    {"G:Y = block(x=2) {\n a = iter(X)", ERR_SYNTAX, 4, 2, "ends inside `{`", "line 2, column 16"},
    {"G:Y = block(x=2; i=2) { a = iter(X, fmap={i:0}); save(a) }", ERR_GRAPH, 2, 48, "for-loop", "accumulator"},
};

static const char *whole_text(struct arena *mem, const char *text)
{
  const char *head = *text == 'P' ? "program" : "graph";
  if (text[0] && text[1] == ':') {
    // an unclosed block must reach the end of the file
    bool open = strstr(text, "{\n a = iter(X)") && !strchr(text, '}');
    return arena_printf(mem, "%s f { X: f16[4, 8]\n%s\n%s", head, text + 2, open ? " " : "}");
  }
  return text;
}

static void test_errors(void **state)
{
  (void)state;
  int wrong = 0;
  for (size_t i = 0; i < COUNT(rows); i++) {
    struct arena mem = {0};
    struct err e = {0};
    struct graph *g;
    const struct row *r = &rows[i];
    const char *text = whole_text(&mem, r->text);
    int s = front_parse(&mem, text, strlen(text), "f.mica", 0, NULL, &g, &e);
    bool good = s == USER && e.id == r->id && e.at.line == r->line && e.at.col == r->col && strstr(e.text, r->says) && strstr(e.hint, r->hint) &&
                *e.hint && e.at.file;
    if (!good) {
      err_print(stderr, &e);
      print_error("%s\nwanted %s at %d:%d saying \"%s\", hint \"%s\"\n", text, err_name(r->id), r->line, r->col, r->says, r->hint);
    }
    wrong += !good;
    arena_close(&mem);
  }
  assert_int_equal(wrong, 0);
}

static int parse(const char *text, size_t n, int nset, const struct setting *set, struct err *e)
{
  struct arena mem = {0};
  struct graph *g;
  *e = (struct err){0};
  int s = front_parse(&mem, text, n, NULL, nset, set, &g, e);
  arena_close(&mem);
  return s;
}

static void test_unknown_setting(void **state)
{
  (void)state;
  struct err e;
  const char *text = "program p(b = 1, heads = 2) { X: f16[b]; return X * heads }";
  assert_int_equal(parse(text, strlen(text), 1, &(struct setting){"batch", 3}, &e), USER);
  assert_int_equal(e.id, ERR_OPTION);
  assert_non_null(strstr(e.text, "`batch`"));
  assert_non_null(strstr(e.hint, "b, heads"));
  text = "program p { X: f16[2]; return X }";
  assert_int_equal(parse(text, strlen(text), 1, &(struct setting){"b", 3}, &e), USER);
  assert_non_null(strstr(e.hint, "no parameters"));
}

static void nested(struct str *s, const char *open, const char *close, int n)
{
  str_add(s, "program p { X: f16[2]; return ");
  for (int i = 0; i < n; i++) str_add(s, "%s", open);
  str_add(s, "X");
  for (int i = 0; i < n; i++) str_add(s, "%s", close);
  str_add(s, " }");
}

static void test_depth(void **state)
{
  (void)state;
  static const char *const pairs[][2] = {{"(", ")"}, {"exp(", ")"}, {"-", ""}, {"-(", ")"}};
  for (size_t i = 0; i < COUNT(pairs); i++)
    for (int n = 50; n <= 200000; n = n == 50 ? 400 : n * 500) {
      struct str s = {0};
      struct err e;
      nested(&s, pairs[i][0], pairs[i][1], n);
      int status = parse(str_text(&s), s.n, 0, NULL, &e);
      assert_int_equal(status, n == 50 ? OK : USER);
      if (n != 50) assert_int_equal(e.id, ERR_LIMIT);
      str_free(&s);
    }
}

static void test_limits(void **state)
{
  (void)state;
  struct err e;
  struct str s = {0};
  str_add(&s, "program p { X: f16[2]; Y = X");
  for (int i = 0; i < 20000; i++) str_add(&s, " + X");
  str_add(&s, "; return Y }");
  assert_int_equal(parse(str_text(&s), s.n, 0, NULL, &e), USER);
  assert_int_equal(e.id, ERR_LIMIT);
  while (s.n <= FRONT_BYTES) str_add(&s, "%*s", 1000, "");
  assert_int_equal(parse(str_text(&s), s.n, 0, NULL, &e), USER);
  assert_int_equal(e.id, ERR_LIMIT);
  str_free(&s);
  char name[4000];
  memset(name, 'a', sizeof name - 1), name[sizeof name - 1] = 0;
  str_add(&s, "program p { %s: f16[2]; return %s }", name, name);
  assert_int_equal(parse(str_text(&s), s.n, 0, NULL, &e), USER);
  assert_non_null(strstr(e.text, "too long"));
  str_free(&s);
}

static void test_files(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct err e = {0};
  struct graph *g;
  assert_int_equal(front_load(&mem, "/nowhere/x.mica", 0, NULL, &g, &e), ENV);
  e = (struct err){0};
  assert_int_equal(front_load(&mem, "/proc/self/exe", 0, NULL, &g, &e), USER);
  assert_non_null(strstr(e.text, "not a text file"));
  e = (struct err){0};
  assert_int_equal(front_load(&mem, MICA_SOURCE_DIR "/examples", 0, NULL, &g, &e), ENV);
  arena_close(&mem);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_errors), cmocka_unit_test(test_unknown_setting), cmocka_unit_test(test_depth),
      cmocka_unit_test(test_limits), cmocka_unit_test(test_files),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

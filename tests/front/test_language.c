// The language: what each form of it builds, parameters, and every example.
#include "front/front.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct graph *parse(struct arena *mem, const char *text, int nset, const struct setting *set)
{
  struct err e = {0};
  struct graph *g = NULL;
  if (front_parse(mem, text, strlen(text), "test", nset, set, &g, &e)) {
    err_print(stderr, &e);
    fail_msg("does not parse:\n%s", text);
  }
  return g;
}

// Source on the left, how it prints on the right: the body of a program over X: f32[4, 8] and Y: f32[4, 8].
static const struct {
  const char *source, *printed;
} forms[] = {
    {"X + Y", "X + Y"},
    {"X - Y * X / Y", "X - Y * X / Y"},
    {"-X", "-X"},
    {"-(X + Y) * -X", "-(X + Y) * -X"},
    {"X - (Y - X)", "X - (Y - X)"},
    {"X / (Y * X)", "X / (Y * X)"},
    {"add(X, Y)", "X + Y"},
    {"div(mul(X, Y), sub(X, Y))", "X * Y / (X - Y)"},
    {"neg(X)", "-X"},
    {"X * 2", "X * 2"},
    {"2 * X", "X * 2"},
    {"X / 2", "X * 0.5"},
    {"X / sqrt(64)", "X * 0.125"},
    {"X + 1", "X + 1"},
    {"1 + X", "X + 1"},
    {"X - 1", "X - 1"},
    {"1 - X", "-X + 1"},
    {"1 / X", "1 / X"},
    {"2 / (X + Y)", "2 / (X + Y)"},
    {"X * -2", "X * -2"},
    {"X + -0.5", "X - 0.5"},
    {"X * (1 + 2 * 3 - 8 / 4)", "X * 5"},
    {"X * (7 % 4 - -7 % 4)", "X * 2"},
    {"X * exp(0) + log(1)", "X * 1 + 0"},
    {"X * pow(2, 10) * minimum(3, 4) * maximum(3, 4)", "X * 1024 * 3 * 4"},
    {"X * rsqrt(16) * square(3) * (abs(-2) + relu(-1))", "X * 0.25 * 9 * 2"},
    {"X * 1e3 * 1.5e-2 * .5", "X * 1000 * 0.015 * 0.5"},
    {"(X + 123456789012) * 2.", "(X + 123456789012) * 2"},
    {"pow(X, 2)", "square(X)"},
    {"pow(X, 0.5) + pow(X, -0.5)", "sqrt(X) + rsqrt(X)"},
    {"pow(X, 3)", "pow(X, 3)"},
    {"pow(2, X)", "pow(2, X)"},
    {"pow(X, Y)", "pow(X, Y)"},
    {"pow(X, const(2))", "pow(X, const(2))"},
    {"maximum(X, 0)", "maximum(X, 0)"},
    {"minimum(0, X)", "minimum(0, X)"},
    {"const(3) * X", "const(3) * X"},
    {"mul_scalar(X, 3) + add_scalar(X, scalar=-2)", "X * 3 + (X - 2)"},
    {"clamp(X, -1, 1)", "clamp(X, lo=-1, hi=1)"},
    {"clamp(X, hi=inf, lo=0)", "clamp(X, lo=0, hi=inf)"},
    {"sum(X, dim=1)", "sum(X, dim=1)"},
    {"sum(X, -1)", "sum(X, dim=1)"},
    {"sum(X, 1, 4)", "sum(X, dim=1, group=4)"},
    {"sum(X, dim=1, group=4) + mean(X, dim=-1)", "sum(X, dim=1, group=4) + mean(X, dim=1)"},
    {"max(X, dim=0)", "max(X, dim=0)"},
    {"softmax(X, dim=-1)", "softmax(X, dim=1)"},
    {"softmax(X, 1)", "softmax(X, dim=1)"},
    {"softmax(X, Y, dim=-1)", "softmax(X, Y, dim=1)"},
    {"rms_norm(X)", "rms_norm(X)"},
    {"rms_norm(X, Y, eps=1e-5)", "rms_norm(X, Y, eps=1e-05)"},
    {"rms_norm(X, 1e-5)", "rms_norm(X, eps=1e-05)"},
    {"layer_norm(X, Y, Y)", "layer_norm(X, Y, Y)"},
    {"layer_norm(X, eps=1e-6)", "layer_norm(X, eps=1e-06)"},
    {"reshape(X, [2, -1])", "reshape(X, [2, -1])"},
    {"reshape(X, shape=[2*8, 4/2])", "reshape(X, [16, 2])"},
    {"matmul(X, transpose(Y))", "matmul(X, transpose(Y))"},
    {"matmul(X, transpose(Y, perm=[1, 0]))", "matmul(X, transpose(Y, perm=[1, 0]))"},
    {"repeat(X, 1, 8)", "repeat(X, dim=1, times=8)"},
    {"concat(X, Y, X, dim=0)", "concat(X, Y, X, dim=0)"},
    {"concat(split(X, dim=1, parts=2), dim=0)", NULL},
    {"chunk(X, dim=1, parts=4, index=3)", "chunk(X, dim=1, parts=4, index=3)"},
    {"all_reduce(X)", "all_reduce(X)"},
    {"all_gather(X, -1)", "all_gather(X, dim=1)"},
    {"reduce_scatter(X, 0)", "reduce_scatter(X, dim=0)"},
    {"shard(X, -1)", "shard(X, dim=1)"},
    {"X +\n  Y", "X + Y"},
    {"exp(X # a comment\n  )", "exp(X)"},
    {"exp(X),\n  Y", "exp(X), Y"},
    {"(((X)))", "X"},
};

static void test_forms(void **state)
{
  (void)state;
  int wrong = 0;
  for (size_t i = 0; i < COUNT(forms); i++) {
    struct arena mem = {0};
    struct str out = {0};
    const char *text = arena_printf(&mem, "program f { X: f32[4, 8]; Y: f32[4, 8]\n return %s\n}", forms[i].source);
    const char *want = arena_printf(&mem, "program f {\n  X: f32[4, 8]\n  Y: f32[4, 8]\n  return %s\n}\n", forms[i].printed);
    graph_print(parse(&mem, text, 0, NULL), &out);
    bool same = !forms[i].printed || !strcmp(str_text(&out), want);
    if (!same) print_error("%s prints as\n%s", forms[i].source, str_text(&out));
    wrong += !same;
    str_free(&out), arena_close(&mem);
  }
  assert_int_equal(wrong, 0);
}

static void test_statements(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct graph *g = parse(&mem,
                          "\xef\xbb\xbf# first\r\n\r\nprogram p(n = 4, m = 2 * n,) {\r\n"
                          "  X: bf16[n, m,]; scale = 1 / sqrt(m * 2) # h\xc3\xa9\r\n"
                          "  a, _ = split(X * scale, dim=0, parts=2);;\r\n  b = a\r\n  c =\n    exp(b)\n return c, b;\n}\n\n",
                          0, NULL);
  assert_string_equal(g->name, "p");
  assert_int_equal(g->tensors[0].dtype, BF16);
  assert_int_equal(g->tensors[0].shape.d[1], 8);
  assert_true(g->nodes[1].a.scalar == 0.25);
  assert_string_equal(g->tensors[2].name, "a");
  assert_null(g->tensors[3].name);
  int out[2];
  assert_int_equal(graph_outputs(g, out), 2);
  assert_int_equal(out[1], 2);
  assert_int_equal(g->nodes[1].at.line, 5);
  arena_close(&mem);
}

static void test_settings(void **state)
{
  (void)state;
  struct arena mem = {0};
  const char *text = "program p(b = 1, n = 8 * b) { X: f16[b, n]; return exp(X) }";
  const struct setting set[] = {{"b", 4}, {"n", 16}};
  assert_int_equal(parse(&mem, text, 0, NULL)->tensors[0].shape.d[1], 8);
  assert_int_equal(parse(&mem, text, 1, set)->tensors[0].shape.d[1], 32);
  assert_int_equal(parse(&mem, text, 2, set)->tensors[0].shape.d[1], 16);
  arena_close(&mem);
}

static void test_block_statement(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct graph *g = parse(&mem,
                          "graph g(parts = 2) {\n X: f32[4, 8]\n"
                          " A, B = block(x=parts, y=2; i=2) {\n"
                          "  x = iter(X, imap={x:0, y:_}, fmap={i:1}); whole = iter(X, {x:0})\n"
                          "  m, change = accum_max(max(x, dim=1))\n"
                          "  s = accum(x, fmap={i:1})\n"
                          "  t = thread(x=2) { x = iter(s, imap={x:1}); save(exp(x), omap={x:1}) }\n"
                          "  save(t * whole, omap={x:0, y:1}); save(m, {x:0, y:1}) }\n return A * sum(B, dim=1)\n}",
                          0, NULL);
  const struct node *block = &g->nodes[1];
  assert_int_equal(block->op, OP_BLOCK);
  assert_int_equal(block->nin, 2);
  assert_int_equal(block->nout, 2);
  assert_int_equal(g->tensors[block->out].shape.d[1], 16);
  const struct graph *b = block->sub;
  assert_int_equal(b->ngrid, 2);
  assert_int_equal(b->grid[0], 2);
  assert_int_equal(b->nodes[0].a.imap[1], REPLICA);
  assert_int_equal(b->nodes[0].a.fmap[0], 1);
  assert_int_equal(b->tensors[0].shape.d[0], 2);
  assert_int_equal(b->tensors[0].shape.d[1], 4);
  assert_int_equal(b->tensors[1].phase, FIXED);
  arena_close(&mem);
}

// ---- examples ------------------------------------------------------------------------------------

static void round_trip(struct arena *mem, const char *path, int nset, const struct setting *set)
{
  struct err e = {0};
  struct graph *g, *again;
  struct str out = {0}, twice = {0};
  if (front_load(mem, path, nset, set, &g, &e)) fail_msg("%s:%d: %s", path, e.at.line, e.text);
  graph_print(g, &out);
  if (front_parse(mem, str_text(&out), out.n, path, 0, NULL, &again, &e)) fail_msg("%s\n%s", e.text, str_text(&out));
  assert_true(graph_same(g, again));
  assert_true(graph_hash(g) == graph_hash(again));
  graph_print(again, &twice);
  assert_string_equal(str_text(&out), str_text(&twice));
  twice.n = 0;
  graph_draw(g, &twice);
  assert_true(twice.n > 0);
  str_free(&out), str_free(&twice);
}

static int each_example(const char *folder, int nset, const struct setting *set, const char *only)
{
  int n = 0;
  DIR *d = opendir(folder);
  assert_non_null(d);
  for (struct dirent *f; (f = readdir(d));) {
    struct arena mem = {0};
    const char *dot = strrchr(f->d_name, '.');
    if (!dot || strcmp(dot, ".mica") || strncmp(f->d_name, only, strlen(only))) continue;
    round_trip(&mem, arena_printf(&mem, "%s/%s", folder, f->d_name), nset, set);
    arena_close(&mem), n++;
  }
  closedir(d);
  return n;
}

static void test_examples(void **state)
{
  (void)state;
  assert_true(each_example(MICA_SOURCE_DIR "/examples", 0, NULL, "") >= 35);
  assert_true(each_example(MICA_SOURCE_DIR "/examples/graphs", 0, NULL, "") >= 3);
}

static void test_examples_with_settings(void **state)
{
  (void)state;
  const char *batched[] = {"mha_", "gqa_", "mqa_", "m_gqa", "m_qknorm", "qknorm_qk", "m_mha", "m_mqa", "g_fmha"};
  const char *rows[] = {"mlp", "lora", "m_rms", "m_gated", "m_lora", "m_ntrans", "g_norm", "softmax", "g_lstm"};
  for (size_t i = 0; i < COUNT(batched); i++) assert_true(each_example(MICA_SOURCE_DIR "/examples", 1, &(struct setting){"b", 8}, batched[i]) > 0);
  for (size_t i = 0; i < COUNT(rows); i++)
    assert_true(each_example(MICA_SOURCE_DIR "/examples", 2, (struct setting[]){{"m", 2}, {"n", 1024}}, rows[i]) > 0);
  assert_int_equal(each_example(MICA_SOURCE_DIR "/examples", 1, &(struct setting){"t", 16}, "moe"), 1);
}

// The page that describes the language names every function and shows a program that parses.
static void test_docs(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct err e = {0};
  char *page;
  size_t n;
  assert_int_equal(file_read(&mem, MICA_SOURCE_DIR "/docs/language.md", &page, &n, &e), OK);
  for (int i = 0; i < OPS; i++) {
    if (i == OP_INPUT || i == OP_OUTPUT) continue;
    const char *name = op_rows[i].name, *at = page;
    size_t len = strlen(name);
    while ((at = strstr(at, name)) && (strchr("abcdefghijklmnopqrstuvwxyz_", at[-1]) || strchr("abcdefghijklmnopqrstuvwxyz_", at[len]))) at++;
    if (!at) fail_msg("docs/language.md does not mention %s", name);
  }
  char *program = strstr(page, "```mica\nprogram gqa");
  assert_non_null(program);
  program += strlen("```mica\n");
  char *end = strstr(program, "\n```");
  assert_non_null(end);
  *end = 0;
  parse(&mem, program, 0, NULL);
  arena_close(&mem);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_forms),
      cmocka_unit_test(test_statements),
      cmocka_unit_test(test_settings),
      cmocka_unit_test(test_block_statement),
      cmocka_unit_test(test_docs),
      cmocka_unit_test(test_examples),
      cmocka_unit_test(test_examples_with_settings),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

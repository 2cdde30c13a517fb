// Programs with frozen inputs: the same numbers as without, in one call and as a frozen module; nothing that follows from frozen inputs alone is computed
// again; extents that fill no panel, no block of rows, no block of depth.
#include "front/front.h"
#include "rt/rt.h"
#include "thin.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct target host = {.name = "cpu", .cores = 2, .lanes = 16, .l3 = 32 << 20};

static struct graph *parse(struct arena *mem, const char *text)
{
  struct err e = {0};
  struct graph *g;
  if (front_parse(mem, text, strlen(text), "frozen", 0, NULL, &g, &e)) fail_msg("%d:%d: %s", e.at.line, e.at.col, e.text);
  return g;
}

// A processor that multiplies words of two bf16 numbers faster than f32. Its code runs on every processor.
static const struct target words = {.name = "cpu", .cores = 2, .lanes = 16, .l3 = 32 << 20, .flops = 1, .pair_flops = 2};

static struct module *build_for(const struct target *t, const struct graph *g, const char *word)
{
  struct err e = {0};
  struct str s = {0};
  struct module *m = NULL;
  if (gen_c(g, "p", t, &s, NULL, NULL, &e)) fail_msg("%s", e.text);
  if (word && !strstr(s.p, word)) fail_msg("no `%s` in\n%s", word, strstr(s.p, "static void p_k0"));
  if (module_build(s.p, "p", &m, &e)) fail_msg("%s", e.text);
  return str_free(&s), m;
}

static struct module *build(const struct graph *g, const char *word) { return build_for(&host, g, word); }

// Results of m on b, and of the module that is frozen on b, which lives longer than m.
static void same_when_frozen(struct module *m, const struct graph *g)
{
  struct buffers *b;
  struct module *f;
  struct err e = {0};
  double rel;
  if (check_numeric(m, g, 3, 1, NULL, &rel, &e)) fail_msg("%s", e.text);
  assert_int_equal(buffers_open(g, 5, &b, &e), OK);
  assert_int_equal(module_call(m, b->in, b->out), 0);
  void *want = malloc(b->out_bytes[0]);
  memcpy(want, b->out[0], b->out_bytes[0]);
  memset(b->out[0], 0, b->out_bytes[0]);
  assert_true(module_freezes(m));
  assert_int_equal(module_freeze(m, b->in, &f, &e), OK);
  module_close(m);
  for (int i = 0; i < 2; i++) {
    memset(b->out[0], 0, b->out_bytes[0]);
    assert_int_equal(module_call(f, b->in, b->out), 0);
    assert_memory_equal(b->out[0], want, b->out_bytes[0]);
  }
  module_close(f), buffers_close(b), free(want);
}

// m x k times k x n, the second operand as it is or stored transposed.
static void products(void **state)
{
  (void)state;
  static const int sizes[][3] = {{6, 20, 37}, {1, 96, 80}, {5, 256, 16}, {33, 257, 64}, {200, 300, 150}, {7, 520, 1}, {193, 8, 200}, {64, 64, 9}};
  const int step = thinned(2) * quick_step(2);
  for (size_t i = 0; i < COUNT(sizes); i += (size_t)step)
    for (int turned = 0; turned < 2; turned++) {
      struct arena mem = {0};
      const int m = sizes[i][0], k = sizes[i][1], n = sizes[i][2], rows = turned ? n : k, cols = turned ? k : n;
      const char *text = arena_printf(&mem, "program p { X: f32[%d, %d]\n W: f32[%d, %d] frozen\n return matmul(X, %s) + 1 }", m, k, rows, cols,
                                      turned ? "transpose(W)" : "W");
      struct graph *g = parse(&mem, text);
      struct module *f = build(g, m <= 4 && !turned ? NULL : "packed0, r0");
      if (m <= 4 && !turned) // is read as it is
        assert_false(module_freezes(f)), module_close(f);
      else
        same_when_frozen(f, g);
      arena_close(&mem);
    }
}

// Rows in three dimensions, a part of a matrix, a first operand that is stored transposed, a batch that reads the library's way.
static void operands(void **state)
{
  (void)state;
  static const char *const texts[] = {
      "program p { X: f32[3, 8, 40]\n W: f32[40, 48] frozen\n return matmul(X, W) }",
      "program p { X: f32[24, 40]\n W: f32[40, 96] frozen\n A, B = split(W, dim=1, parts=2)\n return matmul(X, A) * matmul(X, B) }",
      "program p { X: f32[40, 24]\n W: f32[40, 48] frozen\n return matmul(transpose(X), W) }",
      "program p { X: f32[24, 40]\n W: f32[40, 48] frozen\n return matmul(X, W) + matmul(X * 2, W) }",
      "program p { X: f32[24, 40]\n A: f32[40, 8] frozen\n B: f32[8, 48] frozen\n return matmul(X, matmul(A, B)) }",
      "program p { X: f32[2, 24, 40]\n W: f32[2, 40, 48] frozen\n return matmul(X, W * 2) }",
  };
  for (size_t i = 0; i < COUNT(texts); i++) {
    struct arena mem = {0};
    struct graph *g = parse(&mem, texts[i]);
    same_when_frozen(build(g, i + 1 < COUNT(texts) ? ", packed0, " : "cblas_sgemm"), g);
    arena_close(&mem);
  }
}

// Products of 16-bit numbers: f16 is packed in f32, and bf16 in words, if these are faster and rows have an even number of elements.
static void small_numbers(void **state)
{
  (void)state;
  static const struct {
    const struct target *t;
    const char *text, *word;
  } rows[] = {
      {&host, "X: f16[24, 40]\n W: f16[40, 48] frozen\n return matmul(X, W)", "m_pack_blocks_f16(40, 48, "},
      {&host, "X: bf16[24, 40]\n W: bf16[48, 40] frozen\n return matmul(X, transpose(W))", "m_pack_blocks_bf16(40, 48, "},
      {&words, "X: bf16[200, 300]\n W: bf16[300, 150] frozen\n return matmul(X, W)", "m_gemm_words_bf16(200, 150, 300, "},
      {&words, "X: bf16[24, 600]\n W: bf16[72, 600] frozen\n return matmul(X, transpose(W)) + 1", "m_gemm_words_bf16(24, 72, 600, "},
      {&words, "X: bf16[5, 40]\n W: bf16[80, 40] frozen\n return matmul(X, transpose(W))", "m_gemm_words_bf16(5, 80, 40, "},
      {&words, "X: bf16[3, 2, 40]\n W: bf16[40, 700] frozen\n return matmul(X, W)", "m_gemm_words_bf16(6, 700, 40, "},
      {&words, "X: bf16[40, 24]\n W: bf16[40, 48] frozen\n return matmul(transpose(X), W)", "m_gemm_words_bf16(24, 48, 40, "},
      {&words, "X: f32[24, 40]\n W: bf16[40, 48] frozen\n return matmul(X, W)", "m_gemm_blocks(24, 48, 40, "},
      {&words, "X: bf16[24, 41]\n W: bf16[41, 48] frozen\n return matmul(X, W)", "m_gemm_blocks(24, 48, 41, "},
  };
  for (size_t i = 0; i < COUNT(rows); i += (size_t)(quick_step(2) * thinned(2))) {
    struct arena mem = {0};
    struct graph *g = parse(&mem, arena_printf(&mem, "program p { %s }", rows[i].text));
    same_when_frozen(build_for(rows[i].t, g, rows[i].word), g);
    arena_close(&mem);
  }
}

// Few rows read a matrix of 16-bit numbers where it is, row by row or stored transposed, in strips.
static void few_rows(void **state)
{
  (void)state;
  static const struct {
    const char *text, *word;
  } rows[] = {
      {"X: bf16[1, 40]\n W: bf16[300, 40]\n return matmul(X, transpose(W))", "m_gemm_bt_bf16(1, n, 40, "},
      {"X: bf16[3, 40]\n W: bf16[40, 1100]\n return matmul(X, W)", "m_gemm_few_bf16(3, n, 40, "},
      {"X: f16[4, 33]\n W: f16[33, 70] frozen\n return matmul(X, W)", "m_gemm_few_f16(4, n, 33, "},
      {"X: f32[2, 40]\n W: f16[40, 48]\n return matmul(X, W)", "m_gemm_few_f16(2, n, 40, "},
      {"X: bf16[40, 2]\n W: bf16[48, 40]\n return matmul(transpose(X), transpose(W))", "m_gemm_bt_bf16(2, n, 40, "},
      {"X: f32[40, 2]\n W: bf16[48, 40]\n return matmul(transpose(X), transpose(W))", "cblas_sgemm"},
  };
  for (size_t i = 0; i < COUNT(rows); i += (size_t)thinned(2)) {
    struct arena mem = {0};
    struct err e = {0};
    double rel;
    struct graph *g = parse(&mem, arena_printf(&mem, "program p { %s }", rows[i].text));
    struct module *m = build_for(i % 2 ? &host : &words, g, rows[i].word);
    if (check_numeric(m, g, 3, 1, NULL, &rel, &e)) fail_msg("%s", e.text);
    module_close(m), arena_close(&mem);
  }
}

// Tiles of frozen operands that the blocks and iterations of a kernel read: cut along a grid, a loop and both; transposed, seen as another shape; read
// by two products; too few rows.
static void tiles_of_blocks(void **state)
{
  (void)state;
  static const struct {
    const char *inputs, *block, *word;
  } rows[] = {
      {"X: %s[40, 64]\n W: %s[64, 96] frozen", "block(x=3) { x = iter(X)\n w = iter(W, imap={x:1})\n save(matmul(x, w) * 2, omap={x:1}) }",
       "packed0 + x0 * "},
      {"X: %s[40, 64]\n W: %s[64, 96] frozen",
       "block(x=2; i=4) { x = iter(X, fmap={i:1})\n w = iter(W, imap={x:1}, fmap={i:0})\n save(accum(matmul(x, w)), omap={x:1}) }",
       "packed0 + x0 * "},
      {"X: %s[40, 64]\n W: %s[96, 64] frozen",
       "block(x=2) { x = iter(X)\n w = iter(W, imap={x:0})\n save(exp(matmul(x, transpose(w))), omap={x:1}) }", "packed0 + x0 * "},
      {"X: %s[40, 63]\n W: %s[63, 50] frozen",
       "block(x=1) { x = iter(X)\n w = iter(W)\n y = reshape(w, shape=[1, 63, 50])\n save(reshape(matmul(x, y), shape=[40, 50])) }", "packed0, "},
      {"X: %s[40, 64]\n W: %s[64, 96] frozen\n V: %s[64, 96] frozen",
       "block(x=2) { x = iter(X)\n w = iter(W, imap={x:1})\n v = iter(V, imap={x:1})\n save(matmul(x, w) * matmul(x, v), omap={x:1}) }",
       "packed1 + x0 * "},
      {"X: %s[40, 6, 32]\n W: %s[192, 50] frozen",
       "block(x=1; i=3) { x = iter(X, fmap={i:1})\n w = iter(W, fmap={i:0})\n y = reshape(w, shape=[2, 32, 50])\n "
       "p = matmul(transpose(x, perm=[1, 0, 2]), y)\n save(reshape(sum(accum(p), dim=0), shape=[40, 50])) }",
       "packed0 + l0 * "},
  };
  static const struct {
    const struct target *t;
    const char *dtype;
  } kinds[] = {{&host, "f32"}, {&host, "bf16"}, {&words, "bf16"}, {&host, "f16"}};
  const size_t step = (size_t)quick_step(COUNT(kinds)); // one kind of each row in the quick tier
  for (size_t i = 0; i < COUNT(rows); i += (size_t)thinned(3))
    for (size_t k = i % step; k < COUNT(kinds); k += step) {
      struct arena mem = {0};
      const char *d = kinds[k].dtype, *inputs = arena_printf(&mem, rows[i].inputs, d, d, d);
      struct graph *g = parse(&mem, arena_printf(&mem, "graph p { %s\n O = %s\n return O }", inputs, rows[i].block));
      same_when_frozen(build_for(kinds[k].t, g, rows[i].word), g);
      arena_close(&mem);
    }
  struct arena mem = {0};
  struct module *m = build(parse(&mem, "graph p { X: bf16[3, 64]\n W: bf16[64, 96] frozen\n O = block(x=3) { x = iter(X)\n w = iter(W, imap={x:1})\n "
                                       "save(matmul(x, w), omap={x:1}) }\n return O }"),
                           "m_gemm_few_bf16(");
  assert_false(module_freezes(m));
  module_close(m), arena_close(&mem);
}

// exp(W) is computed once: a change of W after that is not seen. X is read by each call.
static void computed_once(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct err e = {0};
  float x[8], w[8] = {0}, out[8], all[8];
  struct module *f, *m = build(parse(&mem, "program p { X: f32[8]\n W: f32[8] frozen\n return X + exp(W * 2) }"), "mica_p_freeze");
  void *const in[] = {x, w}, *const results[] = {out}, *const of_all[] = {all};
  for (int i = 0; i < 8; i++) x[i] = (float)i;
  assert_int_equal(module_freeze(m, in, &f, &e), OK);
  for (int i = 0; i < 8; i++) w[i] = 3, x[i] += 1;
  assert_int_equal(module_call(f, in, results), 0);
  assert_int_equal(module_call(m, in, of_all), 0);
  for (int i = 0; i < 8; i++) assert_true(out[i] == (float)i + 2 && all[i] > 400);
  module_close(f);
  assert_int_equal(module_freeze(m, in, &f, &e), OK);
  struct module *again;
  assert_int_equal(module_freeze(f, in, &again, &e), OK); // of a frozen module: of the one with the code
  module_close(m), module_close(f);
  assert_int_equal(module_call(again, in, results), 0);
  assert_memory_equal(out, all, sizeof out);
  module_close(again), arena_close(&mem);
}

// A result that follows from frozen inputs alone is written by each call, and what reads it is computed by each call.
static void results_are_written(void **state)
{
  (void)state;
  struct arena mem = {0};
  float x[4] = {1, 2, 3, 4}, w[4] = {4, 3, 2, 1}, out[4] = {0}, sum[4] = {0};
  struct module *m = build(parse(&mem, "program p { X: f32[4]\n W: f32[4] frozen\n E = W * 2\n return E, X + E }"), NULL);
  void *const in[] = {x, w}, *const results[] = {out, sum};
  assert_false(module_freezes(m));
  assert_int_equal(module_call(m, in, results), 0);
  for (int i = 0; i < 4; i++) assert_true(out[i] == 2 * w[i] && sum[i] == x[i] + 2 * w[i]);
  module_close(m), arena_close(&mem);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(products),           cmocka_unit_test(operands),        cmocka_unit_test(small_numbers),
                                     cmocka_unit_test(few_rows),           cmocka_unit_test(tiles_of_blocks), cmocka_unit_test(computed_once),
                                     cmocka_unit_test(results_are_written)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

// Generated code against the interpreter: every case of cases.h as written and with thread graphs, the examples'
// small graphs, what a target refuses, names that try to become code, and tensors that are not aligned.
// test: timeout 300
#include "cases.h"
#include "front/front.h"
#include "rt/rt.h"
#include "thin.h"
#include "thread/thread.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct target host = {.name = "cpu", .cores = 2, .lanes = 16, .l3 = 32 << 20};
static const struct target small = {.name = "cpu", .cores = 3, .lanes = 16, .l3 = 1 << 10}; // stores past its caches
static const struct target small_fetches = {.name = "cpu", .cores = 3, .lanes = 16, .l3 = 1 << 10, .fetches = true};

static void parse(struct arena *mem, const char *text, struct graph **g)
{
  struct err e = {0};
  struct graph *written;
  if (front_parse(mem, text, strlen(text), "case", 0, NULL, &written, &e)) fail_msg("%d:%d: %s", e.at.line, e.at.col, e.text);
  if (graph_expand(mem, written, true, g, &e)) fail_msg("%s", e.text);
}

static void generate(const struct graph *g, const struct target *t, struct str *source, struct str *header, struct gen_info *info)
{
  struct err e = {0};
  if (gen_c(g, "test", t, source, header, info, &e)) fail_msg("gen: %s", e.text);
}

// Compiles g and compares it with `reference` on random inputs; under the sanitizers all are printed and some compiled.
static void check(const char *name, const struct graph *g, const struct target *t, const struct graph *reference)
{
  static int checked;
  struct err e = {0};
  struct str source = {0};
  struct module *m;
  double rel;
  generate(g, t, &source, NULL, NULL);
  if (checked++ % thinned(4) == 0) {
    if (module_build(source.p, "test", &m, &e)) fail_msg("%s: %s", name, e.text);
    if (check_numeric(m, reference, 7, 2, NULL, &rel, &e)) fail_msg("%s: %s", name, e.text);
    module_close(m);
  }
  str_free(&source);
}

static void as_written(void **state)
{
  (void)state;
  for (size_t i = 0, seen = 0; i < COUNT(cases); i++) {
    if (strstr(cases[i].text, "block(") && seen++ % (size_t)quick_step(2) != (size_t)quick_step(2) - 1) continue; // the others with thread graphs
    struct arena mem = {0};
    struct graph *g;
    parse(&mem, cases[i].text, &g);
    check(cases[i].name, g, &host, g);
    arena_close(&mem);
  }
}

static void with_thread_graphs(void **state)
{
  (void)state;
  for (size_t i = 0, seen = 0; i < COUNT(cases); i++) {
    if (!strstr(cases[i].text, "block(") || seen++ % (size_t)quick_step(2)) continue;
    struct arena mem = {0};
    struct graph *g, *fused;
    struct err e = {0};
    parse(&mem, cases[i].text, &g);
    if (thread_graphs(&mem, g, &fused, &e)) fail_msg("%s: %s", cases[i].name, e.text);
    check(cases[i].name, fused, &small, g);
    arena_close(&mem);
  }
}

// As written, a large matrix that few rows read is streamed; OpenBLAS has the product of more rows, and of one that is stored transposed.
static void few_rows_are_streamed(void **state)
{
  (void)state;
  static const struct {
    const char *text;
    bool streamed;
  } products[] = {
      {"graph g { X: f32[3, 1030]\n W: f32[1030, 2100]\n return matmul(X, W) }", true},
      {"graph g { X: f32[1, 2, 1030]\n W: f32[1030, 2100]\n return matmul(X, W) }", true},
      {"graph g { X: f32[5, 1030]\n W: f32[1030, 2100]\n return matmul(X, W) }", false},
      {"graph g { X: f32[3, 1030]\n W: f32[2100, 1030]\n return matmul(X, transpose(W)) }", false},
      {"graph g { X: f32[3, 103]\n W: f32[103, 2100]\n return matmul(X, W) }", false},
  };
  for (size_t i = 0; i < COUNT(products); i++) {
    struct arena mem = {0};
    struct graph *g;
    struct str source = {0};
    parse(&mem, products[i].text, &g);
    generate(g, &host, &source, NULL, NULL);
    const char *kernels = strstr(source.p, "static void test_k");
    assert_non_null(kernels);
    assert_int_equal(strstr(kernels, "m_gemm_stream(") != NULL, products[i].streamed);
    assert_int_equal(strstr(kernels, "cblas_sgemm(") == NULL, products[i].streamed);
    if (products[i].streamed) check("few rows", g, &host, g);
    str_free(&source), arena_close(&mem);
  }
}

static void half_precision(void **state)
{
  (void)state;
  static const char *const which[] = {"attention", "block_rows", "block_moves", "lora", "mixed", "streamed", "keys_transposed"};
  for (size_t i = 0; i < COUNT(cases); i++)
    for (size_t k = 0; k < COUNT(which); k++) {
      if (strcmp(cases[i].name, which[k])) continue;
      struct arena mem = {0};
      struct graph *g, *h;
      struct err e = {0};
      parse(&mem, cases[i].text, &g);
      if (graph_cast(&mem, g, k % 2 ? BF16 : F16, &h, &e)) fail_msg("%s", e.text);
      check(cases[i].name, h, &host, h);
      arena_close(&mem);
    }
}

static void refuses_ranks(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct graph *g;
  struct err e = {0};
  struct str s = {0}, h = {0};
  parse(&mem, "program p { world 2\n X: f32[4]\n return all_reduce(X) }", &g);
  assert_int_equal(gen_c(g, "p", &host, &s, &h, NULL, &e), USER);
  assert_int_equal(e.id, ERR_TARGET);
  assert_non_null(strstr(e.text, "all_reduce"));
  str_free(&s), str_free(&h);
  arena_close(&mem);
}

static void names_stay_names(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct graph *g = graph_new(&mem, KERNEL, "p");
  struct err e = {0};
  struct str s = {0}, h = {0};
  int x, y;
  assert_int_equal(graph_input(g, "*/ int main(void) {", F32, &(struct shape){1, {5}}, NOWHERE, &x, &e), OK);
  assert_int_equal(graph_add(g, OP_EXP, 1, &x, NULL, NOWHERE, &y, &e), OK);
  assert_int_equal(graph_name(g, y, "e\n#error \\", NOWHERE, &e), OK);
  assert_int_equal(graph_add(g, OP_OUTPUT, 1, &y, NULL, NOWHERE, NULL, &e), OK);
  generate(g, &host, &s, &h, NULL);
  assert_null(strstr(s.p, "main("));
  assert_null(strstr(s.p, "#error \\"));
  check("names", g, &host, g);
  char name[64];
  gen_identifier(name, "9 lives; drop");
  assert_string_equal(name, "m_9_lives__drop");
  str_free(&s), str_free(&h);
  arena_close(&mem);
}

static void same_text_again(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct graph *g;
  struct str s = {0}, t = {0};
  struct gen_info info;
  parse(&mem, cases[8].text, &g);
  generate(g, &host, &s, NULL, &info), generate(g, &host, &t, NULL, NULL);
  assert_string_equal(s.p, t.p);
  assert_int_equal(info.kernels, 1);
  assert_true(info.scratch > 0 && !info.needs_blas);
  str_free(&s), str_free(&t);
  arena_close(&mem);
}

// Attention with many rows: V is shared by enough of them to be copied where it is not aligned, and the result goes past
// the caches of a small target.
static const char unaligned[] = "graph g { Q: f32[2, 64, 16]\n K: f32[2, 16, 64]\n V: f32[2, 64, 32]\n"
                                "O = block(x=2, y=2; i=2) { q = iter(Q, imap={x:0, y:1})\n k = iter(K, imap={x:0}, fmap={i:2})\n"
                                "  v = iter(V, imap={x:0}, fmap={i:1})\n s = matmul(q, k)\n m, change = accum_max(max(s, dim=2))\n e = exp(s - m)\n"
                                "  p = matmul(e, v)\n f = exp(change)\n n = accum_rescale(p, f)\n d = accum_sum_rescale(e, f, dim=2)\n"
                                "  save(n / d, omap={x:0, y:1}) }\n"
                                "return O }";

// So many that V is packed.
static const char many_rows[] = "graph g { Q: f32[2, 128, 16]\n K: f32[2, 16, 64]\n V: f32[2, 64, 32]\n"
                                "O = block(x=2; i=2) { q = iter(Q, imap={x:0})\n k = iter(K, imap={x:0}, fmap={i:2})\n"
                                "  v = iter(V, imap={x:0}, fmap={i:1})\n save(accum(matmul(matmul(q, k), v)), omap={x:0}) }\n"
                                "return O }";

// Rows that start with fewer floats than a vector has, and what they end with.
static const char long_rows[] = "graph g { X: f32[6, 304]\n"
                                "Y = block(x=3) { x = iter(X, imap={x:0})\n  save(x / sum(x * x, dim=1), omap={x:0}) }\n return Y }";

// The same result wherever inputs and the result start, and nothing beside it is written. floats: of inputs, then the result.
static void wherever_start(const struct target *t, const char *text, const size_t *floats, int n, const char *word)
{
  enum { ROOM = 64 };
  static const size_t starts[] = {0, 4, 8, 12, 1}; // aligned, 16, 32, 16, 4 bytes
  struct arena mem = {0};
  struct graph *g;
  struct str source = {0};
  struct module *m;
  struct err e = {0};
  float *first = NULL;
  size_t most = floats[n];
  parse(&mem, text, &g);
  check("unaligned", g, t, g);
  generate(g, t, &source, NULL, NULL);
  assert_int_equal(strstr(source.p, "= m_past(r0);") != NULL, !t->fetches);
  assert_int_equal(strstr(source.p, " + M_FETCH, 1);") != NULL, t->fetches);
  assert_non_null(strstr(source.p, word));
  if (module_build(source.p, "test", &m, &e)) fail_msg("%s", e.text);
  for (size_t k = 0; k < COUNT(starts); k++) {
    float *at[4] = {0};
    for (int i = 0; i <= n; i++) {
      float *raw = aligned_alloc(64, (floats[i] + ROOM) * sizeof(float));
      assert_non_null(raw);
      for (size_t j = 0; j < floats[i] + ROOM; j++) raw[j] = -1;
      at[i] = raw + starts[k];
      for (size_t j = 0; j < floats[i] && i < n; j++) at[i][j] = (float)((j * 37 + (size_t)i) % 101) / 50 - 1;
    }
    assert_int_equal(module_call(m, (void *[]){at[0], at[1], at[2]}, (void *[]){at[n]}), 0);
    if (!first) first = arena_copy(&mem, at[n], most * sizeof(float));
    assert_memory_equal(at[n], first, most * sizeof(float));
    for (size_t j = 0; j < starts[k]; j++) assert_true(at[n][-1 - (ptrdiff_t)j] == -1);
    for (size_t j = most; j < most + ROOM - starts[k]; j++) assert_true(at[n][j] == -1);
    for (int i = 0; i <= n; i++) free(at[i] - starts[k]);
  }
  module_close(m);
  str_free(&source);
  arena_close(&mem);
}

static void wherever_tensors_start(void **state)
{
  (void)state;
  enum { QK = 2 * 64 * 16, V = 2 * 64 * 32, ROWS = 6 * 304 };
  wherever_start(&small, unaligned, (size_t[]){QK, QK, V, V}, 3, "= m_aligned(1024, "); // V
  wherever_start(&small, many_rows, (size_t[]){2 * QK, QK, V, 2 * V}, 3, "m_pack_b(32, 32, ");
  wherever_start(&small, long_rows, (size_t[]){ROWS, ROWS}, 1, "= m_head(");
  wherever_start(&small_fetches, unaligned, (size_t[]){QK, QK, V, V}, 3, "= m_aligned(1024, ");
  wherever_start(&small_fetches, long_rows, (size_t[]){ROWS, ROWS}, 1, "m_storen(");
}

// Products of 16-bit numbers read a second operand where it is, or pack it in pairs; no copy in fp32 is made.
static void products_widen_nothing(void **state)
{
  (void)state;
  static const struct {
    const char *inputs, *word;
  } rows[] = {
      {"bf16[4, 64]\n Y: bf16[64, 72]", "m_gemm_few_bf16(4, 72, 64, "}, {"f32[1, 64]\n Y: bf16[64, 72]", "m_gemm_few_bf16(1, 72, 64, "},
      {"f16[3, 63]\n Y: f16[63, 40]", "m_gemm_few_f16(3, 40, 63, "},    {"bf16[5, 64]\n Y: bf16[64, 72]", "m_gemm_pairs(5, 72, 64, "},
      {"bf16[9, 63]\n Y: bf16[63, 72]", "m_gemm_pairs(9, 72, 63, "},    {"f32[9, 63]\n Y: bf16[63, 72]", "m_gemm_pairs(9, 72, 63, "},
  };
  for (size_t i = 0; i < COUNT(rows); i++) {
    struct arena mem = {0};
    struct str source = {0};
    struct graph *g;
    const char *text =
        arena_printf(&mem, "graph g { X: %s\n O = block(x=1) { x = iter(X)\n y = iter(Y)\n save(matmul(x, y)) }\n return O }", rows[i].inputs);
    parse(&mem, text, &g);
    generate(g, &host, &source, NULL, NULL);
    const char *kernel = strstr(source.p, "static void test_k0(");
    assert_non_null(kernel);
    if (!strstr(kernel, rows[i].word)) fail_msg("%s: no %s\n%s", rows[i].inputs, rows[i].word, kernel);
    if (strstr(kernel, "m_st_f32") || strstr(kernel, "float *const oy")) fail_msg("%s: a copy in fp32\n%s", rows[i].inputs, kernel);
    str_free(&source);
    arena_close(&mem);
  }
}

// Products of many sizes need all microkernels. Other texts list their products, so that a compiler sees the microkernels of these alone.
static void sizes_of_products_are_listed(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct graph *g;
  struct str s = {0}, many = {0}, none = {0}, text = {0};
  parse(&mem, "graph g { X: f32[8, 64]\n Y: f32[64, 72]\n O = block(x=1) { x = iter(X)\n y = iter(Y)\n save(matmul(x, y)) }\n return O }", &g);
  generate(g, &host, &s, NULL, NULL);
  const char *list = strstr(s.p, "#define M_PRODUCTS(X, mr, nv) \\\n X(");
  assert_non_null(list);
  assert_non_null(strstr(list, ", 8, 72, mr, nv)\n"));
  assert_true(list < strstr(s.p, "#ifdef M_PRODUCTS"));
  parse(&mem, "graph g { X: f32[8, 64]\n return exp(X) }", &g);
  generate(g, &host, &none, NULL, NULL);
  assert_null(strstr(none.p, "#define M_PRODUCTS("));
  str_add(&text, "graph g { X: f32[8, 64]\n");
  for (int i = 0; i < 25; i++) str_add(&text, " Y%d: f32[64, %d]\n", i, 40 + i);
  for (int i = 0; i < 25; i++) str_add(&text, " O%d = block(x=1) { x = iter(X)\n y = iter(Y%d)\n save(matmul(x, y)) }\n", i, i);
  str_add(&text, " return O0");
  for (int i = 1; i < 25; i++) str_add(&text, ", O%d", i);
  str_add(&text, " }");
  parse(&mem, text.p, &g);
  generate(g, &host, &many, NULL, NULL);
  assert_null(strstr(many.p, "#define M_PRODUCTS("));
  str_free(&s), str_free(&many), str_free(&none), str_free(&text);
  arena_close(&mem);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(as_written),
      cmocka_unit_test(with_thread_graphs),
      cmocka_unit_test(few_rows_are_streamed),
      cmocka_unit_test(half_precision),
      cmocka_unit_test(refuses_ranks),
      cmocka_unit_test(names_stay_names),
      cmocka_unit_test(same_text_again),
      cmocka_unit_test(wherever_tensors_start),
      cmocka_unit_test(products_widen_nothing),
      cmocka_unit_test(sizes_of_products_are_listed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

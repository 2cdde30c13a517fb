// Compiling, loading, checking and timing of generated code. Failures are reported as errors of the environment.
// test: quick sanitized
#include "front/front.h"
#include "rt/rt.h"

#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static const char adds_one[] = "program p { X: f32[3, 50]\n return X + 1 }";
static const char adds_two[] = "program p { X: f32[3, 50]\n return X + 2 }";

static struct graph *parse(struct arena *mem, const char *text)
{
  struct graph *g;
  struct err e = {0};
  if (front_parse(mem, text, strlen(text), "p", 0, NULL, &g, &e)) fail_msg("%s", e.text);
  return g;
}

static struct module *build(const struct graph *g)
{
  const struct target t = {.name = "cpu", .cores = 2, .lanes = 16};
  struct err e = {0};
  struct str s = {0};
  struct module *m = NULL;
  if (gen_c(g, "p", &t, &s, NULL, NULL, &e)) fail_msg("%s", e.text);
  if (module_build(s.p, "p", &m, &e)) fail_msg("%s", e.text);
  str_free(&s);
  return m;
}

static int entries_of(const char *path)
{
  int n = 0;
  DIR *d = opendir(path);
  assert_non_null(d);
  for (struct dirent *f; (f = readdir(d));) n += f->d_name[0] != '.';
  closedir(d);
  return n;
}

static void compiler_errors_are_told(void **state)
{
  (void)state;
  struct err e = {0};
  struct module *m = NULL;
  char dir[] = "/tmp/mica-test-XXXXXX";
  assert_non_null(mkdtemp(dir));
  setenv("TMPDIR", dir, 1);
  assert_int_equal(module_build("int mica_p(void) { return wrong; }\n", "p", &m, &e), ENV);
  assert_int_equal(e.id, ERR_COMPILER);
  assert_non_null(strstr(e.text, "wrong"));
  assert_int_equal(entries_of(dir), 0);
  e = (struct err){0};
  assert_int_equal(module_build("int mica_q(void) { return 0; }\n", "p", &m, &e), ENV);
  assert_int_equal(e.id, ERR_LIBRARY);
  assert_int_equal(entries_of(dir), 0);
  unsetenv("TMPDIR");
  rmdir(dir);
}

static void missing_compiler(void **state)
{
  (void)state;
  struct err e = {0};
  struct module *m = NULL;
  setenv("CC", "/nonexistent/cc", 1);
  assert_string_equal(compiler_version(NULL), "");
  assert_int_equal(module_build("", "p", &m, &e), ENV);
  assert_int_equal(e.id, ERR_COMPILER);
  assert_non_null(strstr(e.text, "/nonexistent/cc"));
  unsetenv("CC");
  assert_string_not_equal(compiler_version(NULL), "");
}

static void no_room_for_files(void **state)
{
  (void)state;
  struct err e = {0};
  struct module *m = NULL;
  setenv("TMPDIR", "/nonexistent", 1);
  assert_int_equal(module_build("", "p", &m, &e), ENV);
  assert_int_equal(e.id, ERR_FILE);
  char open[] = "/tmp/mica-open-XXXXXX"; // where others could put another folder in the place of the one that is compiled in
  assert_non_null(mkdtemp(open));
  assert_int_equal(chmod(open, 0777), 0);
  setenv("TMPDIR", open, 1);
  e = (struct err){0};
  assert_int_equal(module_build("int x;", "p", &m, &e), ENV);
  assert_int_equal(e.id, ERR_UNTRUSTED);
  unsetenv("TMPDIR");
  rmdir(open);
}

static void wrong_results_are_found(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct graph *one = parse(&mem, adds_one), *two = parse(&mem, adds_two);
  struct module *m = build(one);
  struct err e = {0};
  double rel;
  assert_int_equal(check_numeric(m, one, 1, 2, NULL, &rel, &e), OK);
  assert_true(rel < 1e-6);
  assert_int_equal(check_numeric(m, two, 1, 1, NULL, &rel, &e), NO);
  assert_int_equal(e.id, ERR_WRONG);
  module_close(m);
  arena_close(&mem);
}

static void untouched_outputs_are_found(void **state)
{
  (void)state;
  static const char lazy[] = "#include <stddef.h>\nsize_t mica_p_workspace(void) { return 0; }\n"
                             "int mica_p(void *const *i, void *const *o, void *w) { return !i || !o || w; }\n";
  struct arena mem = {0};
  struct graph *one = parse(&mem, adds_one);
  struct module *m;
  struct err e = {0};
  double rel;
  assert_int_equal(module_build(lazy, "p", &m, &e), OK);
  assert_int_equal(check_numeric(m, one, 1, 1, NULL, &rel, &e), NO);
  assert_int_equal(e.id, ERR_WRONG);
  module_close(m);
  arena_close(&mem);
}

static void large_exponents(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct graph *g = parse(&mem, "program p { A: f32[8, 3000]\n B: f32[3000, 8]\n return exp(matmul(A, B)) }");
  struct module *m = build(g);
  struct err e = {0};
  double rel;
  if (check_numeric(m, g, 3, 1, NULL, &rel, &e)) fail_msg("%s", e.text);
  module_close(m);
  arena_close(&mem);
}

static const struct graph *expanded(struct arena *mem, const char *text)
{
  struct graph *g;
  struct err e = {0};
  assert_int_equal(graph_expand(mem, parse(mem, text), true, &g, &e), OK);
  return g;
}

#define SCORES(rest)                                                                           \
  "program p { X: bf16[128, 512]\n Y: bf16[512, 128]\n Z: bf16[512, 128]\n V: bf16[128, 32]\n" \
  " S = matmul(matmul(X, Y), transpose(matmul(X, Z)))\n " rest " }"
#define SHARP(scores) SCORES("return matmul(softmax(" scores ", dim=1), V)")

// Scores in the thousands: one rounding multiplies the result by a factor, so every program in bf16 is wrong. On smaller inputs, a wrong program can
// be identified even if scores differ by a few percent.
static void rounding_is_no_mistake(void **state)
{
  (void)state;
  struct arena mem = {0};
  const struct graph *right = expanded(&mem, SHARP("S * 0.125")), *wrong = expanded(&mem, SHARP("S * 0.135"));
  struct module *m = build(right);
  struct err e = {0};
  double rel;
  for (uint64_t seed = 1; seed < 4; seed++) {
    if (check_numeric(m, right, seed, 1, NULL, &rel, &e)) fail_msg("%s", e.text);
    assert_true(rel > 1e-4 && rel < num_rows[BF16].tolerance);
    assert_int_equal(check_numeric(m, wrong, seed, 1, NULL, &rel, &e), NO);
    assert_int_equal(e.id, ERR_WRONG);
    e = (struct err){0};
  }
  module_close(m);
  m = build(expanded(&mem, SCORES("E = exp(S * 0.125)\n return matmul(E / sum(E, dim=1), V)")));
  assert_int_equal(check_numeric(m, right, 1, 1, NULL, &rel, &e), NO); // infinite where the program is not
  assert_non_null(strstr(e.text, "nan"));
  module_close(m);
  arena_close(&mem);
}

// f16 keeps two bits of 1e-7, and nothing of 1e-8. The resulting error is accepted, also if more is computed from it, and if many such
// numbers are added up. Twice the result is a mistake.
static void underflow_is_no_mistake(void **state)
{
  (void)state;
  static const struct {
    const char *right, *wrong;
  } cases[] = {{"X * 1e-7", "X * 2e-7"},
               {"X * 1e-7 * 1e5", "X * 2e-7 * 1e5"},
               {"X * 1e-9", "X * 1e-6"},
               {"sum(square(X) * 1e-8, dim=1)", "sum(square(X) * 1e-7, dim=1)"},
               {"exp(X * 1e-6 - 16)", "exp(X * 1e-6 - 15)"},
               {"X", "X * 1.02"}};
  for (size_t i = 0; i < COUNT(cases); i++) {
    struct arena mem = {0};
    const struct graph *right = expanded(&mem, arena_printf(&mem, "program p { X: f16[32, 64]\n return %s }", cases[i].right));
    const struct graph *wrong = expanded(&mem, arena_printf(&mem, "program p { X: f16[32, 64]\n return %s }", cases[i].wrong));
    struct module *m = build(right);
    struct err e = {0};
    double rel;
    if (check_numeric(m, right, 3, 2, NULL, &rel, &e)) fail_msg("%s: %s", cases[i].right, e.text);
    assert_true(isfinite(rel));
    if (check_numeric(m, wrong, 3, 2, NULL, &rel, &e) != NO) fail_msg("%s is taken for %s", cases[i].right, cases[i].wrong);
    module_close(m);
    arena_close(&mem);
  }
}

// A part of a product may leave the range of fp32 where the product does not: no order of factors is a mistake.
static void orders_of_factors_are_no_mistake(void **state)
{
  (void)state;
  static const char code[] = "#include <stddef.h>\nsize_t mica_p_workspace(void) { return 0; }\n"
                             "int mica_p(void *const *in, void *const *out, void *w) { const float *x = in[0]; float *y = out[0]; (void)w;\n"
                             "for (int i = 0; i < 64; i++) { y[i] = %s; for (int k = 0; k < 8; k++) { float r = 1;\n"
                             "for (int j = 0; j < 96; j++) r *= __builtin_expf(6 * x[768 * i + 8 * j + k]);\n y[i] *= r; } }\n return 0; }\n";
  struct arena mem = {0};
  const struct graph *g = expanded(&mem, "program p { X: f32[64, 768]\n return prod(exp(X * 6), dim=1) }");
  for (int wrong = 0; wrong < 2; wrong++) {
    struct module *m;
    struct err e = {0};
    double rel;
    if (module_build(arena_printf(&mem, code, wrong ? "1.01f" : "1"), "p", &m, &e)) fail_msg("%s", e.text);
    for (uint64_t seed = 1; seed <= 12; seed++) {
      int s = check_numeric(m, g, seed, 1, NULL, &rel, &e);
      if (s != (wrong ? NO : OK)) fail_msg("seed %d: %s", (int)seed, wrong ? "a factor of 1.01 is not seen" : e.text);
    }
    module_close(m);
  }
  arena_close(&mem);
}

// A stopped check reports neither that the program is right nor that it is wrong.
static void a_stopped_check_says_nothing(void **state)
{
  (void)state;
  struct arena mem = {0};
  const struct graph *g = expanded(&mem, "program p { X: f32[32, 64]\n return softmax(X, dim=1) }");
  struct module *m = build(g);
  const volatile int stop = 1;
  struct special_answer a;
  struct err e = {0};
  double rel = 1;
  assert_int_equal(check_numeric(m, g, 3, 2, &stop, &rel, &e), ENV);
  assert_int_equal(e.id, ERR_STOPPED);
  assert_true(rel == 0);
  e = (struct err){0};
  assert_int_equal(check_special(m, g, g, 3, &stop, &a, &e), ENV);
  assert_int_equal(e.id, ERR_STOPPED);
  assert_int_equal(a.all, 0);
  module_close(m);
  arena_close(&mem);
}

// The same for who makes inputs once and holds many candidates against them. Without an exponential they stay.
static void inputs_of_many_checks(void **state)
{
  (void)state;
  struct arena mem = {0};
  static const struct {
    const char *text;
    bool smaller;
  } cases[] = {{SHARP("S * 0.125"), true},
               {SHARP("S * 0.0001"), false},
               {SCORES("return matmul(S * 0.125, V)"), false},
               {"program p { X: bf16[64, 512]\n return matmul(X - X * 1.01 + exp(X * 0) - 1, transpose(X)) }", false}}; // rounding counts at any size
  for (int i = 0; i < 4; i++) {
    const struct graph *g = expanded(&mem, cases[i].text);
    struct buffers *b;
    struct reference64 r = {0};
    struct err e = {0};
    assert_int_equal(buffers_open(g, 5, &b, &e), OK);
    double before = num_read(BF16, b->in[0], 7), after;
    if (numeric_reference_apart(g, b, NULL, &r, &e)) fail_msg("%s", e.text);
    after = num_read(BF16, b->in[0], 7);
    if (cases[i].smaller)
      assert_true(after != 0 && fabs(after) <= 0.25 * fabs(before));
    else
      assert_true(after == before);
    reference64_close(&r);
    buffers_close(b);
  }
  arena_close(&mem);
}

// A result in fp32 of what was rounded to bf16 on its way is no better than that; one that fp32 alone leads to is, be the inputs bf16.
static void tolerance_of_what_is_rounded(void **state)
{
  (void)state;
  struct arena mem = {0};
  const struct graph *g = expanded(&mem, "program p { X: bf16[8, 16]\n Y: bf16[16, 8]\n z: f32[]\n return reshape(matmul(X, Y) * z, [64]),"
                                         " transpose(X) * z, matmul(X, Y), transpose(X) }");
  static const enum dtype want[] = {BF16, F32, BF16, BF16};
  enum dtype *of = NEWS(&mem, enum dtype, g->ntensors);
  int outs[4];
  assert_int_equal(graph_outputs(g, outs), 4);
  numeric_dtypes(g, of);
  for (int i = 0; i < 4; i++) assert_int_equal(of[outs[i]], want[i]);
  assert_int_equal(g->tensors[outs[0]].dtype, F32);
  struct module *m = build(g);
  struct err e = {0};
  double rel;
  if (check_numeric(m, g, 1, 2, NULL, &rel, &e)) fail_msg("%s", e.text);
  assert_true(rel > 1e-4);
  module_close(m);
  arena_close(&mem);
}

static void bytes_load_again(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct graph *one = parse(&mem, adds_one);
  struct module *m = build(one), *again;
  struct err e = {0};
  size_t n;
  double rel;
  const void *so = module_bytes(m, &n);
  assert_true(n > 1000);
  assert_int_equal(module_load(so, n, "p", &again, &e), OK);
  module_close(m);
  assert_int_equal(check_numeric(again, one, 1, 1, NULL, &rel, &e), OK);
  module_close(again);
  assert_int_equal(module_load("not an object", 13, "p", &again, &e), ENV);
  assert_int_equal(e.id, ERR_LIBRARY);
  arena_close(&mem);
}

static void timing_makes_sense(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct graph *one = parse(&mem, adds_one);
  struct module *m[2] = {build(one), build(parse(&mem, adds_two))};
  struct buffers *b;
  struct gauge *g = gauge_open();
  struct timing t[2];
  struct err e = {0};
  int stop = 1;
  assert_int_equal(buffers_open(one, 5, &b, &e), OK);
  assert_int_equal(b->nin, 1);
  assert_int_equal(b->in_bytes[0], 600);
  assert_int_equal(measure(m, 2, b, 0.01, NULL, g, t, &e), OK);
  for (int i = 0; i < 2; i++) {
    assert_true(t[i].runs >= 5 && t[i].least > 0);
    assert_true(t[i].least <= t[i].p25 && t[i].p25 <= t[i].median && t[i].median <= t[i].p75 && t[i].p75 <= t[i].most);
  }
  assert_int_equal(t[0].runs, t[1].runs);
  assert_int_equal(measure(m, 2, b, 1, &stop, g, t, &e), ENV);
  assert_int_equal(e.id, ERR_STOPPED);
  buffers_close(b), gauge_close(g);
  module_close(m[0]), module_close(m[1]);
  arena_close(&mem);
}

// With a clock between them kernels compute the same, and each has its figures.
static void kernels_have_their_own_times(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct err e = {0};
  const struct target t = {.name = "cpu", .cores = 2, .lanes = 16};
  const struct graph *g = parse(&mem, "program p() {\n A: f32[64, 64]\n B: f32[64, 64]\n return sqrt(sum(square(matmul(A, B)), dim=1))\n}\n");
  struct str s = {0};
  struct gen_info info;
  struct module *m, *plain = build(g);
  struct buffers *b;
  struct gauge *gauge = gauge_open();
  struct timing own[8];
  double rel;
  assert_int_equal(gen_c_timed(g, "p", &t, &s, &info, &e), OK);
  assert_int_equal(module_build(str_text(&s), "p", &m, &e), OK);
  assert_int_equal(buffers_open(g, 1, &b, &e), OK);
  assert_true(info.kernels == 4 && module_seconds(m) && !module_seconds(plain));
  assert_int_equal(check_numeric(m, g, 3, 1, NULL, &rel, &e), OK);
  assert_int_equal(measure_kernels(m, info.kernels, b, 0.05, NULL, gauge, own, &e), OK);
  for (int k = 0; k < info.kernels; k++) assert_true(own[k].runs >= 5 && own[k].least > 0 && own[k].median <= own[k].most);
  buffers_close(b), gauge_close(gauge), module_close(m), module_close(plain), str_free(&s), arena_close(&mem);
}

static void targets(void **state)
{
  (void)state;
  struct target t;
  struct err e = {0};
  assert_int_equal(target_open("tpu", 0, true, &t, &e), USER);
  assert_int_equal(e.id, ERR_TARGET);
  assert_non_null(strstr(e.hint, "cpu"));
  e = (struct err){0};
  assert_int_equal(target_open(target_name(0), 2, false, &t, &e), OK);
  assert_int_equal(t.cores, 2);
  assert_true(t.bandwidth > 1e8 && t.cache_bandwidth > 1e8 && t.flops > 1e8 && t.exp_rate > 1e7 && t.launch > 0);
  assert_true(t.l1 > 0 && t.l2 > t.l1 && t.scratch < t.l2 && t.memory > 1 << 28 && *t.device);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(compiler_errors_are_told),
      cmocka_unit_test(missing_compiler),
      cmocka_unit_test(no_room_for_files),
      cmocka_unit_test(wrong_results_are_found),
      cmocka_unit_test(untouched_outputs_are_found),
      cmocka_unit_test(large_exponents),
      cmocka_unit_test(rounding_is_no_mistake),
      cmocka_unit_test(underflow_is_no_mistake),
      cmocka_unit_test(orders_of_factors_are_no_mistake),
      cmocka_unit_test(a_stopped_check_says_nothing),
      cmocka_unit_test(inputs_of_many_checks),
      cmocka_unit_test(tolerance_of_what_is_rounded),
      cmocka_unit_test(bytes_load_again),
      cmocka_unit_test(timing_makes_sense),
      cmocka_unit_test(kernels_have_their_own_times),
      cmocka_unit_test(targets),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

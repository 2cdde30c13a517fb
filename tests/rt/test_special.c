// The check on special inputs. Correct code passes with any order of operations; code that loses NaN or infinities fails.
// test: quick sanitized
#include "../graphs.h"
#include "rt/rt.h"

enum { SEEDS = 12 };

static struct graph *expanded(struct arena *mem, const char *text)
{
  struct graph *g;
  struct err e = {0};
  if (graph_expand(mem, graph_of(mem, text), true, &g, &e)) fail_msg("%s", e.text);
  return g;
}

static struct module *build(const struct graph *g)
{
  static const struct target host = {.name = "cpu", .cores = 2, .lanes = 16, .l3 = 32 << 20};
  struct err e = {0};
  struct str source = {0};
  struct module *m;
  if (gen_c(g, "p", &host, &source, NULL, NULL, &e)) fail_msg("%s", e.text);
  if (module_build(str_text(&source), "p", &m, &e)) fail_msg("%s", e.text);
  return str_free(&source), m;
}

static const struct {
  const char *program, *own; // own: NULL, the program
  bool partly;               // some elements are not decided
} right[] = {
    {"program p { X: f32[40, 24]\n W: f32[24, 16]\n return relu(matmul(X, W)) }"},
    {"program p { X: f32[40, 24]\n return softmax(X, dim=1), max(X, dim=0), rms_norm(X) }", NULL, true},
    {"program p { X: f16[40, 24]\n Y: f16[40, 24]\n return X * Y, X / (abs(Y) + 1), minimum(X, Y), clamp(X, lo=-1, hi=1) }", NULL, true},
    {"program p { X: bf16[40, 24]\n return sum(pow(X, 3), dim=1), log(abs(X)), gelu(X), silu(X) }", NULL, true},
    // x is gone, and with it its NaN and infinities
    {"program p { X: f32[40, 24]\n Y: f32[40, 24]\n return (X + Y) - X }", "program p { X: f32[40, 24]\n Y: f32[40, 24]\n return Y * pow(X, 0) }",
     true},
    // inf times a sum of weights, and inf times each
    {"program p { X: f32[40, 24]\n A: f32[24, 16]\n B: f32[24, 16]\n return matmul(X, A) + matmul(X, B) }",
     "program p { X: f32[40, 24]\n A: f32[24, 16]\n B: f32[24, 16]\n return matmul(X, A + B) }", true},
    {"program p { X: f32[40, 64]\n V: f32[64, 8]\n return matmul(softmax(X, dim=1), V) }",
     "graph p { X: f32[40, 64]\n V: f32[64, 8]\n O = block(x=5; i=4) { x = iter(X, imap={x:0}, fmap={i:1})\n v = iter(V, fmap={i:0})\n"
     " m, d = accum_max(maximum(max(x, dim=1), -1e38))\n e = exp(x - m)\n f = exp(d)\n"
     " save(accum_rescale(matmul(e, v), f) / accum_sum_rescale(e, f, dim=1), omap={x:0}) }\n return O }"},
    {"program p { X: f32[40, 24]\n Y: f32[40, 24]\n return prod(X, dim=1), prod(Y * 2, dim=0) }", NULL, true},
    {"program p { X: bf16[40, 24]\n return prod(X, dim=1) + 1, relu(prod(X * X, dim=0)) }", NULL, true},
    {"program p { X: f16[40, 24]\n return prod(X, dim=1), X * prod(X, dim=1) }", NULL, true},
    {"program p { X: f32[40, 24]\n return prod(2 * X, dim=1) }", "program p { X: f32[40, 24]\n return 16777216 * prod(X, dim=1) }", true},
};

static void right_code_passes(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(right); i++) {
    struct arena mem = {0};
    struct graph *program = expanded(&mem, right[i].program), *own = right[i].own ? expanded(&mem, right[i].own) : program;
    struct module *m = build(own);
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
      struct special_answer a;
      struct err e = {0};
      if (check_special(m, program, own, seed, NULL, &a, &e)) fail_msg("%s, seed %d: %s", right[i].program, (int)seed, e.text);
      assert_true(a.all > 0 && a.held > a.all / 4 && (right[i].partly || a.held == a.all));
    }
    module_close(m);
    arena_close(&mem);
  }
}

// C of functions that have the right value for all numbers.
#define FUNCTION(body)                                                                    \
  "#include <math.h>\n#include <stddef.h>\nsize_t mica_p_workspace(void) { return 0; }\n" \
  "int mica_p(void *const *in, void *const *out, void *w) { const float *x = in[0]; float *y = out[0]; (void)w;\n" body "return 0; }\n"
#define ROWS(start, step, end) \
  FUNCTION("for (int i = 0; i < 40; i++) { float r = " start "; for (int j = 0; j < 24; j++) { float a = x[24 * i + j]; " step " }\n" end " }\n")

// Code may multiply in any order: what an order decides is not held.
static void any_order_of_factors_passes(void **state)
{
  (void)state;
  static const char *const orders[] = {
      ROWS("1", "r *= a;", "y[i] = r;"),
      ROWS("1", "r *= x[24 * i + 23 - j]; (void)a;", "y[i] = r;"),
      ROWS("1", "r *= x[24 * i + 5 * j % 24]; (void)a;", "y[i] = r;"),
      ROWS("1", "if (!j) for (int k = 0; k < 4; k++) { float s = 1; for (int l = k; l < 24; l += 4) s *= x[24 * i + l]; r *= s; } (void)a;",
           "y[i] = r;"),
      // what is not normal on the way is 0
      ROWS("1", "r *= a; if (fabsf(r) < 0x1p-126f) r = 0;", "y[i] = r;"),
      ROWS("1", "r *= x[24 * i + 23 - j]; if (fabsf(r) < 0x1p-126f) r = 0; (void)a;", "y[i] = r;"),
  };
  for (size_t i = 0; i < COUNT(orders); i++) {
    struct arena mem = {0};
    struct err e = {0};
    struct module *m;
    struct special_answer a;
    struct graph *g = expanded(&mem, "program p { X: f32[40, 24]\n return prod(X, dim=1) }");
    if (module_build(orders[i], "p", &m, &e)) fail_msg("%s", e.text);
    for (uint64_t seed = 1; seed <= 4 * SEEDS; seed++) {
      if (check_special(m, g, g, seed, NULL, &a, &e)) fail_msg("order %d, seed %d: %s", (int)i, (int)seed, e.text);
      assert_true(a.held > a.all / 2);
    }
    module_close(m);
    arena_close(&mem);
  }
}

// Roundings decide the result where a divisor is close to zero.
static void small_divisors_pass(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct err e = {0};
  struct module *m;
  struct special_answer a;
  struct graph *g = expanded(&mem, "program p { X: f32[40, 24]\n return 1 / (sum(X + 4096, dim=1) - 98304) }");
  if (module_build(ROWS("0", "r += x[24 * i + 23 - j] + 4096; (void)a;", "y[i] = 1 / (r - 98304);"), "p", &m, &e)) fail_msg("%s", e.text);
  for (uint64_t seed = 1; seed <= 32 * SEEDS; seed++) {
    if (check_special(m, g, g, seed, NULL, &a, &e)) fail_msg("seed %d: %s", (int)seed, e.text);
    assert_true(a.held > a.all / 4);
  }
  module_close(m);
  arena_close(&mem);
}

static const struct {
  const char *program, *code;
} planted[] = {
    {"relu(X)", FUNCTION("for (int i = 0; i < 960; i++) y[i] = fmaxf(x[i], 0);\n")},
    {"relu(X)", FUNCTION("for (int i = 0; i < 960; i++) y[i] = x[i] > 0 ? x[i] : 0;\n")},
    {"max(X, dim=1)", ROWS("-INFINITY", "r = fmaxf(r, a);", "y[i] = r;")},
    {"max(X, dim=1)", ROWS("-1e30f", "r = !(a <= r) ? a : r; if (isnan(a)) r = a;", "y[i] = r;")}, // of rows that are -inf everywhere
    {"max(X, dim=1)", ROWS("-INFINITY", "r = a > r ? a : r;", "y[i] = r;")},
    {"clamp(X, lo=-1, hi=1)", FUNCTION("for (int i = 0; i < 960; i++) y[i] = fminf(fmaxf(x[i], -1), 1);\n")},
    {"sum(X, dim=1)", ROWS("0", "if (a == a) r += a;", "y[i] = r;")},
    {"prod(X, dim=1)", ROWS("1", "if (a == a) r *= a;", "y[i] = r;")},
    {"prod(X, dim=1)", ROWS("1", "r *= fminf(fmaxf(a, -3e38f), 3e38f); if (a != a) r = a;", "y[i] = r;")}, // no infinities
    {"prod(X, dim=0)", FUNCTION("for (int j = 0; j < 24; j++) { float r = 1, z = 0; for (int i = 0; i < 40; i++) r *= x[24 * i + j],\n"
                                "z += x[24 * i + j] == 0; y[j] = z > 0 ? 0 : r; }\n")}, // 0 times infinity
    {"X * 2", FUNCTION("for (int i = 0; i < 960; i++) y[i] = fminf(x[i] * 2, 3e38f);\n")},
    // a running maximum that begins with -inf: NaN where the first part is
    {"softmax(X, dim=1)", FUNCTION("for (int i = 0; i < 40; i++) { float m = -INFINITY, s = 0;\n"
                                   "for (int k = 0; k < 24; k += 8) { float n = m; for (int j = 0; j < 8; j++) n = fmaxf(n, x[24 * i + k + j]);\n"
                                   "s *= expf(m - n); for (int j = 0; j < 8; j++) s += expf(x[24 * i + k + j] - n); m = n; }\n"
                                   "for (int j = 0; j < 24; j++) y[24 * i + j] = expf(x[24 * i + j] - m) / s; }\n")},
};

static void lost_values_are_found(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(planted); i++) {
    struct arena mem = {0};
    struct err e = {0};
    struct module *m;
    struct special_answer a;
    double rel;
    int found = 0;
    struct graph *g = expanded(&mem, arena_printf(&mem, "program p { X: f32[40, 24]\n return %s }", planted[i].program));
    if (module_build(planted[i].code, "p", &m, &e)) fail_msg("%s", e.text);
    if (check_numeric(m, g, 1, 1, NULL, &rel, &e)) fail_msg("%s: %s", planted[i].program, e.text);
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
      e = (struct err){0};
      found += check_special(m, g, g, seed, NULL, &a, &e) == NO && e.id == ERR_WRONG;
    }
    if (found != SEEDS) fail_msg("%s, number %d: found with %d seeds of %d", planted[i].program, (int)i, found, SEEDS);
    module_close(m);
    arena_close(&mem);
  }
}

// Y, or NaN where X is no number: right code may give either, and of rows that have no number nothing is held.
static void says_how_much_it_held(void **state)
{
  (void)state;
  static const char inputs[] = "program p { X: f32[1, 8]\n Y: f32[1, 8]\n return ";
  struct arena mem = {0};
  struct special_answer a;
  struct err e = {0};
  struct graph *program = expanded(&mem, arena_printf(&mem, "%s(X + Y) - X }", inputs));
  struct graph *own = expanded(&mem, arena_printf(&mem, "%sY * pow(X, 0) }", inputs));
  struct module *m = build(own);
  int part = 0;
  for (uint64_t seed = 1; seed <= SEEDS; seed++) {
    if (check_special(m, program, own, seed, NULL, &a, &e)) fail_msg("%s", e.text);
    assert_int_equal(a.all, 2 * 8); // a round for each input
    part += a.held <= 8;
  }
  assert_true(part > 0);
  module_close(m);
  arena_close(&mem);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(right_code_passes), cmocka_unit_test(any_order_of_factors_passes),
                                     cmocka_unit_test(small_divisors_pass), cmocka_unit_test(lost_values_are_found),
                                     cmocka_unit_test(says_how_much_it_held)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

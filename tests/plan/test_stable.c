// Softmax without overflow. Every form equals the original over the fields, has the expected structure, and is unchanged by a second call. With logits
// of 1e4 its results in float32 are those of float64.
#include "graphs.h"
#include "plan/plan.h"
#include "thin.h"
#include "thread/thread.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define QKV "Q: f32[2, 8, 4]\n K: f32[2, 4, 16]\n V: f32[2, 16, 6]\n"

// clang-format off: the texts are laid out as graphs
#define PROGRAM(inputs, body) "program p {\n " inputs "\n" body "}"
#define KERNEL_OF(body) "graph g {\n " QKV body " return O }"
#define TILES(q, k, v) "  q = iter(Q, imap=" q ")\n  k = iter(K, imap=" k ", fmap={i:2})\n  v = iter(V, imap=" v ", fmap={i:1})\n"
#define ALL_KEYS TILES("{x:0}", "{x:0}", "{x:0}")
#define PARTIAL(o, l) KERNEL_SPLIT "  save(" o ")\n  save(" l ")\n }\n"
#define KERNEL_SPLIT                                              \
  " A, B = block(x=2, y=2; i=2) {\n" TILES("{x:0}", "{x:0, y:2}", \
                                           "{x:0, y:1}") "  e = exp(matmul(q, k))\n  o = accum(matmul(e, v))\n  l = accum_sum(e, dim=2)\n"

static const struct {
  const char *name, *text;
  const char *has[3]; // in the stable graph
} forms[] = {
    {"program", PROGRAM(QKV, " E = exp(matmul(Q, K))\n return matmul(E / sum(E, dim=2), V)\n"), {"max(t0, dim=2)"}},
    {"late division", PROGRAM(QKV, " E = exp(matmul(Q, K) * 0.5)\n return matmul(E, V) / sum(E, dim=2)\n"), {"max(t0, dim=2)"}},
    {"reciprocal", PROGRAM(QKV, " E = exp(matmul(Q, K))\n return matmul(E, V) * (1 / sum(E, dim=2))\n"), {"max("}},
    {"two",
     PROGRAM(QKV, " A = exp(matmul(Q, K))\n B = exp(matmul(Q, K) * 2)\n"
                  " return matmul(A, V) / sum(A, dim=2) + matmul(B, V) / sum(B, dim=2)\n"),
     {"max(t0, dim=2)", "max(t1, dim=2)"}},
    {"keys first", PROGRAM(QKV, " E = exp(transpose(matmul(Q, K)))\n return matmul(transpose(V), E) / sum(E, dim=1)\n"), {"dim=1"}},
    {"two summed dimensions", PROGRAM("X: f32[4, 8, 16]", " E = exp(X)\n return E / sum(sum(E, dim=2), dim=1)\n"), {"dim=2", "dim=1"}},
    {"norm of a numerator", PROGRAM(QKV, " n = matmul(exp(matmul(Q, K)), V)\n return n / sqrt(mean(square(n), dim=2))\n"), {"max("}},
    {"parts of heads",
     PROGRAM("X: f32[4, 16]", " E = reshape(exp(X), [2, 2, 16])\n A, B = split(E, dim=0, parts=2)\n"
                              " return A / sum(A, dim=2), B / sum(B, dim=2)\n"),
     {"max(X, dim=1)"}},
    {"repeated",
     PROGRAM("Q: f32[4, 2, 4]\n K: f32[2, 4, 16]\n V: f32[2, 16, 6]", " E = exp(matmul(Q, repeat(K, dim=0, times=2)))\n"
                                                                      " return matmul(E, repeat(V, dim=0, times=2)) / sum(E, dim=2)\n"),
     {"max("}},
    {"rows in a block",
     "graph g {\n X: f32[8, 16]\n Y = block(x=2) {\n  x = iter(X, imap={x:0})\n  e = exp(x)\n"
     "  save(e / sum(e, dim=1), omap={x:0})\n }\n return Y }",
     {"max(x, dim=1)"}},
    {"loop over rows",
     "graph g {\n X: f32[8, 16]\n Y = block(x=2; i=4) {\n  x = iter(X, imap={x:0}, fmap={i:0})\n  e = exp(x)\n"
     "  n = accum(e, fmap={i:0})\n  d = accum(sum(e, dim=1), fmap={i:0})\n  save(n / d, omap={x:0})\n }\n return Y }",
     {"max(x, dim=1)", "fmap={i:0}"}},
    {"one kernel",
     KERNEL_OF(" O = block(x=2, y=2; i=4) {\n" TILES("{x:0, y:1}", "{x:0}",
                                                     "{x:0}") "  e = exp(matmul(q, k))\n  n = accum(matmul(e, v))\n  d = accum_sum(e, dim=2)\n"
                                                              "  save(n / d, omap={x:0, y:1})\n }\n"),
     {"accum_max(", "accum_rescale(", "accum_sum_rescale("}},
    {"sum after the loop",
     KERNEL_OF(" O = block(x=2; i=4) {\n" ALL_KEYS "  e = exp(matmul(q, k))\n"
               "  save(accum(matmul(e, v)) / sum(accum(e), dim=2), omap={x:0})\n }\n"),
     {"accum_max(", "accum_rescale("}},
    {"mean",
     "graph g {\n X: f32[4, 16]\n V: f32[16, 6]\n O = block(; i=4) {\n  x = iter(X, fmap={i:1})\n  v = iter(V, fmap={i:0})\n"
     "  e = exp(x)\n  save(accum(matmul(e, v)) / accum_mean(e, dim=1))\n }\n return O }",
     {"accum_max(", "accum_rescale(", "* 0.25"}},
    {"partial sums",
     "graph g {\n X: f32[4, 16]\n O = block(; i=2) {\n  x = iter(X, fmap={i:1})\n  e = exp(x)\n"
     "  save(accum_sum_to(e, dim=1, extent=2) / accum_sum(e, dim=1))\n }\n return O }",
     {"accum_sum_rescale(", "reshape("}},
    {"grouped heads",
     "graph g {\n Q: f32[8, 1, 4]\n K: f32[2, 4, 16]\n V: f32[2, 16, 6]\n O = block(x=2; i=4) {\n" ALL_KEYS
     "  e = exp(matmul(reshape(q, [1, 4, 4]), k))\n  n = reshape(accum(matmul(e, v)), [4, 1, 6])\n"
     "  d = reshape(accum_sum(e, dim=2), [4, 1, 1])\n  save(n / d, omap={x:0})\n }\n return O }",
     {"accum_max(", "accum_sum_rescale("}},
    {"norms inside",
     KERNEL_OF(" O = block(x=2; i=4) {\n" ALL_KEYS "  qn = q / sqrt(mean(square(q), dim=2)) * 100\n  e = exp(matmul(qn, k))\n"
               "  vn = v / sqrt(mean(square(v), dim=2))\n  save(accum(matmul(e, vn)) / accum_sum(e, dim=2), omap={x:0})\n }\n"),
     {"accum_max(", "accum_rescale("}},
    {"split, joined rows",
     KERNEL_OF(PARTIAL("o, omap={x:0, y:1}",
                       "l, omap={x:0, y:1}") " O = block(x=2, y=2) {\n  a = iter(A, imap={x:0, y:2})\n  b = iter(B, imap={x:0})\n"
                                             "  n = sum(reshape(a, [1, 2, 8, 3]), dim=1)\n  d = sum(reshape(b, [1, 2, 8, 1]), dim=1)\n"
                                             "  save(reshape(n / d, [1, 8, 3]), omap={x:0, y:2})\n }\n"),
     {"save(t1, omap={x:0, y:1})", "max(t1, dim=1)"}},
    {"split, a dimension of its own",
     KERNEL_OF(PARTIAL("reshape(o, [1, 1, 8, 6]), omap={x:1, y:0}",
                       "reshape(l, [1, 1, 8, 1]), omap={x:1, y:0}") " O = block(x=2) {\n  a = iter(A, imap={x:1})\n  b = iter(B, imap={x:1})\n"
                                                                    "  save(reshape(sum(a, dim=0) / sum(b, dim=0), [1, 8, 6]), omap={x:0})\n }\n"),
     {"accum_max(reshape(", "dim=0"}},
    {"split, second loop",
     KERNEL_OF(PARTIAL("o, omap={x:0, y:1}",
                       "l, omap={x:0, y:1}") " O = block(x=2; i=2) {\n  a = iter(A, imap={x:0}, fmap={i:1})\n  b = iter(B, imap={x:0}, fmap={i:1})\n"
                                             "  save(accum(a) / accum(b), omap={x:0})\n }\n"),
     {"accum_max(t0)", "accum_rescale("}},
    {"split, joined columns",
     KERNEL_OF(PARTIAL("o, omap={x:0, y:2}",
                       "l, omap={x:0, y:2}") " O = block(x=2; i=2) {\n  a = iter(A, imap={x:0}, fmap={i:2})\n  b = iter(B, imap={x:0}, fmap={i:2})\n"
                                             "  save(accum(a) / accum(b), omap={x:0})\n }\n"),
     {"save(t1, omap={x:0, y:2})", "accum_rescale("}},
    {"split, finished by library operators",
     KERNEL_OF(PARTIAL("o, omap={x:0, y:1}",
                       "l, omap={x:0, y:1}") " n = sum(reshape(A, [2, 2, 8, 6]), dim=1)\n d = sum(reshape(B, [2, 2, 8, 1]), dim=1)\n O = n / d\n"),
     {"max("}},
    {"unsplit, divided later",
     KERNEL_OF(" A, B = block(x=2; i=4) {\n" ALL_KEYS "  e = exp(matmul(q, k))\n  save(accum(matmul(e, v)), omap={x:0})\n"
               "  save(accum_sum(e, dim=2), omap={x:0})\n }\n"
               " O = block(x=2, y=2) {\n  a = iter(A, imap={x:0, y:2})\n  b = iter(B, imap={x:0})\n  save(a / b, omap={x:0, y:2})\n }\n"),
     {"A, B = block", "accum_max("}},
    {"computed again",
     "graph g {\n X: f32[8, 16]\n S = block(x=4; i=2) {\n  x = iter(X, imap={x:0}, fmap={i:1})\n  save(accum_sum(exp(x), dim=1), omap={x:0})\n }\n"
     " Y = block(x=2, y=4) {\n  x = iter(X, imap={x:0, y:1})\n  s = iter(S, imap={x:0})\n  save(exp(x) / s, omap={x:0, y:1})\n }\n return Y }",
     {"accum_max(", "exp(x - t0) / s"}},
    {"computed again over a loop",
     "graph g {\n X: f32[8, 16]\n V: f32[16, 4]\n S = block(x=4; i=2) {\n  x = iter(X, imap={x:0}, fmap={i:1})\n"
     "  save(accum_sum(exp(x), dim=1), omap={x:0})\n }\n"
     " Y = block(x=2; i=4) {\n  x = iter(X, imap={x:0}, fmap={i:1})\n  v = iter(V, fmap={i:0})\n  s = iter(S, imap={x:0})\n"
     "  save(accum(matmul(exp(x) / s, v)), omap={x:0})\n }\n return Y }",
     {"accum_max(", "exp(x - t0)", "t1 / s"}},
    {"computed again, sums of parts",
     "graph g {\n X: f32[8, 16]\n P = block(x=4, y=2) {\n  x = iter(X, imap={x:0, y:1})\n"
     "  save(reshape(sum(exp(x), dim=1), [1, 2, 1]), omap={x:1, y:0})\n }\n S = sum(P, dim=0)\n"
     " Y = block(x=2, y=4) {\n  x = iter(X, imap={x:0, y:1})\n  s = iter(S, imap={x:1})\n  save(reshape(exp(x) / s, [4, 4]), omap={x:0, y:1})\n }\n"
     " return Y }",
     {"max(x, dim=1)", "max("}},
    {"log of a sum",
     PROGRAM("X: f32[4, 16]", " return log(sum(exp(X), dim=1))\n"),
     {"t0 = clamp(max(X, dim=1), ", "exp(X - t0)", "return log(sum(t1, dim=1)) + t0"}},
    {"log of a softmax", PROGRAM("X: f32[4, 16]", " return X - log(sum(exp(X), dim=1))\n"), {"clamp(max(X, dim=1), ", "log("}},
    {"log of a square", PROGRAM("X: f32[4, 16]", " return log(square(sum(exp(X), dim=1)))\n"), {"clamp(max(X, dim=1), ", "* 2"}},
    {"log of a running sum",
     "graph g {\n X: f32[8, 16]\n O = block(x=2; i=4) {\n  x = iter(X, imap={x:0}, fmap={i:1})\n"
     "  save(log(accum_sum(exp(x), dim=1)), omap={x:0})\n }\n return O }",
     {"accum_max(clamp(max(x, dim=1), ", "accum_sum_rescale(", "dim=1)) + t0"}},
    {"log of sums of parts",
     "graph g {\n X: f32[8, 16]\n P = block(x=4; i=2) {\n  x = iter(X, imap={x:1}, fmap={i:1})\n"
     "  save(accum_sum(exp(x), dim=1), omap={x:1})\n }\n return log(sum(P, dim=1)) }",
     {"accum_max(clamp(max(x, dim=1), ", "return log("}},
};
// clang-format on

static const struct {
  const char *text, *note;
} kept[] = {
    {"program moe { X: f32[4, 8]\n A: f32[8, 8]\n B: f32[8, 4]\n return matmul(exp(matmul(X, A)), B) }",
     "no maximum can be subtracted in exp of kernel node 4: no division cancels"},
    {"program sigmoid { X: f32[4, 8]\n e = exp(-X)\n return 1 / (e + 1) }",
     "no maximum can be subtracted in exp `e`: add_scalar is not linear in it"},
    {"program bent { X: f32[4, 8]\n e = exp(X)\n return tanh(sum(e, dim=1)) }", "tanh is not linear"},
    {"program parts { X: f32[4, 8]\n e = exp(X)\n return log(sum(e, dim=1, group=4)), e / sum(e, dim=1) }",
     "logarithms of elements that share a maximum"},
    {"program other { X: f32[4, 8]\n Y: f32[4, 8]\n e = exp(X)\n return e / sum(Y, dim=1) }", "no division cancels"},
    {"graph others {\n X: f32[8, 16]\n Z: f32[8, 16]\n S = block(x=4) {\n  x = iter(X, imap={x:0})\n  save(sum(exp(x), dim=1), omap={x:0})\n }\n"
     " Y = block(x=2) {\n  z = iter(Z, imap={x:0})\n  s = iter(S, imap={x:0})\n  save(exp(z) / s, omap={x:0})\n }\n return Y }",
     "no division cancels"},
    {"program shifted { X: f32[4, 8]\n e = exp(X - max(X, dim=1))\n return e / sum(e, dim=1) }", ""},
    {"program none { X: f32[4, 8]\n return silu(X) }", ""},
};

static struct graph *plain_of(struct arena *mem, const char *text)
{
  struct err e = {0};
  struct graph *g;
  if (graph_expand(mem, graph_of(mem, text), false, &g, &e)) fail_msg("%s: %s", text, e.text);
  return g;
}

static struct graph *stabilized(struct arena *mem, const char *name, const struct graph *g, bool *changed, char note[256])
{
  struct err e = {0};
  struct graph *s;
  if (plan_stable(mem, g, &s, changed, note, &e)) fail_msg("%s: %s", name, e.text);
  assert_int_equal(graph_check(s, &e), OK);
  return s;
}

static void has_the_structure(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(forms); i++) {
    struct arena mem = {0};
    char note[256];
    bool changed;
    struct graph *s = stabilized(&mem, forms[i].name, plain_of(&mem, forms[i].text), &changed, note);
    if (!changed) fail_msg("%s: %s", forms[i].name, note);
    assert_string_equal(note, "");
    assert_holds(forms[i].name, s, forms[i].has, COUNT(forms[i].has));
    assert_ptr_equal(stabilized(&mem, forms[i].name, s, &changed, note), s);
    assert_false(changed);
    arena_close(&mem);
  }
}

// Saved graphs have thread graphs; they are candidates again.
static void knows_its_own(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(forms); i++) {
    struct arena mem = {0};
    struct err e = {0};
    char note[256];
    bool changed;
    struct graph *g = plain_of(&mem, forms[i].text), *whole;
    assert_int_equal(thread_graphs(&mem, g, &whole, &e), OK);
    assert_false(plan_is_stable(g) || plan_is_stable(whole));
    g = stabilized(&mem, forms[i].name, g, &changed, note);
    assert_int_equal(thread_graphs(&mem, g, &whole, &e), OK);
    if (!plan_is_stable(g) || !plan_is_stable(whole)) fail_msg("%s: an exponential has no maximum taken off", forms[i].name);
    arena_close(&mem);
  }
}

static void sum_of_maxima_is_none(void **state)
{
  (void)state;
  static const char *const text[2] = {
      "graph g {\n X: f32[4, 16]\n O = block(; i=2) {\n  x = iter(X, fmap={i:1})\n  m = accum(max(x, dim=1), fmap={i:1})\n"
      "  y = iter(X)\n  save(exp(y - max(m, dim=1)))\n }\n return O }",
      "graph g {\n X: f32[4, 16]\n O = block(; i=2) {\n  x = iter(X, fmap={i:1})\n  m = accum(max(x, dim=1))\n"
      "  y = iter(X)\n  save(exp(y - m))\n }\n return O }"};
  for (int i = 0; i < 2; i++) {
    struct arena mem = {0};
    assert_int_equal(plan_is_stable(graph_of(&mem, text[i])), !i);
    arena_close(&mem);
  }
}

static void limited_maximum_is_none(void **state)
{
  (void)state;
  static const struct {
    const char *limits;
    bool stable;
  } rows[] = {{"-1.0, 1e30", false}, {"-65504.0, 65504.0", true}, {"-65504.0, 65503.0", false}, {"-inf, inf", true}, {"-inf, 0.0", false}};
  for (size_t i = 0; i < COUNT(rows); i++) {
    struct arena mem = {0};
    char text[256];
    snprintf(text, sizeof text, "graph g {\n X: %s[4, 16]\n m = clamp(max(X, dim=1), %s)\n return exp(X - m) }", i ? "f16" : "f32", rows[i].limits);
    if (plan_is_stable(graph_of(&mem, text)) != rows[i].stable) fail_msg("limits %s", rows[i].limits);
    arena_close(&mem);
  }
}

static void says_why_not(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(kept); i++) {
    struct arena mem = {0};
    char note[256];
    bool changed;
    struct graph *g = graph_of(&mem, kept[i].text);
    assert_ptr_equal(stabilized(&mem, kept[i].text, g, &changed, note), g);
    assert_false(changed);
    if (!strstr(note, kept[i].note) || (!*kept[i].note && *note)) fail_msg("case %zu: \"%s\"", i, note);
    arena_close(&mem);
  }
}

static void is_equal(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(forms); i++) {
    struct arena mem = {0};
    char note[256];
    bool changed;
    struct graph *g = plain_of(&mem, forms[i].text), *s = stabilized(&mem, forms[i].name, g, &changed, note);
    if (i % (unsigned)thinned(3) == 0) assert_same_function(forms[i].name, g, s);
    arena_close(&mem);
  }
}

// Integers around 100, so that products of two are exact in float32 and logits reach 1e4.
static void large_inputs(struct arena *mem, const struct graph *g, void **in64, void **in32)
{
  int t[16], n = graph_inputs(g, t);
  eval_random(mem, g, DOM_F64, NULL, 3, in64);
  for (int i = 0; i < n; i++) {
    int64_t size = shape_size(&g->tensors[t[i]].shape);
    float *x = arena_alloc(mem, sizeof *x * (size_t)size);
    for (int64_t k = 0; k < size; k++) x[k] = (float)(((double *)in64[i])[k] = round(100 * ((double *)in64[i])[k]));
    in32[i] = x;
  }
}

// Without this pass, the same inputs overflow.
static void overflows(struct arena *mem, const char *text, void *const *in32)
{
  struct err e = {0};
  struct graph *g = graph_of(mem, text);
  int outs[16], n = graph_outputs(g, outs), bad = 0;
  void *y[16];
  assert_int_equal(eval_run(mem, g, DOM_F32, NULL, in32, y, NULL, &e), OK);
  for (int k = 0; k < n; k++)
    for (int64_t x = 0; x < shape_size(&g->tensors[outs[k]].shape); x++) bad += !isfinite((double)((float *)y[k])[x]);
  assert_true(bad);
}

static void survives_large_logits(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(forms); i++) {
    struct arena mem = {0};
    struct err e = {0};
    char note[256];
    bool changed;
    void *in64[16], *in32[16], *out64[16], *out32[16];
    struct graph *s = stabilized(&mem, forms[i].name, plain_of(&mem, forms[i].text), &changed, note);
    large_inputs(&mem, s, in64, in32);
    overflows(&mem, forms[i].text, in32);
    assert_int_equal(eval_run(&mem, s, DOM_F64, NULL, in64, out64, NULL, &e), OK);
    assert_int_equal(eval_run(&mem, s, DOM_F32, NULL, in32, out32, NULL, &e), OK);
    int outs[16], n = graph_outputs(s, outs);
    for (int k = 0; k < n; k++) {
      double error = 0, norm = 0;
      for (int64_t x = 0; x < shape_size(&s->tensors[outs[k]].shape); x++) {
        double a = ((double *)out64[k])[x], b = (double)((float *)out32[k])[x];
        error += (a - b) * (a - b), norm += a * a;
      }
      if (!(sqrt(error / norm) < 1e-2)) fail_msg("%s: relative error %g", forms[i].name, sqrt(error / norm));
    }
    arena_close(&mem);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(has_the_structure),     cmocka_unit_test(knows_its_own),
                                     cmocka_unit_test(sum_of_maxima_is_none), cmocka_unit_test(limited_maximum_is_none),
                                     cmocka_unit_test(says_why_not),          cmocka_unit_test(is_equal),
                                     cmocka_unit_test(survives_large_logits)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

// Tile kernels in the interpreter, held against their block graphs on random and on special inputs, in many of the ways in which schemes make them.
// test: timeout 300
// test: quick release
#include "../graphs.h"
#include "../thin.h"
#include "sim/device_proof.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_CHOICES = 10 };

#define ROWS(body)                                                                                                       \
  "X: f16[40, 48]\n Y: f16[40, 48]\n O = block(x=20) {\n x = iter(X, imap={x:0})\n y = iter(Y, imap={x:0})\n save(" body \
  ", omap={x:0})\n }\n return O"

static const struct {
  const char *name, *text;
} graphs[] = {
    {"elementwise", ROWS("relu(x) + maximum(x, y) - clamp(minimum(x, y), lo=-1, hi=2)")},
    {"maximum", ROWS("max(x, dim=1) + y")},
    {"powers", ROWS("x * x * x * sqrt(abs(y))")},
    {"softmax", ROWS("exp(x - max(x, dim=1)) / sum(exp(x - max(x, dim=1)), dim=1) + y")},
    {"norm", ROWS("x / sqrt(mean(square(x), dim=1) + 0.001) * y")},
    {"running maximum",
     "X: f16[20, 64]\n V: f16[20, 64]\n O = block(x=20; i=4) {\n x = iter(X, imap={x:0}, fmap={i:1})\n v = iter(V, imap={x:0}, fmap={i:1})\n"
     " m, d = accum_max(maximum(max(x, dim=1), -1e38))\n e = exp(x - m)\n f = exp(d)\n"
     " save(accum_sum_rescale(e * v, f, dim=1) / accum_sum_rescale(e, f, dim=1), omap={x:0})\n }\n return O"},
    {"relu of a product", "X: f16[32, 64]\n W: f16[64, 64]\n O = block(x=2; i=2) {\n x = iter(X, fmap={i:1})\n w = iter(W, imap={x:1}, fmap={i:0})\n"
                          " save(relu(accum(matmul(x, w))), omap={x:1})\n }\n return O"},
    {"a product of a sum, which becomes a sum of products", // inf - inf in the first may be inf in the second
     "X: f16[1, 64]\n A: f16[64, 16]\n B: f16[16, 256]\n W: f16[64, 256]\n O = block(x=2) {\n x = iter(X)\n a = iter(A)\n"
     " b = iter(B, imap={x:1})\n w = iter(W, imap={x:1})\n save(matmul(x, matmul(a, b) + w), omap={x:1})\n }\n return O"},
    {"layers whose values leave the range of f16", // and come back, as 0 of relu
     "X: f16[64, 64]\n W: f16[64, 64]\n V: f16[64, 64]\n O = block(x=2) {\n x = iter(X, imap={x:0})\n w = iter(W)\n v = iter(V)\n"
     " a = relu(matmul(relu(matmul(relu(matmul(x, w)), v)), w))\n b = relu(matmul(relu(matmul(relu(matmul(a, v)), w)), v))\n"
     " save(relu(matmul(relu(matmul(b, w)), v)), omap={x:0})\n }\n return O"},
    {"tiny numbers", ROWS("x * 1e-7 + y * 1e-8")},
    {"sums of tiny numbers", ROWS("sum(square(x) * 1e-8, dim=1) * 100 + y * 1e-8")},
};

static void kernels_are_right_on_special_inputs(void **state)
{
  (void)state;
  struct target t;
  struct err e = {0};
  if (target_open("sm_90a", 0, true, &t, &e)) fail_msg("%s", e.text);
  for (size_t i = 0; i < COUNT(graphs); i++) {
    struct arena mem = {0};
    struct lower_plan p;
    const struct graph *g = graph_of(&mem, arena_printf(&mem, "graph g {\n %s\n}\n", graphs[i].text));
    if (lower_plan(&mem, g, &t, &(struct lower_opts){.tails = true, .dependent = true}, &p, &e)) fail_msg("%s: %s", graphs[i].name, e.text);
    assert_true(p.nunits == 1 && p.unit[0].nchoices);
    const int n = p.unit[0].nchoices, step = MAX(1, n / MOST_CHOICES);
    for (int k = 0; k < n; k += step * thinned(2)) {
      struct device_proof proof;
      const char *why = "";
      if (device_prove(&mem, &p, &p.unit[0].choice[k], -1, 1, 2, NULL, &proof, &why, &e))
        fail_msg("%s, choice %d: %s%s", graphs[i].name, k, why, e.text);
      if (proof.run && (proof.held == 0))
        fail_msg("%s, choice %d: %lld of %lld held; %s", graphs[i].name, k, (long long)proof.held, (long long)proof.special, proof.note);
    }
    arena_close(&mem);
  }
}

// In x (A B + W) and (x A) B + x W, infinities of x, of A or of B are operands of different sums.
static void infinities_may_meet_elsewhere(void **state)
{
  (void)state;
  enum { SEEDS = 60, FEW_CHOICES = 12 };
  struct arena mem = {0};
  struct target t;
  struct err e = {0};
  struct lower_plan p;
  const char *text = "graph g {\n X: f16[1, 64]\n A: f16[64, 16]\n B: f16[16, 256]\n W: f16[64, 256]\n O = block(x=2) {\n x = iter(X)\n"
                     " a = iter(A)\n b = iter(B, imap={x:1})\n w = iter(W, imap={x:1})\n save(matmul(x, matmul(a, b) + w), omap={x:1})\n }\n"
                     " return O\n}\n";
  if (target_open("sm_90a", 0, true, &t, &e)) fail_msg("%s", e.text);
  if (lower_plan(&mem, graph_of(&mem, text), &t, &(struct lower_opts){.tails = true, .dependent = true}, &p, &e)) fail_msg("%s", e.text);
  for (int seed = 1; seed <= SEEDS; seed += quick_step(3) * thinned(5))
    for (int k = 0; k < p.unit[0].nchoices; k += MAX(1, p.unit[0].nchoices / FEW_CHOICES)) {
      struct device_proof proof;
      const char *why = "";
      if (device_prove(&mem, &p, &p.unit[0].choice[k], -1, (uint64_t)seed, 2, NULL, &proof, &why, &e)) fail_msg("seed %d: %s%s", seed, why, e.text);
      assert_true(proof.held > 0);
    }
  arena_close(&mem);
}

// Kernels are checked by several threads; all counts, and a stop, are as with one.
static void same_by_any_threads(struct arena *mem, const struct lower_plan *p, const struct choice *pick)
{
  struct device_proof one, some;
  struct err e = {0};
  const char *why = "";
  const int stop = 1;
  assert_int_equal(device_prove(mem, p, pick, -1, 1, 1, NULL, &one, &why, &e), OK);
  assert_int_equal(device_prove(mem, p, pick, -1, 1, 4, NULL, &some, &why, &e), OK);
  assert_int_equal(one.kernels, 2);
  assert_true(some.kernels == one.kernels && some.run == one.run && some.full == one.full && some.blocks == one.blocks);
  assert_true(some.elements == one.elements && some.relative == one.relative && some.held == one.held && some.special == one.special);
  assert_string_equal(some.note, one.note);
  for (int threads = 1; threads <= 4; threads += 3) assert_int_equal(device_prove(mem, p, pick, -1, 1, threads, &stop, &some, &why, &e), ENV);
  assert_int_equal(some.kernels, 1);
}

// A kernel that reads results of another kernel is run on the results which that kernel computes from special inputs.
static void readers_of_results_are_run_on_special_inputs(void **state)
{
  (void)state;
  static const struct {
    const char *name, *text;
  } rows[] = {
      {"share of a sum", "X: f16[40, 48]\n S = block(x=20) {\n x = iter(X, imap={x:0})\n save(sum(x, dim=1), omap={x:0})\n }\n"
                         "O = block(x=10) {\n x = iter(X, imap={x:0})\n s = iter(S, imap={x:0})\n save(x / s, omap={x:0})\n }\n return O"},
      {"softmax", "X: f16[40, 48]\n M, S = block(x=20) {\n x = iter(X, imap={x:0})\n m = max(x, dim=1)\n save(m, omap={x:0})\n"
                  " save(sum(exp(x - m), dim=1), omap={x:0})\n }\n"
                  "O = block(x=10) {\n x = iter(X, imap={x:0})\n m = iter(M, imap={x:0})\n s = iter(S, imap={x:0})\n"
                  " save(exp(x - m) / s, omap={x:0})\n }\n return O"},
      {"product of products", "X: f32[40, 48]\n P = block(x=20) {\n x = iter(X, imap={x:0})\n save(prod(x, dim=1), omap={x:0})\n }\n"
                              "O = block(x=1) {\n p = iter(P)\n save(prod(p, dim=0), omap={x:0})\n }\n return O"},
  };
  struct target t;
  struct err e = {0};
  if (target_open("sm_90a", 0, true, &t, &e)) fail_msg("%s", e.text);
  for (size_t i = 0; i < COUNT(rows); i++) {
    struct arena mem = {0};
    struct lower_plan p;
    struct device_proof proof;
    const char *why = "";
    const struct graph *g = graph_of(&mem, arena_printf(&mem, "graph g {\n %s\n}\n", rows[i].text));
    if (lower_plan(&mem, g, &t, &(struct lower_opts){.dependent = true}, &p, &e)) fail_msg("%s: %s", rows[i].name, e.text);
    if (p.nunits != 2 || !p.unit[1].nchoices) fail_msg("%s: %d kernels: %s", rows[i].name, p.nunits, p.unit[p.nunits - 1].why);
    struct choice pick[2] = {p.unit[0].choice[0], p.unit[1].choice[0]};
    if (device_prove(&mem, &p, pick, 1, 1, 2, NULL, &proof, &why, &e)) fail_msg("%s: %s%s", rows[i].name, why, e.text);
    if (!proof.held || proof.run != 1)
      fail_msg("%s: %lld of %lld held; %s", rows[i].name, (long long)proof.held, (long long)proof.special, proof.note);
    same_by_any_threads(&mem, &p, pick);
    arena_close(&mem);
  }
}

// If exponentials amplify the rounding of scores, inputs are scaled down until rounding cannot be taken for a mistake.
static void amplified_rounding_is_no_mistake(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct target t;
  struct err e = {0};
  struct lower_plan p;
  const struct graph *g = graph_of(&mem, "graph g {\n Q: f16[512, 64]\n T: f16[512, 1]\n K: f16[256, 64]\n V: f16[256, 64]\n"
                                         " O = block(x=8) {\n q = iter(Q, imap={x:0})\n t = iter(T, imap={x:0})\n k = iter(K)\n v = iter(V)\n"
                                         " s = matmul(q / t, transpose(k))\n e = exp(s - max(s, dim=1))\n"
                                         " save(matmul(e, v) / sum(e, dim=1), omap={x:0})\n }\n return O\n}\n");
  if (target_open("sm_90a", 0, true, &t, &e) || lower_plan(&mem, g, &t, &(struct lower_opts){0}, &p, &e)) fail_msg("%s", e.text);
  assert_true(p.nunits == 1 && p.unit[0].nchoices);
  for (uint64_t seed = 1; seed <= 4; seed++) {
    struct device_proof proof;
    const char *why = "";
    if (device_prove(&mem, &p, &p.unit[0].choice[0], -1, seed, 2, NULL, &proof, &why, &e)) fail_msg("seed %d: %s%s", (int)seed, why, e.text);
    assert_int_equal(proof.run, 1);
  }
  arena_close(&mem);
}

// Rows that do not depend on each other are not run again and again: the work is the same for any number of rows of a tile, and of blocks that read
// a slice with margins.
static void work_does_not_grow_with_rows(void **state)
{
  (void)state;
  static const struct {
    const char *name, *text; // with the number of rows, thrice
  } rows[] = {{"rows of a tile", "graph g {\n X: f16[%d, 512]\n O = block(x=4) {\n x = iter(X, imap={x:0})\n"
                                 " save(x - log(sum(exp(x), dim=1)), omap={x:0})\n }\n return O\n}\n"},
              {"a slice with margins", "graph g {\n X: f16[512, %d]\n Y = slice(X, dim=1, start=1, end=%d)\n O = block(x=%d) {\n"
                                       " y = iter(Y, imap={x:1})\n save(y * sum(y, dim=0), omap={x:1})\n }\n return O\n}\n"}};
  struct target t;
  struct err e = {0};
  if (target_open("sm_90a", 0, true, &t, &e)) fail_msg("%s", e.text);
  for (size_t i = 0; i < COUNT(rows); i++) {
    struct device_proof proof[2];
    double work[2];
    struct choice c;
    for (int k = 0; k < 2; k++) {
      struct arena mem = {0};
      struct lower_plan p;
      const char *why = "";
      const int n = 64 << 2 * k;
      const char *text = arena_printf(&mem, rows[i].text, i ? n + 1 : n, n + 1, n);
      if (lower_plan(&mem, graph_of(&mem, text), &t, &(struct lower_opts){0}, &p, &e)) fail_msg("%s: %s", rows[i].name, e.text);
      for (int x = 0; !k && x < p.unit[0].nchoices; x++) // one row at a time
        if (!x || (scheme_knob(&p.unit[0].choice[x], "join") == 1 && scheme_knob(&p.unit[0].choice[x], "regs") <= 1)) c = p.unit[0].choice[x];
      work[k] = device_proof_work(&p, &c);
      if (device_prove(&mem, &p, &c, -1, 1, 2, NULL, &proof[k], &why, &e)) fail_msg("%s: %s%s", rows[i].name, why, e.text);
      arena_close(&mem);
    }
    if (proof[0].elements != proof[1].elements || work[0] != work[1] || proof[0].full || !proof[1].run)
      fail_msg("%s: %lld and %lld operations, estimated as %g and %g", rows[i].name, (long long)proof[0].elements, (long long)proof[1].elements,
               work[0], work[1]);
  }
}

// Neither right nor wrong.
// 1,000 elements are a whole number of vectors, and so are those of the smaller kernel, in which 2 of its 20 iterations would be 100. TMA reads no
// other rows, and the last box is partial in both.
static void fewer_iterations_keep_rows_aligned(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct target t;
  struct err e = {0};
  struct lower_plan p;
  const char *text = "graph g {\n X: f16[512, 1000]\n W: f16[1000, 512]\n O = block(x=4, y=4; i=20) {\n x = iter(X, imap={x:0}, fmap={i:1})\n"
                     " w = iter(W, imap={y:1}, fmap={i:0})\n save(accum(matmul(x, w)), omap={x:0, y:1})\n }\n return O\n}\n";
  int wgmma = 0;
  if (target_open("sm_90a", 0, true, &t, &e)) fail_msg("%s", e.text);
  if (lower_plan(&mem, graph_of(&mem, text), &t, &(struct lower_opts){.dependent = true}, &p, &e)) fail_msg("%s", e.text);
  for (int k = 0; k < p.unit[0].nchoices && !wgmma; k++) {
    struct device_proof proof;
    const char *why = "";
    if (strcmp(scheme_at(p.unit[0].choice[k].scheme)->name, "wgmma") != 0) continue;
    if (device_prove(&mem, &p, &p.unit[0].choice[k], -1, 1, 2, NULL, &proof, &why, &e)) fail_msg("%s%s", why, e.text);
    if (proof.run != 1 || !proof.blocks) fail_msg("%s", proof.note);
    wgmma++;
  }
  assert_int_equal(wgmma, 1);
  arena_close(&mem);
}

static void a_stop_ends_it(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct target t;
  struct err e = {0};
  struct lower_plan p;
  struct device_proof proof;
  const volatile int stop = 1;
  const char *why = "";
  assert_int_equal(target_open("sm_90a", 0, true, &t, &e), OK);
  const struct graph *g = graph_of(&mem, arena_printf(&mem, "graph g {\n %s\n}\n", graphs->text));
  assert_int_equal(lower_plan(&mem, g, &t, &(struct lower_opts){.tails = true, .dependent = true}, &p, &e), OK);
  assert_int_equal(device_prove(&mem, &p, &p.unit[0].choice[0], -1, 1, 2, &stop, &proof, &why, &e), ENV);
  assert_int_equal(e.id, ERR_STOPPED);
  assert_int_equal(proof.run, 0);
  arena_close(&mem);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(kernels_are_right_on_special_inputs),
                                     cmocka_unit_test(infinities_may_meet_elsewhere),
                                     cmocka_unit_test(readers_of_results_are_run_on_special_inputs),
                                     cmocka_unit_test(amplified_rounding_is_no_mistake),
                                     cmocka_unit_test(work_does_not_grow_with_rows),
                                     cmocka_unit_test(fewer_iterations_keep_rows_aligned),
                                     cmocka_unit_test(a_stop_ends_it)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

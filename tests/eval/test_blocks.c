// Block and thread graphs compared with equivalent programs on whole tensors in all three domains. Over the reals they are equal up to rounding, over
// the fields exactly.
// test: quick release
#include "evaluate.h"
#include "thin.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define X48 "X: f32[4, 8]\n"
#define X412 "X: f32[4, 12]\n"
#define X468 "X: f32[4, 6, 8]\n"
#define QKV "Q: f32[6, 4]\n K: f32[4, 8]\n V: f32[8, 3]\n"
#define ATTENTION "E = exp(matmul(Q, K))\n return matmul(E, V) / sum(E, dim=1)"

// clang-format off: the texts are laid out as graphs
static const struct {
  const char *name, *inputs, *graph, *program;
} pairs[] = {
    // ---- grids ----
    {"three grid axes", X468,
     "O = block(x=2, y=3, z=4) { t = iter(X, imap={x:0, y:1, z:2})\n save(square(t), omap={x:0, y:1, z:2}) }\n return "
     "O",
     "return square(X)"},
    {"axes in another order", X468,
     "O = block(x=2, y=3, z=4) { t = iter(X, imap={x:1, y:1, z:2})\n save(square(t), omap={x:1, y:1, z:2}) }\n return "
     "O",
     "return square(X)"},
    {"earlier axes outermost in imap", X48, "O = block(x=2, y=4) { t = iter(X, imap={x:1, y:1})\n save(t, omap={x:0, y:1}) }\n return O",
     "return reshape(transpose(reshape(X, [4, 2, 4]), perm=[1, 0, 2]), [8, 4])"},
    {"earlier axes outermost in omap", X48, "O = block(x=2, y=2) { t = iter(X, imap={x:0, y:1})\n save(t, omap={x:0, y:0}) }\n return O",
     "return reshape(transpose(reshape(X, [2, 2, 2, 4]), perm=[0, 2, 1, 3]), [8, 4])"},
    {"a replica and several savers", X48 "Y: f32[1, 8]\n",
     "A, B = block(x=4) { x = iter(X, imap={x:0})\n y = iter(Y)\n s = x + y\n save(s, omap={x:0})\n save(s * 2, "
     "omap={x:1}) }\n return A, B",
     "S = X + Y\n return S, reshape(S * 2, [1, 32])"},
    {"no axes", X48, "O = block() { x = iter(X)\n save(x + 1) }\n return O", "return X + 1"},
    {"a kernel after a kernel", X48,
     "A = block(x=2) { x = iter(X, imap={x:0})\n save(x * x, omap={x:0}) }\n B = sqrt(A)\n O = block(x=4) { a = "
     "iter(A, imap={x:1})\n b = iter(B, imap={x:1})\n save(a + b, omap={x:1}) }\n return O",
     "return X * X + sqrt(X * X)"},
    // ---- loops ----
    {"sum over iterations", X412, "O = block(; i=3) { x = iter(X, fmap={i:1})\n save(accum(x)) }\n return O",
     "return reshape(sum(reshape(X, [4, 3, 4]), dim=1), [4, 4])"},
    {"a fixed tensor is summed too", X48, "O = block(; i=3, j=2) { x = iter(X)\n save(accum(x)) }\n return O", "return X * 6"},
    {"concatenation", X412, "O = block(; i=3) { x = iter(X, fmap={i:1})\n save(accum(x * 2, fmap={i:1})) }\n return O", "return X * 2"},
    {"concatenation elsewhere", X412, "O = block(; i=4) { x = iter(X, fmap={i:1})\n save(accum(x, fmap={i:0})) }\n return O",
     "return reshape(transpose(reshape(X, [4, 4, 3]), perm=[1, 0, 2]), [16, 3])"},
    {"two loop axes", X412, "O = block(; i=2, j=3) { x = iter(X, fmap={i:1, j:1})\n save(accum(x, fmap={i:1, j:1})) }\n return O", "return X"},
    {"the first summed, the second joined", X412, "O = block(; i=2, j=3) { x = iter(X, fmap={i:1, j:1})\n save(accum(x, fmap={j:1})) }\n return O",
     "return reshape(sum(reshape(X, [4, 2, 6]), dim=1), [4, 6])"},
    {"the first joined, the second summed", X412, "O = block(; i=2, j=3) { x = iter(X, fmap={i:1, j:1})\n save(accum(x, fmap={i:1})) }\n return O",
     "return reshape(sum(reshape(X, [4, 2, 3, 2]), dim=2), [4, 4])"},
    {"four loop axes", "X: f32[2, 24]\n",
     "O = block(; i=2, j=3, k=2, l=2) { x = iter(X, fmap={i:1, j:1, k:0, l:1})\n save(accum(x, fmap={i:1, k:0})) }\n "
     "return O",
     "return reshape(sum(reshape(X, [2, 2, 6, 2]), dim=2), [2, 4])"},
    {"loop axes inside grid axes", X412, "O = block(x=2; i=3) { x = iter(X, imap={x:1}, fmap={i:1})\n save(accum(x), omap={x:1}) }\n return O",
     "return reshape(sum(reshape(X, [4, 2, 3, 2]), dim=2), [4, 4])"},
    {"split-K", "A: f32[6, 12]\n B: f32[12, 10]\n",
     "P = block(x=2, y=2; i=3) { a = iter(A, imap={y:1}, fmap={i:1})\n b = iter(B, imap={x:1, y:0}, fmap={i:0})\n "
     "save(accum(matmul(a, b)), omap={x:1, y:0}) }\n return reshape(sum(reshape(P, [2, 6, 10]), dim=0), [6, 10])",
     "return matmul(A, B)"},
    {"after the loop", X412 "Y: f32[4, 4]\n",
     "O = block(x=2; i=3) { x = iter(X, imap={x:0}, fmap={i:1})\n y = iter(Y, imap={x:0})\n f = sqrt(y)\n s = accum(x "
     "* f)\n save(s / f + const(2), omap={x:0}) }\n return O",
     "F = sqrt(Y)\n S = reshape(sum(reshape(X, [4, 3, 4]) * reshape(F, [4, 1, 4]), dim=1), [4, 4])\n return S / F + 2"},
    // ---- accumulators ----
    {"accum_sum", X412, "O = block(; i=3) { x = iter(X, fmap={i:1})\n save(accum_sum(x, dim=1)) }\n return O", "return sum(X, dim=1)"},
    {"accum_mean", X412, "O = block(; i=3) { x = iter(X, fmap={i:1})\n save(accum_mean(x, dim=1)) }\n return O", "return mean(X, dim=1)"},
    {"accum_mean across the loop", X412, "O = block(; i=3) { x = iter(X, fmap={i:1})\n save(accum_mean(x, dim=0)) }\n return O",
     "return reshape(mean(mean(reshape(X, [4, 3, 4]), dim=1), dim=0), [1, 4])"},
    {"accum_rms", X412, "O = block(; i=3) { x = iter(X, fmap={i:1})\n save(accum_rms(x, dim=1)) }\n return O", "return sqrt(mean(square(X), dim=1))"},
    {"accum_sum_to", X412, "O = block(; i=3) { x = iter(X, fmap={i:1})\n save(accum_sum_to(x, dim=1, extent=2)) }\n return O",
     "return reshape(sum(reshape(X, [4, 6, 2]), dim=1), [4, 2])"},
    {"sum_to", X412, "O = block(x=2) { x = iter(X, imap={x:0})\n save(sum_to(x, dim=1, extent=3), omap={x:0}) }\n return O",
     "return reshape(sum(reshape(X, [4, 4, 3]), dim=1), [4, 3])"},
    {"accum_rescale", X412 "F: f32[1, 3]\n",
     "O = block(; i=3) { x = iter(X, fmap={i:1})\n f = iter(F, fmap={i:1})\n save(accum_rescale(x, f)) }\n return O",
     "A, B, C = split(X, dim=1, parts=3)\n _, G, H = split(F, dim=1, parts=3)\n return (A * G + B) * H + C"},
    {"accum_sum_rescale", X412 "F: f32[4, 3]\n",
     "O = block(; i=3) { x = iter(X, fmap={i:1})\n f = iter(F, fmap={i:1})\n save(accum_sum_rescale(x, f, dim=1)) }\n "
     "return O",
     "A, B, C = split(sum(X, dim=1, group=4), dim=1, parts=3)\n _, G, H = split(F, dim=1, parts=3)\n return (A * G + "
     "B) * H + C"},
    {"iterations are row-major", X48 "F: f32[1, 4]\n",
     "O = block(; i=2, j=2) { x = iter(X, fmap={i:1, j:1})\n f = iter(F, fmap={i:1, j:1})\n save(accum_rescale(x, f)) "
     "}\n return O",
     "A, B, C, D = split(X, dim=1, parts=4)\n _, G, H, I = split(F, dim=1, parts=4)\n return ((A * G + B) * H + C) * I "
     "+ D"},
    {"running maximum", X412,
     "M, D = block(x=2; i=3) { x = iter(X, imap={x:0}, fmap={i:1})\n m, d = accum_max(max(x, dim=1))\n save(m, "
     "omap={x:0})\n save(d, omap={x:0}) }\n return M, D",
     "M = max(X, dim=1)\n A, B, _ = split(X, dim=1, parts=3)\n return M, max(concat(A, B, dim=1), dim=1) - M"},
    {"running maximum inside the loop", X412,
     "S, T = block(; i=3) { x = iter(X, fmap={i:1})\n m, d = accum_max(max(x, dim=1))\n save(accum(m, fmap={i:1}))\n "
     "save(accum(d)) }\n return S, T",
     "A, B, C = split(max(reshape(X, [4, 3, 4]), dim=2), dim=1, parts=3)\n P = reshape(A, [4, 1])\n Q = maximum(P, "
     "reshape(B, [4, 1]))\n R = maximum(Q, reshape(C, [4, 1]))\n return concat(P, Q, R, dim=1), P - R"},
    {"softmax over the loop", QKV,
     "O = block(x=2; i=4) { q = iter(Q, imap={x:0})\n k = iter(K, fmap={i:1})\n v = iter(V, fmap={i:0})\n e = "
     "exp(matmul(q, k))\n save(accum(matmul(e, v)) / accum_sum(e, dim=1), omap={x:0}) }\n return O",
     ATTENTION},
    {"online softmax", QKV,
     "O = block(x=3; i=4) { q = iter(Q, imap={x:0})\n k = iter(K, fmap={i:1})\n v = iter(V, fmap={i:0})\n s = "
     "matmul(q, k)\n m, d = accum_max(max(s, dim=1))\n f = exp(d)\n e = exp(s - m)\n save(accum_rescale(matmul(e, v), "
     "f) / accum_sum_rescale(e, f, dim=1), omap={x:0}) }\n return O",
     ATTENTION},
    // ---- exponentials far behind products ----
    {"through the second factor", "A: f32[4, 4]\n B: f32[4, 4]\n C: f32[4, 4]\n",
     "P = block(x=2; i=2) { b = iter(B, fmap={i:1})\n c = iter(C, imap={x:1}, fmap={i:0})\n save(accum(matmul(b, c)), "
     "omap={x:1}) }\n Q = matmul(A, P)\n O = block(x=4) { q = iter(Q, imap={x:0})\n t = thread(x=2) { u = iter(q, "
     "imap={x:1})\n save(exp(u * 0.25), omap={x:1}) }\n save(t, omap={x:0}) }\n return O",
     "return exp(matmul(matmul(A, B), C) / 4)"},
    {"one result with, one without", X48 "Y: f32[8, 4]\n",
     "A, B = block(x=2) { x = iter(X, imap={x:0})\n y = iter(Y)\n save(matmul(x, y), omap={x:0})\n save(matmul(x, y * "
     "y), omap={x:0}) }\n return A, exp(B * 0.1)",
     "return matmul(X, Y), exp(matmul(X, square(Y)) * 0.1)"},
    // ---- operators of blocks ----
    {"concat_matmul", "A: f32[4, 6]\n B: f32[4, 2]\n C: f32[6, 5]\n D: f32[2, 5]\n",
     "O = block(x=2) { a = iter(A, imap={x:0})\n b = iter(B, imap={x:0})\n c = iter(C)\n d = iter(D)\n "
     "save(concat_matmul(a, b, c, d), omap={x:0}) }\n return O",
     "return matmul(concat(A, B, dim=1), concat(C, D, dim=0))"},
    {"views", X468,
     "O = block(x=2) { x = iter(X, imap={x:0})\n a, b = split(transpose(x, perm=[2, 0, 1]), dim=0, parts=2)\n c = "
     "chunk(repeat(concat(b, a, dim=0), dim=2, times=2), dim=2, parts=3, index=1)\n save(reshape(c, [8, 2, 4]), "
     "omap={x:1}) }\n return O",
     "A, B = split(transpose(X, perm=[2, 0, 1]), dim=0, parts=2)\n return chunk(repeat(concat(B, A, dim=0), dim=2, "
     "times=2), dim=2, parts=3, index=1)"},
    {"composites", X48 "W: f32[8]\n",
     "O = block(x=2) { x = iter(X, imap={x:0})\n w = iter(W)\n save(softmax(x, dim=1) + rms_norm(x, w, eps=0.5) + "
     "layer_norm(x, w, w), omap={x:0}) }\n return O",
     "E = exp(X)\n C = X - mean(X, dim=1)\n return E / sum(E, dim=1) + X / sqrt(mean(square(X), dim=1) + 0.5) * W + (C "
     "/ sqrt(mean(square(C), dim=1) + 1e-5) * W + W)"},
    // ---- thread graphs ----
    {"threads", X48,
     "O = block(x=2) { x = iter(X, imap={x:1})\n t = thread(x=2, y=4) { a = iter(x, imap={x:0, y:1})\n save(exp(a) * "
     "2, omap={x:0, y:1}) }\n save(t, omap={x:1}) }\n return O",
     "return exp(X) * 2"},
    {"threads with a loop, in a loop", X412 "W: f32[12, 2]\n",
     "O = block(x=2; i=3) { x = iter(X, imap={x:0}, fmap={i:1})\n w = iter(W, fmap={i:0})\n s, u = thread(x=2; i=4) { "
     "a = iter(x, imap={x:0}, fmap={i:1})\n b = a * a\n save(accum(b), omap={x:0})\n save(accum(b + 1, fmap={i:1}), "
     "omap={x:0}) }\n save(accum(matmul(u, w)) / accum(s), omap={x:0}) }\n return O",
     "S = X * X\n return matmul(S + 1, W) / sum(S, dim=1)"},
    {"threads after the loop", X48,
     "O = block(; i=2) { x = iter(X, fmap={i:1})\n s = accum(x)\n t = thread(x=4) { a = iter(s, imap={x:0})\n "
     "save(sqrt(a), omap={x:0}) }\n save(t) }\n return O",
     "return sqrt(reshape(sum(reshape(X, [4, 2, 4]), dim=1), [4, 4]))"},
};
// clang-format on

static void check_pair(struct arena *mem, const char *name, const struct graph *a, const struct graph *b, enum domain d, double scale)
{
  struct field *F = d == DOM_FIELD ? NEW(mem, struct field) : NULL;
  struct values v = {0};
  if (F) field_open(F, primes_draw(PRIMES_TEST, 3, 0, NULL), 3);
  test_inputs(mem, a, d, F, scale, &v);
  struct values w = v;
  test_run(mem, a, F, &v);
  test_run(mem, b, F, &w);
  test_equal(name, &v, &w, d == DOM_F32 ? 2e-4 : 1e-12);
  if (F && F->lost_exps) fail_msg("%s: %llu exponentials of lost values", name, (unsigned long long)F->lost_exps);
}

static void blocks_equal_programs(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(pairs); i++)
    for (int stable = 0; stable < 2; stable++) {
      struct arena mem = {0};
      const struct graph *a = test_graph(&mem, arena_printf(&mem, "graph g { %s %s }", pairs[i].inputs, pairs[i].graph), stable);
      const struct graph *b = test_graph(&mem, arena_printf(&mem, "program p { %s %s }", pairs[i].inputs, pairs[i].program), stable);
      for (enum domain d = DOM_F64; d <= DOM_FIELD; d++) check_pair(&mem, pairs[i].name, a, b, d, 1);
      arena_close(&mem);
    }
}

static void examples(void **state)
{
  (void)state;
  static const char *const files[][2] = {
      {"examples/graphs/rms_fused.mica", "examples/m_rms.mica"},
      {"examples/graphs/gqa_split.mica", "examples/m_gqa.mica"},
      {"examples/graphs/gqa_stable.mica", "examples/m_gqa.mica"},
  };
  for (size_t i = 0; i < COUNT(files); i++) {
    struct arena mem = {0};
    const struct graph *a = test_load(&mem, files[i][0]), *b = test_load(&mem, files[i][1]);
    for (enum domain d = DOM_F64; d <= DOM_FIELD; d++)
      if ((i + d) % (unsigned)quick_step(3) == 0 && (3 * i + d) % (unsigned)thinned(9) == 0) // each file and each domain once; sanitized one of all
        check_pair(&mem, files[i][0], a, b, d, 0.25);
    arena_close(&mem);
  }
}

// Different from each other, wherever a mistake in the order of axes could make them equal.
static void order_matters(void **state)
{
  (void)state;
  struct arena mem = {0};
  double x[16];
  for (int i = 0; i < 16; i++) x[i] = i;
  struct values v = {.d = DOM_F64, .nin = 1, .in = {x}};
  test_run(&mem,
           test_graph(&mem,
                      "graph g { X: f32[1, 16]\n O = block(x=2, y=2; i=2, j=2) { x = iter(X, imap={x:1, y:1}, fmap={i:1, j:1})\n"
                      " s = accum(x, fmap={j:0, i:1})\n save(s, omap={x:1, y:0}) }\n return O }",
                      false),
           NULL, &v);
  // row 2y + j, column 2x + i holds 8x + 4y + 2i + j
  assert_int_equal(v.size[0], 16);
  for (int row = 0; row < 4; row++)
    for (int col = 0; col < 4; col++) assert_true(test_real(&v, 0, row * 4 + col) == 8 * (col / 2) + 4 * (row / 2) + 2 * (col % 2) + row % 2);
  arena_close(&mem);
}

// The builder and the parser reject overlapping results. The interpreter defines their meaning: later blocks overwrite.
static void later_blocks_overwrite(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct err e = {0};
  struct graph *g = graph_new(&mem, KERNEL, "g"), *b = graph_new(&mem, BLOCK, NULL);
  struct attrs a = attrs_default(OP_ITER);
  int x, t, o;
  assert_int_equal(graph_input(g, "X", F32, &(struct shape){1, {4}}, NOWHERE, &x, &e), OK);
  graph_axes(b, 1, (int64_t[]){4}, 0, NULL);
  a.imap[0] = 0;
  assert_int_equal(graph_iter(b, g, x, &a, NOWHERE, &t, &e), OK);
  assert_int_equal(graph_add(b, OP_SAVE, 1, &t, NULL, NOWHERE, &o, &e), OK);
  assert_int_equal(graph_nest(g, b, 1, &x, NOWHERE, &o, &e), OK);
  assert_int_equal(graph_add(g, OP_OUTPUT, 1, &o, NULL, NOWHERE, &o, &e), OK);
  double in[] = {1, 2, 3, 4};
  struct values v = {.d = DOM_F64, .nin = 1, .in = {in}};
  test_run(&mem, g, NULL, &v);
  assert_true(v.size[0] == 1 && test_real(&v, 0, 0) == 4);
  arena_close(&mem);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(blocks_equal_programs),
      cmocka_unit_test(examples),
      cmocka_unit_test(order_matters),
      cmocka_unit_test(later_blocks_overwrite),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

// Evaluation of single elements of a graph. They equal the interpreter's, for each operator and for programs.
#include "each_op.h"
#include "evaluate.h"
#include "graphs.h"

#include <math.h>

static double read_input(const void *arg, int input, int64_t i)
{
  double *const *in = arg;
  return in[input][i];
}

// Returns how many elements were compared.
static int64_t same_as_the_interpreter(struct arena *mem, const struct graph *g, const char *name)
{
  struct err e = {0};
  const int nout = graph_outputs(g, NULL);
  int *outs = NEWS(mem, int, nout + 1);
  void **in = NEWS(mem, void *, graph_inputs(g, NULL) + 1), **out = NEWS(mem, void *, nout + 1);
  const struct eval_reader reader = {read_input, in};
  int64_t all = 0;
  graph_outputs(g, outs);
  eval_random(mem, g, DOM_F64, NULL, 5, in);
  if (eval_run(mem, g, DOM_F64, NULL, in, out, NULL, &e)) fail_msg("%s: %s", name, e.text);
  for (int k = 0; k < nout; k++) {
    const int64_t n = shape_size(&g->tensors[outs[k]].shape), step = MAX(1, n / 50);
    for (int64_t i = 0; i < n; i += step, all++) {
      double x, want = ((double *)out[k])[i];
      if (eval_element(g, &reader, 1 << 20, outs[k], i, &x) != OK) fail_msg("%s: element %lld of output %d", name, (long long)i, k);
      if (!(fabs(x - want) <= 1e-12 * fabs(want) || x == want || (isnan(x) && isnan(want))))
        fail_msg("%s: element %lld of output %d is %.17g, and %.17g in the interpreter", name, (long long)i, k, x, want);
    }
  }
  return all;
}

static void each_operator(void **state)
{
  (void)state;
  int graphs = 0;
  for (int op = 0; op < OPS; op++)
    for (int form = 0; form < EACH_OP_FORMS; form++) {
      struct arena mem = {0};
      const struct graph *g = each_op_graph(&mem, (enum op)op, F32, form);
      if (g) graphs++, assert_true(same_as_the_interpreter(&mem, g, op_rows[op].name) > 0);
      arena_close(&mem);
    }
  assert_true(graphs >= 100);
}

static void programs(void **state)
{
  (void)state;
  static const char *const texts[] = {
      "program attention(n = 33) {\n Q: f32[2, 6, 3, 8]\n K: f32[2, 2, n, 8]\n k = repeat(K, dim=1, times=3)\n"
      " return matmul(softmax(matmul(Q, transpose(k)), dim=3), k)\n}\n",
      "program norm(n = 70) {\n X: f32[4, n]\n W: f32[n, 50]\n return silu(matmul(rms_norm(X), W))\n}\n",
      "program views(n = 7) {\n X: f32[3, 6, n]\n W: f32[9, 5]\n V: f32[5, 3, 8]\n w = slice(transpose(W), dim=1, start=2, end=9)\n"
      " v = slice(transpose(V, perm=[1, 2, 0]), dim=1, start=1, end=8)\n return matmul(w, transpose(X)), matmul(X, transpose(w)), matmul(X, v)\n}\n",
      "program deep(n = 40) {\n X: f32[4, n]\n m = layer_norm(X)\n y = tanh(gelu(silu(m * 2 + X) - sigmoid(X)))\n"
      " return sum(y * y, dim=1), softmax(y + square(y), dim=1)\n}\n",
      "program chosen(n = 70) {\n X: f32[4, n]\n v, i = topk(X, k=5, dim=1)\n return softmax(v, dim=1), i, cumsum(X, dim=1)\n}\n"};
  for (size_t i = 0; i < COUNT(texts); i++) {
    struct arena mem = {0};
    assert_true(same_as_the_interpreter(&mem, test_graph(&mem, texts[i], true), texts[i]) > 0);
    arena_close(&mem);
  }
}

static void steps_are_limited(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct graph *g = test_graph(&mem, "program large() {\n X: f32[4, 1000]\n Y: f32[1000, 4]\n return matmul(X, Y)\n}\n", false);
  double ones[4000], *in[] = {ones, ones}, x;
  const struct eval_reader reader = {read_input, in};
  const int t = g->nodes[g->nnodes - 1].in[0];
  for (int i = 0; i < 4000; i++) ones[i] = 1;
  assert_int_equal(eval_element(g, &reader, 2001, t, 5, &x), OK);
  assert_true(x == 1000);
  assert_int_equal(eval_element(g, &reader, 2000, t, 5, &x), NO);
  g = test_graph(&mem, "program far() {\n X: f32[40, 100]\n return sum(sum(square(X), dim=1), dim=0)\n}\n", false);
  assert_int_equal(eval_element(g, &reader, 3 * 4000 + 100, g->nodes[g->nnodes - 1].in[0], 0, &x), OK);
  assert_int_equal(eval_element(g, &reader, 3 * 4000 / 2, g->nodes[g->nnodes - 1].in[0], 0, &x), NO); // known before
  g = test_graph(&mem, "program chosen() {\n X: f32[4000]\n v, i = topk(X, k=1000, dim=0)\n return i\n}\n", false);
  assert_int_equal(eval_element(g, &reader, 1000 * 4000 + 4001, g->nodes[g->nnodes - 1].in[0], 999, &x), OK); // comparisons are steps
  assert_true(x == 999);
  assert_int_equal(eval_element(g, &reader, 1000 * 4000, g->nodes[g->nnodes - 1].in[0], 999, &x), NO);
  arena_close(&mem);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(each_operator), cmocka_unit_test(programs), cmocka_unit_test(steps_are_limited)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

// test: quick release
// Checkpoints of float64 references: an element is computed from the nearest ones. Their graphs compute the same values, estimates are upper limits, and
// each element of an output or checkpoint takes few steps.
#include "each_op.h"
#include "eval/eval.h"
#include "graphs.h"
#include "gpu/checkpoints.h"

#include <math.h>

enum { MOST = 4000, EACH = 1500 };

static const char *const deep[] = {"program layers(n = 12, d = 16) {\n X: f32[2, n, d]\n A: f32[d, d]\n B: f32[d, 40]\n C: f32[40, d]\n"
                                   " q = transpose(reshape(matmul(X, A), [2, n, 4, 4]), perm=[0, 2, 1, 3])\n"
                                   " p = softmax(matmul(q, transpose(q)), dim=3)\n"
                                   " y = X + matmul(reshape(transpose(matmul(p, q), perm=[0, 2, 1, 3]), [2, n, d]), A)\n"
                                   " z = y + matmul(silu(matmul(rms_norm(y), B)), C)\n"
                                   " r = transpose(reshape(matmul(z, A), [2, n, 4, 4]), perm=[0, 2, 1, 3])\n"
                                   " s = matmul(softmax(matmul(r, transpose(q)), dim=3), r)\n"
                                   " return reshape(transpose(s, perm=[0, 2, 1, 3]), [2, n, d]) + z, y, sum(z, dim=1)\n}\n",
                                   "program far() {\n A: f32[50, 70]\n B: f32[70, 50]\n return sum(sum(matmul(A, B), dim=1), dim=0)\n}\n",
                                   "program chosen(n = 60) {\n X: f32[8, n]\n W: f32[n, n]\n i: i32[5] < 8\n y = matmul(X, W)\n v, k = "
                                   "topk(matmul(gather(y, i, dim=0), W), k=3, dim=1)\n"
                                   " a, b = split(matmul(y, W), parts=2, dim=1)\n"
                                   " return v, k, concat(cumsum(a, dim=0), repeat(b, dim=1, times=2), dim=1)\n}\n"};

struct given { // inputs, and checkpoints behind them
  double **in;
  int n;
  double **point;
};

static double read_given(const void *arg, int input, int64_t i)
{
  const struct given *x = arg;
  return input < x->n ? x->in[input][i] : x->point[input - x->n][i];
}

static void values_are_the_same(void **state)
{
  (void)state;
  for (size_t k = 0; k < COUNT(deep); k++) {
    struct arena mem = {0};
    struct err e = {0};
    struct graph *g;
    struct checkpoints c;
    if (graph_expand(&mem, graph_of(&mem, deep[k]), true, &g, &e)) fail_msg("%s", e.text);
    if (checkpoints_of(&mem, g, MOST, EACH, &c, &e)) fail_msg("%s", e.text);
    assert_true(c.n > 0);
    assert_true(graph_check(c.more, &e) == OK && graph_check(c.from, &e) == OK);
    const int nin = graph_inputs(g, NULL), nout = graph_outputs(g, NULL), all = graph_outputs(c.more, NULL);
    assert_int_equal(all, nout + c.n);
    assert_int_equal(graph_outputs(c.from, NULL), all);
    assert_int_equal(graph_inputs(c.from, NULL), nin + c.n);
    void **in = NEWS(&mem, void *, nin + 1), **out = NEWS(&mem, void *, all + 1);
    int *outs = NEWS(&mem, int, all + 1);
    eval_random(&mem, c.more, DOM_F64, NULL, 5, in);
    if (eval_run(&mem, c.more, DOM_F64, NULL, in, out, NULL, &e)) fail_msg("%s", e.text);
    graph_outputs(c.from, outs);
    const struct given given = {(double **)in, nin, (double **)out + nout};
    const struct eval_reader reader = {read_given, &given};
    for (int o = 0; o < all; o++) {
      const int64_t n = shape_size(&c.from->tensors[outs[o]].shape);
      assert_true(checkpoints_steps(c.from, outs[o]) <= EACH);
      for (int64_t i = 0; i < n; i++) {
        double x, want = ((double *)out[o])[i];
        if (eval_element(c.from, &reader, 2 * EACH, outs[o], i, &x) != OK) fail_msg("program %zu: element %lld of output %d", k, (long long)i, o);
        if (!(fabs(x - want) <= 1e-12 * fabs(want) || x == want))
          fail_msg("program %zu: element %lld of output %d is %.17g, not %.17g", k, (long long)i, o, x, want);
      }
    }
    arena_close(&mem);
  }
}

static double read_one(const void *arg, int input, int64_t i)
{
  double *const *in = arg;
  return in[input][i];
}

// Views on the way count as steps of the evaluation, and not in the estimate.
static void estimates_are_upper_limits(void **state)
{
  (void)state;
  int graphs = 0;
  for (int op = 0; op < OPS; op++)
    for (int form = 0; form < EACH_OP_FORMS; form++) {
      struct arena mem = {0};
      const struct graph *g = each_op_graph(&mem, (enum op)op, F32, form);
      if (g) {
        const int nout = graph_outputs(g, NULL);
        int *outs = NEWS(&mem, int, nout + 1);
        void **in = NEWS(&mem, void *, graph_inputs(g, NULL) + 1);
        const struct eval_reader reader = {read_one, in};
        graph_outputs(g, outs), graphs++;
        eval_random(&mem, g, DOM_F64, NULL, 5, in);
        for (int o = 0; o < nout; o++) {
          const int64_t steps = (int64_t)(4 * checkpoints_steps(g, outs[o])) + 8, n = shape_size(&g->tensors[outs[o]].shape);
          double x;
          for (int64_t i = 0; i < n; i += MAX(1, n / 9))
            if (eval_element(g, &reader, steps, outs[o], i, &x) != OK)
              fail_msg("%s, form %d: element %lld takes more than %lld steps", op_rows[op].name, form, (long long)i, (long long)steps);
        }
      }
      arena_close(&mem);
    }
  assert_true(graphs >= 100);
}

static void shallow_programs_have_none(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct err e = {0};
  struct checkpoints c;
  const struct graph *g = graph_of(&mem, deep[1]);
  assert_int_equal(checkpoints_of(&mem, g, 1e6, EACH, &c, &e), OK);
  assert_true(c.n == 0 && !c.more && !c.from);
  arena_close(&mem);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(values_are_the_same), cmocka_unit_test(estimates_are_upper_limits),
                                     cmocka_unit_test(shallow_programs_have_none)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

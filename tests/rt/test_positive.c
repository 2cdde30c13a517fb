// Random inputs are away from zero if, and only if, the program divides by them. Masks hide a triangle with odd seeds.
#include "graphs.h"
#include "rt/rt.h"

#include <math.h>

static const struct {
  const char *program;
  bool positive[3]; // by input
} rows[] = {
    {"program quotient() {\n X: f16[1024, 1024]\n Y: f16[1024, 1024]\n return X / Y\n}\n", {false, true}},
    {"program norm() {\n X: f16[64, 1024]\n n: f16[64]\n return X / sqrt(reshape(n, [64, 1]) * 0.5)\n}\n", {false, true}},
    {"program root() {\n X: f16[1024, 1024]\n return sqrt(X)\n}\n", {true}},
    {"program logarithm() {\n X: f16[64, 64]\n return log(X)\n}\n", {true}},
    {"program normed() {\n X: f16[64, 1024]\n return rms_norm(X)\n}\n", {false}},
    {"program soft() {\n X: f16[64, 1024]\n return softmax(X, dim=1)\n}\n", {false}},
    {"program parts() {\n N: f16[4, 512, 512]\n D: f16[4, 512, 512]\n return sum(N, dim=0) / sum(D, dim=0)\n}\n", {false, true}},
    // a divisor is positive only if all that it is computed from is
    {"program keys() {\n Q: f16[64, 32]\n A: f16[32, 16]\n D: f16[1, 32]\n q = relu(Q) + exp(Q)\n"
     " return matmul(q, A) / matmul(q, transpose(D))\n}\n",
     {false, false, true}},
    {"program weighted() {\n X: f16[64, 32]\n W: f16[32, 16]\n D: f16[32, 16]\n return matmul(X, W) / matmul(X, D)\n}\n", {true, false, true}},
    {"program unit() {\n X: f16[64, 1024]\n return X / sqrt(sum(X * X, dim=1))\n}\n", {false}},
    {"program bounded() {\n X: f16[64, 64]\n D: f16[64, 64]\n return X / (maximum(D, 0.5) + abs(D))\n}\n", {false, false}},
    // in range only where the numerator shrinks by more than the denominator
    {"program steep() {\n Q: f16[64, 64]\n D: f16[64, 1]\n return exp(Q / D * 8.0)\n}\n", {false, true}},
};

static void quotients_have_values(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(rows); i++) {
    struct arena mem = {0};
    struct err e = {0};
    struct graph *g;
    struct buffers *b;
    struct reference64 r = {0};
    assert_int_equal(graph_expand(&mem, graph_of(&mem, rows[i].program), true, &g, &e), OK);
    int nin = graph_inputs(g, NULL), *ins = NEWS(&mem, int, nin + 1);
    graph_inputs(g, ins);
    assert_int_equal(buffers_open(g, 1, &b, &e), OK);
    for (int k = 0; k < nin; k++) {
      const struct tensor *t = &g->tensors[ins[k]];
      double least = 1;
      for (int64_t x = 0; x < shape_size(&t->shape); x++) least = fmin(least, num_read(t->dtype, b->in[k], x));
      assert_int_equal(wants_positive(g, ins[k]), rows[i].positive[k]);
      if ((least > 0) != rows[i].positive[k]) fail_msg("%s: least %g", rows[i].program, least);
    }
    if (numeric_reference(g, b, NULL, &r, &e)) fail_msg("%s: %s", rows[i].program, e.text);
    reference64_close(&r), buffers_close(b);
    arena_close(&mem);
  }
}

static void masks_hide(void **state)
{
  (void)state;
  static const struct {
    const char *mask;
    bool hides;
  } cases[] = {{"f32[6, 8]", true}, {"f16[6, 8]", true}, {"f32[2, 6, 8]", true}, {"f32[1, 8]", false}, {"bool[6, 8]", true}};
  for (size_t i = 0; i < COUNT(cases); i++)
    for (uint64_t seed = 1; seed < 3; seed++) {
      struct arena mem = {0};
      struct err e = {0};
      struct graph *g;
      struct buffers *b;
      const char *text = arena_printf(&mem, "program masked() {\n X: %s[2, 6, 8]\n M: %s\n return softmax(X, M, dim=2)\n}\n",
                                      strncmp(cases[i].mask, "f16", 3) ? "f32" : "f16", cases[i].mask);
      assert_int_equal(graph_expand(&mem, graph_of(&mem, text), true, &g, &e), OK);
      assert_int_equal(buffers_open(g, seed, &b, &e), OK);
      const struct tensor *t = &g->tensors[g->nodes[1].out];
      bool triangle = true;
      for (int64_t k = 0; k < shape_size(&t->shape); k++) {
        const double shown = t->dtype == BOOL ? 1 : 0, low = t->dtype == BOOL ? 0 : -INFINITY, x = num_read(t->dtype, b->in[1], k);
        triangle &= x == (k % 8 > k / 8 % 6 + 2 ? low : shown);
      }
      assert_int_equal(triangle, cases[i].hides && seed == 1);
      buffers_close(b);
      arena_close(&mem);
    }
}

static void classes_are_not_all_ignored(void **state)
{
  (void)state;
  bool negative = false;
  for (uint64_t seed = 1; seed < 30; seed++) {
    struct arena mem = {0};
    struct err e = {0};
    struct buffers *b;
    const struct graph *g = graph_of(&mem, "program loss() {\n c: i64[3] >= -100 < 6\n X: f32[6]\n return gather(X, c % 6, dim=0)\n}\n");
    assert_int_equal(buffers_open(g, seed, &b, &e), OK);
    for (int i = 0; i < 3; i++) {
      const double x = num_read(I64, b->in[0], i);
      assert_true(x >= (i % 2 ? -100 : 0) && x < 6);
      negative |= x < 0;
    }
    buffers_close(b);
    arena_close(&mem);
  }
  assert_true(negative);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(quotients_have_values), cmocka_unit_test(masks_hide),
                                     cmocka_unit_test(classes_are_not_all_ignored)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

// Functions of one tensor that a program writes out are single operators to the search, if the program is too large otherwise.
// test: quick sanitized
#include "examples.h"
#include "graphs.h"
#include "search/space.h"

static const char *const program = "program p() {\n Q: f16[2, 256, 32]\n A: f16[2, 32, 32]\n B: f16[2, 1, 32]\n"
                                   " q = exp(minimum(Q, 0)) + relu(Q)\n return matmul(q, A) / matmul(q, transpose(B))\n}\n";

static struct graph *plain(struct arena *mem, const char *text)
{
  struct err e = {0};
  struct graph *p;
  assert_int_equal(graph_expand(mem, graph_of(mem, text), false, &p, &e), OK);
  return p;
}

static int count(const struct graph *g, enum op op)
{
  int n = 0;
  for (int i = 0; i < g->nnodes; i++) n += (g->nodes[i].op == op) + (g->nodes[i].sub ? count(g->nodes[i].sub, op) : 0);
  return n;
}

static void functions_are_operators_and_back(void **state)
{
  (void)state;
  static const struct {
    const char *returned;
    int calls, core; // functions, and operators of the core
  } rows[] = {
      {"exp(minimum(X, 0)) + relu(X)", 1, 1},
      {"matmul(tanh(X * 2) * 3, exp(minimum(W, 0)) + relu(W))", 2, 3},
      {"matmul(tanh(X * 2) * 3, tanh(W * 2) * 3)", 1, 3}, // the same function of two tensors
      {"gelu(X) * tanh(X * 2)", 1, 1},                    // another operator stands for it
      {"exp(X * 2) / sum(exp(X * 2), dim=1)", 0, 0},      // nothing opaque
      {"tanh(X) * W", 0, 0},                              // of two tensors
      {"relu(X), tanh(X)", 0, 0},                         // too short
      {"tanh(relu(X) * 2) + 1, relu(X)", 1, 2},           // a part of it is read too
  };
  for (size_t i = 0; i < COUNT(rows); i++) {
    struct arena mem = {0};
    struct calls c;
    const struct graph *p = plain(&mem, arena_printf(&mem, "program p() {\n X: f32[8, 8]\n W: f32[8, 8]\n return %s\n}\n", rows[i].returned));
    assert_int_equal(calls_of(&mem, p, &c), rows[i].calls > 0);
    if (rows[i].calls) {
      assert_int_equal(c.n, rows[i].calls);
      assert_int_equal(graph_ops(c.core), rows[i].core);
      const struct graph *back = calls_put(&mem, &c, c.core);
      assert_non_null(back);
      for (int k = 0; k < c.n; k++) assert_int_equal(count(back, c.as[k]), 0);
      assert_same_function(rows[i].returned, p, back);
    }
    arena_close(&mem);
  }
}

static void found_graphs_are_of_the_program(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct target t;
  struct search_result r;
  struct calls c;
  struct err e = {0};
  struct search_opts o = {.threads = 2, .seed = 7, .most = 8};
  const struct graph *p = plain(&mem, program);
  assert_true(search_is_hard_as_is(p, &o) && !search_is_hard(p, &o));
  assert_true(calls_of(&mem, p, &c));
  assert_int_equal(target_open("sm_90a", 1, true, &t, &e), OK);
  assert_int_equal(search_run(&mem, p, &t, &o, &r, &e), OK);
  assert_true(r.n > 0);
  for (int i = 0; i < r.n; i++) {
    assert_int_equal(count(r.found[i].g, c.as[0]), 0);
    assert_true(count(r.found[i].g, OP_RELU) > 0 && count(r.found[i].g, OP_MINIMUM) > 0);
    if (i < 2) assert_same_function("found", p, r.found[i].g);
  }
  arena_close(&mem);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(functions_are_operators_and_back), cmocka_unit_test(found_graphs_are_of_the_program)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

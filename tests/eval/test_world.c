// Programs of several ranks: values of the collective operators, compared with values computed by hand, and the graph of all ranks.
#include "evaluate.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct {
  int ranks;
  const char *call; // of A: f32[4, 2] shard(0), B: f32[2, 4] shard(1) and C: f32[2]
  double want[16];
} rows[] = {
    {1, "all_reduce(A)", {1, 2, 3, 4, 5, 6, 7, 8}},
    {1, "all_gather(A, dim=1)", {1, 2, 3, 4, 5, 6, 7, 8}},
    {1, "reduce_scatter(A, dim=0)", {1, 2, 3, 4, 5, 6, 7, 8}},
    {1, "shard(A, dim=1)", {1, 2, 3, 4, 5, 6, 7, 8}},
    {2, "all_reduce(A)", {6, 8, 10, 12}},
    {2, "all_gather(A, dim=0)", {1, 2, 3, 4, 5, 6, 7, 8}},
    {2, "all_gather(A, dim=1)", {1, 2, 5, 6, 3, 4, 7, 8}},
    {2, "all_gather(B, dim=-1)", {1, 2, 3, 4, 5, 6, 7, 8}},
    {2, "all_gather(reduce_scatter(A, dim=0), dim=0)", {6, 8, 10, 12}},
    {2, "all_gather(reduce_scatter(A, dim=1), dim=1)", {6, 8, 10, 12}},
    {2, "all_gather(reduce_scatter(A, dim=1), dim=0)", {6, 10, 8, 12}},
    {2, "all_gather(reduce_scatter(A, dim=0), dim=1)", {6, 8, 10, 12}},
    {2, "shard(A, dim=0)", {1, 2, 3, 4, 5, 6, 7, 8}},
    {2, "shard(A, dim=1)", {1, 2, 5, 6, 3, 4, 7, 8}},
    {2, "shard(reduce_scatter(A, dim=1), dim=1), shard(C, 0)", {6, 8, 10, 12, 10, 20, 10, 20}},
    {2, "all_reduce(C)", {20, 40}},
    {2, "all_gather(C, dim=0)", {10, 20, 10, 20}},
    {2, "all_gather(reduce_scatter(C, dim=0), dim=0)", {20, 40}},
    {2, "all_reduce(all_reduce(A))", {12, 16, 20, 24}},
    {2, "all_reduce(matmul(B, A))", {50, 60, 114, 140}},
    {2, "all_reduce(A * A), C", {26, 40, 58, 80, 10, 20}},
    {4, "all_reduce(A)", {16, 20}},
    {4, "all_gather(A, dim=1)", {1, 2, 3, 4, 5, 6, 7, 8}},
    {4, "all_gather(transpose(A), dim=1)", {1, 3, 5, 7, 2, 4, 6, 8}},
    {4, "all_reduce(matmul(B, A))", {50, 60, 114, 140}},
    {4,
     "all_gather(reduce_scatter(matmul(B, all_gather(A, dim=1)), dim=1), dim=1)",
     {10, 20, 30, 40, 50, 60, 70, 80, 26, 52, 78, 104, 130, 156, 182, 208}},
};

static struct graph *world(struct arena *mem, int ranks, const char *call)
{
  struct err e = {0};
  struct graph *all;
  const char *inputs = "A: f32[4, 2] shard(0)\n B: f32[2, 4] shard(1)\n C: f32[2]";
  struct graph *g = test_graph(mem, arena_printf(mem, "program w {\n world %d\n %s\n return %s\n}", ranks, inputs, call), false);
  if (graph_unfold(mem, g, &all, &e) || graph_check(all, &e)) fail_msg("%s: %s", call, e.text);
  return all;
}

static void values_of_all_ranks(void **state)
{
  (void)state;
  for (size_t row = 0; row < COUNT(rows); row++) {
    struct arena mem = {0};
    double a[] = {1, 2, 3, 4, 5, 6, 7, 8}, b[] = {1, 2, 3, 4, 5, 6, 7, 8}, c[] = {10, 20};
    struct values v = {.d = DOM_F64, .nin = 3, .in = {a, b, c}};
    const struct graph *g = world(&mem, rows[row].ranks, rows[row].call);
    assert_int_equal(g->world, 1);
    assert_false(graph_collects(g));
    test_run(&mem, g, NULL, &v);
    int64_t n = 0;
    for (int k = 0; k < v.nout; k++)
      for (int64_t i = 0; i < v.size[k]; i++, n++)
        if (test_real(&v, k, i) != rows[row].want[n])
          fail_msg("world %d, %s: value %lld is %g, not %g", rows[row].ranks, rows[row].call, (long long)n, test_real(&v, k, i), rows[row].want[n]);
    arena_close(&mem);
  }
}

static int count(const struct graph *g, enum op op)
{
  int n = 0;
  for (int i = 0; i < g->nnodes; i++) n += g->nodes[i].op == op;
  return n;
}

// Operators on what all ranks have stand there once, the others once a rank.
static void operators_of_all_ranks(void **state)
{
  (void)state;
  struct arena mem = {0};
  const struct graph *g = world(&mem, 4, "all_reduce(exp(A)) * exp(C)");
  assert_int_equal(count(g, OP_CHUNK), 8);
  assert_int_equal(count(g, OP_EXP), 5);
  assert_int_equal(count(g, OP_ADD), 3);
  assert_string_equal(g->tensors[0].name, "A");
  assert_int_equal(g->tensors[0].shape.d[0], 4);
  assert_int_equal(g->tensors[0].shard, 0);
  assert_string_equal(g->tensors[2].name, "A_1");
  arena_close(&mem);
}

static void ranks_are_not_evaluated_alone(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct err e = {0};
  double a[8] = {0};
  void *in[] = {a}, *out[1];
  struct graph *g = test_graph(&mem, "program w {\n world 2\n A: f32[4, 2] shard(0)\n return all_reduce(A)\n}", false);
  assert_int_equal(eval_run(&mem, g, DOM_F64, NULL, in, out, NULL, &e), USER);
  assert_int_equal(e.id, ERR_WORLD);
  assert_non_null(strstr(e.text, "w is one of 2"));
  arena_close(&mem);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(values_of_all_ranks),
      cmocka_unit_test(operators_of_all_ranks),
      cmocka_unit_test(ranks_are_not_evaluated_alone),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

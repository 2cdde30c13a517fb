// The printer: reading its text back gives the same graph, for random graphs of every kind and for odd names.
#include "front/front.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void round_trip(const struct graph *g)
{
  struct arena mem = {0};
  struct err e = {0};
  struct graph *again;
  struct str out = {0}, drawn = {0};
  graph_print(g, &out);
  if (front_parse(&mem, str_text(&out), out.n, "printed", 0, NULL, &again, &e)) fail_msg("%d:%d %s\n%s", e.at.line, e.at.col, e.text, str_text(&out));
  if (!graph_same(g, again)) fail_msg("reads back differently:\n%s", str_text(&out));
  graph_draw(g, &drawn);
  assert_true(drawn.n > 0);
  str_free(&out), str_free(&drawn), arena_close(&mem);
}

// ---- random graphs ---------------------------------------------------------------------------------

static double random_scalar(struct rng *r)
{
  static const double some[] = {0, 1, -1, 2, 0.5, -0.5, 3, 1e-5, 1e20, -1234567, 0.1};
  return rng_below(r, 4) ? some[rng_below(r, COUNT(some))] : rng_normal(r);
}

// One node over tensors that all are [4, 4], so that every choice has a good chance to fit.
static void random_node(struct graph *g, struct rng *r)
{
  enum op op = (enum op)rng_below(r, OPS);
  const struct op_row *row = &op_rows[op];
  if (row->rule == RULE_GRAPH || op == OP_INPUT || op == OP_ITER || op == OP_OUTPUT || op == OP_SAVE) return;
  struct attrs a = attrs_default(op);
  if (row->attrs & A_DIM) a.dim = (int)rng_below(r, 2);
  if ((row->attrs & A_GROUP) && rng_below(r, 2)) a.group = 2;
  if (row->attrs & A_SCALAR) a.scalar = random_scalar(r);
  if (row->attrs & A_LO) a.lo = random_scalar(r), a.hi = random_scalar(r);
  if ((row->attrs & A_EPS) && rng_below(r, 2)) a.eps = 1e-5;
  if (row->attrs & A_SHAPE) a.shape = rng_below(r, 2) ? (struct shape){2, {4, 4}} : (struct shape){2, {2, -1}};
  if ((row->attrs & A_PERM) && rng_below(r, 2)) a.perm = (struct shape){2, {1, 0}};
  if ((row->attrs & A_FMAP) && rng_below(r, 2)) a.fmap[0] = (int8_t)rng_below(r, 2);
  a.times = row->attrs & A_TIMES ? 2 : 0, a.parts = row->attrs & A_PARTS ? 2 : 0;
  a.index = row->attrs & A_INDEX ? 1 : 0, a.extent = row->attrs & A_EXTENT ? 2 : 0;
  int in[4], n = row->least + (int)rng_below(r, (uint64_t)(MIN(row->most, 4) - row->least + 1)), out;
  for (int i = 0; i < n; i++) in[i] = g->ntensors - 1 - (int)rng_below(r, (uint64_t)MIN(g->ntensors, 4));
  struct err e = {0};
  if (graph_add(g, op, n, in, &a, NOWHERE, &out, &e)) return;
  if (rng_below(r, 4) || g->nodes[g->nnodes - 1].nout == 0) return;
  static const char *const names[] = {"t0", "t3", "return", "x y", "2", "inf", "_", "A", "A_2", "sum", "block", "\xc3\xa9"};
  graph_name(g, out, names[rng_below(r, COUNT(names))], NOWHERE, &e);
}

static struct graph *random_program(struct arena *mem, struct rng *r)
{
  struct graph *g = graph_new(mem, KERNEL, rng_below(r, 2) ? "random" : NULL);
  struct err e = {0};
  struct shape s = {2, {4, 4}};
  int t, inputs = 1 + (int)rng_below(r, 3), n = 1 + (int)rng_below(r, 12);
  assert_int_equal(graph_world(g, rng_below(r, 3) ? 1 : 2, NOWHERE, &e), OK);
  for (int i = 0; i < inputs; i++) {
    assert_int_equal(graph_input(g, rng_below(r, 2) ? arena_printf(mem, "A%d", i) : NULL, F32, &s, NOWHERE, &t, &e), OK);
    if (!rng_below(r, 4)) assert_int_equal(graph_shard(g, t, (int64_t)rng_below(r, 2), NOWHERE, &e), OK);
  }
  for (int i = 0; i < n; i++) random_node(g, r);
  int out[3];
  n = 1 + (int)rng_below(r, 3);
  for (int i = 0; i < n; i++) out[i] = g->ntensors - 1 - (int)rng_below(r, (uint64_t)MIN(g->ntensors, 3));
  const struct attrs rows = attrs_default(OP_SHARD);
  for (int i = 0; i < n && g->world > 1; i++) { // of what is no constant, or else an input
    const enum op op = rng_below(r, 2) ? OP_ALL_REDUCE : OP_SHARD;
    if (graph_add(g, op, 1, &out[i], &rows, NOWHERE, &out[i], &(struct err){0}))
      assert_int_equal(graph_add(g, op, 1, (int[]){0}, &rows, NOWHERE, &out[i], &e), OK);
  }
  for (int i = 0; i < n; i++) assert_int_equal(graph_add(g, OP_OUTPUT, 1, &out[i], NULL, NOWHERE, &t, &e), OK);
  return g;
}

static void test_random_programs(void **state)
{
  (void)state;
  struct rng r = {1};
  int tried = 0;
  for (int i = 0; i < 4000; i++) {
    struct arena mem = {0};
    struct err e = {0};
    struct graph *g = random_program(&mem, &r);
    if (graph_check(g, &e) == OK) round_trip(g), tried++;
    arena_close(&mem);
  }
  assert_true(tried > 2000);
}

// Saves what nothing uses, accumulated where it must be.
static int save_unused(struct graph *b)
{
  struct err e = {0};
  int n = b->ntensors, t;
  bool *used = calloc((size_t)n, sizeof *used);
  for (int i = 0; i < b->nnodes; i++)
    for (int k = 0; k < b->nodes[i].nin; k++) used[b->nodes[i].in[k]] = true;
  for (int i = 0; i < n; i++) {
    struct attrs save = attrs_default(OP_SAVE);
    int out = i;
    if (used[i]) continue;
    if (b->tensors[i].phase == VARYING) graph_add(b, OP_ACCUM, 1, &i, NULL, NOWHERE, &out, &e);
    if (b->tensors[i].shape.n) save.omap[0] = (int8_t)(i % b->tensors[i].shape.n);
    graph_add(b, OP_SAVE, 1, &out, &save, NOWHERE, &t, &e);
  }
  free(used);
  return (int)e.status;
}

// A block over x=2, i=2 whose body is random.
static struct graph *random_block(struct arena *mem, struct rng *r)
{
  struct graph *g = graph_new(mem, KERNEL, "random"), *b = graph_new(mem, BLOCK, NULL);
  struct err e = {0};
  struct shape s = {2, {8, 8}};
  graph_axes(b, 1, (int64_t[]){2}, 1, (int64_t[]){2});
  int from[3], n = 1 + (int)rng_below(r, 3), t;
  for (int i = 0; i < n; i++) {
    struct attrs a = attrs_default(OP_ITER);
    a.imap[0] = 0, a.fmap[0] = 1;
    graph_input(g, rng_below(r, 2) ? arena_printf(mem, "A%d", i) : NULL, F32, &s, NOWHERE, &from[i], &e);
    assert_int_equal(graph_iter(b, g, from[i], &a, NOWHERE, &t, &e), OK);
  }
  for (int i = 0; i < 10; i++) random_node(b, r);
  int first;
  if (save_unused(b) || graph_nest(g, b, n, from, NOWHERE, &first, &e)) return NULL;
  for (; first < g->ntensors; first++) assert_int_equal(graph_add(g, OP_OUTPUT, 1, &first, NULL, NOWHERE, &t, &e), OK);
  return g;
}

static void test_random_blocks(void **state)
{
  (void)state;
  struct rng r = {2};
  int tried = 0;
  for (int i = 0; i < 4000; i++) {
    struct arena mem = {0};
    struct err e = {0};
    struct graph *g = random_block(&mem, &r);
    if (g && graph_check(g, &e) == OK) round_trip(g), tried++;
    arena_close(&mem);
  }
  print_message("%d graphs\n", tried);
  assert_true(tried > 300);
}

// ---- the drawing -------------------------------------------------------------------------------------

static void test_drawing(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct err e = {0};
  struct graph *g;
  struct str out = {0};
  const char *text = "graph g {\n X: f16[4, 8]\n Y = block(x=2; i=2) {\n  a = iter(X, imap={x:0}, fmap={i:1})\n  w = iter(X)\n"
                     "  l = thread(x=2) { v = iter(a, imap={x:0}); save(exp(v), omap={x:0}) }\n"
                     "  s = accum(sum(l, dim=1))\n  save(s / sum(w, dim=0, group=2), omap={x:0})\n }\n return relu(Y)\n}\n";
  if (front_parse(&mem, text, strlen(text), "test", 0, NULL, &g, &e)) fail_msg("%s", e.text);
  graph_draw(g, &out);
  assert_string_equal(str_text(&out), "g\n"
                                      "  input     X             f16[4, 8]\n"
                                      "  ┌ kernel 1: 2 blocks (x=2), 2 iterations (i=2), 5 operators, 168 bytes of tiles\n"
                                      "  │ load  w = X[:, :]                  f16[4, 8]\n"
                                      "  │       t1 = sum(w, dim=0, group=2)  f16[2, 8]\n"
                                      "  ├ for i < 2\n"
                                      "  │ load  a = X[x, i]                  f16[2, 4]\n"
                                      "  │ ┌ threads: 2 threads (x=2), 1 operator, 16 bytes of registers\n"
                                      "  │ │ load  v = a[x, :]   f16[1, 4]\n"
                                      "  │ │       t0 = exp(v)   f16[1, 4]\n"
                                      "  │ │ save  l[x, :] = t0  f16[2, 4]\n"
                                      "  │ └\n"
                                      "  │       t0 = sum(l, dim=1)           f16[2, 1]\n"
                                      "  │ acc   s = accum(t0)                f16[2, 1]\n"
                                      "  ├ after the loop\n"
                                      "  │       t2 = s / t1                  f16[2, 8]\n"
                                      "  │ save  Y[x, :] = t2                 f16[4, 8]\n"
                                      "  └\n"
                                      "  kernel 2  t0 = relu(Y)  f16[4, 8]\n"
                                      "  output    t0            f16[4, 8]\n");
  str_free(&out), arena_close(&mem);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_random_programs),
      cmocka_unit_test(test_random_blocks),
      cmocka_unit_test(test_drawing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

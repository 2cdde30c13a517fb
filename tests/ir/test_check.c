// The checker of graphs. Graphs of the parser pass. The same graphs with one field changed directly, not by graph_add, are refused, with a message that
// names the error.
#include "front/front.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const char attention[] = "graph attention {\n Q: f32[4, 8]\n K: f32[8, 16]\n V: f32[16, 6]\n"
                                " O = block(x=2; i=4) {\n"
                                "  q = iter(Q, imap={x:0})\n  k = iter(K, fmap={i:1})\n  v = iter(V, fmap={i:0})\n"
                                "  e = exp(matmul(q, k))\n  n = accum(matmul(e, v))\n  d = accum_sum(e, dim=1)\n"
                                "  save(n / d, omap={x:0})\n }\n return O\n}\n";

static struct graph *parse(struct arena *mem, const char *text)
{
  struct err e = {0};
  struct graph *g = NULL;
  if (front_parse(mem, text, strlen(text), "test", 0, NULL, &g, &e)) fail_msg("%s", e.text);
  return g;
}

static struct node *find(struct graph *g, enum op op)
{
  for (int i = 0; i < g->nnodes; i++)
    if (g->nodes[i].op == op) return &g->nodes[i];
  fail_msg("no such node");
  return NULL;
}

static struct graph *sub(struct graph *g) { return find(g, OP_BLOCK)->sub; }

static void cycle(struct graph *g) { find(sub(g), OP_MATMUL)->in[0] = find(sub(g), OP_EXP)->out; }
static void stranger(struct graph *g) { find(sub(g), OP_EXP)->in[0] = 999; }
static void arity(struct graph *g) { find(sub(g), OP_MATMUL)->nin = 1; }
static void level(struct graph *g) { find(sub(g), OP_EXP)->op = OP_ALL_REDUCE; }
static void unknown(struct graph *g) { find(sub(g), OP_EXP)->op = OPS; }
static void shape(struct graph *g) { sub(g)->tensors[find(sub(g), OP_EXP)->out].shape.d[1] = 5; }
static void dtype(struct graph *g) { sub(g)->tensors[find(sub(g), OP_EXP)->out].dtype = BF16; }
static void phase(struct graph *g) { sub(g)->tensors[find(sub(g), OP_EXP)->out].phase = AFTER; }
static void tile(struct graph *g) { find(sub(g), OP_ITER)->a.imap[0] = 1; }
static void extent(struct graph *g) { sub(g)->grid[0] = 3; }
static void empty_axis(struct graph *g) { sub(g)->loop[0] = 0; }
static void replica(struct graph *g) { find(sub(g), OP_SAVE)->a.omap[0] = REPLICA; }
static void no_such_axis(struct graph *g) { find(sub(g), OP_SAVE)->a.omap[1] = 0; }
static void unaccumulated(struct graph *g) { find(sub(g), OP_SAVE)->in[0] = find(sub(g), OP_EXP)->out; }
static void twice(struct graph *g) { find(sub(g), OP_ACCUM_SUM)->in[0] = find(sub(g), OP_ACCUM)->out; }
static void unused(struct graph *g) { find(sub(g), OP_DIV)->in[1] = find(sub(g), OP_DIV)->in[0]; }
static void no_output(struct graph *g) { g->nnodes--; }
static void no_saver(struct graph *g) { sub(g)->nnodes--; }
static void arguments(struct graph *g) { find(g, OP_BLOCK)->nin = 2; }
static void other_argument(struct graph *g) { find(g, OP_BLOCK)->in[1] = 0; }
static void no_graph(struct graph *g) { find(g, OP_BLOCK)->sub = NULL; }
static void same_name(struct graph *g) { g->tensors[1].name = g->tensors[0].name; }
static void same_level(struct graph *g) { sub(g)->level = THREAD; }
static void producer(struct graph *g) { g->tensors[0].node = 1; }
static void huge(struct graph *g) { g->tensors[0].shape.d[0] = (int64_t)1 << 40; }
static void kernel_axes(struct graph *g) { g->ngrid = 1, g->grid[0] = 2; }

static const struct {
  void (*break_it)(struct graph *g);
  const char *text;
} broken[] = {
    {cycle, "in the block graph of node 3, node 3 (matmul): tensor `e` is used before it is made: the graph is cyclic"},
    {stranger, "argument 1 is tensor 999, which does not exist"},
    {arity, "(matmul): has 1 arguments"},
    {level, "node 4 (all_reduce): not an operator of block graphs"},
    {unknown, "node 4 (?): no such operator"},
    {shape, "`e` [2, 5] should have the shape [2, 4]"},
    {dtype, "`e` [2, 4] is bf16, should be f32"},
    {phase, "`e` [2, 4] is after, should be varying"},
    {tile, "`q` [2, 8] should have the shape [4, 4]"},
    {extent, "dimension 0 has no 3 equal parts left for axis x"},
    {empty_axis, "in the block graph of node 3, the block graph has a grid or loop extent below 1"},
    {replica, "the 2 blocks along x all save"},
    {no_such_axis, "a map names axis y, which the graph has not"},
    {unaccumulated, "changes with the for-loop"},
    {twice, "accumulates a tensor that exists only after the loop"},
    {unused, "`d` [2, 1] is never used"},
    {no_output, "the kernel graph has no output"},
    {no_saver, "the block graph has no output"},
    {arguments, "2 arguments, but 3 iterators inside"},
    {other_argument, "`k` [8, 4] should have the shape [4, 2]"},
    {no_graph, "has no graph inside"},
    {same_name, "the name `Q` is taken by tensor 0"},
    {same_level, "holds a thread graph"},
    {producer, "tensor t0 names node 1 as its producer"},
    {huge, "fewer than 2^40 elements"},
    {kernel_axes, "has grid or loop axes"},
};

static void explains_what_is_broken(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(broken); i++) {
    struct arena mem = {0};
    struct err e = {0};
    struct graph *g = parse(&mem, attention);
    assert_int_equal(graph_check(g, &e), OK);
    broken[i].break_it(g);
    assert_int_not_equal(graph_check(g, &e), OK);
    if (!strstr(e.text, broken[i].text)) fail_msg("case %zu: \"%s\" does not hold \"%s\"", i, e.text, broken[i].text);
    assert_true(*e.hint);
    arena_close(&mem);
  }
}

static void accepts_what_is_legal(void **state)
{
  (void)state;
  static const char *const good[] = {
      // an axis of one block needs no place in omap; one result of accum_max may stay unused
      "graph a { X: f32[4, 8]\n Y = block(x=1; i=2) { x = iter(X, fmap={i:1})\n m, c = accum_max(max(x, dim=1))\n "
      "save(m) }\n return Y }",
      // two axes share a dimension; a fixed tensor is used in the loop and after it
      "graph b { X: f32[8, 4]\n W: f32[4]\n Y = block(x=2, y=2; i=2) { x = iter(X, imap={x:0, y:0}, fmap={i:0})\n w = "
      "iter(W)\n"
      " save(accum(x * w, fmap={i:0}) * w, omap={x:0, y:0}) }\n return Y }",
      // results of kernels may stay unused
      "graph c { X: f32[4, 8]\n A, B = split(X, dim=0, parts=2)\n return B }",
  };
  for (size_t i = 0; i < COUNT(good); i++) {
    struct arena mem = {0};
    struct err e = {0};
    if (graph_check(parse(&mem, good[i]), &e)) fail_msg("case %zu: %s", i, e.text);
    arena_close(&mem);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(explains_what_is_broken), cmocka_unit_test(accepts_what_is_legal)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

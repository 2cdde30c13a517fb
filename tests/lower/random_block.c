// Block graphs at random, without products.
#include "random_block.h"
#include "../graphs.h"

struct random_graph {
  struct rng r;
  struct graph *g, *b;
  int in[4], nin;
  bool used[64];
};

static int pick(struct random_graph *x, int n) { return (int)rng_below(&x->r, (uint64_t)n); }

static void add_random(struct random_graph *x)
{
  static const enum op ops[] = {OP_SIGMOID,    OP_RELU,      OP_NEG,   OP_TANH,      OP_MUL_SCALAR, OP_ADD,   OP_SUB,       OP_MUL,   OP_MAXIMUM,
                                OP_MUL,        OP_ADD,       OP_SUM,   OP_MEAN,      OP_MAX,        OP_SUM,   OP_TRANSPOSE, OP_ACCUM, OP_ACCUM_SUM,
                                OP_ACCUM_MEAN, OP_ACCUM_RMS, OP_ACCUM, OP_ACCUM_SUM, OP_SPLIT,      OP_CHUNK, OP_CONCAT,    OP_CONCAT};
  enum op op = ops[pick(x, (int)COUNT(ops))];
  struct attrs a = attrs_default(op);
  struct err e = {0};
  int in[2] = {pick(x, x->b->ntensors), pick(x, x->b->ntensors)}, out, n = op == OP_CONCAT ? 2 : op_rows[op].least;
  if (pick(x, 3)) in[0] = x->b->ntensors - 1; // chains, rather than bushes
  a.dim = pick(x, 2), a.scalar = 0.5, a.parts = 2, a.index = pick(x, 2);
  if (op == OP_ACCUM && x->b->nloop && pick(x, 2)) a.fmap[0] = (int8_t)pick(x, 2);
  if (graph_add(x->b, op, n, in, &a, NOWHERE, &out, &e)) return;
  for (int i = 0; i < n; i++) x->used[in[i]] = true;
}

// Whatever nothing has used is saved, in the loop accumulated first.
static void save_rest(struct random_graph *x)
{
  struct attrs a = attrs_default(OP_SAVE), sum = attrs_default(OP_ACCUM);
  struct err e = {0};
  a.omap[0] = (int8_t)pick(x, 2);
  for (int i = 0, n = x->b->ntensors; i < n; i++) {
    int t = i, none;
    if (x->used[i]) continue;
    if (x->b->tensors[i].phase == VARYING) assert_int_equal(graph_add(x->b, OP_ACCUM, 1, &i, &sum, NOWHERE, &t, &e), OK);
    assert_int_equal(graph_add(x->b, OP_SAVE, 1, &t, &a, NOWHERE, &none, &e), OK);
  }
}

static void iterate(struct random_graph *x, int64_t rows, int64_t columns)
{
  struct attrs a = attrs_default(OP_ITER);
  struct shape s = {2, {rows, columns}};
  struct err e = {0};
  int out;
  assert_int_equal(graph_input(x->g, NULL, pick(x, 3) ? F32 : F16, &s, NOWHERE, &x->in[x->nin], &e), OK);
  a.imap[0] = (int8_t)(rows > 1 && pick(x, 4) ? 0 : REPLICA);
  a.fmap[0] = (int8_t)(x->b->nloop && columns > 1 && pick(x, 3) ? 1 : REPLICA);
  assert_int_equal(graph_iter(x->b, x->g, x->in[x->nin++], &a, NOWHERE, &out, &e), OK);
}

struct graph *random_block(struct arena *mem, uint64_t seed)
{
  static const int64_t extents[] = {4, 6, 10, 12, 24, 40};
  struct random_graph x = {.r = {seed}, .g = graph_new(mem, KERNEL, "random"), .b = graph_new(mem, BLOCK, NULL)};
  struct err e = {0};
  int64_t rows = 2 * extents[pick(&x, 3)], columns = extents[pick(&x, 6)], two = 2;
  int out, first;
  graph_axes(x.b, 1, &two, pick(&x, 2), &two);
  iterate(&x, rows, columns);
  if (pick(&x, 2)) iterate(&x, rows, columns);
  if (pick(&x, 2)) iterate(&x, 1, columns);
  if (pick(&x, 2)) iterate(&x, rows, 1);
  for (int i = 0, n = 3 + pick(&x, 8); i < n; i++) add_random(&x);
  save_rest(&x);
  if (graph_nest(x.g, x.b, x.nin, x.in, NOWHERE, &first, &e)) fail_msg("seed %d: %s", (int)seed, e.text);
  for (int i = first, n = x.g->ntensors; i < n; i++) assert_int_equal(graph_add(x.g, OP_OUTPUT, 1, &i, NULL, NOWHERE, &out, &e), OK);
  if (graph_check(x.g, &e)) fail_msg("seed %d: %s", (int)seed, e.text);
  return x.g;
}

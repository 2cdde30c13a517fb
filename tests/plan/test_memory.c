// Scratch planning: every plan is executed on labelled slots, which shows that no tensor is overwritten while it is
// still to be read; small plans are compared with all placements there are.
#include "front/front.h"
#include "plan/plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { SLOT = 64, SLOTS = 4096 };

struct machine {
  const struct graph *g;
  const int64_t *offset;
  int owner[SLOTS]; // tensor last written to each slot
};

static int root(const struct graph *g, int t)
{
  const struct node *n = &g->nodes[g->tensors[t].node];
  return n->op == OP_RESHAPE ? root(g, n->in[0]) : t;
}

static int64_t slots(const struct graph *g, int t) { return (4 * shape_size(&g->tensors[t].shape) + SLOT - 1) / SLOT; }

static void write_to(struct machine *m, int t)
{
  if (m->offset[t] < 0) return;
  for (int64_t i = 0; i < slots(m->g, t); i++) m->owner[m->offset[t] / SLOT + i] = root(m->g, t);
}

static bool intact(const struct machine *m, int t)
{
  for (int64_t i = 0; i < slots(m->g, t) && m->offset[t] >= 0; i++)
    if (m->owner[m->offset[t] / SLOT + i] != root(m->g, t)) return false;
  return true;
}

static enum phase stage(const struct graph *g, const struct node *n)
{
  if (!g->nloop) return FIXED;
  if (n->op == OP_SAVE) return AFTER;
  if (op_rows[n->op].rule == RULE_ACCUM) return VARYING;
  enum phase p = g->tensors[n->out].phase;
  return p == RUN ? VARYING : p;
}

// Results are written before arguments are read, since a kernel may do both element by element.
static bool execute(struct machine *m, enum phase p)
{
  for (int i = 0; i < m->g->nnodes; i++) {
    const struct node *n = &m->g->nodes[i];
    if (stage(m->g, n) != p) continue;
    if (m->g->nloop && op_rows[n->op].rule == RULE_ACCUM && !intact(m, n->out)) return false;
    for (int k = 0; k < n->nout && n->op != OP_RESHAPE; k++) write_to(m, n->out + k);
    for (int k = 0; k < n->nout; k++)
      if (!intact(m, n->out + k)) return false;
    for (int k = 0; k < n->nin; k++)
      if (!intact(m, n->in[k])) return false;
  }
  return true;
}

static bool runs(const struct graph *g, const int64_t *offset)
{
  struct machine m = {g, offset, {0}};
  memset(m.owner, -1, sizeof m.owner);
  if (!execute(&m, FIXED)) return false;
  if (!g->nloop) return true;
  for (int i = 0; i < g->nnodes; i++) // accumulators start at zero
    if (op_rows[g->nodes[i].op].rule == RULE_ACCUM) write_to(&m, g->nodes[i].out);
  return execute(&m, VARYING) && execute(&m, VARYING) && execute(&m, AFTER);
}

static bool planned(const struct graph *g, int t) { return root(g, t) == t && g->nodes[g->tensors[t].node].op != OP_CONST; }

// Is there a placement of total at most `limit` slots? Tries all.
static bool fits(const struct graph *g, int64_t *offset, int t, int64_t limit)
{
  if (t == g->ntensors) return runs(g, offset);
  if (!planned(g, t)) {
    offset[t] = root(g, t) == t ? -1 : offset[root(g, t)];
    return fits(g, offset, t + 1, limit);
  }
  for (int64_t at = 0; at + slots(g, t) <= limit; at++) {
    offset[t] = at * SLOT;
    if (fits(g, offset, t + 1, limit)) return true;
  }
  return false;
}

// A block graph over random operators; what does not fit together is skipped.
static const struct graph *random_block(struct arena *mem, struct rng *r, int nodes)
{
  static const enum op ops[] = {OP_EXP, OP_ADD, OP_SUM, OP_ACCUM, OP_ACCUM_MAX, OP_RESHAPE, OP_TRANSPOSE, OP_ACCUM_SUM, OP_MUL};
  struct graph *k = graph_new(mem, KERNEL, NULL), *g = graph_new(mem, BLOCK, NULL);
  struct shape s = {2, {32, 16}};
  int x, t;
  struct err none = {0};
  (void)graph_input(k, "X", F32, &s, NOWHERE, &x, &none);
  graph_axes(g, 0, NULL, (int)rng_below(r, 3) > 0, (const int64_t[]){2});
  for (int i = 0; i < 64 && g->nnodes < nodes; i++) {
    struct err e = {0};
    bool first = !g->ntensors || !rng_below(r, 4);
    enum op op = ops[rng_below(r, COUNT(ops))];
    struct attrs a = attrs_default(first ? OP_ITER : op);
    if (first && g->nloop && rng_below(r, 2)) a.fmap[0] = 0;
    a.dim = (int)rng_below(r, 2), a.shape = (struct shape){1, {-1}};
    if (first) {
      (void)graph_iter(g, k, x, &a, NOWHERE, &t, &e);
      continue;
    }
    int in[] = {(int)rng_below(r, (uint64_t)g->ntensors), (int)rng_below(r, (uint64_t)g->ntensors)};
    (void)graph_add(g, op, op_rows[op].least, in, &a, NOWHERE, &t, &e);
  }
  for (int i = 0; i < g->ntensors; i++)
    if (g->tensors[i].phase != VARYING && rng_below(r, 2)) (void)graph_add(g, OP_SAVE, 1, &i, NULL, NOWHERE, NULL, &none);
  return g;
}

static int64_t plan(struct arena *mem, const struct graph *g, int64_t *offset)
{
  int64_t total;
  assert_int_equal(plan_scratch(mem, g, 4, NULL, offset, &total), OK);
  for (int t = 0; t < g->ntensors; t++) {
    assert_int_equal(offset[t] < 0 ? 0 : offset[t] % SLOT, 0);
    assert_true(offset[t] + (offset[t] < 0 ? 0 : slots(g, t) * SLOT) <= total);
  }
  return total;
}

static void nothing_is_overwritten(void **state)
{
  (void)state;
  struct rng r = {1};
  int64_t offset[64];
  for (int i = 0; i < 3000; i++) {
    struct arena mem = {0};
    const struct graph *g = random_block(&mem, &r, 3 + i % 20);
    (void)plan(&mem, g, offset);
    if (!runs(g, offset)) fail_msg("random block %d", i);
    arena_close(&mem);
  }
}

static void small_plans_are_the_best(void **state)
{
  (void)state;
  struct rng r = {2};
  int64_t offset[64];
  int better_than_no_sharing = 0, tried = 0;
  for (int i = 0; i < 600; i++) {
    struct arena mem = {0};
    struct graph *g = (struct graph *)random_block(&mem, &r, 5);
    for (int t = 0; t < g->ntensors; t++) { // small extents; plans only look at sizes and phases
      int64_t size = (int64_t)(16 * (1 + rng_below(&r, 3)));
      g->tensors[t].shape = root(g, t) == t ? (struct shape){1, {size}} : g->tensors[root(g, t)].shape;
    }
    int64_t total = plan(&mem, g, offset), all = 0, placements = 1;
    for (int t = 0; t < g->ntensors; t++) {
      all += planned(g, t) ? slots(g, t) * SLOT : 0;
      placements *= planned(g, t) ? total / SLOT : 1;
    }
    better_than_no_sharing += total < all;
    bool small = total && placements < 20000;
    tried += small;
    if (small && fits(g, offset, 0, total / SLOT - 1)) fail_msg("block %d: %lld bytes are not the least", i, (long long)total);
    arena_close(&mem);
  }
  assert_true(tried > 100 && better_than_no_sharing > 20);
}

static void skipped_tensors_take_no_room(void **state)
{
  (void)state;
  static const char text[] = "graph g { Q: f32[16, 16]\n K: f32[16, 64]\n O = block(; i=4) { q = iter(Q)\n k = iter(K, fmap={i:1})\n"
                             " s = matmul(q, k)\n r = reshape(s, [256])\n c = const(2)\n save(accum(r * c)) }\n return O }";
  struct arena mem = {0};
  struct err e = {0};
  struct graph *g;
  assert_int_equal(front_parse(&mem, text, sizeof text - 1, "t", 0, NULL, &g, &e), OK);
  g = g->nodes[2].sub;
  bool skip[16] = {true};
  int64_t offset[16], total, with;
  assert_int_equal(plan_scratch(&mem, g, 4, skip, offset, &total), OK);
  assert_int_equal(offset[0], -1);
  assert_true(offset[2] >= 0 && offset[2] == offset[3]); // the reshape is the matrix
  assert_int_equal(offset[4], -1);                       // the constant
  assert_int_equal(plan_scratch(&mem, g, 4, NULL, offset, &with), OK);
  assert_int_equal(with - total, 1024);
  arena_close(&mem);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nothing_is_overwritten),
      cmocka_unit_test(small_plans_are_the_best),
      cmocka_unit_test(skipped_tensors_take_no_room),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

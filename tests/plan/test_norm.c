// Normal forms against the interpreter. Each input element is its own number, so saved elements show their origin. It must be that of the normal form.
#include "../graphs.h"
#include "eval/eval.h"
#include "lower/lower.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const struct {
  const char *name, *text;
} views[] = {
    {"plain", "X: f32[4, 6]\n O = block(x=2, y=3) { t = iter(X, imap={x:0, y:1})\n save(t, omap={x:0, y:1}) }\n return O"},
    {"two axes on one dimension", "X: f32[4, 12]\n O = block(x=3, y=2) { t = iter(X, imap={x:1, y:1})\n save(t, omap={x:0, y:1}) }\n return O"},
    {"a transpose above", "X: f32[4, 6]\n T = transpose(X)\n O = block(x=3) { t = iter(T, imap={x:0})\n save(t, omap={x:0}) }\n return O"},
    {"a transpose inside", "X: f32[4, 6]\n O = block(x=3) { t = iter(X, imap={x:1})\n save(transpose(t), omap={x:0}) }\n return O"},
    {"a reshape above", "X: f32[4, 6]\n T = reshape(X, [2, 12])\n O = block(x=4) { t = iter(T, imap={x:1})\n save(t, omap={x:1}) }\n return O"},
    {"reshapes inside", "X: f32[4, 12]\n O = block(x=2) { t = iter(X, imap={x:0})\n save(reshape(transpose(reshape(t, [2, 3, 4]), perm=[2, 0, 1]), "
                        "[4, 6]), omap={x:1}) }\n return O"},
    {"repeated above", "X: f32[4, 6]\n T = repeat(X, dim=0, times=3)\n O = block(x=2) { t = iter(T, imap={x:0})\n save(t, omap={x:0}) }\n return O"},
    {"repeated inside", "X: f32[4, 6]\n O = block(x=2) { t = iter(X, imap={x:0})\n save(repeat(t, dim=1, times=2), omap={x:0}) }\n return O"},
    {"heads in groups", "X: f32[1, 8, 2, 4]\n T = reshape(X, [1, 2, 4, 2, 4])\n O = block(x=2, y=2) { t = iter(T, imap={x:1, y:2})\n save(reshape(t, "
                        "[1, 1, 4, 4]), omap={x:1, y:2}) }\n return O"},
    {"four dimensions permuted", "X: f32[2, 3, 4, 5]\n T = transpose(X, perm=[2, 0, 3, 1])\n O = block(x=2, y=3) { t = iter(T, imap={x:0, y:3})\n "
                                 "save(t, omap={x:2, y:1}) }\n return O"},
    {"a loop of one", "X: f32[4, 6]\n O = block(x=2; i=1) { t = iter(X, imap={x:0}, fmap={i:1})\n save(accum(t), omap={x:0}) }\n return O"},
};

static struct graph *read(struct arena *mem, const char *text) { return graph_of(mem, arena_printf(mem, "graph g {\n %s\n}\n", text)); }

// Walks all blocks and letters; returns how many elements were compared.
static int compare(const struct norm *n, const double *saved)
{
  const struct graph *b = n->block;
  const struct plan_access *from = &n->iter[0], *to = &n->save[0];
  int count = 0;
  int64_t letters = norm_extent(n, n->t[to->tile].has);
  for (int64_t block = 0; block < graph_blocks(b); block++)
    for (int64_t at = 0; at < letters; at++) {
      int64_t source = from->offset, target = to->offset, rest = block, left = at;
      for (int i = b->ngrid - 1; i >= 0; rest /= b->grid[i--]) source += rest % b->grid[i] * from->grid[i], target += rest % b->grid[i] * to->grid[i];
      for (int l = 0; l < n->nletters; l++)
        if (n->t[to->tile].has >> l & 1)
          source += left % n->extent[l] * from->stride[l], target += left % n->extent[l] * to->stride[l], left /= n->extent[l];
      assert_int_equal((int64_t)saved[target], source);
      count++;
    }
  return count;
}

static void accesses(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(views); i++) {
    struct arena mem = {0};
    struct graph *g = read(&mem, views[i].text);
    struct err e = {0};
    struct norm n;
    char why[160];
    int node = 0;
    double input[512], *output;
    for (int k = 0; k < 512; k++) input[k] = k;
    while (g->nodes[node].op != OP_BLOCK) node++;
    assert_int_equal(eval_run(&mem, g, DOM_F64, NULL, (void *[]){input}, (void **)&output, NULL, &e), OK);
    if (norm_make_in(&mem, g, NULL, node, &n, why) != OK) fail_msg("%s: %s", views[i].name, why);
    assert_int_equal(compare(&n, output), shape_size(&g->tensors[g->nodes[node].out].shape));
    arena_close(&mem);
  }
}

static void products(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct graph *g = read(&mem, "Q: f16[1, 8, 4, 16]\n K: f16[1, 2, 32, 16]\n T = reshape(Q, [1, 2, 4, 4, 16])\n"
                               "O = block(x=2; i=4) { q = iter(T, imap={x:1})\n k = iter(K, imap={x:1}, fmap={i:2})\n"
                               "s = matmul(reshape(q, [1, 1, 16, 16]), transpose(k))\n save(accum_sum(exp(s), dim=3), omap={x:1}) }\n return O");
  struct norm n;
  char why[160];
  int node = 0, product = 0;
  while (g->nodes[node].op != OP_BLOCK) node++;
  assert_int_equal(norm_make_in(&mem, g, NULL, node, &n, why), OK);
  while (n.block->nodes[product].op != OP_MATMUL) product++;
  struct norm_product p = norm_product(&n, product);
  assert_int_equal(norm_extent(&n, p.rows), 16);
  assert_int_equal(norm_extent(&n, p.cols), 8);
  assert_int_equal(norm_extent(&n, p.sum), 16);
  assert_int_equal(p.batch, 0);
  assert_int_equal(p.a, n.iter[0].tile); // the reshape is no tensor of its own
  assert_int_equal(p.b, n.iter[1].tile);
  assert_int_equal(n.uses[p.out], 1);
  arena_close(&mem);
}

// Letters of loop axes, where parts are joined: two axes on one dimension, the parts of one of them reshaped.
static void joined(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct graph *g = read(&mem, "X: f32[24, 6]\n O = block(; i=2, j=6) { t = iter(X, fmap={i:0, j:0})\n"
                               "a = accum(t, fmap={i:0, j:0})\n save(reshape(a, [4, 6, 6]) + accum_sum(t, dim=0)) }\n return O");
  struct norm n;
  char why[160];
  int node = 0;
  while (g->nodes[node].op != OP_BLOCK) node++;
  assert_int_equal(norm_make_in(&mem, g, NULL, node, &n, why), OK);
  assert_true(n.joins);
  const struct plan_access *save = &n.save[0];
  int64_t seen = 0;
  for (int k = 0; k < 2; k++)
    for (int l = 0, last = 0; l < n.nletters; l++) {
      if (!n.step[k][l]) continue;
      assert_true(n.t[save->tile].has >> l & 1);
      // A step of the loop is as far in what is saved as in what is read.
      assert_int_equal(save->stride[l], n.iter[0].loop[k] * n.step[k][l]);
      seen += (n.extent[l] - 1) * n.step[k][l], last++;
      assert_in_range(last, 1, 2);
    }
  assert_int_equal(seen, 1 + 5); // all of both axes
  arena_close(&mem);
}

// A graph without a normal form is refused with a reason.
static void refused(void **state)
{
  (void)state;
  static const char *const bad[] = {
      "X: f32[4, 6]\n Y: f32[2, 6]\n O = block() { t = iter(X)\n y = iter(Y)\n save(concat(t, y, dim=0)) }\n return O",
      "X: f32[4, 6]\n T = reshape(transpose(X), [24])\n O = block(x=2) { t = iter(T, imap={x:0})\n save(reshape(t, [4, 3]), omap={x:0}) }\n return O",
  };
  for (size_t i = 0; i < COUNT(bad); i++) {
    struct arena mem = {0};
    struct graph *g = read(&mem, bad[i]);
    struct norm n;
    char why[160] = "";
    int node = 0;
    while (g->nodes[node].op != OP_BLOCK) node++;
    int status = norm_make_in(&mem, g, NULL, node, &n, why);
    if (i < 1) assert_int_equal(status, NO);
    assert_true(status == OK || strlen(why) > 0);
    arena_close(&mem);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(accesses), cmocka_unit_test(products), cmocka_unit_test(joined), cmocka_unit_test(refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

// Changes of tile sizes: the graph remains the same function, shapes are updated, and impossible sizes are errors.
#include "graphs.h"
#include "plan/plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define INPUTS "  X: f32[8, 64]\n  W: f32[64, 32]\n"

static const char *const split_sum = "graph g {\n" INPUTS "  P = block(x=2, y=2; i=4) {\n"
                                     "    a = iter(X, imap={y:1}, fmap={i:1})\n"
                                     "    w = iter(W, imap={x:1, y:0}, fmap={i:0})\n"
                                     "    p = accum(matmul(a, w))\n"
                                     "    save(reshape(p, [1, 8, 16]), omap={x:2, y:0})\n"
                                     "  }\n"
                                     "  O = block(x=4) {\n"
                                     "    p = iter(P, imap={x:2})\n"
                                     "    save(reshape(sum(p, dim=0), [8, 8]), omap={x:1})\n"
                                     "  }\n"
                                     "  return O\n}";

static const struct {
  int kernel, x, y, i; // of the new axes
  const char *has;     // in the resized graph, or NULL: refused
} sizes[] = {
    {0, 4, 2, 4, "reshape(p, [1, 8, 8])"}, // fewer columns a block
    {0, 1, 2, 8, "reshape(p, [1, 8, 32])"},
    {0, 2, 4, 2, "block(x=2, y=4; i=2)"}, // more parts: the second kernel sums four
    {0, 2, 1, 4, "block(x=2, y=1; i=4)"},
    {1, 8, 0, 0, "[8, 4]"},
    {1, 32, 0, 0, "[8, 1]"},
    {0, 3, 2, 4, NULL},
    {0, 2, 2, 64, NULL},
    {1, 64, 0, 0, NULL},
};

static int kernel_node(const struct graph *g, int kernel)
{
  int node = 0;
  while (g->nodes[node].op != OP_BLOCK || kernel--) node++;
  return node;
}

static void stays_the_same_function(void **state)
{
  (void)state;
  for (size_t c = 0; c < COUNT(sizes); c++) {
    struct arena mem = {0};
    struct err e = {0};
    struct graph *g = graph_of(&mem, split_sum), *r;
    struct axes to = {{sizes[c].x, sizes[c].y}, {sizes[c].i}};
    int status = plan_resize(&mem, g, kernel_node(g, sizes[c].kernel), &to, &r, &e);
    if (!sizes[c].has) {
      assert_int_equal(status, USER);
      assert_true(*e.text);
    } else {
      if (status != OK) fail_msg("case %zu: %s", c, e.text);
      assert_holds("resized", r, &sizes[c].has, 1);
      assert_same_function("resized", g, r);
    }
    arena_close(&mem);
  }
}

// A reshape that takes a dimension apart follows when only the outer part grows.
static void reshapes_follow(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct err e = {0};
  struct graph *g = graph_of(&mem, "graph g {\n  X: f32[12, 6]\n  O = block(x=4) {\n    x = iter(X, imap={x:0})\n"
                                   "    save(reshape(reshape(x, [18]), [3, 6]), omap={x:0})\n  }\n  return O\n}"),
               *r;
  struct axes to = {{2}, {0}};
  assert_int_equal(plan_resize(&mem, g, kernel_node(g, 0), &to, &r, &e), OK);
  assert_same_function("reshaped", g, r);
  arena_close(&mem);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(stays_the_same_function), cmocka_unit_test(reshapes_follow)};
  return cmocka_run_group_tests_name("resize", tests, NULL, NULL);
}

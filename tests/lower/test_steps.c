// Products of what a loop does not change come in steps of the loop, where that is the same function, and stay whole elsewhere.
#include "../graphs.h"
#include "lower/lower.h"

#define FRAME(h, u, body)                                                                                                             \
  "X: f16[64, 128]\n W: f16[128, 32]\n H: f16[64, 64]\n U: f16[64, 32]\n O = block(x=2; i=4) { x = iter(X, imap={x:0}, fmap={i:1})\n" \
  "w = iter(W, fmap={i:0})\n h = iter(" h ")\n u = iter(" u ")\n " body " }\n return O"
#define BOTH(body) FRAME("H, imap={x:0}", "U", body)

static const struct {
  const char *name, *text;
  bool changed;
} graphs[] = {
    {"a product beside the loop", BOTH("save(relu(accum(matmul(x, w)) + matmul(h, u)), omap={x:0})"), true},
    {"its result is read twice", BOTH("t = matmul(h, u)\n save(accum(matmul(x, w)) * t + exp(t), omap={x:0})"), true},
    {"the loop reads it", BOTH("t = matmul(h, u)\n save(accum(matmul(x, w) * t), omap={x:0})"), false},
    {"an accumulator reads it", BOTH("t = matmul(h, u)\n save(accum(matmul(x, w)) * accum(t), omap={x:0})"), false},
    {"an operand is read elsewhere", BOTH("save(accum(matmul(x, w)) + matmul(h, u) + sum(h, dim=1), omap={x:0})"), false},
    {"an operand is computed", BOTH("save(accum(matmul(x, w)) + matmul(exp(h), u), omap={x:0})"), false},
    {"steps would be too short",
     "X: f16[64, 128]\n W: f16[128, 32]\n H: f16[64, 32]\n U: f16[32, 32]\n O = block(; i=4) { x = iter(X, fmap={i:1})\n w = iter(W, fmap={i:0})\n"
     "h = iter(H)\n u = iter(U)\n save(accum(matmul(x, w)) + matmul(h, u)) }\n return O",
     false},
    {"no loop",
     "H: f16[64, 64]\n U: f16[64, 32]\n O = block(x=2) { h = iter(H, imap={x:0})\n u = iter(U)\n save(matmul(h, u), omap={x:0}) }\n return O", false},
    {"the grid cuts what is summed",
     "X: f16[2, 64, 128]\n W: f16[128, 32]\n H: f16[64, 128]\n U: f16[128, 32]\n O = block(x=2; i=2) { x = iter(X, imap={x:0}, fmap={i:2})\n"
     "w = iter(W, fmap={i:0})\n h = iter(H, imap={x:1})\n u = iter(U, imap={x:0})\n"
     "save(accum(matmul(x, w)) + matmul(h, u), omap={x:0}) }\n return O",
     false},
};

static void test_steps(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(graphs); i++) {
    struct arena mem = {0};
    struct err e = {0};
    struct graph *out, *g = graph_of(&mem, arena_printf(&mem, "graph g {\n %s\n}\n", graphs[i].text));
    if (step_products(&mem, g, &out, &e) || graph_check(out, &e)) fail_msg("%s: %s", graphs[i].name, e.text);
    if (graph_same(g, out) == graphs[i].changed) fail_msg("%s: %s", graphs[i].name, graphs[i].changed ? "stays as it was" : "was changed");
    if (graphs[i].changed) assert_same_function(graphs[i].name, g, out);
    arena_close(&mem);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_steps)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

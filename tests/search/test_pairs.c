// The model of a CPU knows that an instruction multiplies pairs of bf16 numbers.
#include "../graphs.h"
#include "examples.h"
#include "search/space.h"

// Modelled seconds of the cheapest graph whose products are in block graphs.
static double fused(struct arena *mem, const char *inputs, double pair_flops)
{
  struct target t = machine;
  struct search_result r;
  struct err e = {0};
  struct search_opts o = {.threads = 2, .seed = 7};
  struct graph *plain;
  t.pair_flops = pair_flops;
  const char *text = arena_printf(mem, "program p { %s\n return matmul(relu(X), W) }", inputs);
  assert_int_equal(graph_expand(mem, graph_of(mem, text), false, &plain, &e), OK);
  assert_int_equal(search_run(mem, plain, &t, &o, &r, &e), OK);
  for (int i = 0; i < r.n; i++) {
    bool library = false;
    for (int k = 0; k < r.found[i].g->nnodes; k++) library |= r.found[i].g->nodes[k].op == OP_MATMUL;
    if (!library) return r.found[i].cost;
  }
  fail_msg("%s: no product in a block graph", inputs);
  return 0;
}

static void products_of_bf16_cost_half(void **state)
{
  (void)state;
  struct arena mem = {0};
  static const char *const odd[] = {"X: bf16[512, 768]\n W: bf16[768, 1024]", "X: bf16[512, 767]\n W: bf16[767, 1024]"};
  for (size_t i = 0; i < COUNT(odd); i++) {
    const double plain = fused(&mem, odd[i], 0), pairs = fused(&mem, odd[i], 2 * machine.flops);
    if (!(pairs < 0.65 * plain)) fail_msg("%s: %g s with the instruction, %g s without", odd[i], pairs, plain);
  }
  const char f32[] = "X: f32[512, 768]\n W: f32[768, 1024]", right[] = "X: bf16[512, 768]\n W: f32[768, 1024]";
  assert_true(fused(&mem, f32, 0) == fused(&mem, f32, 2 * machine.flops));
  assert_true(fused(&mem, right, 0) == fused(&mem, right, 2 * machine.flops)); // the second operand decides
  arena_close(&mem);
}

// BLAS has products of f32 alone, so operands of bf16 are copied for it.
static void blas_pays_for_copies(void **state)
{
  (void)state;
  struct arena mem = {0};
  double cost[2];
  for (int i = 0; i < 2; i++) {
    const char *t = i ? "bf16" : "f32";
    const char *text = arena_printf(&mem, "program p { X: %s[8, 4096]\n W: %s[4096, 4096]\n return matmul(X, W) }", t, t);
    cost[i] = search_library_seconds(&machine, graph_of(&mem, text));
  }
  assert_true(cost[1] > cost[0]);
  arena_close(&mem);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(products_of_bf16_cost_half), cmocka_unit_test(blas_pays_for_copies)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

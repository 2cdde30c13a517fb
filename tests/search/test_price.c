// The search with a pricer: its order is that of the prices, what has no price is left out, other sizes are of what is cheap, and nothing
// depends on the threads. The pricers here count nodes, so that their order is not the model's.
#include "examples.h"

#include <math.h>

static int kernels_of(const struct graph *g)
{
  int n = 0;
  for (int i = 0; i < g->nnodes; i++) n += g->nodes[i].op == OP_BLOCK || g->nodes[i].op == OP_MATMUL;
  return n;
}

// Two kernels are cheaper than any other number; one cannot be made.
static double two_are_best(void *arg, const struct graph *g)
{
  (void)arg;
  int n = kernels_of(g);
  return n < 2 ? INFINITY : 1e-6 * (n == 2 ? 1 : 10 + n);
}

static double none_can(void *arg, const struct graph *g)
{
  (void)arg, (void)g;
  return INFINITY;
}

static struct search_result search(struct arena *mem, double (*price)(void *, const struct graph *), int threads)
{
  struct target t;
  struct search_result r;
  struct err e = {0};
  const struct pricer by = {NULL, price};
  struct search_opts o = {.threads = threads, .seed = 7, .pricer = price ? &by : NULL};
  assert_int_equal(target_open("sm_90a", 1, true, &t, &e), OK);
  assert_int_equal(search_run(mem, load(mem, "m_gqa", 0, NULL), &t, &o, &r, &e), OK);
  return r;
}

static void order_is_of_prices(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct search_result plain = search(&mem, NULL, 2), r = search(&mem, two_are_best, 2);
  int ones = 0, twos = 0;
  for (int i = 0; i < plain.n; i++) ones += kernels_of(plain.found[i].g) == 1;
  assert_true(ones > 0 && r.n > 0);
  for (int i = 0; i < r.n; i++) {
    assert_true(r.found[i].cost == two_are_best(NULL, r.found[i].g));
    assert_true(isfinite(r.found[i].cost) && (!i || r.found[i - 1].cost <= r.found[i].cost));
    twos += kernels_of(r.found[i].g) == 2;
  }
  assert_int_equal(kernels_of(r.found[0].g), 2);
  assert_true(twos > 1);
  arena_close(&mem);
}

static void without_any_price_the_model_ranks(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct search_result plain = search(&mem, NULL, 2), r = search(&mem, none_can, 2);
  assert_true(r.n > 0 && graph_same(r.found[0].g, plain.found[0].g));
  for (int i = 0; i < r.n; i++) assert_true(isfinite(r.found[i].cost) && (!i || r.found[i - 1].cost <= r.found[i].cost));
  arena_close(&mem);
}

static void the_same_on_any_threads(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct search_result a = search(&mem, two_are_best, 1), b = search(&mem, two_are_best, 3);
  assert_int_equal(a.n, b.n);
  assert_int_equal(a.stats.verified, b.stats.verified);
  for (int i = 0; i < a.n; i++) assert_true(a.found[i].cost == b.found[i].cost && graph_same(a.found[i].g, b.found[i].g));
  arena_close(&mem);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(order_is_of_prices), cmocka_unit_test(without_any_price_the_model_ranks),
                                     cmocka_unit_test(the_same_on_any_threads)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

// The search with a pricer: its order is that of the prices, what has no price is left out, other sizes are of what is cheap, and nothing
// depends on the threads. The pricers here count nodes, so that their order is not the model's.
// test: quick release
#include "examples.h"
#include "graphs.h"

#include <math.h>

static int kernels_of(const struct graph *g)
{
  int n = 0;
  for (int i = 0; i < g->nnodes; i++) n += g->nodes[i].op == OP_BLOCK || g->nodes[i].op == OP_MATMUL;
  return n;
}

// Two kernels are cheaper than any other number; one cannot be made.
static double two_are_best(void *arg, const struct graph *g, double model)
{
  (void)arg, (void)model;
  int n = kernels_of(g);
  return n < 2 ? INFINITY : 1e-6 * (n == 2 ? 1 : 10 + n);
}

static double none_can(void *arg, const struct graph *g, double model)
{
  (void)arg, (void)g, (void)model;
  return INFINITY;
}

// One kernel cannot be made; of the rest the model's order stands.
static double no_single(void *arg, const struct graph *g, double model)
{
  (void)arg;
  return kernels_of(g) == 1 ? INFINITY : model;
}

static struct search_result search(struct arena *mem, double (*price)(void *, const struct graph *, double), int threads)
{
  struct target t;
  struct search_result r;
  struct err e = {0};
  const struct pricer by = {NULL, price != no_single, price};
  struct search_opts o = {.threads = threads, .seed = 7, .pricer = price ? &by : NULL};
  assert_int_equal(target_open("sm_90a", 1, true, &t, &e), OK);
  assert_int_equal(search_run(mem, load(mem, "m_gqa", 0, NULL), &t, &o, &r, &e), OK);
  return r;
}

// Results that several tests compare with: without a pricer, and by two_are_best on one thread.
static struct arena shared;
static struct search_result plain, twos_first;

static int search_shared(void **state)
{
  (void)state;
  return plain = search(&shared, NULL, 2), twos_first = search(&shared, two_are_best, 1), 0;
}

static int free_shared(void **state)
{
  (void)state;
  return arena_close(&shared), 0;
}

static void order_is_of_prices(void **state)
{
  (void)state;
  const struct search_result r = twos_first;
  int ones = 0, twos = 0;
  for (int i = 0; i < plain.n; i++) ones += kernels_of(plain.found[i].g) == 1;
  assert_true(ones > 0 && r.n > 0);
  for (int i = 0; i < r.n; i++) {
    assert_true(r.found[i].cost == two_are_best(NULL, r.found[i].g, 0));
    assert_true(isfinite(r.found[i].cost) && (!i || r.found[i - 1].cost <= r.found[i].cost));
    twos += kernels_of(r.found[i].g) == 2;
  }
  assert_int_equal(kernels_of(r.found[0].g), 2);
  assert_true(twos > 1);
}

static void without_any_price_the_model_ranks(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct search_result r = search(&mem, none_can, 2);
  assert_true(r.n > 0 && graph_same(r.found[0].g, plain.found[0].g));
  for (int i = 0; i < r.n; i++) assert_true(isfinite(r.found[i].cost) && (!i || r.found[i - 1].cost <= r.found[i].cost));
  arena_close(&mem);
}

static void what_cannot_be_made_is_left_out(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct search_result r = search(&mem, no_single, 2);
  int n = 0;
  for (int i = 0; i < plain.n; i++) {
    if (kernels_of(plain.found[i].g) == 1) continue;
    assert_true(n < r.n && graph_same(plain.found[i].g, r.found[n].g) && plain.found[i].cost == r.found[n].cost);
    n++;
  }
  assert_true(n > 0 && n < plain.n);
  assert_int_equal(n, r.n);
  arena_close(&mem);
}

static void the_same_on_any_threads(void **state)
{
  (void)state;
  struct arena mem = {0};
  const struct search_result a = twos_first, b = search(&mem, two_are_best, 3);
  assert_int_equal(a.n, b.n);
  assert_int_equal(a.stats.verified, b.stats.verified);
  for (int i = 0; i < a.n; i++) assert_true(a.found[i].cost == b.found[i].cost && graph_same(a.found[i].g, b.found[i].g));
  arena_close(&mem);
}

// A norm in a kernel and the library's product: dozens of plans of two kernels cost a little less by the model, and are of a few kinds.
static void each_kind_has_a_place(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct target t;
  struct search_result r;
  struct graph *p;
  struct err e = {0};
  struct search_opts o = {.threads = 2, .seed = 7};
  int found = 0;
  const char *text = "program p() { X: f16[128, 269]\n W: f16[269, 353]\n return matmul(X / sqrt(mean(square(X), dim=1)), W) }";
  assert_int_equal(target_open("sm_90a", 1, true, &t, &e), OK);
  assert_int_equal(graph_expand(&mem, graph_of(&mem, text), false, &p, &e), OK);
  assert_int_equal(search_run(&mem, p, &t, &o, &r, &e), OK);
  for (int i = 0; i < r.n; i++) {
    int blocks = 0, products = 0;
    for (int k = 0; k < r.found[i].g->nnodes; k++)
      blocks += r.found[i].g->nodes[k].op == OP_BLOCK, products += r.found[i].g->nodes[k].op == OP_MATMUL;
    found += blocks == 1 && products == 1 && r.found[i].kernels == 2;
  }
  assert_true(found > 0);
  arena_close(&mem);
}

// Has the kernel a product and an exponential?
static bool has_both(const struct node *n)
{
  bool product = false, exp = false;
  for (int i = 0; n->sub && i < n->sub->nnodes; i++) product |= n->sub->nodes[i].op == OP_MATMUL, exp |= n->sub->nodes[i].op == OP_EXP;
  return product && exp;
}

static double none_with_both(void *arg, const struct graph *g, double model)
{
  (void)arg;
  for (int i = 0; i < g->nnodes; i++)
    if (has_both(&g->nodes[i])) return INFINITY;
  return model;
}

static void tell_both(void *arg, const struct graph *g, bool *refused)
{
  int *asked = arg, at = 0;
  ++*asked;
  for (int i = 0; i < g->nnodes; i++) {
    const enum rule r = op_rows[g->nodes[i].op].rule;
    if (r == RULE_IO || r == RULE_VIEW || r == RULE_CONST) continue;
    refused[at++] = has_both(&g->nodes[i]);
  }
}

// All plans of a short list have a kernel that cannot be made. A list without such kernels follows.
static void others_follow_kinds_that_are_refused(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct target t;
  struct err e = {0};
  assert_int_equal(target_open("sm_90a", 1, true, &t, &e), OK);
  for (int told = 0; told < 2; told++) {
    struct search_result r;
    int asked = 0;
    const struct pricer by = {&asked, true, none_with_both, told ? tell_both : NULL};
    struct search_opts o = {.threads = 2, .seed = 7, .most = 16, .pricer = &by};
    assert_int_equal(search_run(&mem, load(&mem, "m_gqa", 0, NULL), &t, &o, &r, &e), OK);
    assert_true(r.n > 0 && isfinite(none_with_both(NULL, r.found[0].g, 1)) == told && (asked > 0) == told);
  }
  arena_close(&mem);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(order_is_of_prices),
                                     cmocka_unit_test(without_any_price_the_model_ranks),
                                     cmocka_unit_test(what_cannot_be_made_is_left_out),
                                     cmocka_unit_test(the_same_on_any_threads),
                                     cmocka_unit_test(each_kind_has_a_place),
                                     cmocka_unit_test(others_follow_kinds_that_are_refused)};
  return cmocka_run_group_tests(tests, search_shared, free_shared);
}

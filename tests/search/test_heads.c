// Queries of several heads share keys, and each row has a mask or a bias of its own, which the heads share. Dimensions that a product
// joins are apart again where scores meet it. One kernel computes scores, exponentials and both products.
#include "examples.h"
#include "graphs.h"

static const char bias[] = "program p() { Q: f16[8, 16, 16]\n K: f16[2, 32, 16]\n V: f16[2, 32, 16]\n C: f16[16, 32]\n"
                           "k = repeat(K, dim=0, times=4); v = repeat(V, dim=0, times=4)\n"
                           "return matmul(softmax(matmul(Q, transpose(k)) + C, dim=2), v) }";
static const char causal[] = "program p() { Q: f16[8, 16, 16]\n K: f16[2, 16, 16]\n V: f16[2, 16, 16]\n"
                             "k = repeat(K, dim=0, times=4); v = repeat(V, dim=0, times=4)\n"
                             "return matmul(softmax_where(matmul(Q, transpose(k)), iota([16]) <= iota([16, 1]), dim=2), v) }";

static struct search_result search(struct arena *mem, const char *text)
{
  struct target t;
  struct search_result r;
  struct err e = {0};
  struct search_opts o = {.threads = 2, .seed = 7};
  struct graph *plain;
  assert_int_equal(target_open("sm_90a", 1, true, &t, &e), OK);
  assert_int_equal(graph_expand(mem, graph_of(mem, text), false, &plain, &e), OK);
  assert_int_equal(search_run(mem, plain, &t, &o, &r, &e), OK);
  return r;
}

// A block graph with both products, whose blocks have a part of the rows of all heads that share keys.
static bool shares_keys(const struct graph *g)
{
  bool any = false;
  for (int i = 0; i < g->nnodes; i++) {
    const struct graph *b = g->nodes[i].sub;
    int products = 0, queries = 0;
    for (int k = 0; b && k < b->nnodes; k++) {
      const struct node *n = &b->nodes[k];
      products += n->op == OP_MATMUL;
      if (n->op == OP_ITER && b->tensors[n->out].shape.n == 4 && b->tensors[n->out].shape.d[1] == 4) queries += b->tensors[n->out].shape.d[2] < 16;
    }
    any |= products == 2 && queries;
  }
  return any;
}

static void rows_of_shared_keys_are_cut(void **state)
{
  (void)state;
  const char *text[] = {bias, causal};
  for (int i = 0; i < 2; i++) {
    struct arena mem = {0};
    struct search_result r = search(&mem, text[i]);
    int found = 0;
    for (int k = 0; k < r.n; k++) found += shares_keys(r.found[k].g);
    assert_true(found > 0);
    assert_int_equal(r.stats.pruned[PRUNE_FINGER], 0); // no plan is put together wrongly
    arena_close(&mem);
  }
}

// Only the comparison stretches both operands, so queries times keys element by element is no value.
static void outer_results_fit_in_a_tensor(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct search_result r = search(&mem, causal);
  assert_true(r.stats.values > 0 && r.stats.values < 15000);
  arena_close(&mem);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(rows_of_shared_keys_are_cut), cmocka_unit_test(outer_results_fit_in_a_tensor)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

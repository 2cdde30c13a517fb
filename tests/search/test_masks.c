// Attention whose keys a mask hides: booleans of each row, of keys alone, and numbers that are added. One kernel computes scores,
// exponentials and both products, also for rows that are hidden whole.
#include "examples.h"
#include "graphs.h"

static const char *const masks[][2] = {
    {"bool[16, 32]", "softmax_where(s, M, dim=2)"}, {"bool[8, 1, 32]", "softmax(s, M, dim=2)"}, {"f16[16, 32]", "softmax(s, M, dim=2)"}};

static bool is_fused(const struct graph *g)
{
  int blocks = 0, products = 0;
  for (int i = 0; i < g->nnodes; i++) {
    const struct graph *b = g->nodes[i].sub;
    blocks += b != NULL;
    for (int k = 0; b && k < b->nnodes; k++) products += b->nodes[k].op == OP_MATMUL;
  }
  return blocks == 1 && products == 2;
}

static void masked_attention_is_one_kernel(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(masks); i++) {
    struct arena mem = {0};
    struct target t;
    struct search_result r;
    struct err e = {0};
    struct search_opts o = {.threads = 2, .seed = 7};
    struct graph *plain;
    const char *text = arena_printf(&mem,
                                    "program p() { Q: f16[8, 16, 16]\n K: f16[8, 32, 16]\n V: f16[8, 32, 16]\n M: %s\n"
                                    "s = matmul(Q, transpose(K)) / 4\n return matmul(%s, V) }",
                                    masks[i][0], masks[i][1]);
    assert_int_equal(target_open("sm_90a", 1, true, &t, &e), OK);
    assert_int_equal(graph_expand(&mem, graph_of(&mem, text), false, &plain, &e), OK);
    assert_int_equal(search_run(&mem, plain, &t, &o, &r, &e), OK);
    int found = 0;
    for (int k = 0; k < r.n; k++) found += is_fused(r.found[k].g);
    if (!found) fail_msg("%s, %s: %d graphs, none of one kernel", masks[i][0], masks[i][1], r.n);
    arena_close(&mem);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(masked_attention_is_one_kernel)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

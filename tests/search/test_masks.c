// Attention whose keys a mask hides: booleans of each row, of keys alone, and numbers that are added. One kernel computes scores,
// exponentials and both products, also for rows that are hidden whole. With the sanitizers test_heads.c has smaller ones.
// test: quick release
#include "examples.h"
#include "graphs.h"

static const char *const masks[][2] = {
    {"bool[512, 512]", "softmax_where(s, M, dim=2)"}, {"bool[64, 1, 512]", "softmax(s, M, dim=2)"}, {"f16[64, 1, 512]", "softmax(s, M, dim=2)"}};

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

// An operand of each product is loaded, as wgmma needs. Values that are multiplied by the mask are not.
static bool loads_operands(const struct graph *g)
{
  bool loads = true;
  for (int i = 0; i < g->nnodes; i++) {
    const struct graph *b = g->nodes[i].sub;
    for (int k = 0; b && k < b->nnodes; k++) {
      const struct node *n = &b->nodes[k];
      bool loaded = n->op != OP_MATMUL;
      for (int in = 0; in < n->nin; in++) loaded |= b->nodes[b->tensors[graph_root(b, n->in[in])].node].op == OP_ITER;
      loads &= loaded;
    }
  }
  return loads;
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
                                    "program p() { Q: f16[64, 512, 64]\n K: f16[64, 512, 64]\n V: f16[64, 512, 64]\n M: %s\n"
                                    "s = matmul(Q, transpose(K)) / 4\n return matmul(%s, V) }",
                                    masks[i][0], masks[i][1]);
    assert_int_equal(target_open("sm_90a", 1, true, &t, &e), OK);
    assert_int_equal(graph_expand(&mem, graph_of(&mem, text), false, &plain, &e), OK);
    assert_int_equal(search_run(&mem, plain, &t, &o, &r, &e), OK);
    int first = 0;
    while (first < r.n && !is_fused(r.found[first].g)) first++;
    if (first == r.n) fail_msg("%s, %s: %d graphs, none of one kernel", masks[i][0], masks[i][1], r.n);
    if (!loads_operands(r.found[first].g)) fail_msg("%s, %s: graph %d computes both operands of a product", masks[i][0], masks[i][1], first);
    arena_close(&mem);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(masked_attention_is_one_kernel)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

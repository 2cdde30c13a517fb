// The kernels of kernels/ and the examples of the documentation, as C. All bits must be the interpreter's, at sizes that tiles do not divide and at
// some that they do.
// test: timeout 300
// test: quick release
#include "held.h"

static void same(const char *const *words, size_t n)
{
  for (size_t i = 0; i < n; i++) {
    struct held h;
    held_file(&h, words[i]);
    held_same(&h);
  }
}

static void kernels(void **state)
{
  (void)state;
  static const char *const words[] = {
      "kernels/copy.tile,N=5000",
      "kernels/softmax.tile,R=5,N=1000,%X=8",
      "kernels/layernorm.tile,R=5,N=1000,T=64,%X=8",
      "kernels/gemm_sm80.tile,M=129,N=136,K=200",
      "kernels/lstm_sm80.tile,M=37",
      "kernels/mlp_sm80.tile,M=67,%W=0.217,%bias=0.1",
      "kernels/fmha_sm80.tile,MASK=1,NH=2,B=2,Q=65,L=259,%mask=8",
      "tests/sim/good/gather.tile,V=5",
      "tests/sim/good/halves.tile",
      "tests/sim/good/lastblock.tile,%W=0",
      "tests/sim/good/order.tile",
      "tests/sim/good/quads.tile",
  };
  same(words, COUNT(words));
}

// Graphene's product, a quarter as large in each direction: 16 million multiply-adds of halves, each rounded.
static void product_of_the_notes(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct err e = {0};
  struct held h;
  char *text;
  size_t n;
  assert_int_equal(file_read(&mem, "tests/tile/notes/gemm.tile", &text, &n, &e), OK);
  for (char *p; (p = strstr(text, "1024"));) memcpy(p, " 256", 4);
  char *grid = strstr(text, "#4:[ 8, 8]");
  assert_non_null(grid);
  memcpy(grid, "#4:[ 2, 2]", 10);
  for (char *p; (p = strstr(text, ":[8, 1].[ 128,")) || (p = strstr(text, ":[1, 8].[ 256")) || (p = strstr(text, ":[8, 8].[ 128"));)
    memset(p, ' ', strcspn(p, "=")); // types with numbers of blocks in them
  held_text(&h, "gemm,%3=1", text);
  held_same(&h);
  arena_close(&mem);
}

// A kernel that needs engines or parts of a block beside one another is refused, with its place.
static void asynchronous_kernels(void **state)
{
  (void)state;
  static const struct {
    const char *file, *says;
  } rows[] = {
      {"kernels/gemm_sm90.tile", "mbar.init"}, {"kernels/fmha_sm90.tile", "mbar.init"},      {"kernels/lstm_sm90.tile", "mbar.init"},
      {"kernels/mlp_sm90.tile", "mbar.init"},  {"tests/sim/good/cluster.tile", "a cluster"}, {"tests/sim/good/handoff.tile", "Sync<mbar.init, 32>"},
      {"tests/sim/good/wgmma.tile", "wgmma"},  {"tests/sim/good/tma.tile", "mbar.init"},
  };
  for (size_t i = 0; i < COUNT(rows); i++) refused(rows[i].file, NULL, rows[i].says);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(kernels), cmocka_unit_test(product_of_the_notes), cmocka_unit_test(asynchronous_kernels)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

// Kernels at more sizes and constants than in test_kernels.c, and the correct kernels of the interpreter's tests.
// test: check-all
// test: timeout 600
#include "held.h"

static void same(const char *const *words, size_t n)
{
  for (size_t i = 0; i < n; i++) {
    struct held h;
    held_file(&h, words[i]);
    held_same(&h);
  }
}

static void rows_of_numbers(void **state)
{
  (void)state;
  static const char *const words[] = {
      "kernels/copy.tile,N=8",
      "kernels/softmax.tile,R=3,N=8192,T=256,P=1,%X=100",
      "kernels/layernorm.tile,R=2,N=1024",
  };
  same(words, COUNT(words));
}

static void products(void **state)
{
  (void)state;
  static const char *const words[] = {
      "kernels/gemm_sm80.tile,M=1,N=8,K=8",
      "kernels/gemm_sm80.tile,S=4,BK=32,M=70,N=72,K=40",
      "kernels/lstm_sm80.tile,M=64,D=256",
      "kernels/mlp_sm80.tile,WARPS=2,WM=32,S=3,M=5,%W=0.217",
  };
  same(words, COUNT(words));
}

static void attention(void **state)
{
  (void)state;
  static const char *const words[] = {
      "kernels/fmha_sm80.tile,NH=2,B=1,Q=1,L=1",
      "kernels/fmha_sm80.tile,NH=2,B=1,Q=67,L=67,%q=4,%k=4",
      "kernels/fmha_sm80.tile,MASK=1,BL=32,S=3,NH=3,B=1,Q=9,L=129,%mask=10000",
  };
  same(words, COUNT(words));
}

static void good_kernels(void **state)
{
  (void)state;
  static const char *const words[] = {
      "tests/sim/good/cpasync.tile", "tests/sim/good/halves.tile",           "tests/sim/good/lastblock.tile,%W=0",
      "tests/sim/good/mma.tile",     "tests/sim/good/partial.tile,M=5,N=67", "tests/sim/good/parts.tile",
      "tests/sim/good/quads.tile",   "tests/sim/good/scratch.tile",          "tests/sim/good/transpose.tile,M=50,N=70",
      "tests/sim/good/warps.tile",
  };
  same(words, COUNT(words));
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(rows_of_numbers), cmocka_unit_test(products), cmocka_unit_test(attention),
                                     cmocka_unit_test(good_kernels)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

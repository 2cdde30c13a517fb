// Every kernel of kernels/ at its smallest sizes, at sizes that tiles do not divide, and at some that they do.
// test: timeout 300
#include "proof.h"

#include "base/base.h"

#include <setjmp.h>
#include <stdlib.h>

#include <cmocka.h>

static const struct proof gemm[] = {
    {"kernels/gemm_sm80.tile,M=1,N=8,K=8", "examples/g_gemm.mica,m=1,n=8,k=8"},
    {"kernels/gemm_sm80.tile,M=70,N=72,K=40", "examples/g_gemm.mica,m=70,n=72,k=40"},
    {"kernels/gemm_sm80.tile,M=129,N=136,K=200", "examples/g_gemm.mica,m=129,n=136,k=200"},
    {"kernels/gemm_sm80.tile,M=128,N=128,K=128", "examples/g_gemm.mica,m=128,n=128,k=128"},
    {"kernels/gemm_sm90.tile,SMS=1,M=1,N=8,K=8", "examples/g_gemm.mica,m=1,n=8,k=8"},
    {"kernels/gemm_sm90.tile,SMS=2,M=70,N=72,K=40", "examples/g_gemm.mica,m=70,n=72,k=40"},
    {"kernels/gemm_sm90.tile,SMS=3,M=129,N=264,K=328", "examples/g_gemm.mica,m=129,n=264,k=328"},
    {"kernels/gemm_sm90.tile,SMS=1,M=256,N=256,K=64", "examples/g_gemm.mica,m=256,n=256,k=64"},
};
static const struct proof rows[] = {
    {"kernels/softmax.tile,R=1,N=8", "examples/softmax.mica,m=1,n=8"},
    {"kernels/softmax.tile,R=5,N=1000,%X=8", "examples/softmax.mica,m=5,n=1000"},
    {"kernels/softmax.tile,R=4,N=1024", "examples/softmax.mica,m=4,n=1024"},
    {"kernels/softmax.tile,R=3,N=8192,T=256,P=1,%X=100", "examples/softmax.mica,m=3,n=8192"},
    {"kernels/layernorm.tile,R=1,N=8,T=32", "examples/g_norm.mica,m=1,n=8"},
    {"kernels/layernorm.tile,R=5,N=1000,T=64,%X=8", "examples/g_norm.mica,m=5,n=1000"},
    {"kernels/layernorm.tile,R=2,N=1024", "examples/g_norm.mica,m=2,n=1024"},
    {"kernels/layernorm.tile,R=3,N=8192,T=512,%X=0.01", "examples/g_norm.mica,m=3,n=8192"},
};
static const struct proof nets[] = {
    // of 20 layers: weights that keep the size of values
    {"kernels/lstm_sm80.tile,M=1", "examples/g_lstm.mica,m=1"},
    {"kernels/lstm_sm80.tile,M=37", "examples/g_lstm.mica,m=37"},
    {"kernels/lstm_sm80.tile,M=64,D=256", "examples/g_lstm.mica,m=64,n=256"},
    {"kernels/lstm_sm90.tile,D=128,M=1", "examples/g_lstm.mica,m=1"},
    {"kernels/lstm_sm90.tile,D=128,M=67", "examples/g_lstm.mica,m=67"},
    {"kernels/lstm_sm90.tile,D=256,M=64", "examples/g_lstm.mica,m=64,n=256"},
    {"kernels/mlp_sm80.tile,M=1,%W=0.217", "examples/g_mlp20.mica,m=1"},
    {"kernels/mlp_sm80.tile,M=67,%W=0.217,%bias=0.1", "examples/g_mlp20.mica,m=67"},
    {"kernels/mlp_sm80.tile,WARPS=2,WM=32,S=3,M=65,%W=0.217", "examples/g_mlp20.mica,m=65"},
    {"kernels/mlp_sm90.tile,M=1,%W=0.217", "examples/g_mlp20.mica,m=1"},
    {"kernels/mlp_sm90.tile,M=65,%W=0.217", "examples/g_mlp20.mica,m=65"},
    {"kernels/mlp_sm90.tile,M=64,%W=0.217,%bias=0.1", "examples/g_mlp20.mica,m=64"},
};
static const struct proof attention[] = {
    {"kernels/fmha_sm80.tile,B=1,Q=1,L=1", "examples/g_fmha.mica,b=1,s=1"},
    {"kernels/fmha_sm80.tile,B=1,Q=67,L=67,%q=4,%k=4", "examples/g_fmha.mica,b=1,s=67"},
    {"kernels/fmha_sm80.tile,MASK=1,NH=2,B=2,Q=65,L=259,%mask=8", "tests/kernels/attention.mica,b=2,s=65,l=259"},
    {"kernels/fmha_sm80.tile,MASK=1,BL=32,S=3,NH=3,B=1,Q=9,L=129,%mask=10000", "tests/kernels/attention.mica,b=1,h=3,s=9,l=129"},
    {"kernels/fmha_sm90.tile,SMS=1,B=1,Q=2,L=2", "examples/g_fmha.mica,b=1,s=2"},
    {"kernels/fmha_sm90.tile,SMS=5,B=1,Q=70,L=70,%q=4,%k=4", "examples/g_fmha.mica,b=1,s=70"},
    {"kernels/fmha_sm90.tile,SMS=7,MASK=1,B=2,Q=64,L=64,%mask=8", "examples/g_fmha_mask.mica,b=2,s=64"},
    {"kernels/fmha_sm90.tile,SMS=3,MASK=1,B=1,Q=33,L=33,%mask=8", "examples/g_fmha_mask.mica,b=1,s=33"},
    {"kernels/fmha_sm90.tile,SMS=3,MASK=1,NH=2,B=2,Q=10,L=390", "tests/kernels/attention.mica,b=2,s=10,l=390"},
    {"kernels/fmha_sm90.tile,SMS=2,MASK=1,NH=3,B=1,Q=257,L=129,%mask=10000", "tests/kernels/attention.mica,h=3,s=257,l=129"},
};

#define TEST(table)                      \
  static void test_##table(void **state) \
  {                                      \
    (void)state;                         \
    prove(table, (int)COUNT(table));     \
  }
TEST(gemm)
TEST(rows)
TEST(nets)
TEST(attention)

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_gemm),
      cmocka_unit_test(test_rows),
      cmocka_unit_test(test_nets),
      cmocka_unit_test(test_attention),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

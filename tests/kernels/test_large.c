// Kernels at more sizes, several tiles each way, and other constants.
// test: check-all
// test: release
// test: timeout 900
#include "proof.h"

#include "base/base.h"

#include <setjmp.h>
#include <stdlib.h>

#include <cmocka.h>

static const struct proof rows[] = {
    {"kernels/gemm_sm80.tile,M=300,N=520,K=776", "examples/g_gemm.mica,m=300,n=520,k=776"},
    {"kernels/gemm_sm80.tile,S=4,BK=32,M=257,N=264,K=520", "examples/g_gemm.mica,m=257,n=264,k=520"},
    {"kernels/gemm_sm90.tile,SMS=5,M=500,N=1032,K=776", "examples/g_gemm.mica,m=500,n=1032,k=776"},
    {"kernels/gemm_sm90.tile,SMS=132,M=131,N=520,K=8", "examples/g_gemm.mica,m=131,n=520,k=8"},
    {"kernels/softmax.tile,R=99,N=4096,T=128,P=1,%X=8", "examples/softmax.mica,m=99,n=4096"},
    {"kernels/softmax.tile,R=33,N=2040,T=64,P=2,%X=30", "examples/softmax.mica,m=33,n=2040"},
    {"kernels/layernorm.tile,R=77,N=4096,T=256", "examples/g_norm.mica,m=77,n=4096"},
    {"kernels/layernorm.tile,R=33,N=2040,T=64,%X=30", "examples/g_norm.mica,m=33,n=2040"},
    {"kernels/lstm_sm80.tile,M=1000", "examples/g_lstm.mica,m=1000"},
    {"kernels/lstm_sm80.tile,M=99,D=512", "examples/g_lstm.mica,m=99,n=512"},
    {"kernels/lstm_sm80.tile,M=130,D=256", "examples/g_lstm.mica,m=130,n=256"},
    {"kernels/lstm_sm90.tile,M=99", "examples/g_lstm.mica,m=99,n=512"},
    {"kernels/mlp_sm80.tile,M=333,%W=0.217", "examples/g_mlp20.mica,m=333"},
    {"kernels/mlp_sm80.tile,WM=32,WARPS=8,S=6,M=517,%W=0.217,%bias=0.1", "examples/g_mlp20.mica,m=517"},
    {"kernels/mlp_sm90.tile,M=333,%W=0.217", "examples/g_mlp20.mica,m=333"},
    {"kernels/fmha_sm80.tile,B=1,Q=384,L=384", "examples/g_fmha.mica,b=1"},
    {"kernels/fmha_sm80.tile,BL=128,B=2,Q=129,L=129,%q=8,%k=8", "examples/g_fmha.mica,b=2,s=129"},
    {"kernels/fmha_sm80.tile,WARPS=8,S=3,MASK=1,B=2,Q=255,L=255,%mask=8", "examples/g_fmha_mask.mica,b=2,s=255"},
    {"kernels/fmha_sm80.tile,MASK=1,NH=5,B=3,Q=1,L=1000", "tests/kernels/attention.mica,b=3,h=5,s=1,l=1000"},
    {"kernels/fmha_sm80.tile,MASK=1,NH=2,B=1,Q=999,L=9", "tests/kernels/attention.mica,b=1,h=2,s=999,l=9"},
    {"kernels/fmha_sm90.tile,B=1,Q=384,L=384", "examples/g_fmha.mica,b=1"},
    {"kernels/fmha_sm90.tile,B=2,Q=129,L=129,%q=8,%k=8", "examples/g_fmha.mica,b=2,s=129"},
    {"kernels/fmha_sm90.tile,MASK=1,B=2,Q=255,L=255,%mask=8", "examples/g_fmha_mask.mica,b=2,s=255"},
    {"kernels/fmha_sm90.tile,SMS=2,MASK=1,NH=5,B=3,Q=1,L=1000", "tests/kernels/attention.mica,b=3,h=5,s=1,l=1000"},
    {"kernels/fmha_sm90.tile,SMS=2,MASK=1,NH=2,B=1,Q=999,L=9", "tests/kernels/attention.mica,b=1,h=2,s=999,l=9"},
};

static void all(void **state)
{
  (void)state;
  prove(rows, (int)COUNT(rows));
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(all)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

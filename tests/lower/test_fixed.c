// Products whose operands a loop does not change, beside and inside loops, at many layouts of warps. src/lower/steps.c puts many of them
// into steps of the loop; here they are as a block graph may have them.
// test: timeout 300
#include "held.h"

#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define ANY "mma wm=1 wn=1 stages=2"

static const struct held fixed[] = {
    {"added after the loop",
     "X: f16[40, 64]\n W: f16[64, 64]\n H: f16[40, 64]\n U: f16[64, 64]\n C: f16[64]\n O = block(; i=2) {\n"
     "x = iter(X, fmap={i:1})\n w = iter(W, fmap={i:0})\n h = iter(H)\n u = iter(U)\n c = iter(C)\n"
     "save(relu(accum(matmul(x, w)) + matmul(h, u) + c)) }\n return O",
     ANY, NULL},
    {"a longer sum than the loop's",
     "X: f16[16, 128]\n W: f16[128, 32]\n H: f16[16, 96]\n U: f16[96, 32]\n O = block(; i=4) {\n"
     "x = iter(X, fmap={i:1})\n w = iter(W, fmap={i:0})\n h = iter(H)\n u = iter(U)\n"
     "save(accum(matmul(x, w)) + matmul(h, u)) }\n return O",
     ANY, NULL},
    {"of a product before",
     "X: f16[16, 128]\n W: f16[128, 32]\n H: f16[16, 64]\n U: f16[64, 64]\n V: f16[64, 32]\n O = block(; i=2) {\n"
     "x = iter(X, fmap={i:1})\n w = iter(W, fmap={i:0})\n h = iter(H)\n u = iter(U)\n v = iter(V)\n"
     "save(accum(matmul(x, w)) * matmul(relu(matmul(h, u)), v)) }\n return O",
     ANY, NULL},
    {"one letter of both sums",
     "X: f16[16, 64]\n W: f16[64, 32]\n U: f16[64, 32]\n Y: f16[16, 128]\n V: f16[128, 32]\n O = block(; i=2) {\n"
     "x = iter(X)\n w = iter(W)\n u = iter(U)\n y = iter(Y, fmap={i:1})\n v = iter(V, fmap={i:0})\n"
     "save(silu(matmul(x, w)) * matmul(x, u) + accum(matmul(y, v))) }\n return O",
     ANY, NULL},
    {"accumulated in every iteration",
     "X: f16[16, 64]\n W: f16[64, 64]\n H: f16[16, 32]\n U: f16[32, 64]\n O = block(; i=2) {\n"
     "x = iter(X, fmap={i:1})\n w = iter(W, fmap={i:0})\n h = iter(H)\n u = iter(U)\n"
     "save(accum(matmul(x, w) + matmul(h, u))) }\n return O",
     ANY, NULL},
    {"a factor in the loop",
     "X: f16[16, 64]\n W: f16[64, 64]\n H: f16[16, 32]\n U: f16[32, 64]\n O = block(; i=2) {\n"
     "x = iter(X, fmap={i:1})\n w = iter(W, fmap={i:0})\n h = iter(H)\n u = iter(U)\n"
     "save(accum(matmul(x, w) * matmul(h, u))) }\n return O",
     ANY, NULL},
    {"the left operand in the loop",
     "X: f16[16, 32]\n W: f16[32, 64]\n V: f16[64, 128]\n S: f16[128, 32]\n O = block(; i=4) {\n"
     "x = iter(X)\n w = iter(W)\n v = iter(V, fmap={i:1})\n s = iter(S, fmap={i:0})\n"
     "save(accum(matmul(relu(matmul(matmul(x, w), v)), s))) }\n return O",
     ANY, NULL},
    {"queries that are a product",
     "X: f16[16, 64]\n W: f16[64, 32]\n K: f16[128, 32]\n V: f16[128, 32]\n O = block(; i=2) {\n"
     "x = iter(X)\n w = iter(W)\n k = iter(K, fmap={i:0})\n v = iter(V, fmap={i:0})\n e = exp(matmul(matmul(x, w), transpose(k)) * 0.1)\n"
     "save(accum(matmul(e, v)) / accum_sum(e, dim=1)) }\n return O",
     ANY, NULL},
    {"inside and after",
     "X: f16[16, 64]\n W: f16[64, 64]\n H: f16[16, 32]\n U: f16[32, 64]\n O = block(; i=2) {\n"
     "x = iter(X, fmap={i:1})\n w = iter(W, fmap={i:0})\n h = iter(H)\n u = iter(U)\n p = matmul(h, u)\n"
     "save(accum(matmul(x, w) * p) + p) }\n return O",
     ANY, NULL},
    {"its sum beside an accumulator",
     "X: f16[24, 128]\n W: f16[128, 64]\n H: f16[24, 32]\n U: f16[32, 64]\n O = block(; i=2) {\n"
     "x = iter(X, fmap={i:1})\n w = iter(W, fmap={i:0})\n h = iter(H)\n u = iter(U)\n"
     "save(accum(matmul(x, w)) / (sum(exp(matmul(h, u)), dim=1))) }\n return O",
     ANY, NULL},
    {"lora of fixed parts",
     "X: f16[24, 128]\n W: f16[128, 64]\n H: f16[24, 64]\n A: f16[64, 32]\n B: f16[32, 64]\n O = block(; i=2) {\n"
     "x = iter(X, fmap={i:1})\n w = iter(W, fmap={i:0})\n h = iter(H)\n a = iter(A)\n b = iter(B)\n"
     "save(accum(matmul(x, w)) + matmul(matmul(h, a), b)) }\n return O",
     ANY, NULL},
    {"a residual and a bias",
     "X: f16[24, 128]\n W: f16[128, 64]\n H: f16[24, 64]\n A: f16[64, 64]\n R: f16[24, 64]\n C: f16[64]\n O, P = block(; i=4) {\n"
     "x = iter(X, fmap={i:1})\n w = iter(W, fmap={i:0})\n h = iter(H)\n a = iter(A)\n r = iter(R)\n c = iter(C)\n p = matmul(h, a) + c\n"
     "save(accum(matmul(x, w)) + p * r)\n save(p) }\n return O, P",
     ANY, NULL},
};

static void test_layouts(void **state)
{
  (void)state;
  assert_true(hold_layouts(fixed, (int)COUNT(fixed)) > 80);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_layouts)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

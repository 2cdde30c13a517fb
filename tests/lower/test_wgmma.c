// Kernels of the scheme wgmma: clean in the interpreter and equal to float64.
// test: timeout 300
#include "held.h"

#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define GEMM(m, k, n, x, y, i)                                                                                         \
  "A: f16[" m ", " k "]\n B: f16[" k ", " n "]\n c: f16[" n "]\n"                                                      \
  "O = block(x=" x ", y=" y "; i=" i ") { a = iter(A, imap={x:0}, fmap={i:1})\n b = iter(B, imap={y:1}, fmap={i:0})\n" \
  "c = iter(c, imap={y:0})\n save(relu(accum(matmul(a, b)) + c), omap={x:0, y:1}) }\n return O"

static const struct held products[] = {
    {"one warpgroup", GEMM("64", "128", "64", "1", "1", "2"), "wgmma groups=1 stages=2", "wgmma.m64n64k16"},
    {"two, tiles of the grid", GEMM("256", "256", "256", "2", "2", "4"), "wgmma groups=2 stages=3", "wgmma.m64n128k16"},
    {"four", GEMM("256", "128", "128", "1", "2", "2"), "wgmma groups=4 stages=2", NULL},
    {"blocks that walk over tiles", GEMM("256", "192", "256", "2", "4", "3"), "wgmma groups=2 stages=2 blocks=3", NULL},
    {"two tiles of rows a warpgroup", GEMM("256", "128", "128", "1", "2", "2"), "wgmma groups=2 stages=2", NULL},
    {"four tiles of one warpgroup", GEMM("256", "64", "64", "1", "2", "1"), "wgmma groups=1 stages=2", NULL},
    {"more stages than iterations", GEMM("128", "128", "64", "2", "1", "2"), "wgmma groups=1 stages=4", NULL},
    {"narrow steps", GEMM("64", "64", "64", "1", "2", "4"), "wgmma groups=1 stages=2", "wgmma.m64n32k16"},
    {"one iteration", GEMM("64", "64", "64", "1", "1", "1"), "wgmma groups=1 stages=2", NULL},
    {"columns contiguous along the sum",
     "X: f16[64, 128]\n W: f16[64, 128]\n O = block(; i=2) { x = iter(X, fmap={i:1})\n w = iter(W, fmap={i:1})\n"
     "save(accum(matmul(x, transpose(w)))) }\n return O",
     "wgmma groups=1 stages=2", NULL},
    {"rows contiguous",
     "X: f16[128, 64]\n W: f16[128, 64]\n O = block(; i=2) { x = iter(X, fmap={i:0})\n w = iter(W, fmap={i:0})\n"
     "save(accum(matmul(transpose(x), w))) }\n return O",
     "wgmma groups=1 stages=2", NULL},
    {"two products of one operand",
     "X: f16[64, 128]\n A: f16[128, 64]\n B: f16[128, 64]\n O = block(x=2; i=2) { x = iter(X, fmap={i:1})\n a = iter(A, imap={x:1}, fmap={i:0})\n"
     "b = iter(B, imap={x:1}, fmap={i:0})\n save(silu(accum(matmul(x, a))) * accum(matmul(x, b)), omap={x:1}) }\n return O",
     "wgmma groups=1 stages=2", NULL},
    {"a sum of two products",
     "X: f16[64, 128]\n H: f16[64, 128]\n U: f16[128, 64]\n W: f16[128, 64]\n c: f16[64]\n O = block(x=2; i=2) { x = iter(X, fmap={i:1})\n h = "
     "iter(H, fmap={i:1})\n"
     "u = iter(U, imap={x:1}, fmap={i:0})\n w = iter(W, imap={x:1}, fmap={i:0})\n c = iter(c, imap={x:0})\n"
     "save(relu(accum(matmul(x, u)) + accum(matmul(h, w)) + c), omap={x:1}) }\n return O",
     "wgmma groups=1 stages=3", NULL},
    {"batches on a grid axis",
     "X: f16[2, 64, 64]\n W: f16[2, 64, 64]\n O = block(x=2; i=2) { x = iter(X, imap={x:0}, fmap={i:2})\n w = iter(W, imap={x:0}, fmap={i:1})\n"
     "save(accum(matmul(x, w)), omap={x:0}) }\n return O",
     "wgmma groups=1 stages=2", NULL},
    {"bf16",
     "X: bf16[64, 64]\n W: bf16[64, 64]\n O = block(; i=2) { x = iter(X, fmap={i:1})\n w = iter(W, fmap={i:0})\n save(accum(matmul(x, w))) }\n "
     "return O",
     "wgmma groups=1 stages=2", NULL},
    {"columns in pieces of 32", GEMM("64", "64", "96", "1", "1", "1"), "wgmma groups=1 stages=2", "wgmma.m64n96k16"},
    {"columns in pieces of 16", GEMM("64", "64", "96", "1", "2", "1"), "wgmma groups=1 stages=2", "wgmma.m64n48k16"},
    {"rows that do not fill a warpgroup", GEMM("40", "64", "64", "1", "1", "1"), "wgmma groups=1 stages=2", NULL, "40 rows"},
    {"warpgroups for other rows", GEMM("128", "64", "64", "1", "1", "1"), "wgmma groups=3 stages=2", NULL, "128 rows"},
    {"a product of what the loop has summed",
     "X: f16[64, 128]\n A: f16[128, 64]\n B: f16[64, 64]\n O = block(x=2; i=2) { x = iter(X, fmap={i:1})\n a = iter(A, fmap={i:0})\n b = iter(B, "
     "imap={x:1})\n"
     "save(matmul(tanh(accum(matmul(x, a))), b), omap={x:1}) }\n return O",
     "wgmma groups=1 stages=2", NULL},
    {"the same, blocks that walk",
     "X: f16[128, 128]\n A: f16[128, 64]\n B: f16[64, 64]\n O = block(x=2, y=2; i=2) { x = iter(X, imap={y:0}, fmap={i:1})\n a = iter(A, "
     "fmap={i:0})\n b = iter(B, imap={x:1})\n"
     "save(matmul(tanh(accum(matmul(x, a))), b), omap={x:1, y:0}) }\n return O",
     "wgmma groups=1 stages=2 blocks=3", NULL},
    {"a product beside the loop's",
     "X: f16[64, 128]\n A: f16[128, 64]\n H: f16[64, 64]\n U: f16[64, 64]\n O = block(; i=2) { x = iter(X, fmap={i:1})\n a = iter(A, fmap={i:0})\n h "
     "= iter(H)\n u = iter(U)\n"
     "save(accum(matmul(x, a)) + matmul(h, u)) }\n return O",
     "wgmma groups=1 stages=3", NULL},
};

#define ATTENTION(i, scores)                                                                                                     \
  "Q: f16[2, 128, 64]\n K: f16[2, 128, 64]\n V: f16[2, 128, 64]\n O = block(x=2, y=2; i=" i ") { q = iter(Q, imap={x:0, y:1})\n" \
  "k = iter(K, imap={x:0}, fmap={i:1})\n v = iter(V, imap={x:0}, fmap={i:1})\n s = " scores "\n"                                 \
  "m, moved = accum_max(max(s, dim=2))\n e = exp(s - m)\n f = exp(moved)\n"                                                      \
  "save(accum_rescale(matmul(e, v), f) / accum_sum_rescale(e, f, dim=2), omap={x:0, y:1}) }\n return O"

// rows x keys a step, heads of d; a factor of q, and exponentials that are summed after they were accumulated: what the plan
// must do otherwise to have room
#define LARGE(rows, keys, d, n, sums, scores)                                                                                                  \
  "Q: f16[2, " rows ", " d "]\n K: f16[2, " keys ", " d "]\n V: f16[2, " keys ", " d "]\n O = block(x=2; i=" n ") { q = iter(Q, imap={x:0})\n" \
  "k = iter(K, imap={x:0}, fmap={i:1})\n v = iter(V, imap={x:0}, fmap={i:1})\n s = " scores "\n"                                               \
  "m, moved = accum_max(max(s, dim=2))\n e = exp(s - m)\n f = exp(moved)\n"                                                                    \
  "save(accum_rescale(matmul(e, v), f) / " sums ", omap={x:0}) }\n return O"

#define RUNNING_SUM "accum_sum_rescale(e, f, dim=2)"
#define LATE_SUM "sum(accum_rescale(e, f), dim=2)"

#define HEADS_APART                                                                                                                               \
  "Q: f16[4, 32, 128]\n K: f16[128, 128]\n V: f16[128, 128]\n O = block(x=2; i=2) { q = reshape(iter(Q, imap={x:1}) * 0.2, [64, 128])\n"          \
  "k = iter(K, fmap={i:0})\n v = iter(V, fmap={i:0})\n s = matmul(q, transpose(k))\n m, moved = accum_max(max(s, dim=1))\n e = exp(s - m)\n f = " \
  "exp(moved)\n"                                                                                                                                  \
  "save(reshape(accum_rescale(matmul(e, v), f) / accum_sum_rescale(e, f, dim=1), [4, 16, 128]), omap={x:1}) }\n return O"

static const struct held large[] = {
    {"three warpgroups, 128 keys", LARGE("192", "256", "64", "2", RUNNING_SUM, "matmul(q * 0.3, transpose(k))"), "wgmma groups=3 stages=2 chain=1",
     "wgmma.m64n128k16.fp32.fp16"},
    {"heads of 128, 128 keys", LARGE("128", "256", "128", "2", LATE_SUM, "matmul(q * 0.1, transpose(k))"), "wgmma groups=2 stages=2 chain=1", NULL},
    {"the same in turns", LARGE("128", "256", "128", "2", LATE_SUM, "matmul(q * 0.1, transpose(k))"), "wgmma groups=2 stages=2 chain=2", NULL},
    {"in turns, blocks that walk", LARGE("128", "128", "64", "4", RUNNING_SUM, "matmul(q, transpose(k)) * 0.3"),
     "wgmma groups=2 stages=3 blocks=1 chain=2", NULL},
    {"three in turns", LARGE("192", "128", "64", "4", LATE_SUM, "matmul(q * 0.3, transpose(k))"), "wgmma groups=3 stages=2 blocks=1 chain=2", NULL},
    {"exponentials in part by polynomials", LARGE("128", "256", "64", "2", RUNNING_SUM, "matmul(q * 3, transpose(k))"),
     "wgmma groups=2 stages=2 chain=1 poly=4", "exp2.poly"},
    {"that only in a chain", LARGE("128", "128", "64", "2", RUNNING_SUM, "matmul(q, transpose(k))"), "wgmma groups=2 stages=2 poly=4", NULL,
     "not many beside products"},
    {"one alone takes no turns", LARGE("64", "128", "64", "2", RUNNING_SUM, "matmul(q, transpose(k))"), "wgmma groups=1 stages=2 chain=2", NULL,
     "takes no turns"},
    {"a factor below 0", LARGE("64", "128", "64", "2", RUNNING_SUM, "matmul(q * -0.3, transpose(k))"), "wgmma groups=1 stages=2 chain=1", NULL},
    {"a factor of scores below 0", LARGE("64", "128", "64", "2", RUNNING_SUM, "matmul(q, transpose(k)) * -0.3"), "wgmma groups=1 stages=2 chain=1",
     NULL},
    {"scores that others read too", LARGE("64", "128", "64", "2", "(" RUNNING_SUM " + accum(max(s * s, dim=2)))", "matmul(q * 0.3, transpose(k))"),
     "wgmma groups=1 stages=2 chain=1", NULL},
    {"values that are the keys",
     "Q: f16[64, 64]\n K: f16[128, 64]\n O = block(; i=2) { q = iter(Q)\n k = iter(K, fmap={i:0})\n s = matmul(q * 0.3, transpose(k))\n"
     "m, moved = accum_max(max(s, dim=1))\n e = exp(s - m)\n f = exp(moved)\n save(accum_rescale(matmul(e, k), f) / accum_sum_rescale(e, f, dim=1)) "
     "}\n return O",
     "wgmma groups=1 stages=2 chain=1", NULL},
    {"rows of several heads, apart in memory", HEADS_APART, "wgmma groups=1 stages=2 chain=1", NULL},
    {"the same sent by TMA", HEADS_APART, "wgmma groups=1 stages=2 chain=1 store=2", "tma.store"},
};

static const struct held chains[] = {
    {"attention", ATTENTION("4", "matmul(q, transpose(k))"), "wgmma groups=1 stages=2 chain=1", "wgmma.m64n64k16.fp32.fp16.rs"},
    {"attention, scaled", ATTENTION("2", "matmul(q, transpose(k)) * 0.125"), "wgmma groups=1 stages=3 chain=1", NULL},
    {"attention, product after product", ATTENTION("2", "matmul(q, transpose(k)) * 0.125"), "wgmma groups=1 stages=2", NULL},
    {"attention, blocks that walk", ATTENTION("2", "matmul(q, transpose(k)) * 0.125"), "wgmma groups=1 stages=2 blocks=3 chain=1", NULL},
    {"attention, one block for all", ATTENTION("4", "matmul(q * 0.5, transpose(k))"), "wgmma groups=1 stages=3 blocks=1 chain=1", NULL},
    {"attention, one iteration", ATTENTION("1", "matmul(q, transpose(k)) * 0.125"), "wgmma groups=1 stages=2", NULL},
    {"groups of heads as rows",
     "Q: f16[1, 8, 16, 64]\n K: f16[1, 2, 128, 64]\n V: f16[1, 2, 128, 64]\n T = reshape(Q, [1, 2, 4, 16, 64])\n"
     "N, D = block(x=2, y=2; i=2) { q = iter(T, imap={x:1})\n k = iter(K, imap={x:1, y:2}, fmap={i:2})\n v = iter(V, imap={x:1, y:2}, fmap={i:2})\n"
     "e = exp(matmul(reshape(q, [1, 1, 64, 64]), transpose(k)) * 0.1)\n save(reshape(accum(matmul(e, v)), [1, 1, 4, 16, 64]), omap={x:1, y:0})\n"
     "save(reshape(accum_sum(e, dim=3), [1, 1, 4, 16, 1]), omap={x:1, y:0}) }\n return N, D",
     "wgmma groups=1 stages=2 chain=1", NULL},
};

#define LAYERS(m, x, last)                                                                                                         \
  "X: f16[" m ", 64]\n A: f16[64, 64]\n B: f16[64, 64]\n C: f16[64, 64]\n D: f16[64, 64]\n a: f16[64]\n b: f16[64]\n d: f16[64]\n" \
  "O = block(x=" x ") { x = iter(X, imap={x:0})\n A = iter(A)\n B = iter(B)\n C = iter(C)\n D = iter(D)\n a = iter(a)\n"           \
  "b = iter(b)\n d = iter(d)\n t = relu(matmul(relu(matmul(x, A) + a), B) + b)\n u = matmul(relu(matmul(t, C)) * 0.5, D)\n"        \
  "save(" last ", omap={x:0}) }\n return O"

// Results by TMA.
static const struct held stores[] = {
    {"one warpgroup", GEMM("64", "128", "64", "1", "1", "2"), "wgmma groups=1 stages=2 store=1", "tma.store.2d"},
    {"two", GEMM("256", "128", "256", "2", "1", "2"), "wgmma groups=2 stages=2 store=2", "stmatrix.x4"},
    {"blocks that walk, an odd number of pieces", GEMM("256", "192", "256", "4", "4", "3"), "wgmma groups=1 stages=2 blocks=3 store=2", NULL},
    {"blocks that walk, three places", GEMM("256", "128", "256", "2", "2", "2"), "wgmma groups=2 stages=2 blocks=3 store=3", NULL},
    {"two tiles of rows a warpgroup", GEMM("256", "128", "128", "1", "1", "2"), "wgmma groups=2 stages=2 store=2", NULL},
    {"pieces of 32 columns", GEMM("64", "64", "96", "1", "1", "1"), "wgmma groups=1 stages=2 store=2", NULL},
    {"pieces of 16 columns", GEMM("64", "64", "96", "1", "2", "1"), "wgmma groups=1 stages=2 store=2", NULL},
    {"bf16",
     "X: bf16[64, 64]\n W: bf16[64, 64]\n O = block(; i=2) { x = iter(X, fmap={i:1})\n w = iter(W, fmap={i:0})\n save(accum(matmul(x, w))) }\n "
     "return O",
     "wgmma groups=1 stages=2 store=2", NULL},
    {"a tile that is added",
     "X: f16[64, 128]\n W: f16[128, 128]\n R: f16[64, 128]\n O = block(x=1; i=2) { x = iter(X, fmap={i:1})\n w = iter(W, fmap={i:0})\n r = iter(R)\n"
     "save(accum(matmul(x, w)) + square(r)) }\n return O",
     "wgmma groups=1 stages=2 store=2", NULL},
    {"two results, of which one is needed for the other",
     "X: f16[64, 128]\n W: f16[128, 128]\n O, P = block(; i=2) { x = iter(X, fmap={i:1})\n w = iter(W, fmap={i:0})\n y = relu(accum(matmul(x, w)))\n"
     "save(y)\n save(square(y) + y) }\n return O, P",
     "wgmma groups=1 stages=2 store=2", NULL},
    {"a norm of rows",
     "X: f16[64, 128]\n W: f16[128, 128]\n O = block(; i=2) { x = iter(X, fmap={i:1})\n w = iter(W, fmap={i:0})\n y = relu(accum(matmul(x, w)))\n"
     "save(y / (sum(y, dim=1) + 1.0)) }\n return O",
     "wgmma groups=1 stages=2 store=2", NULL},
    {"batches on a grid axis",
     "X: f16[2, 64, 64]\n W: f16[2, 64, 64]\n O = block(x=2; i=2) { x = iter(X, imap={x:0}, fmap={i:2})\n w = iter(W, imap={x:0}, fmap={i:1})\n"
     "save(accum(matmul(x, w)), omap={x:0}) }\n return O",
     "wgmma groups=1 stages=2 store=2", NULL},
    {"attention", ATTENTION("2", "matmul(q, transpose(k)) * 0.125"), "wgmma groups=1 stages=2 chain=1 store=2", NULL},
    {"attention, blocks that walk", ATTENTION("2", "matmul(q, transpose(k)) * 0.125"), "wgmma groups=1 stages=2 blocks=3 chain=1 store=2", NULL},
    {"groups of heads as rows",
     "Q: f16[1, 8, 16, 64]\n K: f16[1, 2, 128, 64]\n V: f16[1, 2, 128, 64]\n T = reshape(Q, [1, 2, 4, 16, 64])\n"
     "N = block(x=2; i=2) { q = iter(T, imap={x:1})\n k = iter(K, imap={x:1}, fmap={i:2})\n v = iter(V, imap={x:1}, fmap={i:2})\n"
     "e = exp(matmul(reshape(q, [1, 1, 64, 64]), transpose(k)) * 0.1)\n"
     "save(reshape(accum(matmul(e, v)) / accum_sum(e, dim=3), [1, 1, 4, 16, 64]), omap={x:1}) }\n return N",
     "wgmma groups=1 stages=2 chain=1 store=2", NULL},
    {"pieces of two dimensions",
     "X: f16[2, 64, 64]\n W: f16[64, 64]\n O = block(x=2) { x = iter(X, imap={x:1})\n w = iter(W)\n"
     "save(reshape(matmul(reshape(x, [64, 64]), w), [2, 32, 64]), omap={x:1}) }\n return O",
     "wgmma groups=1 stages=2 store=2", "tma.store.3d"},
    {"pieces of rows beyond the last", GEMM("80", "64", "64", "1", "1", "1"), "wgmma groups=1 stages=2 store=2 rows=256", NULL},
    {"two pieces of rows where there is one", GEMM("40", "64", "64", "1", "1", "1"), "wgmma groups=1 stages=2 store=2 rows=128", NULL,
     "no result is a box"},
    {"the same stored by threads", GEMM("40", "64", "64", "1", "1", "1"), "wgmma groups=1 stages=2 rows=128", NULL},
    {"a result that is transposed",
     "X: f16[64, 128]\n W: f16[128, 64]\n O = block(; i=2) { x = iter(X, fmap={i:1})\n w = iter(W, fmap={i:0})\n save(transpose(accum(matmul(x, "
     "w)))) }\n return O",
     "wgmma groups=1 stages=2 store=2", NULL, "no result is a box"},
};

// Right operands that take turns.
static const struct held layers[] = {
    {"two slots", LAYERS("64", "1", "relu(u + d)"), "wgmma groups=1 stages=2", NULL},
    {"three slots", LAYERS("64", "1", "relu(u + d)"), "wgmma groups=1 stages=3 store=2", NULL},
    {"room for all", LAYERS("64", "1", "relu(u + d)"), "wgmma groups=1 stages=4 store=1", NULL},
    {"several warpgroups, blocks", LAYERS("256", "2", "relu(u + d)"), "wgmma groups=2 stages=2 store=2", NULL},
    {"branches, which are done one after the other",
     "X: f16[64, 64]\n A: f16[64, 64]\n B: f16[64, 64]\n C: f16[64, 64]\n D: f16[64, 64]\n E: f16[64, 64]\n F: f16[64, 64]\n O = block(x=1) {\n"
     "x = iter(X)\n A = iter(A)\n B = iter(B)\n C = iter(C)\n D = iter(D)\n E = iter(E)\n F = iter(F)\n a = relu(matmul(x, A))\n"
     "b = relu(matmul(x, B))\n c = relu(matmul(x, C))\n d = matmul(a, D)\n e = matmul(b, E)\n f = matmul(c, F)\n save(d * e * 0.01 + f) }\n return O",
     "wgmma groups=1 stages=2", NULL},
    {"what came in is added", LAYERS("128", "2", "u + d + x"), "wgmma groups=1 stages=2 store=2", NULL},
};

#define TEST(table)                      \
  static void test_##table(void **state) \
  {                                      \
    (void)state;                         \
    hold(table, COUNT(table));           \
  }
TEST(products)
TEST(chains)
TEST(stores)
TEST(layers)
TEST(large)

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_products), cmocka_unit_test(test_chains), cmocka_unit_test(test_stores),
                                     cmocka_unit_test(test_layers), cmocka_unit_test(test_large)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

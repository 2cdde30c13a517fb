// Sums and columns that 8, the elements of a chunk of 16 bytes, does not divide, by mma: at many layouts of warps, and at what the scheme
// chooses. What lies beyond must be zero where products read it, and nothing to sums and maxima.
// test: timeout 300
#include "held.h"

#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { FEW = 4 }; // rows of a table that are tried at all that the scheme chooses

#define ANY "mma wm=1 wn=1 stages=2"
#define GEMM(m, k, n, x, y, i)                                                                                         \
  "X: f16[" m ", " k "]\n W: f16[" k ", " n "]\n C: f16[" n "]\n"                                                      \
  "O = block(x=" x ", y=" y "; i=" i ") { a = iter(X, imap={x:0}, fmap={i:1})\n w = iter(W, imap={y:1}, fmap={i:0})\n" \
  "c = iter(C, imap={y:0})\n save(relu(accum(matmul(a, w)) + c), omap={x:0, y:1}) }\n return O"
// Both operands the other way round in memory.
#define TURNED(m, k, n, i)                                                                                                   \
  "X: f16[" k ", " m "]\n W: f16[" n ", " k "]\n O = block(; i=" i ") { a = iter(X, fmap={i:0})\n w = iter(W, fmap={i:1})\n" \
  "save(accum(matmul(transpose(a), transpose(w)))) }\n return O"

static const struct held products[] = {
    {"4 bytes lie together", GEMM("16", "100", "50", "1", "1", "1"), ANY, NULL},
    {"in a loop", GEMM("24", "200", "50", "2", "1", "4"), ANY, NULL},
    {"2 bytes", GEMM("16", "77", "77", "1", "1", "1"), ANY, NULL},
    {"tiles of odd rows", GEMM("16", "77", "154", "1", "2", "7"), ANY, NULL},
    {"8 bytes", GEMM("40", "84", "60", "1", "1", "3"), ANY, NULL},
    {"16 bytes, the tile's end is within a chunk", GEMM("16", "96", "104", "1", "2", "8"), ANY, NULL},
    {"one column", GEMM("20", "48", "1", "1", "1", "2"), ANY, NULL},
    {"one column of a sum, of the rows alone",
     "X: f16[20, 48]\n W: f16[48, 1]\n R: f16[20, 1]\n O, P = block(; i=2) { x = iter(X, fmap={i:1})\n w = iter(W, fmap={i:0})\n"
     "r = iter(R)\n y = accum(matmul(x, w))\n save(r - y * y)\n save(sum(y, dim=1) * 2) }\n return O, P",
     ANY, NULL},
    {"one column, multiplied",
     "X: f16[20, 48]\n W: f16[48, 1]\n V: f16[1, 24]\n O = block() { x = iter(X)\n w = iter(W)\n v = iter(V)\n"
     "save(matmul(tanh(matmul(x, w) + 1), v)) }\n return O",
     ANY, NULL},
    {"a sum of one", GEMM("20", "1", "24", "1", "1", "1"), ANY, NULL},
    {"a sum of 3, three columns", GEMM("16", "3", "3", "1", "1", "1"), ANY, NULL},
    {"sums that warps share", GEMM("16", "124", "20", "1", "1", "2"), ANY, NULL},
    {"an odd sum, columns as they should be", GEMM("33", "57", "64", "1", "2", "1"), ANY, NULL},
    {"a sum as it should be, odd columns", GEMM("17", "64", "45", "1", "1", "2"), ANY, NULL},
    {"turned", TURNED("24", "76", "50", "1"), ANY, NULL},
    {"turned, in a loop", TURNED("16", "150", "33", "2"), ANY, NULL},
    {"odd rows turned", TURNED("21", "90", "33", "2"), ANY, NULL},
    {"batches in the rows",
     "Q: f16[4, 8, 20]\n K: f16[4, 20, 13]\n O = block(x=2) { q = iter(Q, imap={x:0})\n k = iter(K, imap={x:0})\n"
     "save(matmul(q, k), omap={x:0}) }\n return O",
     ANY, NULL},
    {"batches of keys in a loop",
     "Q: f16[4, 8, 30]\n K: f16[4, 22, 30]\n O = block(x=2; i=2) { q = iter(Q, imap={x:0}, fmap={i:2})\n"
     "k = iter(K, imap={x:0}, fmap={i:2})\n save(accum(matmul(q, transpose(k))), omap={x:0}) }\n return O",
     ANY, NULL},
    {"columns of two dimensions",
     "X: f16[16, 36]\n W: f16[36, 3, 5]\n O = block() { x = iter(X)\n w = iter(W)\n y = matmul(x, reshape(w, [36, 15]))\n"
     "save(reshape(y, [16, 3, 5])) }\n return O",
     ANY, NULL},
    {"fp32 results",
     "X: f16[16, 36]\n W: f16[36, 30]\n R: f32[16, 30]\n O = block(; i=2) { x = iter(X, fmap={i:1})\n w = iter(W, fmap={i:0})\n r = iter(R)\n"
     "save(accum(matmul(x, w)) + r) }\n return O",
     ANY, NULL},
};

static const struct held joined[] = {
    {"norm, then a product",
     "X: f16[3, 100]\n G: f16[100]\n W: f16[100, 50]\n O = block() { x = iter(X)\n g = iter(G)\n w = iter(W)\n"
     "save(matmul(x * g, w) / sqrt(mean(x * x, dim=1))) }\n return O",
     ANY, NULL},
    {"norm beside a loop",
     "X: f16[20, 100]\n W: f16[100, 50]\n O = block(; i=2) { x = iter(X, fmap={i:1})\n w = iter(W, fmap={i:0})\n"
     "save(accum(matmul(x, w)) / accum_rms(x, dim=1)) }\n return O",
     ANY, NULL},
    {"sums of exponentials",
     "X: f16[20, 45]\n W: f16[45, 27]\n O = block(; i=3) { x = iter(X, fmap={i:1})\n w = iter(W, fmap={i:0})\n"
     "save(accum(matmul(x, w)) / accum_sum(exp(x), dim=1)) }\n return O",
     ANY, NULL},
    {"gated",
     "X: f16[16, 60]\n A: f16[60, 34]\n B: f16[60, 34]\n O = block(x=2; i=2) { x = iter(X, fmap={i:1})\n a = iter(A, imap={x:1}, fmap={i:0})\n"
     "b = iter(B, imap={x:1}, fmap={i:0})\n save(silu(accum(matmul(x, a))) * accum(matmul(x, b)), omap={x:1}) }\n return O",
     ANY, NULL},
    {"lora of rank 5",
     "X: f16[24, 70]\n W: f16[70, 44]\n A: f16[70, 5]\n B: f16[5, 44]\n O = block(x=2; i=2) { x = iter(X, fmap={i:1})\n w = iter(W, imap={x:1}, "
     "fmap={i:0})\n"
     "a = iter(A, fmap={i:0})\n b = iter(B, imap={x:1})\n save(accum(matmul(x, w)) + matmul(accum(matmul(x, a)), b), omap={x:1}) }\n return O",
     ANY, NULL},
    {"layers",
     "X: f16[40, 30]\n W: f16[30, 45]\n V: f16[45, 19]\n U: f16[19, 33]\n c: f16[19]\n O = block() { x = iter(X)\n w = iter(W)\n v = iter(V)\n u = "
     "iter(U)\n b = iter(c)\n"
     "save(matmul(1 / (1 + exp(matmul(tanh(matmul(x, w)), v) + b)), u)) }\n return O",
     ANY, NULL},
    {"layers that take turns",
     "X: f16[40, 30]\n A: f16[30, 30]\n B: f16[30, 30]\n C: f16[30, 30]\n D: f16[30, 30]\n E: f16[30, 30]\n a: f16[30]\n"
     "O = block() { x = iter(X)\n p = iter(A)\n q = iter(B)\n r = iter(C)\n s = iter(D)\n t = iter(E)\n u = iter(a)\n"
     "y = relu(matmul(relu(matmul(x * 0.5, p) + u), q))\n save(matmul(relu(matmul(relu(matmul(y * 0.1, r)), s)), t)) }\n return O",
     ANY, NULL},
    {"divided by nothing",
     "X: f16[16, 30]\n W: f16[30, 13]\n V: f16[13, 20]\n O = block() { x = iter(X)\n w = iter(W)\n v = iter(V)\n"
     "save(matmul(0.01 / (0.1 + square(matmul(x, w))), v)) }\n return O",
     ANY, NULL},
    {"a logarithm of what is not there",
     "X: f16[16, 30]\n W: f16[30, 13]\n V: f16[13, 20]\n O = block() { x = iter(X)\n w = iter(W)\n v = iter(V)\n y = matmul(x, w)\n"
     "save(matmul(log(square(y)) * 0.1, v) + sum(log(square(y)), dim=1)) }\n return O",
     ANY, NULL},
    {"maxima and sums of columns",
     "X: f16[20, 64]\n W: f16[64, 42]\n O = block(; i=2) { x = iter(X, fmap={i:1})\n w = iter(W, fmap={i:0})\n p = accum(matmul(x, w)) - 100\n"
     "save(p - max(p, dim=1) + sum(p, dim=1) * 0.01) }\n return O",
     ANY, NULL},
    {"a residual and a factor",
     "X: f16[24, 52]\n W: f16[52, 30]\n R: f16[24, 30]\n S: f16[24, 1]\n O = block(x=3; i=2) { x = iter(X, fmap={i:1})\n w = iter(W, imap={x:1}, "
     "fmap={i:0})\n"
     "r = iter(R, imap={x:1})\n s = iter(S)\n save(accum(matmul(x, w)) * s + r, omap={x:1}) }\n return O",
     ANY, NULL},
    {"parts of an earlier kernel",
     "P: f32[8, 12, 18]\n X: f16[12, 60]\n W: f16[18, 60]\n O = block(x=2) { p = iter(P)\n x = iter(X, imap={x:1})\n w = iter(W, imap={x:1})\n"
     "h = relu(sum(p, dim=0))\n save(x + matmul(reshape(h, [12, 18]), w), omap={x:1}) }\n return O",
     ANY, NULL},
    {"a fixed product beside the loop",
     "X: f16[16, 90]\n W: f16[90, 33]\n H: f16[16, 21]\n U: f16[21, 33]\n O = block(; i=2) { x = iter(X, fmap={i:1})\n w = iter(W, fmap={i:0})\n"
     "h = iter(H)\n u = iter(U)\n save(accum(matmul(x, w)) + matmul(h, u)) }\n return O",
     ANY, NULL},
};

#define ATTENTION(rows, d, keys, e, i)                                                                                 \
  "Q: f16[2, " rows ", " d "]\n K: f16[2, " keys ", " d "]\n V: f16[2, " keys ", " e "]\n O = block(x=2; i=" i ") {\n" \
  "q = iter(Q, imap={x:0})\n k = iter(K, imap={x:0}, fmap={i:1})\n v = iter(V, imap={x:0}, fmap={i:1})\n"              \
  "e = exp(matmul(q, transpose(k)) * 0.2)\n save(accum(matmul(e, v)) / accum_sum(e, dim=2), omap={x:0}) }\n return O"
// Scores far below 0: a key that does not exist, taken for a score of 0, would be all there is.
#define LOW(rows, keys, i)                                                                                         \
  "Q: f16[" rows ", 32]\n K: f16[" keys ", 32]\n V: f16[" keys ", 32]\n N, D, M = block(; i=" i ") {\n"            \
  "q = iter(Q)\n k = iter(K, fmap={i:0})\n v = iter(V, fmap={i:0})\n s = matmul(q, transpose(k)) * 0.2 - 30\n"     \
  "m, moved = accum_max(max(s, dim=1))\n e = exp(s - m)\n f = exp(moved)\n save(accum_rescale(matmul(e, v), f))\n" \
  "save(accum_sum_rescale(e, f, dim=1))\n save(m) }\n return N, D, M"

static const struct held softmax[] = {
    {"odd keys", ATTENTION("16", "32", "74", "32", "2"), ANY, NULL},
    {"all keys at once", ATTENTION("20", "32", "45", "32", "1"), ANY, NULL},
    {"heads of 20", ATTENTION("24", "20", "64", "20", "2"), ANY, NULL},
    {"nothing divides", ATTENTION("13", "21", "39", "27", "3"), ANY, NULL},
    {"low scores", LOW("16", "42", "2"), ANY, NULL},
    {"low scores, keys as they should be but for the last", LOW("8", "63", "1"), ANY, NULL},
    {"values contiguous along keys",
     "Q: f16[16, 36]\n K: f16[36, 50]\n V: f16[20, 50]\n O = block(; i=2) { q = iter(Q)\n k = iter(K, fmap={i:1})\n v = iter(V, fmap={i:1})\n"
     "e = exp(matmul(q, k) * 0.1)\n save(accum(matmul(e, transpose(v))) / accum_sum(e, dim=1)) }\n return O",
     ANY, NULL},
    {"a mask",
     "Q: f16[2, 24, 28]\n K: f16[2, 46, 28]\n V: f16[2, 46, 28]\n M: f16[24, 46]\n O = block(x=2; i=2) { q = iter(Q, imap={x:0})\n k = iter(K, "
     "imap={x:0}, fmap={i:1})\n"
     "v = iter(V, imap={x:0}, fmap={i:1})\n m = iter(M, fmap={i:1})\n e = exp(matmul(q, transpose(k)) * 0.25 + m)\n"
     "save(accum(matmul(e, v)) / accum_sum(e, dim=2), omap={x:0}) }\n return O",
     ANY, NULL},
    {"norm of the queries",
     "Q: f16[2, 32, 50]\n K: f16[2, 50, 64]\n V: f16[2, 64, 30]\n O = block(x=2; i=2) { q = iter(Q, imap={x:0})\n k = iter(K, imap={x:0}, "
     "fmap={i:2})\n"
     "v = iter(V, imap={x:0}, fmap={i:1})\n n = q / sqrt(mean(square(q), dim=2))\n e = exp(matmul(n, k) * 0.125)\n"
     "save(accum(matmul(e, v)) / accum_sum(e, dim=2), omap={x:0}) }\n return O",
     ANY, NULL},
};

// Right operands and vectors that are computed on the side.
#define KEYS(rows, d, keys, e, i)                                                                                                              \
  "Q: f16[2, " rows ", " d "]\n K: f16[2, " d ", " keys "]\n V: f16[2, " keys ", " e "]\n O = block(x=2; i=" i ") { q = iter(Q, imap={x:0})\n" \
  "k = iter(K, imap={x:0}, fmap={i:2})\n v = iter(V, imap={x:0}, fmap={i:1})\n"
static const struct held sides[] = {
    {"norm of the keys",
     KEYS("16", "30", "50", "32", "2") "t = transpose(k)\n n = transpose(t / sqrt(mean(square(t), dim=2)))\n e = exp(matmul(q, n) * 0.125)\n"
                                       "save(accum(matmul(e, v)) / accum_sum(e, dim=2), omap={x:0}) }\n return O",
     ANY, NULL},
    {"norm of the values",
     KEYS("16", "32", "44", "20", "2") "n = v / sqrt(mean(square(v), dim=2) + 0.01)\n e = exp(matmul(q, k) * 0.125)\n"
                                       "save(accum(matmul(e, n)) / accum_sum(e, dim=2), omap={x:0}) }\n return O",
     ANY, NULL},
    {"norms of the values as a vector",
     "Q: f16[2, 16, 32]\n K: f16[2, 32, 54]\n V: f16[2, 54, 30]\n N, D = block(x=2; i=2) { q = iter(Q, imap={x:0})\n"
     "k = iter(K, imap={x:0}, fmap={i:2})\n v = iter(V, imap={x:0}, fmap={i:1})\n r = sqrt(mean(v * v, dim=2) + 0.01)\n e = exp(matmul(q, k) * "
     "0.125)\n"
     "save(accum(matmul(e / reshape(r, [1, 1, 27]), v)), omap={x:0})\n save(accum_sum(e, dim=2), omap={x:0}) }\n return N, D",
     ANY, NULL},
    {"columns divided by their norms",
     "X: f16[32, 50]\n W: f16[50, 37]\n O = block() { x = iter(X)\n w = iter(W)\n save(matmul(x, w) / sqrt(sum(square(w), dim=0))) }\n return O", ANY,
     NULL},
    {"weights times a scale",
     "X: f16[5, 100]\n G: f16[100, 1]\n W: f16[100, 60]\n O = block(x=2; i=4) { x = iter(X, fmap={i:1})\n g = iter(G, fmap={i:0})\n w = iter(W, "
     "imap={x:1}, fmap={i:0})\n"
     "save(accum(matmul(x, g * w)) / accum_rms(x, dim=1), omap={x:1}) }\n return O",
     ANY, NULL},
    {"a few rows",
     "X: f16[5, 4]\n G: f16[4, 1]\n W: f16[4, 6]\n O = block() { x = iter(X)\n g = iter(G)\n w = iter(W)\n save(matmul(x, exp(g) * w)) }\n return O",
     ANY, NULL},
    {"keys that are fixed, scaled",
     "Q: f16[64, 36]\n K: f16[42, 36]\n S: f16[36]\n O = block(; i=4) { q = iter(Q)\n k = iter(K, fmap={})\n s = iter(S)\n r = iter(Q, fmap={i:1})\n"
     "save(matmul(q, transpose(k * s)) + accum_sum(r, dim=1)) }\n return O",
     ANY, NULL},
    {"batches of keys",
     "Q: f16[4, 8, 20]\n K: f16[4, 13, 20]\n O = block(x=2) { q = iter(Q, imap={x:0})\n k = iter(K, imap={x:0})\n"
     "save(matmul(q, transpose(k / sqrt(sum(k * k, dim=2)))), omap={x:0}) }\n return O",
     ANY, NULL},
};

// By wgmma: TMA fills boxes with zeros behind a dimension's end.
#define WG "wgmma groups=1 stages=2"
#define BY_KEYS(x, m, k, n, i)                                                                                                                  \
  "X: f16[" m ", " k "]\n W: f16[" n ", " k "]\n O = block(x=" x "; i=" i ") { a = iter(X, imap={x:0}, fmap={i:1})\n w = iter(W, fmap={i:1})\n" \
  "save(accum(matmul(a, transpose(w))), omap={x:0}) }\n return O"
static const struct held boxes[] = {
    {"a sum of 72", GEMM("64", "72", "64", "1", "1", "1"), WG, "wgmma.m64n64k16"},
    {"sums of 24 in a loop", GEMM("64", "72", "64", "1", "1", "3"), WG, NULL},
    {"72 columns", GEMM("64", "64", "72", "1", "1", "2"), WG, "wgmma.m64n80k16"},
    {"tiles of 40 columns", GEMM("128", "64", "80", "1", "2", "2"), "wgmma groups=2 stages=2", NULL},
    {"blocks that walk over them", GEMM("128", "72", "80", "2", "2", "3"), "wgmma groups=1 stages=2 blocks=3", NULL},
    {"50 columns, contiguous along the sum", BY_KEYS("1", "64", "64", "50", "2"), WG, "wgmma.m64n64k16"},
    {"7 columns", BY_KEYS("1", "64", "144", "7", "6"), WG, NULL},
    {"rows that are cut anew", BY_KEYS("4", "160", "72", "45", "1"), "wgmma groups=1 stages=2 rows=64", NULL},
    {"heads of 72", ATTENTION("64", "72", "128", "72", "2"), WG, NULL},
    {"125 keys at a time", ATTENTION("64", "64", "250", "64", "2"), WG, NULL},
    {"in a chain", ATTENTION("64", "64", "150", "64", "6"), "wgmma groups=1 stages=2 chain=1", NULL},
    {"in turns", ATTENTION("128", "72", "148", "72", "4"), "wgmma groups=2 stages=2 chain=2", NULL},
    {"low scores", LOW("64", "75", "3"), WG, NULL},
    {"low scores in a chain", LOW("64", "75", "3"), "wgmma groups=1 stages=2 chain=1", NULL},
    {"keys contiguous",
     "Q: f16[64, 32]\n K: f16[32, 72]\n V: f16[72, 32]\n O = block() { q = iter(Q)\n k = iter(K)\n v = iter(V)\n e = exp(matmul(q, k) * 0.1)\n"
     "save(matmul(e, v) / sum(e, dim=1)) }\n return O",
     WG, NULL},
    {"layers",
     "X: f16[64, 40]\n W: f16[40, 40]\n V: f16[40, 40]\n U: f16[40, 40]\n c: f16[40]\n O = block() { x = iter(X)\n w = iter(W)\n v = iter(V)\n u = "
     "iter(U)\n b = iter(c)\n"
     "save(matmul(1 / (1 + exp(matmul(tanh(matmul(x, w)), v) + b)), u)) }\n return O",
     "wgmma groups=1 stages=2", NULL},
    {"what lanes read too",
     "X: f16[64, 72]\n W: f16[72, 64]\n O = block(; i=3) { x = iter(X, fmap={i:1})\n w = iter(W, fmap={i:0})\n"
     "save(accum(matmul(x, w)) / accum_sum(exp(x), dim=1)) }\n return O",
     WG, NULL},
    {"a bias",
     "X: f16[64, 64]\n W: f16[50, 64]\n c: f16[50]\n O = block(; i=2) { x = iter(X, fmap={i:1})\n w = iter(W, fmap={i:1})\n c = iter(c)\n"
     "y = accum(matmul(x, transpose(w))) + c\n save(y - max(y, dim=1)) }\n return O",
     WG, NULL},
};

static const struct held refused[] = {
    {"by wgmma", GEMM("64", "100", "64", "1", "1", "1"), "wgmma groups=1 stages=2", NULL, "begin at 16 bytes"},
    {"columns by wgmma", GEMM("64", "64", "50", "1", "1", "2"), "wgmma groups=1 stages=2", NULL, "begin at 16 bytes"},
    {"padded columns of two dimensions",
     "X: f16[64, 64]\n W: f16[3, 8, 3, 64]\n O = block(x=8) { x = iter(X)\n w = iter(W, imap={x:1})\n"
     "save(reshape(matmul(x, transpose(reshape(w, [9, 64]))), [64, 3, 1, 3]), omap={x:2}) }\n return O",
     "wgmma groups=1 stages=2", NULL, "no box"},
};

static void test_products(void **state)
{
  (void)state;
  assert_true(hold_layouts(products, (int)COUNT(products)) > 80);
}

static void test_joined(void **state)
{
  (void)state;
  assert_true(hold_layouts(joined, (int)COUNT(joined)) > 60);
}

static void test_softmax(void **state)
{
  (void)state;
  assert_true(hold_layouts(softmax, (int)COUNT(softmax)) > 50);
}

static void test_sides(void **state)
{
  (void)state;
  assert_true(hold_layouts(sides, (int)COUNT(sides)) > 40);
}

static void test_boxes(void **state)
{
  (void)state;
  hold(boxes, (int)COUNT(boxes));
  hold_choices(boxes, FEW);
  hold_bf16(boxes, (int)COUNT(boxes));
}

static void test_choices(void **state)
{
  (void)state;
  hold_choices(products, FEW);
  hold_choices(joined, FEW);
  hold_choices(softmax, FEW);
  hold_choices(sides, FEW);
}

static void test_others(void **state)
{
  (void)state;
  hold(refused, (int)COUNT(refused));
  hold_bf16(joined, (int)COUNT(joined));
  hold_sm80(products, (int)COUNT(products));
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_products), cmocka_unit_test(test_joined), cmocka_unit_test(test_softmax),
                                     cmocka_unit_test(test_sides),    cmocka_unit_test(test_boxes),  cmocka_unit_test(test_choices),
                                     cmocka_unit_test(test_others)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

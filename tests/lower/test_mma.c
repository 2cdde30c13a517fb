// Kernels of the scheme mma: clean in the interpreter and equal to float64, at sizes that tiles do and do not divide.
// test: timeout 300
#include "held.h"

#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define GEMM(m, k, n, x, y, i)                                                                                         \
  "X: f16[" m ", " k "]\n W: f16[" k ", " n "]\n C: f16[" n "]\n"                                                      \
  "O = block(x=" x ", y=" y "; i=" i ") { a = iter(X, imap={x:0}, fmap={i:1})\n w = iter(W, imap={y:1}, fmap={i:0})\n" \
  "c = iter(C, imap={y:0})\n save(relu(accum(matmul(a, w)) + c), omap={x:0, y:1}) }\n return O"

static const struct held gemm[] = {
    {"one warp", GEMM("16", "32", "16", "1", "1", "2"), "mma wm=1 wn=1 stages=2", "mma.m16n8k16"},
    {"one iteration", GEMM("16", "32", "16", "1", "1", "1"), "mma wm=1 wn=1 stages=2", NULL},
    {"warps", GEMM("64", "128", "128", "1", "2", "4"), "mma wm=2 wn=2 stages=3", NULL},
    {"more stages than iterations", GEMM("32", "64", "64", "2", "1", "2"), "mma wm=1 wn=2 stages=4", NULL},
    {"rows that do not fill a tile", GEMM("20", "64", "24", "2", "1", "2"), "mma wm=1 wn=1 stages=2", NULL},
    {"rows that do not fill the warps", GEMM("40", "64", "48", "1", "1", "2"), "mma wm=2 wn=3 stages=2", NULL},
    {"the next kernel is held back", GEMM("32", "64", "64", "2", "1", "2"), "mma wm=1 wn=2 stages=2 ahead=1 hold=1", "prefetch.L2"},
    {"one row", GEMM("1", "64", "16", "1", "1", "2"), "mma wm=1 wn=1 stages=2", NULL},
};

static const struct held joined[] = {
    {"gated",
     "X: f16[16, 64]\n A: f16[64, 32]\n B: f16[64, 32]\n O = block(x=2; i=2) { x = iter(X, fmap={i:1})\n"
     "a = iter(A, imap={x:1}, fmap={i:0})\n b = iter(B, imap={x:1}, fmap={i:0})\n"
     "save(silu(accum(matmul(x, a))) * accum(matmul(x, b)), omap={x:1}) }\n return O",
     "mma wm=1 wn=2 stages=2", NULL},
    {"lora",
     "X: f16[24, 64]\n W: f16[64, 64]\n A: f16[64, 16]\n B: f16[16, 64]\n O = block(x=2; i=2) { x = iter(X, fmap={i:1})\n"
     "w = iter(W, imap={x:1}, fmap={i:0})\n a = iter(A, fmap={i:0})\n b = iter(B, imap={x:1})\n"
     "save(accum(matmul(x, w)) + matmul(accum(matmul(x, a)), b), omap={x:1}) }\n return O",
     "mma wm=2 wn=2 stages=3", NULL},
    {"lstm",
     "X: f16[32, 32]\n H: f16[32, 32]\n U: f16[32, 48]\n W: f16[32, 48]\n C: f16[48]\n O = block(x=2, y=3; i=2) {\n"
     "x = iter(X, imap={x:0}, fmap={i:1})\n h = iter(H, imap={x:0}, fmap={i:1})\n u = iter(U, imap={y:1}, fmap={i:0})\n"
     "w = iter(W, imap={y:1}, fmap={i:0})\n c = iter(C, imap={y:0})\n"
     "save(relu(accum(matmul(x, u) + matmul(h, w)) + c), omap={x:0, y:1}) }\n return O",
     "mma wm=1 wn=2 stages=2", NULL},
    {"norm beside",
     "X: f16[20, 128]\n W: f16[128, 64]\n O = block(x=2; i=4) { x = iter(X, fmap={i:1})\n w = iter(W, imap={x:1}, fmap={i:0})\n"
     "s = sqrt(accum_sum(square(x), dim=1) / 128)\n save(accum(matmul(x, w)) / s, omap={x:1}) }\n return O",
     "mma wm=1 wn=2 stages=2", NULL},
    {"root of the mean of squares",
     "X: f16[20, 128]\n W: f16[128, 64]\n O = block(x=2; i=4) { x = iter(X, fmap={i:1})\n w = iter(W, imap={x:1}, fmap={i:0})\n"
     "save(accum(matmul(x, w)) / accum_rms(x, dim=1), omap={x:1}) }\n return O",
     "mma wm=2 wn=1 stages=2", NULL},
    {"a residual",
     "X: f16[24, 64]\n W: f16[64, 48]\n R: f16[24, 48]\n O = block(x=3; i=4) { x = iter(X, fmap={i:1})\n w = iter(W, imap={x:1}, fmap={i:0})\n"
     "r = iter(R, imap={x:1})\n save(accum(matmul(x, w)) * 0.5 + r, omap={x:1}) }\n return O",
     "mma wm=1 wn=2 stages=2", NULL},
    {"columns contiguous along the sum",
     "X: f16[16, 64]\n W: f16[48, 64]\n O = block(x=3; i=2) { x = iter(X, fmap={i:1})\n w = iter(W, imap={x:0}, fmap={i:1})\n"
     "save(accum(matmul(x, transpose(w))), omap={x:1}) }\n return O",
     "mma wm=1 wn=1 stages=2", "ldmatrix.x4"},
    {"rows contiguous",
     "X: f16[64, 24]\n W: f16[64, 48]\n O = block(x=3; i=2) { x = iter(X, fmap={i:0})\n w = iter(W, imap={x:1}, fmap={i:0})\n"
     "save(accum(matmul(transpose(x), w)), omap={x:1}) }\n return O",
     "mma wm=1 wn=2 stages=2", "ldmatrix.trans"},
    {"weights on the left",
     "X: f16[16, 64]\n W: f16[32, 64]\n V: f16[24, 64]\n A, B = block(; i=2) { x = iter(X, fmap={i:1})\n w = iter(W, fmap={i:1})\n v = iter(V, "
     "fmap={i:1})\n"
     "save(accum(matmul(x, transpose(w))))\n save(accum(matmul(v, transpose(x)))) }\n return A, B",
     "mma wm=1 wn=1 stages=2", NULL},
};
static const struct held chains[] = {
    {"three layers",
     "X: f16[40, 32]\n W: f16[32, 48]\n V: f16[48, 16]\n U: f16[16, 32]\n c: f16[16]\n O = block() { x = iter(X)\n w = iter(W)\n v = iter(V)\n u = "
     "iter(U)\n b = iter(c)\n"
     "save(matmul(relu(matmul(relu(matmul(x, w)), v) + b), u)) }\n return O",
     "mma wm=2 wn=1 stages=2", NULL},
    {"layers that take turns in shared memory",
     "X: f16[40, 32]\n A: f16[32, 32]\n B: f16[32, 32]\n C: f16[32, 32]\n D: f16[32, 32]\n E: f16[32, 32]\n a: f16[32]\n b: f16[32]\n"
     "O = block() { x = iter(X)\n p = iter(A)\n q = iter(B)\n r = iter(C)\n s = iter(D)\n t = iter(E)\n u = iter(a)\n v = iter(b)\n"
     "y = relu(matmul(relu(matmul(x * 0.5, p) + u), q) + v)\n save(matmul(relu(matmul(relu(matmul(y * 0.1, r)), s)), t)) }\n return O",
     "mma wm=2 wn=1 stages=3", NULL},
    {"attention",
     "Q: f16[2, 40, 32]\n K: f16[2, 32, 64]\n V: f16[2, 64, 32]\n O = block(x=2, y=2; i=4) { q = iter(Q, imap={x:0, y:1})\n"
     "k = iter(K, imap={x:0}, fmap={i:2})\n v = iter(V, imap={x:0}, fmap={i:1})\n e = exp(matmul(q, k))\n"
     "save(accum(matmul(e, v)) / accum_sum(e, dim=2), omap={x:0, y:1}) }\n return O",
     "mma wm=2 wn=1 stages=2", NULL},
    {"attention, one iteration",
     "Q: f16[16, 32]\n K: f16[64, 32]\n V: f16[64, 32]\n O = block() { q = iter(Q)\n k = iter(K)\n v = iter(V)\n"
     "e = exp(matmul(q, transpose(k)) * 0.125)\n save(matmul(e, v) / sum(e, dim=1)) }\n return O",
     "mma wm=1 wn=1 stages=2", NULL},
    {"attention with a mask",
     "Q: f16[1, 2, 24, 32]\n K: f16[1, 2, 64, 32]\n V: f16[1, 2, 64, 32]\n M: f16[24, 64]\n O = block(x=2; i=2) { q = iter(Q, imap={x:1})\n"
     "k = iter(K, imap={x:1}, fmap={i:2})\n v = iter(V, imap={x:1}, fmap={i:2})\n m = iter(M, fmap={i:1})\n e = exp(matmul(q, transpose(k)) * 0.25 + "
     "m)\n"
     "save(accum(matmul(e, v)) / accum_sum(e, dim=3), omap={x:1}) }\n return O",
     "mma wm=2 wn=1 stages=2", NULL},
    {"groups of heads as rows",
     "Q: f16[1, 8, 3, 32]\n K: f16[1, 2, 64, 32]\n V: f16[1, 2, 64, 32]\n T = reshape(Q, [1, 2, 4, 3, 32])\n"
     "N, D = block(x=2, y=2; i=2) { q = iter(T, imap={x:1})\n k = iter(K, imap={x:1, y:2}, fmap={i:2})\n v = iter(V, imap={x:1, y:2}, fmap={i:2})\n"
     "e = exp(matmul(reshape(q, [1, 1, 12, 32]), transpose(k)) * 0.1)\n save(reshape(accum(matmul(e, v)), [1, 1, 4, 3, 32]), omap={x:1, y:0})\n"
     "save(reshape(accum_sum(e, dim=3), [1, 1, 4, 3, 1]), omap={x:1, y:0}) }\n return N, D",
     "mma wm=1 wn=1 stages=3", NULL},
    {"norm of the queries",
     "Q: f16[2, 32, 64]\n K: f16[2, 64, 64]\n V: f16[2, 64, 32]\n O = block(x=2; i=2) { q = iter(Q, imap={x:0})\n"
     "k = iter(K, imap={x:0}, fmap={i:2})\n v = iter(V, imap={x:0}, fmap={i:1})\n n = q / sqrt(mean(square(q), dim=2))\n e = exp(matmul(n, k) * "
     "0.125)\n"
     "save(accum(matmul(e, v)) / accum_sum(e, dim=2), omap={x:0}) }\n return O",
     "mma wm=2 wn=1 stages=2", NULL},
    {"batches",
     "Q: f16[4, 8, 32]\n K: f16[4, 32, 64]\n V: f16[4, 64, 32]\n O = block(x=2; i=2) { q = iter(Q, imap={x:0})\n"
     "k = iter(K, imap={x:0}, fmap={i:2})\n v = iter(V, imap={x:0}, fmap={i:1})\n e = exp(matmul(q, k) * 0.1)\n"
     "save(accum(matmul(e, v)) / accum_sum(e, dim=2), omap={x:0}) }\n return O",
     "mma wm=1 wn=1 stages=2", NULL},
    {"parts of an earlier kernel",
     "P: f32[8, 12, 16]\n X: f16[12, 64]\n W: f16[16, 64]\n O = block(x=2) { p = iter(P)\n x = iter(X, imap={x:1})\n w = iter(W, imap={x:1})\n"
     "h = relu(sum(p, dim=0))\n save(x + matmul(reshape(h, [12, 16]), w), omap={x:1}) }\n return O",
     "mma wm=1 wn=2 stages=2", NULL},
    {"norm of the values",
     "Q: f16[2, 32, 64]\n K: f16[2, 64, 64]\n V: f16[2, 64, 32]\n O = block(x=2; i=2) { q = iter(Q, imap={x:0})\n"
     "k = iter(K, imap={x:0}, fmap={i:2})\n v = iter(V, imap={x:0}, fmap={i:1})\n n = v / sqrt(mean(square(v), dim=2) + 0.01)\n e = exp(matmul(q, k) "
     "* 0.125)\n"
     "save(accum(matmul(e, n)) / accum_sum(e, dim=2), omap={x:0}) }\n return O",
     "mma wm=2 wn=1 stages=2", NULL},
    {"norm of the keys",
     "Q: f16[2, 32, 64]\n K: f16[2, 64, 64]\n V: f16[2, 64, 32]\n O = block(x=2; i=2) { q = iter(Q, imap={x:0})\n"
     "k = iter(K, imap={x:0}, fmap={i:2})\n v = iter(V, imap={x:0}, fmap={i:1})\n t = transpose(k)\n n = transpose(t / sqrt(mean(square(t), "
     "dim=2)))\n e = exp(matmul(q, n) * 0.125)\n"
     "save(accum(matmul(e, v)) / accum_sum(e, dim=2), omap={x:0}) }\n return O",
     "mma wm=2 wn=1 stages=3", NULL},
    {"norms of the values as a vector",
     "Q: f16[2, 32, 64]\n K: f16[2, 64, 64]\n V: f16[2, 64, 32]\n N, D = block(x=2; i=2) { q = iter(Q, imap={x:0})\n"
     "k = iter(K, imap={x:0}, fmap={i:2})\n v = iter(V, imap={x:0}, fmap={i:1})\n r = sqrt(mean(v * v, dim=2) + 0.01)\n e = exp(matmul(q, k) * "
     "0.125)\n"
     "save(accum(matmul(e / reshape(r, [1, 1, 32]), v)), omap={x:0})\n save(accum_sum(e, dim=2), omap={x:0}) }\n return N, D",
     "mma wm=1 wn=2 by=1 stages=2", NULL},
    {"columns divided by their norms",
     "X: f16[32, 64]\n W: f16[64, 48]\n O = block() { x = iter(X)\n w = iter(W)\n"
     "save(matmul(x, w) / sqrt(sum(square(w), dim=0))) }\n return O",
     "mma wm=2 wn=3 stages=2", NULL},
    {"keys that are fixed, scaled",
     "Q: f16[64, 64]\n K: f16[48, 64]\n S: f16[64]\n O = block(; i=4) { q = iter(Q)\n"
     "k = iter(K, fmap={})\n s = iter(S)\n r = iter(Q, fmap={i:1})\n save(matmul(q, transpose(k * s)) + accum_sum(r, dim=1)) }\n return O",
     "mma wm=2 wn=2 stages=2", NULL},
    {"batches of keys",
     "Q: f16[4, 8, 32]\n K: f16[4, 64, 32]\n O = block(x=2; i=2) { q = iter(Q, imap={x:0}, fmap={i:2})\n"
     "k = iter(K, imap={x:0}, fmap={i:2})\n save(accum(matmul(q, transpose(k))), omap={x:0}) }\n return O",
     "mma wm=2 wn=1 stages=2", NULL},
};

#define ATTENTION(rows, keys, y, i)                                                                                          \
  "Q: f16[2, " rows ", 32]\n K: f16[2, " keys ", 32]\n V: f16[2, " keys ", 32]\n N, D, M = block(x=2, y=" y "; i=" i ") {\n" \
  "q = iter(Q, imap={x:0})\n k = iter(K, imap={x:0, y:1}, fmap={i:1})\n v = iter(V, imap={x:0, y:1}, fmap={i:1})\n"          \
  "s = matmul(q, transpose(k)) * 0.2\n m, moved = accum_max(max(s, dim=2))\n e = exp(s - m)\n f = exp(moved)\n"              \
  "save(accum_rescale(matmul(e, v), f), omap={x:0, y:1})\n save(accum_sum_rescale(e, f, dim=2), omap={x:0, y:1})\n"          \
  "save(m, omap={x:0, y:1}) }\n return N, D, M"

// Warps along wn share the columns, or what is summed (by=1).
static const struct held shared[] = {
    {"sums of a product", GEMM("20", "128", "48", "1", "1", "2"), "mma wm=2 wn=4 by=1 stages=2", NULL},
    {"sums of a product, one iteration", GEMM("16", "64", "24", "1", "1", "1"), "mma wm=1 wn=4 by=1 stages=2", NULL},
    {"keys", ATTENTION("20", "128", "1", "2"), "mma wm=1 wn=4 by=1 stages=2", NULL},
    {"keys, several tiles of rows", ATTENTION("40", "128", "1", "2"), "mma wm=2 wn=2 by=1 stages=2", NULL},
    {"keys, one iteration", ATTENTION("8", "128", "2", "1"), "mma wm=1 wn=4 by=1 stages=2", NULL},
    {"columns of the values", ATTENTION("20", "128", "1", "4"), "mma wm=1 wn=2 stages=3", NULL},
    {"maxima of columns that warps share",
     "X: f16[20, 64]\n W: f16[64, 48]\n O = block(; i=2) { x = iter(X, fmap={i:1})\n w = iter(W, fmap={i:0})\n"
     "p = accum(matmul(x, w))\n save(p - max(p, dim=1) + sum(p, dim=1)) }\n return O",
     "mma wm=1 wn=3 stages=2", NULL},
    {"a norm beside a product",
     "X: f16[20, 128]\n W: f16[128, 64]\n O = block(x=2; i=4) { x = iter(X, fmap={i:1})\n w = iter(W, imap={x:1}, fmap={i:0})\n"
     "s = sqrt(accum_sum(square(x), dim=1) / 128)\n save(accum(matmul(x, w)) / s, omap={x:1}) }\n return O",
     "mma wm=1 wn=2 by=1 stages=2", NULL},
    {"lora",
     "X: f16[24, 128]\n W: f16[128, 64]\n A: f16[128, 16]\n B: f16[16, 64]\n O = block(x=2; i=2) { x = iter(X, fmap={i:1})\n"
     "w = iter(W, imap={x:1}, fmap={i:0})\n a = iter(A, fmap={i:0})\n b = iter(B, imap={x:1})\n"
     "save(accum(matmul(x, w)) + matmul(accum(matmul(x, a)), b), omap={x:1}) }\n return O",
     "mma wm=1 wn=4 by=1 stages=2", NULL},
    {"layers",
     "X: f16[40, 32]\n W: f16[32, 64]\n V: f16[64, 32]\n c: f16[32]\n O = block() { x = iter(X)\n w = iter(W)\n v = iter(V)\n b = iter(c)\n"
     "save(relu(matmul(relu(matmul(x, w)), v) + b)) }\n return O",
     "mma wm=1 wn=2 by=1 stages=2", NULL},
    {"sums of both products at once",
     "X: f16[32, 64]\n H: f16[32, 64]\n U: f16[64, 48]\n W: f16[64, 48]\n O = block(x=2, y=3; i=2) {\n"
     "x = iter(X, imap={x:0}, fmap={i:1})\n h = iter(H, imap={x:0}, fmap={i:1})\n u = iter(U, imap={y:1}, fmap={i:0})\n"
     "w = iter(W, imap={y:1}, fmap={i:0})\n save(relu(accum(matmul(x, u) + matmul(h, w))), omap={x:0, y:1}) }\n return O",
     "mma wm=1 wn=2 by=1 stages=2", NULL},
    {"an accumulator of parts and wholes",
     "X: f16[16, 64]\n H: f16[16, 96]\n U: f16[64, 48]\n W: f16[96, 48]\n O = block(; i=2) { x = iter(X, fmap={i:1})\n"
     "h = iter(H, fmap={i:1})\n u = iter(U, fmap={i:0})\n w = iter(W, fmap={i:0})\n save(accum(matmul(x, u) + matmul(h, w))) }\n return O",
     "mma wm=1 wn=2 by=1 stages=2", NULL, "parts and wholes"},
    {"a sum that is read twice",
     "X: f16[16, 64]\n H: f16[16, 64]\n U: f16[64, 48]\n W: f16[64, 48]\n O = block(; i=2) { x = iter(X, fmap={i:1})\n"
     "h = iter(H, fmap={i:1})\n u = iter(U, fmap={i:0})\n w = iter(W, fmap={i:0})\n s = matmul(x, u) + matmul(h, w)\n"
     "save(accum(s) + accum(relu(s))) }\n return O",
     "mma wm=1 wn=2 by=1 stages=2", NULL},
    {"accumulators in one iteration",
     "X: f16[16, 64]\n W: f16[64, 32]\n O = block(; i=1) { x = iter(X, fmap={i:1})\n w = iter(W, fmap={i:0})\n"
     "save(accum(matmul(x, w)) / sqrt(accum_mean(square(x), dim=1))) }\n return O",
     "mma wm=1 wn=1 stages=2", NULL},
};

static const struct held refused[] = {
    {"no product", "X: f16[16, 16]\n O = block() { x = iter(X)\n save(exp(x)) }\n return O", "mma wm=1 wn=1 stages=2", NULL, "no products"},
    {"warps that share a sum of 40", GEMM("16", "80", "16", "1", "1", "2"), "mma wm=1 wn=2 by=1 stages=2", NULL, "share no columns"},
    {"fp32", "X: f32[16, 16]\n W: f32[16, 16]\n O = block() { x = iter(X)\n w = iter(W)\n save(matmul(x, w)) }\n return O", "mma wm=1 wn=1 stages=2",
     NULL, "fp32"},
    {"a sum over rows", "X: f16[16, 16]\n W: f16[16, 16]\n O = block() { x = iter(X)\n w = iter(W)\n save(sum(matmul(x, w), dim=0)) }\n return O",
     "mma wm=1 wn=1 stages=2", NULL, "over rows"},
    {"more warps than rows", GEMM("16", "32", "16", "1", "1", "2"), "mma wm=2 wn=1 stages=2", NULL, "warps for"},
    {"too large", GEMM("256", "64", "512", "1", "1", "2"), "mma wm=4 wn=1 stages=2", NULL, "registers"},
};

// Sums of which 8 are left over.
static const struct held sums[] = {
    {"8", GEMM("16", "16", "16", "1", "1", "2"), "mma wm=1 wn=1 stages=2", "mma.m16n8k8"},
    {"24", GEMM("16", "48", "16", "1", "1", "2"), "mma wm=1 wn=1 stages=2", "mma.m16n8k8"},
    {"40, warps, an odd number of tiles of columns", GEMM("64", "80", "48", "2", "1", "2"), "mma wm=2 wn=2 stages=2", NULL},
    {"24 once, rows that do not fill a tile", GEMM("20", "24", "24", "1", "1", "1"), "mma wm=1 wn=1 stages=2", NULL},
    {"lora of rank 8",
     "X: f16[24, 64]\n W: f16[64, 64]\n A: f16[64, 8]\n B: f16[8, 64]\n O = block(x=2; i=2) { x = iter(X, fmap={i:1})\n"
     "w = iter(W, imap={x:1}, fmap={i:0})\n a = iter(A, fmap={i:0})\n b = iter(B, imap={x:1})\n"
     "save(accum(matmul(x, w)) + matmul(accum(matmul(x, a)), b), omap={x:1}) }\n return O",
     "mma wm=2 wn=2 stages=3", "mma.m16n8k8"},
    {"what is computed is rounded for 24",
     "X: f16[16, 32]\n A: f16[32, 24]\n B: f16[24, 40]\n O = block() { x = iter(X)\n a = iter(A)\n b = iter(B)\n"
     "save(matmul(tanh(matmul(x, a)), b)) }\n return O",
     "mma wm=1 wn=1 stages=2", "mma.m16n8k8"},
    {"a left operand that others read",
     "X: f16[32, 24]\n W: f16[24, 48]\n O = block(x=2) { x = iter(X, imap={x:0})\n w = iter(W)\n"
     "save(matmul(x, w) / sum(x * x + 1, dim=1), omap={x:0}) }\n return O",
     "mma wm=1 wn=1 stages=2", "mma.m16n8k8"},
    {"rows contiguous",
     "X: f16[48, 24]\n W: f16[48, 48]\n O = block(x=3; i=2) { x = iter(X, fmap={i:0})\n w = iter(W, imap={x:1}, fmap={i:0})\n"
     "save(accum(matmul(transpose(x), w)), omap={x:1}) }\n return O",
     "mma wm=1 wn=2 stages=2", "ldmatrix.trans"},
    {"columns contiguous along the sum",
     "X: f16[16, 48]\n W: f16[72, 48]\n O = block(x=3; i=2) { x = iter(X, fmap={i:1})\n w = iter(W, imap={x:0}, fmap={i:1})\n"
     "save(accum(matmul(x, transpose(w))), omap={x:1}) }\n return O",
     "mma wm=1 wn=1 stages=2", "mma.m16n8k8"},
    {"heads of 40",
     "Q: f16[2, 32, 40]\n K: f16[2, 64, 40]\n V: f16[2, 64, 40]\n O = block(x=2, y=2; i=2) { q = iter(Q, imap={x:0, y:1})\n k = iter(K, imap={x:0}, "
     "fmap={i:1})\n"
     "v = iter(V, imap={x:0}, fmap={i:1})\n e = exp(matmul(q, transpose(k)) * 0.1)\n"
     "save(accum(matmul(e, v)) / accum_sum(e, dim=2), omap={x:0, y:1}) }\n return O",
     "mma wm=1 wn=1 stages=2", "mma.m16n8k8"},
    {"batches in the rows",
     "Q: f16[4, 8, 24]\n K: f16[4, 24, 16]\n O = block(x=2) { q = iter(Q, imap={x:0})\n k = iter(K, imap={x:0})\n save(matmul(q, k), omap={x:0}) }\n "
     "return O",
     "mma wm=2 wn=1 stages=2", "mma.m16n8k8"},
};

#define TEST(table)                      \
  static void test_##table(void **state) \
  {                                      \
    (void)state;                         \
    hold(table, (int)COUNT(table));      \
  }
TEST(gemm)
TEST(joined)
TEST(chains)
TEST(shared)
TEST(sums)
TEST(refused)

// Not only at the knobs of the tables.
static void test_choices(void **state)
{
  (void)state;
  hold_choices(gemm, (int)COUNT(gemm));
  hold_choices(joined, (int)COUNT(joined));
  hold_choices(chains, (int)COUNT(chains));
}

static void test_bf16(void **state)
{
  (void)state;
  hold_bf16(gemm, (int)COUNT(gemm));
  hold_bf16(joined, (int)COUNT(joined));
  hold_bf16(chains, (int)COUNT(chains));
}

static void test_sm80(void **state)
{
  (void)state;
  hold_sm80(gemm, (int)COUNT(gemm));
  hold_sm80(joined, (int)COUNT(joined));
  hold_sm80(chains, (int)COUNT(chains));
  hold_sm80(shared, (int)COUNT(shared));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_gemm),    cmocka_unit_test(test_joined), cmocka_unit_test(test_chains),
      cmocka_unit_test(test_shared),  cmocka_unit_test(test_sums),   cmocka_unit_test(test_refused),
      cmocka_unit_test(test_choices), cmocka_unit_test(test_bf16),   cmocka_unit_test(test_sm80),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

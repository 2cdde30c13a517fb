// Kernels whose grid is cut anew: clean in the interpreter and equal to float64.
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

// A residual, which lanes read from device memory, and a column of row sums.
#define MORE(m, x, i)                                                                                                          \
  "A: f16[" m ", 64]\n B: f16[64, 32]\n R: f16[" m ", 32]\n"                                                                   \
  "O, S = block(x=" x "; i=" i ") { a = iter(A, imap={x:0}, fmap={i:1})\n b = iter(B, fmap={i:0})\n r = iter(R, imap={x:0})\n" \
  "save(accum(matmul(a, b)) + r, omap={x:0})\n save(accum_sum(a, dim=1), omap={x:0}) }\n return O, S"

// 3 heads of 16 queries, each of two with keys of its own; blocks have all heads and some of the queries.
#define QUERIES(left, i)                                                                                \
  "Q: f16[2, 3, 16, 64]\n K: f16[2, 1, 128, 64]\n V: f16[2, 1, 128, 64]\n"                              \
  "O = block(x=2, y=8; i=" i ") { q = iter(Q, imap={x:0, y:2})\n k = iter(K, imap={x:0}, fmap={i:2})\n" \
  "v = iter(V, imap={x:0}, fmap={i:2})\n s = matmul(reshape(" left ", [1, 1, 6, 64]), transpose(k))\n"  \
  "m, moved = accum_max(max(s, dim=3))\n e = exp(s - m)\n f = exp(moved)\n"                             \
  "o = accum_rescale(matmul(e, v), f) / accum_sum_rescale(e, f, dim=3)\n"                               \
  "save(reshape(o, [1, 3, 2, 64]), omap={x:0, y:2}) }\n return O"

// Both heads of keys in one block, and parts of the sum.
#define GROUPS                                                                                                                          \
  "Q: f16[1, 2, 40, 64]\n K: f16[1, 2, 128, 64]\n V: f16[1, 2, 128, 64]\n"                                                              \
  "N, D = block(x=2, y=2; i=2) { q = iter(Q, imap={x:2})\n k = iter(K, imap={y:2}, fmap={i:2})\n v = iter(V, imap={y:2}, fmap={i:2})\n" \
  "e = exp(matmul(q, transpose(k)) * 0.1)\n save(reshape(accum(matmul(e, v)), [1, 1, 2, 20, 64]), omap={y:0, x:3})\n"                   \
  "save(reshape(accum_sum(e, dim=3), [1, 1, 2, 20, 1]), omap={y:0, x:3}) }\n return N, D"

#define NORMED                                                                                                                            \
  "Q: f16[2, 2, 48, 64]\n K: f16[2, 2, 64, 64]\n V: f16[2, 2, 64, 64]\n"                                                                  \
  "O = block(x=2, y=3; i=2) { q = iter(Q, imap={x:0, y:2})\n k = iter(K, imap={x:0}, fmap={i:2})\n v = iter(V, imap={x:0}, fmap={i:2})\n" \
  "n = q / sqrt(mean(square(q), dim=3))\n w = k / sqrt(mean(square(k), dim=3))\n e = exp(matmul(n, transpose(w)) * 0.1)\n"                \
  "save(accum(matmul(e, v)) / accum_sum(e, dim=3), omap={x:0, y:2}) }\n return O"

// Columns of weights that are computed are the rows; the second result has none of them.
#define WEIGHTS                                                                                                                                 \
  "X: f16[8, 32]\n W: f16[32, 64]\n A: f16[32, 16]\n B: f16[16, 64]\n O, S = block() { x = iter(X)\n w = iter(W)\n a = iter(A)\n b = iter(B)\n" \
  "save(matmul(x, matmul(a, b) + w))\n save(x * x) }\n return O, S"

static const struct held by_mma[] = {
    {"a result without the rows that are cut", WEIGHTS, "mma wm=1 wn=1 by=0 stages=4 rows=16", NULL, "only some of the rows"},
    {"a result without the rows, of which one block has all", WEIGHTS, "mma wm=2 wn=1 by=0 stages=4 rows=64", NULL},
    {"blocks joined", GEMM("128", "64", "32", "8", "1", "2"), "mma wm=2 wn=1 stages=2 rows=32", NULL},
    {"blocks cut", GEMM("128", "64", "32", "1", "2", "2"), "mma wm=1 wn=1 stages=2 rows=16", NULL},
    {"the last piece has fewer rows", GEMM("100", "64", "32", "5", "1", "2"), "mma wm=2 wn=1 stages=2 rows=32", NULL},
    {"fewer rows than a piece", GEMM("20", "64", "32", "2", "1", "2"), "mma wm=2 wn=2 stages=2 rows=64", NULL},
    {"one iteration", GEMM("72", "32", "32", "3", "1", "1"), "mma wm=1 wn=1 stages=2 rows=48", NULL},
    {"what lanes read, sums of rows", MORE("60", "3", "2"), "mma wm=2 wn=1 stages=2 rows=32", NULL},
    {"both heads in a block", GROUPS, "mma wm=1 wn=2 by=1 stages=2 rows=32", NULL},
    {"operands that are computed", NORMED, "mma wm=2 wn=1 stages=2 rows=32", NULL},
    {"heads and queries", QUERIES("q", "2"), "mma wm=2 wn=1 stages=2 rows=32", NULL},
    {"heads and queries, computed", QUERIES("q * 0.5", "2"), "mma wm=1 wn=2 by=1 stages=2 rows=32", NULL},
    {"rows contiguous",
     "X: f16[64, 48]\n W: f16[64, 16]\n O = block(x=3; i=2) { x = iter(X, imap={x:1}, fmap={i:0})\n w = iter(W, fmap={i:0})\n"
     "save(accum(matmul(transpose(x), w)), omap={x:0}) }\n return O",
     "mma wm=2 wn=1 stages=2 rows=32", NULL},
    {"two iterations at once", GEMM("32", "128", "32", "1", "1", "8"), "mma wm=1 wn=1 stages=2 step=32", NULL},
    {"half an iteration", GEMM("32", "128", "32", "1", "1", "2"), "mma wm=1 wn=1 stages=3 rows=16 step=32", NULL},
    {"two iterations of attention", QUERIES("q", "4"), "mma wm=1 wn=2 by=1 stages=2 rows=32 step=64", NULL},
    {"one iteration of sums of rows", MORE("60", "3", "4"), "mma wm=2 wn=1 stages=2 rows=32 step=32", NULL},
    {"operands that are computed, in other steps", NORMED, "mma wm=2 wn=1 stages=2 rows=32 step=16", NULL},
    {"sums of what an iteration has",
     "A: f16[16, 128]\n B: f16[128, 32]\n O, S = block(; i=4) { a = iter(A, fmap={i:1})\n b = iter(B, fmap={i:0})\n"
     "save(accum(matmul(a, b)))\n save(sum(accum(a), dim=1)) }\n return O, S",
     "mma wm=1 wn=1 stages=2 step=64", NULL},
    {"sums that stay apart",
     "A: f16[16, 128]\n B: f16[128, 32]\n O, S = block(; i=4) { a = iter(A, fmap={i:1})\n b = iter(B, fmap={i:0})\n"
     "save(accum(matmul(a, b)))\n save(accum(a)) }\n return O, S",
     "mma wm=1 wn=1 stages=2 step=64", NULL, "where an iteration ends"},
    {"all at once", GEMM("32", "128", "32", "1", "1", "8"), "mma wm=1 wn=1 stages=2 step=128", NULL, "128 at a time of 128"},
    {"means of what an iteration has",
     "A: f16[16, 128]\n B: f16[128, 32]\n O = block(; i=4) { a = iter(A, fmap={i:1})\n b = iter(B, fmap={i:0})\n"
     "save(accum(matmul(a, b)) + accum(mean(a, dim=1))) }\n return O",
     "mma wm=1 wn=1 stages=2 step=64", NULL, "where an iteration ends"},
    {"no rows that warps could have", GEMM("40", "64", "64", "1", "1", "1"), "mma wm=2 wn=1 stages=2 rows=48", NULL, "3 tiles of rows for 2 warps"},
    {"no multiple of 16", GEMM("40", "64", "64", "1", "1", "1"), "mma wm=1 wn=1 stages=2 rows=40", NULL, "40 rows a block"},
};

static const struct held by_wgmma[] = {
    {"blocks joined", GEMM("256", "64", "64", "8", "2", "2"), "wgmma groups=2 stages=2 rows=128", NULL},
    {"blocks cut", GEMM("256", "64", "64", "1", "2", "2"), "wgmma groups=1 stages=2 rows=64", NULL},
    {"two tiles of rows a warpgroup", GEMM("300", "64", "64", "3", "1", "2"), "wgmma groups=1 stages=2 rows=128", NULL},
    {"the last piece has fewer rows", GEMM("200", "64", "64", "5", "2", "2"), "wgmma groups=1 stages=2 rows=64", NULL},
    {"fewer rows than a piece", GEMM("40", "64", "64", "1", "1", "2"), "wgmma groups=1 stages=2 rows=64", NULL},
    {"blocks that walk", GEMM("200", "64", "64", "5", "2", "2"), "wgmma groups=1 stages=2 blocks=3 rows=64", NULL},
    {"what lanes read, sums of rows", MORE("120", "3", "2"), "wgmma groups=1 stages=2 rows=64", NULL},
    {"both heads in a block", GROUPS, "wgmma groups=1 stages=2 chain=1 rows=64", NULL},
    {"heads and queries", QUERIES("q", "2"), "wgmma groups=1 stages=2 chain=1 rows=64", NULL},
    {"two iterations at once", QUERIES("q", "4"), "wgmma groups=1 stages=2 chain=1 rows=64 step=64", NULL},
    {"half an iteration", GEMM("64", "256", "64", "1", "1", "2"), "wgmma groups=1 stages=3 step=64", NULL},
    {"heads and queries, computed", QUERIES("q * 0.5", "2"), "wgmma groups=1 stages=2 blocks=1 chain=1 rows=64", NULL},
};

#define TEST(table)                      \
  static void test_##table(void **state) \
  {                                      \
    (void)state;                         \
    hold(table, COUNT(table));           \
  }
TEST(by_mma)
TEST(by_wgmma)

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_by_mma), cmocka_unit_test(test_by_wgmma)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

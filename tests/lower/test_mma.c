// Kernels of the scheme mma: clean in the interpreter and equal to float64, at sizes that tiles do and do not divide.
// test: timeout 300
#include "held.h"

#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define GEMM(m, k, n, x, y, i)                                                                                           \
  "X: f16[" m ", " k "]\n W: f16[" k ", " n "]\n C: f16[" n "]\n"                                                        \
  "O = block(x=" x ", y=" y "; i=" i ") { a = iter(X, imap={x:0}, fmap={i:1})\n w = iter(W, imap={y:1}, fmap={i:0})\n"      \
  "c = iter(C, imap={y:0})\n save(relu(accum(matmul(a, w)) + c), omap={x:0, y:1}) }\n return O"

static const struct held gemm[] = {
    {"one warp", GEMM("16", "32", "16", "1", "1", "2"), "mma wm=1 wn=1 stages=2", "mma.m16n8k16"},
    {"one iteration", GEMM("16", "32", "16", "1", "1", "1"), "mma wm=1 wn=1 stages=2", NULL},
    {"warps", GEMM("64", "128", "128", "1", "2", "4"), "mma wm=2 wn=2 stages=3", NULL},
    {"more stages than iterations", GEMM("32", "64", "64", "2", "1", "2"), "mma wm=1 wn=2 stages=4", NULL},
    {"rows that do not fill a tile", GEMM("20", "64", "24", "2", "1", "2"), "mma wm=1 wn=1 stages=2", NULL},
    {"rows that do not fill the warps", GEMM("40", "64", "48", "1", "1", "2"), "mma wm=2 wn=3 stages=2", NULL},
    {"one row", GEMM("1", "64", "16", "1", "1", "2"), "mma wm=1 wn=1 stages=2", NULL},
};

#define TEST(table)                                                                                                      \
  static void test_##table(void **state)                                                                                 \
  {                                                                                                                      \
    (void)state;                                                                                                         \
    hold(table, (int)COUNT(table));                                                                                      \
  }
TEST(gemm)

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_gemm),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

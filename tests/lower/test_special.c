// Kernels of all schemes on NaN, infinities and rows that are -inf everywhere or in parts, in the interpreter of tile kernels.
// test: timeout 300
#include "held.h"
#include "special.h"

#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#define BLOCK_OF(inputs, axes, body) inputs "\n O = block(" axes ") {\n" body "\n }\n return O"
#define ROW(body) BLOCK_OF("X: f16[20, 52]", "x=20", "x = iter(X, imap={x:0})\n" body)
#define ROWS(body) BLOCK_OF("X: f16[20, 52]\n Y: f16[20, 52]", "x=20", "x = iter(X, imap={x:0})\n y = iter(Y, imap={x:0})\n" body)

static const struct held rows[] = {
    {"elementwise", ROWS("save(relu(x) + maximum(x, y) * minimum(y, x) - clamp(x, lo=-1, hi=2), omap={x:0})"), "rows", NULL, NULL, true},
    {"relu", ROW("save(relu(x), omap={x:0})"), "rows", NULL, NULL, true},
    {"powers", ROWS("save(pow(x, y), omap={x:0})"), "rows", NULL, NULL, true},
    {"functions", ROWS("save(erf(x) + softplus(y) * leaky_relu(x, slope=0.25), omap={x:0})"), "rows", NULL, NULL, true},
    {"sines", ROW("save(sin(x) + cos(x), omap={x:0})"), "rows", NULL, NULL, true},
    {"product", ROW("save(prod(x, dim=1), omap={x:0})"), "rows", NULL, NULL, true},
    {"max", ROW("save(max(x, dim=1), omap={x:0})"), "rows", NULL, NULL, true},
    {"sum", ROW("save(sum(x, dim=1), omap={x:0})"), "rows", NULL, NULL, true},
    {"max over a loop",
     BLOCK_OF("X: f16[20, 64]", "x=20; i=4", "x = iter(X, imap={x:0}, fmap={i:1})\n m, d = accum_max(max(x, dim=1))\n save(m, omap={x:0})"), "rows",
     NULL, NULL, true},
    {"softmax", ROW("e = exp(x)\n save(e / sum(e, dim=1), omap={x:0})"), "rows", NULL, NULL, true},
    {"softmax over a loop",
     BLOCK_OF("X: f16[20, 64]\n V: f16[20, 64]", "x=20; i=4",
              "x = iter(X, imap={x:0}, fmap={i:1})\n v = iter(V, imap={x:0}, fmap={i:1})\n e = exp(x)\n"
              "save(accum_sum(e * v, dim=1) / accum_sum(e, dim=1), omap={x:0})"),
     "rows", NULL, NULL, true},
    {"layer norm", ROW("m = mean(x, dim=1)\n v = mean(square(x - m), dim=1)\n save((x - m) / sqrt(v + 0.00001), omap={x:0})"), "rows", NULL, NULL,
     true},
};

// Scores plus a mask with such rows.
#define ATTENTION(axes, k, v)                                                                                         \
  BLOCK_OF("Q: f16[20, 32]\n K: f16[32, 64]\n X: f16[20, 64]\n V: f16[64, 32]", axes,                                 \
           "q = iter(Q)\n k = iter(K" k ")\n x = iter(X" k ")\n v = iter(V" v ")\n e = exp(matmul(q, k) * 0.1 + x)\n" \
           "save(accum(matmul(e, v)) / accum_sum(e, dim=1))")

static const struct held products[] = {
    {"attention", ATTENTION("; i=4", ", fmap={i:1}", ", fmap={i:0}"), "mma", NULL, NULL, true},
    {"attention of one tile", ATTENTION("", "", ""), "mma", NULL, NULL, true},
    {"relu of a product", BLOCK_OF("X: f16[20, 32]\n W: f16[32, 32]", "", "x = iter(X)\n w = iter(W)\n save(relu(matmul(x, w)))"), "mma", NULL, NULL,
     true},
    {"max of a product", BLOCK_OF("X: f16[20, 32]\n W: f16[32, 32]", "", "x = iter(X)\n w = iter(W)\n save(max(matmul(x, w), dim=1))"), "mma", NULL,
     NULL, true},
    {"skinny",
     BLOCK_OF("X: f16[4, 64]\n W: f16[64, 48]", "x=3; i=2",
              "x = iter(X, fmap={i:1})\n w = iter(W, imap={x:1}, fmap={i:0})\n"
              "save(relu(accum(matmul(x, w))), omap={x:1})"),
     "skinny", NULL, NULL, true},
};

static void by_rows(void **state)
{
  (void)state;
  hold_choices(rows, COUNT(rows));
}

static void of_products(void **state)
{
  (void)state;
  hold_choices(products, COUNT(products));
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(by_rows), cmocka_unit_test(of_products)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

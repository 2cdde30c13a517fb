// Every operator of kernel graphs against values from other formulas, the domains against each other, and errors. The interpreter defines the
// operators' meaning, so the expected values use none of its code.
#include "evaluate.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

// ---- elementwise ----

static double f_exp(double x, double y) { return (void)y, exp(x); }
static double f_log(double x, double y) { return (void)y, log(x); }
static double f_sqrt(double x, double y) { return (void)y, sqrt(x); }
static double f_rsqrt(double x, double y) { return (void)y, 1 / sqrt(x); }
static double f_square(double x, double y) { return (void)y, x * x; }
static double f_neg(double x, double y) { return (void)y, -x; }
static double f_abs(double x, double y) { return (void)y, x < 0 ? -x : x; }
static double f_silu(double x, double y) { return (void)y, x / (1 + exp(-x)); }
static double f_sigmoid(double x, double y) { return (void)y, 1 / (1 + exp(-x)); }
static double f_gelu(double x, double y) { return (void)y, x * (1 + erf(x / sqrt(2))) / 2; }
static double f_gelu_tanh(double x, double y) { return (void)y, x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x))) / 2; }
static double f_relu(double x, double y) { return (void)y, x > 0 ? x : 0; }
static double f_tanh(double x, double y) { return (void)y, tanh(x); }
static double f_sin(double x, double y) { return (void)y, cos(x - acos(0)); }
static double f_cos(double x, double y) { return (void)y, 1 - 2 * sin(x / 2) * sin(x / 2); }
static double f_erf(double x, double y) { return (void)y, 1 - erfc(x); }
static double f_softplus(double x, double y) { return (void)y, log1p(exp(x)); }
static double f_leaky_relu(double x, double y) { return (void)y, x > 0 ? x : x * 0.125; }
static double f_clamp(double x, double y) { return (void)y, x < -0.5 ? -0.5 : x > 0.75 ? 0.75 : x; }
static double f_mul_scalar(double x, double y) { return (void)y, x * 2.5; }
static double f_add_scalar(double x, double y) { return (void)y, x + 2.5; }
static double f_add(double x, double y) { return x + y; }
static double f_sub(double x, double y) { return x - y; }
static double f_mul(double x, double y) { return x * y; }
static double f_div(double x, double y) { return x / y; }
static double f_pow(double x, double y) { return pow(x, y); }
static double f_minimum(double x, double y) { return x < y ? x : y; }
static double f_maximum(double x, double y) { return x > y ? x : y; }
static double f_less(double x, double y) { return x < y; }
static double f_less_equal(double x, double y) { return x <= y; }
static double f_equal(double x, double y) { return !(x < y) && !(x > y); }
static double f_same(double x, double y)
{
  (void)y;
  return x;
}
static double f_floor(double x, double y) { return (void)y, floor(x); }
static double f_whole(double x, double y) { return (void)y, x < -1 ? -1 : x >= 1 ? 1 : floor(x); }
static double first_bits(double x, int bits)
{
  int e;
  (void)frexp(x, &e);
  return ldexp(trunc(ldexp(x, bits - e)), e - bits);
}
static double f_high(double x, double y) { return (void)y, first_bits((float)x, 8); }
static double f_middle(double x, double y) { return first_bits((float)x - f_high(x, y), 8); }
static double f_low(double x, double y) { return (float)x - f_high(x, y) - f_middle(x, y); }
static double f_keep(double x, double y) { return x * y + 2 * (1 - y); }

static const struct {
  enum op op;
  double (*f)(double x, double y);
  const char *call;
} maps[] = {
    {OP_TO_F32, f_same, "f32(X)"},
    {OP_TO_F16, f_same, "f16(X)"},
    {OP_TO_BF16, f_same, "bf16(X)"},
    {OP_TO_F8E4M3, f_same, "f8e4m3(X)"},
    {OP_TO_F8E5M2, f_same, "f8e5m2(X)"},
    {OP_FLOOR, f_floor, "floor(X)"},
    {OP_WHOLE, f_whole, "whole(X, -1, 1)"},
    {OP_EXP, f_exp, "exp(X)"},
    {OP_LOG, f_log, "log(X)"},
    {OP_SQRT, f_sqrt, "sqrt(X)"},
    {OP_RSQRT, f_rsqrt, "rsqrt(X)"},
    {OP_SQUARE, f_square, "square(X)"},
    {OP_NEG, f_neg, "-X"},
    {OP_ABS, f_abs, "abs(X)"},
    {OP_SILU, f_silu, "silu(X)"},
    {OP_SIGMOID, f_sigmoid, "sigmoid(X)"},
    {OP_GELU, f_gelu, "gelu(X)"},
    {OP_GELU_TANH, f_gelu_tanh, "gelu_tanh(X)"},
    {OP_RELU, f_relu, "relu(X)"},
    {OP_TANH, f_tanh, "tanh(X)"},
    {OP_SIN, f_sin, "sin(X)"},
    {OP_COS, f_cos, "cos(X)"},
    {OP_ERF, f_erf, "erf(X)"},
    {OP_SOFTPLUS, f_softplus, "softplus(X)"},
    {OP_BF16_HIGH, f_high, "bf16_high(X)"},
    {OP_BF16_MIDDLE, f_middle, "bf16_middle(X)"},
    {OP_BF16_LOW, f_low, "bf16_low(X)"},
    {OP_LEAKY_RELU, f_leaky_relu, "leaky_relu(X, slope=0.125)"},
    {OP_CLAMP, f_clamp, "clamp(X, -0.5, 0.75)"},
    {OP_MUL_SCALAR, f_mul_scalar, "X * 2.5"},
    {OP_ADD_SCALAR, f_add_scalar, "X + 2.5"},
    {OP_ADD, f_add, "X + Y"},
    {OP_SUB, f_sub, "X - Y"},
    {OP_MUL, f_mul, "X * Y"},
    {OP_DIV, f_div, "X / Y"},
    {OP_POW, f_pow, "pow(X, Y)"},
    {OP_MINIMUM, f_minimum, "minimum(X, Y)"},
    {OP_MAXIMUM, f_maximum, "maximum(X, Y)"},
    {OP_LESS, f_less, "X < Y"},
    {OP_LESS_EQUAL, f_less_equal, "Y >= X"},
    {OP_EQUAL, f_equal, "X == Y"},
    {OP_MASK, f_mul, "mask(X, Y)"},
    {OP_KEEP, f_keep, "keep(X, Y, scalar=2)"},
};

// Extents of X and Y, which broadcast to [2, 3, 4].
static const struct {
  const char *x, *y;
  int64_t xs[3], ys[3]; // strides
} broadcasts[] = {
    {"2, 3, 4", "2, 3, 4", {12, 4, 1}, {12, 4, 1}}, {"2, 3, 4", "3, 1", {12, 4, 1}, {0, 1, 0}}, {"2, 1, 4", "3, 4", {4, 0, 1}, {0, 4, 1}},
    {"2, 3, 1", "2, 1, 4", {3, 1, 0}, {4, 0, 1}},   {"2, 3, 4", "", {12, 4, 1}, {0, 0, 0}},
};

static void check_map(struct arena *mem, int row, int b, enum domain d)
{
  struct values v = {0};
  const struct graph *g = test_graph(
      mem, arena_printf(mem, "program p { X: f32[%s]\n Y: f32[%s]\n return %s }", broadcasts[b].x, broadcasts[b].y, maps[row].call), false);
  test_inputs(mem, g, d, NULL, 1, &v);
  test_run(mem, g, NULL, &v);
  bool two = op_rows[maps[row].op].least == 2;
  for (int64_t i = 0; i < v.size[0]; i++) {
    int64_t xi = i, yi = 0, at[] = {i / 12, i / 4 % 3, i % 4};
    for (int k = xi = two ? 0 : i; two && k < 3; k++) xi += at[k] * broadcasts[b].xs[k], yi += at[k] * broadcasts[b].ys[k];
    double x = d == DOM_F64 ? ((double *)v.in[0])[xi] : (double)((float *)v.in[0])[xi];
    double y = d == DOM_F64 ? ((double *)v.in[1])[yi] : (double)((float *)v.in[1])[yi];
    double want = maps[row].f(x, y), is = test_real(&v, 0, i);
    bool good = isnan(want) ? isnan(is) : fabs(want - is) <= (d == DOM_F64 ? 1e-14 : 3e-6) * (1 + fabs(want));
    if (!good) fail_msg("%s of (%g, %g) is %g, not %g", maps[row].call, x, y, is, want);
  }
}

static void elementwise(void **state)
{
  (void)state;
  for (size_t row = 0; row < COUNT(maps); row++)
    for (int b = 0; b < (int)COUNT(broadcasts); b++) {
      struct arena mem = {0};
      check_map(&mem, (int)row, b, DOM_F64);
      check_map(&mem, (int)row, b, DOM_F32);
      arena_close(&mem);
    }
}

static void not_a_number(void **state)
{
  (void)state;
  struct arena mem = {0};
  const char *texts[] = {"relu(X)",       "maximum(X, Y)",      "maximum(Y, X)", "minimum(X, Y)",  "minimum(Y, X)",
                         "max(X, dim=0)", "clamp(X, 0, 1)",     "sin(X)",        "cos(X)",         "erf(X)",
                         "softplus(X)",   "leaky_relu(X, 0.5)", "min(X, dim=0)", "prod(X, dim=0)", "logsumexp(X, dim=0)"};
  for (size_t i = 0; i < COUNT(texts); i++)
    for (int at = 0; at < 2; at++) {
      double x[2] = {1, 1}, y[2] = {2, 0};
      struct values v = {.d = DOM_F64, .nin = 2, .in = {x, y}};
      x[at] = NAN;
      test_run(&mem, test_graph(&mem, arena_printf(&mem, "program p { X: f32[2]\n Y: f32[2]\n return %s }", texts[i]), false), NULL, &v);
      assert_true(isnan(test_real(&v, 0, v.size[0] == 2 ? at : 0)));
    }
  arena_close(&mem);
}

// A whole number is always one within its limits.
static void whole_of_anything(void **state)
{
  (void)state;
  struct arena mem = {0};
  double x[5] = {NAN, INFINITY, -INFINITY, 4.75, -1};
  const double want[5] = {2, 9, 2, 4, 2};
  struct values v = {.d = DOM_F64, .nin = 1, .in = {x}};
  test_run(&mem, test_graph(&mem, "program p { X: f32[5]\n return whole(X, 2, 9) }", false), NULL, &v);
  for (int i = 0; i < 5; i++) assert_true(test_real(&v, 0, i) == want[i]);
  arena_close(&mem);
}

// ---- everything else: A is 1..6 as [2, 3], B is 1..6 as [3, 2] ----

static const struct {
  enum op op;
  const char *call;
  double want[24];    // outputs one after the other
  const char *before; // statements, or NULL
} others[] = {
    {OP_INPUT, "A", {1, 2, 3, 4, 5, 6}},
    {OP_CONST, "const(2.5)", {2.5}},
    {OP_IOTA, "iota([2, 3]), iota([2, 1])", {0, 1, 2, 3, 4, 5, 0, 1}},
    {OP_LESS, "A < 3, A > 3", {1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1}},
    {OP_LESS, "A >= 4, A <= 4, A == 5, A != 5", {0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 1, 0, 1, 1, 1, 1, 0, 1}},
    {OP_CUMSUM, "cumsum(A, dim=1), cumsum(A, dim=0), cumsum(reshape(A, [6]), dim=0)", {1, 3, 6, 4, 9, 15, 1, 2, 3, 5, 7, 9, 1, 3, 6, 10, 15, 21}},
    {OP_CUMSUM, "cumsum(reshape(A, [3, 1, 2]), dim=0)", {1, 2, 4, 6, 9, 12}},
    {OP_MATMUL, "matmul(t, t), matmul(A, t)", {1, 2, 3, 0, 1, 2, 0, 0, 1, 1, 3, 6, 4, 9, 15}, "t = less_equal(iota([3, 1]), iota([3]))"},
    {OP_MATMUL, "matmul(t, t), matmul(t, B)", {1, 0, 0, 2, 1, 0, 3, 2, 1, 1, 2, 4, 6, 9, 12}, "t = less_equal(iota([3]), iota([3, 1]))"},
    {OP_ARGMAX, "argmax(minimum(A, 5), dim=1), argmax(-A, dim=0), argmax(minimum(A, 4), dim=1)", {2, 1, 0, 0, 0, 2, 0}},
    {OP_WHERE, "where(A < 3, A, -A), where(iota([2, 1]) == 0, A, 7)", {1, 2, -3, -4, -5, -6, 1, 2, 3, 7, 7, 7}},
    {OP_MASK,
     "mask(log(A - 1), 1 < A), mask(A < 0, log(0 * A))",
     {0, 0, 0.69314718055994531, 1.0986122886681098, 1.3862943611198906, 1.6094379124341003, 0, 0, 0, 0, 0, 0}},
    {OP_SOFTMAX_WHERE, "softmax_where(log(A), iota([3]) < 2 * iota([2, 1]), dim=1)", {0, 0, 0, 4 / 9., 5 / 9., 0}},
    {OP_SOFTMAX_WHERE, "softmax_where(log(A), iota([3]) <= 2 * iota([2, 1]), dim=1)", {1, 0, 0, 4 / 15., 5 / 15., 6 / 15.}},
    {OP_SOFTMAX_WHERE, "softmax_where(log(A), iota([3]) != 1, dim=0)", {1 / 5., 0, 3 / 9., 4 / 5., 0, 6 / 9.}},
    {OP_ONE_HOT, "one_hot(whole(A - 1, 0, 2), extent=3)", {1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 1}},
    {OP_FLOOR_DIV, "whole(A, 0, 6) // 2, whole(-A, -6, 0) // 4", {0, 1, 1, 2, 2, 3, -1, -1, -1, -1, -2, -2}},
    {OP_MOD, "whole(A, 0, 6) % 4, whole(-A, -6, 0) % whole(A + 1, 1, 7)", {1, 2, 3, 0, 1, 2, 1, 1, 1, 1, 1, 1}},
    {OP_GATHER, "gather(A, whole(A - 2, 0, 1), 0)", {1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6, 4, 5, 6, 4, 5, 6}},
    {OP_GATHER, "A[:, 2 - iota([3])], B[2], B[1:3], A[iota([2, 1]), iota([2]) + 1]", {3, 2, 1, 6, 5, 4, 5, 6, 3, 4, 5, 6, 2, 3, 5, 6}},
    {OP_UPDATE, "update(A, 1 - iota([2]), -A, 0), update(A, iota([1]) - 1, -A[0:1], 0)", {-4, -5, -6, -1, -2, -3, 1, 2, 3, 4, 5, 6}},
    {OP_UPDATE, "update(A, 2 * iota([2]), B[0:2], 1)", {1, 2, 2, 3, 5, 4}},
    {OP_TOPK, "V, I, W, J", {3, 2, 5, 5, 2, 1, 1, 2, 4, 5, 6, 1, 1, 1}, "V, I = topk(minimum(A, 5), k=2, dim=1)\n W, J = topk(A, k=1, dim=0)"},
    {OP_CONST, "1 / A", {1, 1 / 2., 1 / 3., 1 / 4., 1 / 5., 1 / 6.}},
    {OP_MATMUL, "matmul(A, B)", {22, 28, 49, 64}},
    {OP_MATMUL, "matmul(reshape(A, [2, 1, 3]), B)", {22, 28, 49, 64}},
    {OP_MATMUL,
     "matmul(reshape(A, [2, 3, 1]), reshape(sum(reshape(A, [3, 2]), dim=1), [1, 1, 3]))",
     {3, 7, 11, 6, 14, 22, 9, 21, 33, 12, 28, 44, 15, 35, 55, 18, 42, 66}},
    {OP_MATMUL, "matmul(reshape(A, [2, 1, 1, 3]), reshape(concat(B, B * 2, dim=0), [2, 3, 2]))", {22, 28, 44, 56, 49, 64, 98, 128}},
    {OP_SUM, "sum(A, dim=0)", {5, 7, 9}},
    {OP_SUM, "sum(A, dim=1)", {6, 15}},
    {OP_SUM, "sum(reshape(A, [6]), dim=0, group=2)", {3, 7, 11}},
    {OP_SUM, "sum(reshape(A, [3, 2]), dim=0, group=3)", {9, 12}},
    {OP_MEAN, "mean(A, dim=1)", {2, 5}},
    {OP_MAX, "max(-A, dim=1), max(A, dim=0)", {-1, -4, 4, 5, 6}},
    {OP_MIN, "min(-A, dim=1), min(A, dim=0)", {-3, -6, 1, 2, 3}},
    {OP_LOGSUMEXP, "logsumexp(log(A), dim=1)", {1.791759469228055, 2.70805020110221}},
    {OP_PROD, "prod(-A, dim=1), prod(A, dim=0)", {-6, -120, 4, 10, 18}},
    {OP_RESHAPE, "reshape(A, [3, -1])", {1, 2, 3, 4, 5, 6}},
    {OP_TRANSPOSE, "transpose(A)", {1, 4, 2, 5, 3, 6}},
    {OP_TRANSPOSE, "transpose(reshape(A, [1, 2, 3]), perm=[2, 0, 1])", {1, 4, 2, 5, 3, 6}},
    {OP_REPEAT, "repeat(A, dim=0, times=2)", {1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6}},
    {OP_REPEAT, "repeat(A, dim=1, times=2)", {1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6}},
    {OP_CONCAT, "concat(A, transpose(B), dim=0)", {1, 2, 3, 4, 5, 6, 1, 3, 5, 2, 4, 6}},
    {OP_CONCAT, "concat(A, transpose(B), A, dim=1)", {1, 2, 3, 1, 3, 5, 1, 2, 3, 4, 5, 6, 2, 4, 6, 4, 5, 6}},
    {OP_SPLIT, "U, S, T", {3, 6, 1, 4, 2, 5}, "S, T, U = split(A, dim=1, parts=3)"},
    {OP_CHUNK, "chunk(A, dim=1, parts=3, index=1)", {2, 5}},
    {OP_SLICE, "slice(A, dim=1, start=1, end=3)", {2, 3, 5, 6}},
    {OP_ALL_REDUCE, "all_reduce(A)", {1, 2, 3, 4, 5, 6}}, // of one rank; test_world.c has several
    {OP_ALL_GATHER, "all_gather(A, dim=0)", {1, 2, 3, 4, 5, 6}},
    {OP_REDUCE_SCATTER, "reduce_scatter(A, dim=1)", {1, 2, 3, 4, 5, 6}},
    {OP_SHARD, "shard(A, dim=1)", {1, 2, 3, 4, 5, 6}},
    {OP_SOFTMAX, "softmax(log(A), dim=1)", {1 / 6., 2 / 6., 3 / 6., 4 / 15., 5 / 15., 6 / 15.}},
    {OP_SOFTMAX, "softmax(log(A), dim=0)", {1 / 5., 2 / 7., 3 / 9., 4 / 5., 5 / 7., 6 / 9.}},
    {OP_SOFTMAX, "softmax(A - A, log(A), dim=1)", {1 / 6., 2 / 6., 3 / 6., 4 / 15., 5 / 15., 6 / 15.}},
    {OP_SOFTMAX, "softmax(A - A, log(chunk(A, dim=0, parts=2, index=0)), dim=1)", {1 / 6., 2 / 6., 3 / 6., 1 / 6., 2 / 6., 3 / 6.}},
    {OP_SOFTMAX, "softmax(log(A), reshape(chunk(A, dim=0, parts=2, index=0), [3]), dim=0)", {1 / 5., 2 / 7., 3 / 9., 4 / 5., 5 / 7., 6 / 9.}},
    {OP_RMS_NORM, "rms_norm(reshape(A, [3, 2]) - reshape(A, [3, 2]) + 2, eps=5)", {2 / 3., 2 / 3., 2 / 3., 2 / 3., 2 / 3., 2 / 3.}},
    {OP_RMS_NORM, "rms_norm(const(3) + reshape(A, [6, 1]) * 0, chunk(reshape(B, [6]), dim=0, parts=6, index=3))", {4, 4, 4, 4, 4, 4}},
    {OP_LAYER_NORM, "layer_norm(reshape(A, [3, 2]), eps=3.75)", {-.25, .25, -.25, .25, -.25, .25}},
    {OP_LAYER_NORM, "layer_norm(reshape(A, [3, 2]), chunk(reshape(B, [6]), dim=0, parts=3, index=1), eps=3.75)", {-.75, 1, -.75, 1, -.75, 1}},
    {OP_LAYER_NORM,
     "layer_norm(reshape(A, [3, 2]), const(4) + chunk(reshape(B, [6]), dim=0, parts=3, index=0) * 0, chunk(reshape(B, "
     "[6]), dim=0, parts=3, index=2), eps=3.75)",
     {4, 7, 4, 7, 4, 7}},
    {OP_OUTPUT, "A, A * 2, A", {1, 2, 3, 4, 5, 6, 2, 4, 6, 8, 10, 12, 1, 2, 3, 4, 5, 6}},
    {OP_BLOCK, "N", {2, 4, 6, 8, 10, 12}, "N = block(x=3) { a = iter(A, imap={x:1})\n save(a * 2, omap={x:1}) }"},
};

static struct graph *other_graph(struct arena *mem, size_t row, bool stable)
{
  const char *before = others[row].before ? others[row].before : "";
  return test_graph(mem, arena_printf(mem, "graph g { A: f32[2, 3]\n B: f32[3, 2]\n %s\n return %s }", before, others[row].call), stable);
}

static void other_operators(void **state)
{
  (void)state;
  for (size_t row = 0; row < COUNT(others); row++)
    for (int stable = 0; stable < 2; stable++) {
      struct arena mem = {0};
      double a[] = {1, 2, 3, 4, 5, 6}, b[] = {1, 2, 3, 4, 5, 6};
      struct values v = {.d = DOM_F64, .nin = 2, .in = {a, b}};
      test_run(&mem, other_graph(&mem, row, stable), NULL, &v);
      int64_t n = 0;
      for (int k = 0; k < v.nout; k++)
        for (int64_t i = 0; i < v.size[k]; i++, n++)
          if (fabs(test_real(&v, k, i) - others[row].want[n]) > 1e-14)
            fail_msg("%s: value %lld is %.17g, not %.17g", others[row].call, (long long)n, test_real(&v, k, i), others[row].want[n]);
      arena_close(&mem);
    }
}

// Exponentials of 1000 are infinite in float64 too.
static void logarithms_do_not_overflow(void **state)
{
  (void)state;
  static const double want[] = {1001.6094379124341, 1001.9459101490553, 1002.1972245773362};
  struct arena mem = {0};
  double a[] = {1, 2, 3, 4, 5, 6};
  struct values v = {.d = DOM_F64, .nin = 1, .in = {a}};
  test_run(&mem, test_graph(&mem, "graph g { A: f32[2, 3]\n return logsumexp(log(A) + 1000, dim=0) }", true), NULL, &v);
  for (int i = 0; i < 3; i++) assert_true(fabs(test_real(&v, 0, i) - want[i]) < 1e-12);
  arena_close(&mem);
}

static void every_operator_is_here(void **state)
{
  (void)state;
  for (int op = 0; op < OPS; op++) {
    bool found = !(op_rows[op].levels & IS_K);
    for (size_t i = 0; i < COUNT(maps); i++) found |= (int)maps[i].op == op;
    for (size_t i = 0; i < COUNT(others); i++) found |= (int)others[i].op == op;
    if (!found) fail_msg("%s is not tested", op_rows[op].name);
  }
}

// ---- what expansion makes ----

static void expansion(void **state)
{
  (void)state;
  struct arena mem = {0};
  const struct graph *plain = test_graph(&mem, "program p { X: f16[2, 8]\n Y = softmax(X, dim=-1)\n return Y }", false);
  const struct graph *stable = test_graph(&mem, "program p { X: f16[2, 8]\n Y = softmax(X, dim=-1)\n return Y }", true);
  const struct graph *plain_twin = test_graph(&mem, "program p { X: f16[2, 8]\n E = exp(X)\n return E / sum(E, dim=1) }", false);
  const struct graph *stable_twin =
      test_graph(&mem, "program p { X: f16[2, 8]\n M = max(X, dim=1)\n E = exp(X - M)\n return E / sum(E, dim=1) }", false);
  assert_true(graph_same(plain, plain_twin));
  assert_true(graph_same(stable, stable_twin));
  int out;
  graph_outputs(plain, &out);
  assert_string_equal(plain->tensors[out].name, "Y");
  assert_int_equal(plain->tensors[out].dtype, F16);
  double x[16] = {1e4, -1e4, 3, 1e4};
  struct values v = {.d = DOM_F64, .nin = 1, .in = {x}};
  test_run(&mem, stable, NULL, &v);
  assert_true(test_real(&v, 0, 0) == 0.5 && test_real(&v, 0, 1) == 0);
  test_run(&mem, plain, NULL, &v);
  assert_true(isnan(test_real(&v, 0, 0)));
  arena_close(&mem);
}

// ---- masked softmax: what is hidden is 0, whole rows too ----

static void masked_softmax(void **state)
{
  (void)state;
  static const char *const texts[] = {"program p { X: f32[5, 4]\n M: f32[5, 4]\n return softmax(X, M, dim=1) }",
                                      "program p { X: f32[4, 5]\n M: f32[4, 5]\n return softmax(X, M, dim=0) }"};
  const float none = -INFINITY, least = -0x1.FFFFFEp127f;
  const float mask[5][4] = {
      {0, none, 0, none}, {none, none, none, none}, {least, least, least, least}, {none, none, least, none}, {none, 3, 5, none}};
  const float x[5][4] = {{1, 1e30f, 1, 2}, {1, -1e30f, 1e30f, 2}, {9, 8, 7, 6}, {50, 50, -50, 50}, {1e30f, 1, 0, 1e30f}};
  const float want[5][4] = {{.5, 0, .5, 0}, {0, 0, 0, 0}, {.25, .25, .25, .25}, {0, 0, 1, 0}, {0, .26894142f, .73105858f, 0}};
  for (size_t k = 0; k < COUNT(texts); k++) {
    struct arena mem = {0};
    float in[2][20];
    for (int i = 0; i < 5; i++)
      for (int j = 0; j < 4; j++) in[0][k ? j * 5 + i : i * 4 + j] = x[i][j], in[1][k ? j * 5 + i : i * 4 + j] = mask[i][j];
    struct values v = {.d = DOM_F32, .nin = 2, .in = {in[0], in[1]}};
    test_run(&mem, test_graph(&mem, texts[k], true), NULL, &v);
    for (int i = 0; i < 5; i++)
      for (int j = 0; j < 4; j++) {
        double is = test_real(&v, 0, k ? j * 5 + i : i * 4 + j);
        if (!(want[i][j] == 0 ? is == 0 : fabs(is - (double)want[i][j]) < 1e-6))
          fail_msg("row %d, element %d is %g, not %g", i, j, is, (double)want[i][j]);
      }
    arena_close(&mem);
  }
}

// A mask of booleans shows elements where it is 1. One of numbers that are narrower than x hides as well, also what is NaN.
static void boolean_softmax(void **state)
{
  (void)state;
  static const char *const calls[][2] = {{"bool", "softmax(X, M, dim=1)"}, {"bool", "softmax_where(X, M, dim=1)"}, {"f16", "softmax(X, M, dim=1)"}};
  const float x[3][4] = {{1, 1e30f, 1, 2}, {1, 2, 3, 4}, {50, 50, -50, NAN}}, shown[3][4] = {{1, 0, 1, 0}, {0, 0, 0, 0}, {0, 0, 1, 0}};
  const float want[3][4] = {{.5, 0, .5, 0}, {0, 0, 0, 0}, {0, 0, 1, 0}};
  for (size_t k = 0; k < COUNT(calls); k++) {
    struct arena mem = {0};
    float mask[12];
    for (int i = 0; i < 12; i++) mask[i] = k < 2 ? shown[i / 4][i % 4] : shown[i / 4][i % 4] > 0 ? 0 : -INFINITY;
    struct values v = {.d = DOM_F32, .nin = 2, .in = {(void *)(uintptr_t)x, mask}};
    const char *text = arena_printf(&mem, "program p { X: f32[3, 4]\n M: %s[3, 4]\n return %s }", calls[k][0], calls[k][1]);
    test_run(&mem, test_graph(&mem, text, true), NULL, &v);
    for (int i = 0; i < 12; i++)
      if (!(fabs(test_real(&v, 0, i) - (double)want[i / 4][i % 4]) < 1e-6)) fail_msg("%s: element %d is %g", calls[k][1], i, test_real(&v, 0, i));
    arena_close(&mem);
  }
}

// The result of a composite has the dtype of its expansion.
static void composites_join_dtypes(void **state)
{
  (void)state;
  static const char *const calls[] = {"softmax(X, Y, dim=1)", "rms_norm(X, Y)", "layer_norm(X, Y, Y)", "layer_norm(X, X, Y)"};
  for (size_t i = 0; i < COUNT(calls); i++) {
    struct arena mem = {0};
    struct err e = {0};
    struct graph *g;
    const char *text = arena_printf(&mem, "program p { X: f16[2, 8]\n Y: f32[2, 8]\n return %s }", calls[i]);
    int out;
    assert_int_equal(front_parse(&mem, text, strlen(text), "t.mica", 0, NULL, &g, &e), OK);
    graph_outputs(g, &out);
    assert_int_equal(g->tensors[out].dtype, F32);
    assert_int_equal(graph_expand(&mem, g, false, &g, &e), OK);
    graph_outputs(g, &out);
    assert_int_equal(g->tensors[out].dtype, F32);
    arena_close(&mem);
  }
}

// ---- what is refused ----

static void refusals(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct err e = {0};
  void *out[2];
  double x[2] = {1, 2};
  volatile int stop = 1;
  const char *text = "program p { X: f32[2]\n return softmax(X, dim=0) }";
  struct graph *g;
  assert_int_equal(front_parse(&mem, text, strlen(text), NULL, 0, NULL, &g, &e), OK);
  assert_int_equal(eval_run(&mem, g, DOM_F64, NULL, (void *[]){x}, out, NULL, &e), USER);
  assert_int_equal(e.id, ERR_GRAPH);
  e = (struct err){0};
  assert_int_equal(eval_run(&mem, test_graph(&mem, text, false), DOM_F64, NULL, (void *[]){x}, out, &stop, &e), ENV);
  assert_int_equal(e.id, ERR_STOPPED);
  e = (struct err){0};
  g = test_graph(&mem, "program p { X: f32[1048576, 4096]\n return exp(X) }", false);
  assert_int_equal(eval_run(&mem, g, DOM_F64, NULL, (void *[]){NULL}, out, NULL, &e), ENV);
  assert_int_equal(e.id, ERR_MEMORY);
  arena_close(&mem);
}

// The first partial sums are those of few numbers: no range may limit them to sums of all.
static void scans_of_whole_numbers(void **state)
{
  (void)state;
  static const struct {
    const char *range;
    double x[4], sums[4];
  } rows[] = {
      {">= 1 < 6", {1, 2, 5, 1}, {1, 3, 8, 9}}, {">= -5 <= -1", {-1, -2, -5, -1}, {-1, -3, -8, -9}}, {">= -2 <= 3", {-2, 3, 3, 3}, {-2, 1, 4, 7}}};
  for (size_t i = 0; i < COUNT(rows); i++) {
    struct arena mem = {0};
    struct err e = {0};
    const struct graph *g = test_graph(&mem, arena_printf(&mem, "program p { i: i32[4] %s\n return cumsum(i, dim=0) }", rows[i].range), false);
    void *in[1] = {arena_copy(&mem, rows[i].x, sizeof rows[i].x)}, *out[1];
    assert_int_equal(eval_run(&mem, g, DOM_F64, NULL, in, out, NULL, &e), OK);
    assert_memory_equal(out[0], rows[i].sums, sizeof rows[i].sums);
    arena_close(&mem);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(scans_of_whole_numbers), cmocka_unit_test(elementwise),
      cmocka_unit_test(not_a_number),           cmocka_unit_test(whole_of_anything),
      cmocka_unit_test(other_operators),        cmocka_unit_test(logarithms_do_not_overflow),
      cmocka_unit_test(every_operator_is_here), cmocka_unit_test(expansion),
      cmocka_unit_test(masked_softmax),         cmocka_unit_test(boolean_softmax),
      cmocka_unit_test(composites_join_dtypes), cmocka_unit_test(refusals),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

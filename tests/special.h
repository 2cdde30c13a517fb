// Special values: what operators make of them in numpy and torch. Tests of generated code, of tile kernels and of the interpreter
// hold their results against these tables.
#ifndef TESTS_SPECIAL_H
#define TESTS_SPECIAL_H

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>

#define N NAN
#define I INFINITY

// ---- elementwise: column k of a row is the result for X = special_x[k], Y = special_y[k] ----

enum { SPECIAL_PAIRS = 12 };
static const double special_x[SPECIAL_PAIRS] = {N, 1, N, I, -I, 1, I, -I, -0.0, -2, -8, 4};
static const double special_y[SPECIAL_PAIRS] = {1, N, N, 1, 1, I, I, I, 0.0, 3, 0.5, -I};
static const struct special_map {
  const char *expr;
  double want[SPECIAL_PAIRS];
} special_maps[] = {
    {"relu(X)", {N, 1, N, I, 0, 1, I, 0, 0, 0, 0, 4}},
    {"maximum(X, Y)", {N, N, N, I, 1, I, I, I, 0, 3, 0.5, 4}},
    {"minimum(X, Y)", {N, N, N, 1, -I, 1, I, -I, 0, -2, -8, -I}},
    {"maximum(X, 0.5)", {N, 1, N, I, 0.5, 1, I, 0.5, 0.5, 0.5, 0.5, 4}},
    {"minimum(0.5, X)", {N, 0.5, N, 0.5, -I, 0.5, 0.5, -I, 0, -2, -8, 0.5}},
    {"clamp(X, lo=-1, hi=2)", {N, 1, N, 2, -1, 1, 2, -1, 0, -1, -1, 2}},
    {"abs(X)", {N, 1, N, I, I, 1, I, I, 0, 2, 8, 4}},
    {"-X", {N, -1, N, -I, I, -1, -I, I, 0, 2, 8, -4}},
    {"square(X)", {N, 1, N, I, I, 1, I, I, 0, 4, 64, 16}},
    {"pow(X, 3)", {N, 1, N, I, -I, 1, I, -I, 0, -8, -512, 64}},
    {"pow(X, 4)", {N, 1, N, I, I, 1, I, I, 0, 16, 4096, 256}},
    {"pow(X, 7)", {N, 1, N, I, -I, 1, I, -I, 0, -128, -2097152, 16384}},
    {"pow(X, -1)", {N, 1, N, 0, 0, 1, 0, 0, -I, -0.5, -0.125, 0.25}},
    {"pow(X, -2)", {N, 1, N, 0, 0, 1, 0, 0, I, 0.25, 0.015625, 0.0625}},
    {"pow(X, Y)", {N, 1, N, I, -I, 1, I, I, 1, -8, N, 0}},
    {"pow(X, 2.5)", {N, 1, N, I, I, 1, I, I, 0, N, N, 32}},
    {"exp(X)", {N, 2.718281828, N, I, 0, 2.718281828, I, 0, 1, 0.1353352832, 3.354626279e-4, 54.59815003}},
    {"log(X)", {N, 0, N, I, N, 0, I, N, -I, N, N, 1.386294361}},
    {"sqrt(X)", {N, 1, N, I, N, 1, I, N, 0, N, N, 2}},
    {"rsqrt(X)", {N, 1, N, 0, N, 1, 0, N, -I, N, N, 0.5}},
    {"sigmoid(X)", {N, 0.7310585786, N, 1, 0, 0.7310585786, 1, 0, 0.5, 0.1192029220, 3.353501305e-4, 0.9820137900}},
    {"silu(X)", {N, 0.7310585786, N, I, N, 0.7310585786, I, N, 0, -0.2384058440, -2.682801044e-3, 3.928055160}},
    {"gelu(X)", {N, 0.8413447461, N, I, N, 0.8413447461, I, N, 0, -0.04550026390, 0, 3.999873315}},
    {"gelu_tanh(X)", {N, 0.8411919906, N, I, N, 0.8411919906, I, N, 0, -0.04540230591, 0, 3.999929752}},
    {"tanh(X)", {N, 0.7615941560, N, 1, -1, 0.7615941560, 1, -1, 0, -0.9640275801, -0.9999997749, 0.9993292997}},
    {"sin(X)", {N, 0.8414709848, N, N, N, 0.8414709848, N, N, 0, -0.9092974268, -0.9893582466, -0.7568024953}},
    {"cos(X)", {N, 0.5403023059, N, N, N, 0.5403023059, N, N, 1, -0.4161468365, -0.1455000338, -0.6536436209}},
    {"erf(X)", {N, 0.8427007929, N, 1, -1, 0.8427007929, 1, -1, 0, -0.9953222650, -1, 0.9999999846}},
    {"softplus(X)", {N, 1.313261688, N, I, 0, 1.313261688, I, 0, 0.6931471806, 0.1269280110, 3.354063728e-4, 4.018149928}},
    {"leaky_relu(X, slope=0.25)", {N, 1, N, I, -I, 1, I, -I, 0, -0.5, -2, 4}},
    {"X + Y", {N, N, N, I, -I, I, I, N, 0, 1, -7.5, -I}},
    {"X - Y", {N, N, N, I, -I, -I, N, -I, 0, -5, -8.5, I}},
    {"X * Y", {N, N, N, I, -I, I, I, -I, 0, -6, -4, -I}},
    {"X / Y", {N, N, N, I, -I, 0, N, N, N, -0.6666666667, -16, 0}},
};

// ---- rows: one of each kind, of any length ----

enum special_row { ROW_PLAIN, ROW_NAN, ROW_INF, ROW_LOW, ROW_ALL_LOW, ROW_LAST, ROW_FIRST, ROW_LAST_NAN, ROW_BOTH, ROW_HUGE, SPECIAL_ROWS };
static const struct {
  double most, sum; // what max and sum are; 1: of plain numbers
  char softmax;     // n: NaN, f: a distribution without the special elements
} special_rows[SPECIAL_ROWS] = {
    [ROW_PLAIN] = {1, 1, 'f'}, [ROW_NAN] = {N, N, 'n'},    [ROW_INF] = {I, I, 'n'},      [ROW_LOW] = {1, -I, 'f'}, [ROW_ALL_LOW] = {-I, -I, 'n'},
    [ROW_LAST] = {1, -I, 'f'}, [ROW_FIRST] = {1, -I, 'f'}, [ROW_LAST_NAN] = {N, N, 'n'}, [ROW_BOTH] = {I, N, 'n'}, [ROW_HUGE] = {1, 1, 'f'},
};

// Element j of n of a row of that kind.
static inline double special_element(enum special_row kind, int j, int n)
{
  double plain = ((j * 7 + 3) % 13 - 6) / 4.0;
  bool last = j == n - 1;
  switch (kind) {
  case ROW_NAN: return j == n / 3 ? N : plain;
  case ROW_INF: return j == n / 2 ? I : plain;
  case ROW_LOW: return j % 3 ? -I : plain;
  case ROW_ALL_LOW: return -I;
  case ROW_LAST: return last ? plain : -I;
  case ROW_FIRST: return j ? -I : plain;
  case ROW_LAST_NAN: return last ? N : -I;
  case ROW_BOTH: return j == n / 3 ? I : j == n / 2 ? -I : plain;
  case ROW_HUGE: return 1000 + 40 * plain; // exp of it overflows
  case ROW_PLAIN:
  case SPECIAL_ROWS: break;
  }
  return plain;
}

static inline void special_fill(double *x, int rows, int n)
{
  for (int i = 0; i < rows; i++)
    for (int j = 0; j < n; j++) x[i * n + j] = special_element((enum special_row)(i % SPECIAL_ROWS), j, n);
}

static inline double special_max(const double *row, int n)
{
  double r = -I;
  for (int j = 0; j < n; j++) r = isnan(r) || r > row[j] ? r : row[j];
  return r;
}

static inline double special_sum(const double *row, int n)
{
  double r = 0;
  for (int j = 0; j < n; j++) r += row[j];
  return r;
}

// sum_j softmax(row)_j v[j * step]; step 0: the element `at` of softmax itself.
static inline double special_softmax(const double *row, int n, int at, const double *v, int step)
{
  double most = special_max(row, n), sum = 0, all = 0;
  for (int j = 0; j < n; j++) sum += exp(row[j] - most);
  if (!v) return exp(row[at] - most) / sum;
  for (int j = 0; j < n; j++) all += exp(row[j] - most) / sum * v[j * step];
  return all;
}

// Are both NaN, the same infinity, or numbers as near as `off` allows?
static inline bool special_same(double got, double want, double off)
{
  if (isnan(want) || isnan(got)) return isnan(want) && isnan(got);
  if (isinf(want) || isinf(got)) return got == want;
  return fabs(got - want) <= off * (1 + fabs(want));
}

#undef N
#undef I
#endif

// Generated code on NaN, infinities and rows that have nothing else, against what numpy and torch make of them (special.h). The
// cases that a constant must get right, as in softmax over a loop, are compared as the optimizer makes them: after plan_stable.
// test: timeout 300
// test: quick sanitized
#include "../graphs.h"
#include "eval/eval.h"
#include "plan/plan.h"
#include "rt/rt.h"
#include "special.h"

#include <string.h>

enum { COLS = 52, WIDE = 8, TIMES = 5, OUTPUTS = 64 };

struct ran { // float64 and the outputs of the compiled graph
  struct arena mem;
  struct graph *g;
  int nout;
  int64_t n[OUTPUTS];
  double *got[OUTPUTS], *eval[OUTPUTS];
};

static void expanded(struct ran *r, const char *text)
{
  struct err e = {0};
  struct graph *plain, *stable;
  bool changed;
  char note[256];
  if (graph_expand(&r->mem, graph_of(&r->mem, text), true, &plain, &e)) fail_msg("%s", e.text);
  if (plan_stable(&r->mem, plain, &stable, &changed, note, &e)) fail_msg("%s", e.text);
  r->g = stable;
}

static float *narrow(struct arena *mem, const double *x, int64_t n)
{
  float *f = NEWS(mem, float, n + 1);
  for (int64_t i = 0; i < n; i++) f[i] = (float)x[i];
  return f;
}

// Runs the text as C and in the interpreter on fp32 inputs given in double.
static void run(struct ran *r, const char *text, double *const *in)
{
  static const struct target host = {.name = "cpu", .cores = 2, .lanes = 16, .l3 = 32 << 20};
  struct err e = {0};
  struct str source = {0};
  struct module *m;
  int ins[8], outs[OUTPUTS], nin;
  void *at[8], *to[OUTPUTS];
  *r = (struct ran){0};
  expanded(r, text);
  if (gen_c(r->g, "test", &host, &source, NULL, NULL, &e)) fail_msg("%s", e.text);
  if (module_build(str_text(&source), "test", &m, &e)) fail_msg("%s", e.text);
  nin = graph_inputs(r->g, ins), r->nout = graph_outputs(r->g, outs);
  for (int i = 0; i < nin; i++) at[i] = narrow(&r->mem, in[i], shape_size(&r->g->tensors[ins[i]].shape));
  for (int i = 0; i < r->nout; i++) r->n[i] = shape_size(&r->g->tensors[outs[i]].shape), to[i] = NEWS(&r->mem, float, r->n[i]);
  assert_int_equal(module_call(m, at, to), 0);
  for (int i = 0; i < r->nout; i++) {
    r->got[i] = NEWS(&r->mem, double, r->n[i]);
    for (int64_t k = 0; k < r->n[i]; k++) r->got[i][k] = ((float *)to[i])[k];
  }
  if (eval_run(&r->mem, r->g, DOM_F64, NULL, (void *const *)in, (void **)r->eval, NULL, &e)) fail_msg("%s", e.text);
  module_close(m), str_free(&source);
}

static void same(const char *what, int64_t at, double got, double eval, double want)
{
  if (!special_same(eval, want, 1e-6)) fail_msg("%s: element %d is %g in the interpreter, not %g", what, (int)at, eval, want);
  if (!special_same(got, want, 1e-5)) fail_msg("%s: element %d is %g in generated code, not %g", what, (int)at, got, want);
}

static void elementwise(void **state)
{
  (void)state;
  enum { ALL = TIMES * SPECIAL_PAIRS + 1 }; // whole vectors and a rest
  double x[ALL] = {0}, y[ALL] = {0};
  struct str text = {0};
  struct ran r;
  for (int i = 0; i < ALL; i++) x[i] = special_x[i % SPECIAL_PAIRS], y[i] = special_y[i % SPECIAL_PAIRS];
  str_add(&text, "graph g { X: f32[%d]\n Y: f32[%d]\n return ", ALL, ALL);
  for (size_t k = 0; k < COUNT(special_maps); k++) str_add(&text, "%s%s", k ? ", " : "", special_maps[k].expr);
  str_add(&text, " }");
  run(&r, str_text(&text), (double *[]){x, y});
  for (size_t k = 0; k < COUNT(special_maps); k++)
    for (int i = 0; i < ALL; i++) same(special_maps[k].expr, i, r.got[k][i], r.eval[k][i], special_maps[k].want[i % SPECIAL_PAIRS]);
  arena_close(&r.mem), str_free(&text);
}

// Rows along the innermost dimension, the other one, and over loops.
static void folds(void **state)
{
  (void)state;
  static const char text[] = "graph g { X: f32[10, 52]\n Y: f32[52, 10]\n"
                             "A, B = block(x=5; i=4) { x = iter(X, imap={x:0}, fmap={i:1})\n m, d = accum_max(max(x, dim=1))\n save(m, omap={x:0})\n"
                             "  save(accum_sum(x, dim=1), omap={x:0}) }\n"
                             "C = block(x=5) { x = iter(X, imap={x:0})\n save(max(x, dim=1), omap={x:0}) }\n"
                             "return A, B, C, max(X, dim=1), max(Y, dim=0), sum(X, dim=1), sum(Y, dim=0) }";
  static double x[SPECIAL_ROWS * COLS], y[SPECIAL_ROWS * COLS];
  static const bool sums[] = {false, true, false, false, false, true, true};
  struct ran r;
  special_fill(x, SPECIAL_ROWS, COLS);
  for (int i = 0; i < SPECIAL_ROWS; i++)
    for (int j = 0; j < COLS; j++) y[j * SPECIAL_ROWS + i] = x[i * COLS + j];
  run(&r, text, (double *[]){x, y});
  for (size_t k = 0; k < COUNT(sums); k++)
    for (int i = 0; i < SPECIAL_ROWS; i++) {
      double written = sums[k] ? special_rows[i].sum : special_rows[i].most, *row = x + i * COLS;
      double want = isfinite(written) ? sums[k] ? special_sum(row, COLS) : special_max(row, COLS) : written;
      same(sums[k] ? "sum" : "max", i, r.got[k][i], r.eval[k][i], want);
    }
  arena_close(&r.mem);
}

// Long rows, of which threads reduce pieces: numbers that count are in the first piece, the last one, or both.
static void pieces(void **state)
{
  (void)state;
  enum { ROWS = 5, LONG = 100003 };
  static const char text[] = "graph g { X: f32[5, 100003]\n A, B = block() { x = iter(X)\n save(max(x, dim=1))\n save(sum(x * 1, dim=1)) }\n"
                             "return A, B, max(X, dim=1), sum(X, dim=1) }";
  static const double first[ROWS] = {NAN, 0.5, INFINITY, INFINITY, -INFINITY}, last[ROWS] = {0.5, NAN, -INFINITY, 0.5, -INFINITY},
                      most[ROWS] = {NAN, NAN, INFINITY, INFINITY, -INFINITY}, sum[ROWS] = {NAN, NAN, NAN, INFINITY, -INFINITY};
  static double x[ROWS * LONG];
  struct ran r;
  for (int i = 0; i < ROWS; i++) {
    for (int j = 0; j < LONG; j++) x[i * LONG + j] = i == ROWS - 1 ? -INFINITY : 0.25;
    x[i * LONG] = first[i], x[i * LONG + LONG - 1] = last[i];
  }
  run(&r, text, (double *[]){x});
  for (int k = 0; k < 4; k++)
    for (int i = 0; i < ROWS; i++) same(k % 2 ? "sum" : "max", i, r.got[k][i], r.eval[k][i], k % 2 ? sum[i] : most[i]);
  arena_close(&r.mem);
}

static double smallest(const double *row, int n)
{
  double r = INFINITY;
  for (int j = 0; j < n; j++) r = isnan(r) || r < row[j] ? r : row[j];
  return r;
}

static double product(const double *row, int n)
{
  double r = 1;
  for (int j = 0; j < n; j++) r *= row[j];
  return r;
}

static double log_of_sum(const double *row, int n)
{
  double most = special_max(row, n), sum = 0;
  for (int j = 0; j < n; j++) sum += exp(row[j] - most);
  return isinf(most) ? most : most + log(sum);
}

// Reductions that are made of others, and products: along the innermost dimension, and along the other one.
static void more_folds(void **state)
{
  (void)state;
  static const char text[] = "graph g { X: f32[10, 52]\n Y: f32[52, 10]\n return min(X, dim=1), min(Y, dim=0), logsumexp(X, dim=1), "
                             "logsumexp(Y, dim=0), prod(X, dim=1), prod(Y, dim=0) }";
  static double (*const wants[])(const double *, int) = {smallest, smallest, log_of_sum, log_of_sum, product, product};
  static double x[SPECIAL_ROWS * COLS], y[SPECIAL_ROWS * COLS];
  struct ran r;
  special_fill(x, SPECIAL_ROWS, COLS);
  for (int i = 0; i < SPECIAL_ROWS; i++)
    for (int j = 0; j < COLS; j++) y[j * SPECIAL_ROWS + i] = x[i * COLS + j];
  run(&r, text, (double *[]){x, y});
  for (size_t k = 0; k < COUNT(wants); k++)
    for (int i = 0; i < SPECIAL_ROWS; i++) {
      double want = wants[k](x + i * COLS, COLS);
      if (isfinite(want) && fabs(want) > FLT_MAX) continue; // infinite in fp32
      same(k < 2 ? "min" : k < 4 ? "logsumexp" : "prod", i, r.got[k][i], r.eval[k][i], want);
    }
  arena_close(&r.mem);
}

// Softmax: of rows, in parts that are joined later, over a loop; the last two times a matrix.
static const char *const softmaxes[] = {
    "graph g { X: f32[10, 52]\n V: f32[52, 8]\n return matmul(softmax(X, dim=1), V) }",
    "graph g { X: f32[10, 52]\n V: f32[52, 8]\n"
    "O = block(x=5; i=4) { x = iter(X, imap={x:0}, fmap={i:1})\n v = iter(V, fmap={i:0})\n e = exp(x)\n"
    "  save(accum(matmul(e, v)) / accum_sum(e, dim=1), omap={x:0}) }\n return O }",
    "graph g { X: f32[10, 52]\n V: f32[52, 8]\n"
    "A, B = block(x=5, y=2; i=2) { x = iter(X, imap={x:0, y:1}, fmap={i:1})\n v = iter(V, imap={y:0}, fmap={i:0})\n e = exp(x)\n"
    "  save(reshape(accum(matmul(e, v)), [1, 2, 8]), omap={x:1, y:0})\n save(reshape(accum_sum(e, dim=1), [1, 2, 1]), omap={x:1, y:0}) }\n"
    "O = block(x=5) { a = iter(A, imap={x:1})\n b = iter(B, imap={x:1})\n save(reshape(sum(a, dim=0) / sum(b, dim=0), [2, 8]), omap={x:0}) }\n"
    "return O }",
};

static void softmax(void **state)
{
  (void)state;
  static double x[SPECIAL_ROWS * COLS], v[COLS * WIDE];
  special_fill(x, SPECIAL_ROWS, COLS);
  for (int i = 0; i < COLS * WIDE; i++) v[i] = (i * 5 % 17 - 8) / 8.0;
  for (size_t k = 0; k < COUNT(softmaxes); k++) {
    struct ran r;
    run(&r, softmaxes[k], (double *[]){x, v});
    for (int i = 0; i < SPECIAL_ROWS * WIDE; i++) {
      double want = special_softmax(x + i / WIDE * COLS, COLS, 0, v + i % WIDE, WIDE);
      assert_int_equal(isnan(want), special_rows[i / WIDE].softmax == 'n');
      same(softmaxes[k], i, r.got[0][i], r.eval[0][i], want);
    }
    arena_close(&r.mem);
  }
}

// Logarithms of sums of exponentials, of which a pass takes the maximum off: of rows, over a loop, in parts that are joined later.
static const char *const logs[] = {
    "graph g { X: f32[10, 52]\n return log(sum(exp(X), dim=1)) }",
    "graph g { X: f32[10, 52]\n"
    "O = block(x=5; i=4) { x = iter(X, imap={x:0}, fmap={i:1})\n save(log(accum_sum(exp(x), dim=1)), omap={x:0}) }\n return O }",
    "graph g { X: f32[10, 52]\n"
    "A = block(x=5, y=2; i=2) { x = iter(X, imap={x:0, y:1}, fmap={i:1})\n"
    "  save(reshape(accum_sum(exp(x), dim=1), [1, 2, 1]), omap={x:1, y:0}) }\n"
    "O = block(x=5) { a = iter(A, imap={x:1})\n save(reshape(log(sum(a, dim=0)), [2, 1]), omap={x:0}) }\n return O }",
};

static void logarithms(void **state)
{
  (void)state;
  static double x[SPECIAL_ROWS * COLS];
  special_fill(x, SPECIAL_ROWS, COLS);
  for (size_t k = 0; k < COUNT(logs); k++) {
    struct ran r;
    run(&r, logs[k], (double *[]){x});
    for (int i = 0; i < SPECIAL_ROWS; i++) {
      const double want = log_of_sum(x + i * COLS, COLS);
      if (isfinite(want) && fabs(want) > FLT_MAX) continue; // infinite in fp32
      same(logs[k], i, r.got[0][i], r.eval[0][i], want);
    }
    arena_close(&r.mem);
  }
}

// Prefix sums: NaN and infinities reach only the elements behind them, along rows and over rows, as a kernel and inside a block.
static const struct {
  const char *text;
  bool over_rows;
} scans[] = {
    {"graph g { X: f32[10, 52]\n a = iota([52, 1])\n b = iota([52])\n return matmul(X, a <= b) }", false},
    {"graph g { X: f32[10, 52]\n a = iota([52, 1])\n b = iota([52])\n"
     "O = block(x=5) { x = iter(X, imap={x:0})\n i = iter(a)\n j = iter(b)\n save(abs(matmul(x, i <= j)), omap={x:0}) }\n return O }",
     false},
    {"graph g { X: f32[10, 52]\n a = iota([10])\n b = iota([10, 1])\n"
     "O = block(x=4) { x = iter(X, imap={x:1})\n i = iter(a)\n j = iter(b)\n save(matmul(i <= j, x), omap={x:1}) }\n return O }",
     true},
};

static void prefix_sums(void **state)
{
  (void)state;
  static double x[SPECIAL_ROWS * COLS];
  special_fill(x, SPECIAL_ROWS, COLS);
  assert_int_equal(SPECIAL_ROWS, 10);
  for (size_t k = 0; k < COUNT(scans); k++) {
    struct ran r;
    int numbers = 0;
    run(&r, scans[k].text, (double *[]){x});
    for (int i = 0; i < SPECIAL_ROWS * COLS; i++) {
      const int step = scans[k].over_rows ? COLS : 1, first = scans[k].over_rows ? i % COLS : i / COLS * COLS;
      double want = 0;
      for (int j = first; j <= i; j += step) want += x[j];
      if (strstr(scans[k].text, "abs")) want = fabs(want);
      if (isfinite(want) && fabs(want) > FLT_MAX) continue; // infinite in fp32
      numbers += isfinite(want);
      same(scans[k].text, i, r.got[0][i], r.eval[0][i], want);
    }
    assert_true(numbers > 0);
    arena_close(&r.mem);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(elementwise), cmocka_unit_test(folds),   cmocka_unit_test(pieces),
                                     cmocka_unit_test(more_folds),  cmocka_unit_test(softmax), cmocka_unit_test(logarithms),
                                     cmocka_unit_test(prefix_sums)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

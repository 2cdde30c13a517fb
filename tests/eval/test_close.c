// DOM_CLOSE: where rounding may decide a comparison, a floor or an order, its value is another one than in float64; a comparison of what is not
// finite is NaN; everything else is as in float64.
#include "evaluate.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

// x: 1, one ulp more than 1, 2, 0, infinity, NaN
enum { N = 6 };
static const double x[N] = {1, 1 + 0x1p-52, 2, 0, INFINITY, NAN};
static const struct {
  const char *call;
  double f64[N], close[N];
} rows[] = {
    {"x == 1", {1, 0, 0, 0, 0, 0}, {1, 1, 0, 0, NAN, NAN}},
    {"1 < x", {0, 1, 1, 0, 1, 0}, {0, 0, 1, 0, NAN, NAN}},
    {"x <= 1", {1, 0, 0, 1, 0, 0}, {1, 1, 0, 1, NAN, NAN}},
    {"floor(2 - x)", {1, 0, 0, 2, -INFINITY, NAN}, {1, 1, 0, 2, -INFINITY, NAN}},
    {"x + x", {2, 2 + 0x1p-51, 4, 0, INFINITY, NAN}, {2, 2 + 0x1p-51, 4, 0, INFINITY, NAN}},
    {"argmax(x[0:2], dim=0) + 0 * iota([6])", {1, 1, 1, 1, 1, 1}, {0, 0, 0, 0, 0, 0}},
};

static void run(struct arena *mem, const struct graph *g, enum domain d, const double *want, const char *call)
{
  struct err e = {0};
  void *in[1] = {arena_copy(mem, x, sizeof x)}, *out[1];
  if (eval_run(mem, g, d, NULL, in, out, NULL, &e)) fail_msg("%s: %s", call, e.text);
  const double *y = out[0];
  for (int i = 0; i < N; i++) {
    const bool same = isnan(want[i]) ? isnan(y[i]) : y[i] <= want[i] && y[i] >= want[i];
    if (!same) fail_msg("%s in domain %d: element %d is %.17g, not %.17g", call, (int)d, i, y[i], want[i]);
  }
}

static void near_jumps(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(rows); i++) {
    struct arena mem = {0};
    const struct graph *g = test_graph(&mem, arena_printf(&mem, "program p {\n x: f32[6]\n return %s\n}", rows[i].call), true);
    run(&mem, g, DOM_F64, rows[i].f64, rows[i].call);
    run(&mem, g, DOM_CLOSE, rows[i].close, rows[i].call);
    arena_close(&mem);
  }
}

static void order_of_equals(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct err e = {0};
  const struct graph *g = test_graph(&mem, "program p {\n x: f32[6]\n v, i = topk(x[0:3], 2, dim=0)\n return i\n}", true);
  void *in[1] = {arena_copy(&mem, x, sizeof x)}, *f64[1], *close[1];
  assert_int_equal(eval_run(&mem, g, DOM_F64, NULL, in, f64, NULL, &e), OK);
  assert_int_equal(eval_run(&mem, g, DOM_CLOSE, NULL, in, close, NULL, &e), OK);
  assert_true(((double *)f64[0])[1] > 0.5 && ((double *)f64[0])[1] < 1.5);
  assert_true(fabs(((double *)close[0])[1]) < 0.5);
  arena_close(&mem);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(near_jumps), cmocka_unit_test(order_of_equals)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

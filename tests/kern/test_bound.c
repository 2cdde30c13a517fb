// Bounds of kernel values (src/kern/kern_bound.c): what bounds kernels have, that no finite number of a value is larger, and which of them make the
// exponential of a difference keep its guard.
#include "kern_eval.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct kern read_text(struct arena *mem, const char *text)
{
  struct kern k;
  struct err e = {0};
  if (kern_parse(mem, text, &k, &e) != OK) fail_msg("%s\n%s", e.text, text);
  return k;
}

// ---- values ----

#define HALF "v0 = load f16 t0[32] + 0 + a0*8 + a1*1\n v1 = load f16 t1[32] + 0 + a0*8 + a1*1\n "
#define BYTE "v0 = load bool t0[32] + 0 + a0*8 + a1*1\n v1 = load f16 t1[32] + 0 + a0*8 + a1*1\n "
#define LONG "v0 = load f32 t0[32] + 0 + a0*8 + a1*1\n v1 = load bf16 t1[32] + 0 + a0*8 + a1*1\n "

static const struct {
  const char *values; // the bound is of the last one
  double bound;
} values[] = {
    {HALF "v2 = add v0 v1", 2 * 65504.0},
    {HALF "v2 = sub v0 v1", 2 * 65504.0},
    {HALF "v2 = mul v0 v1", 65504.0 * 65504},
    {HALF "v2 = square v0", 65504.0 * 65504},
    {HALF "v2 = maximum v0 v1", 65504},
    {HALF "v2 = mul_scalar(-0.5) v0", 32752},
    {HALF "v2 = add_scalar(-3) v0", 65507},
    {HALF "v2 = tanh v0", 1},
    {HALF "v2 = relu v0", 65504},
    {HALF "v2 = clamp(-7,3) v0", 7},
    {HALF "v2 = less v0 v1", 1},
    {HALF "v2 = equal v0 v1", 1},
    {HALF "v2 = product{a1}{} v0 v1", 8 * 65504.0 * 65504},
    {HALF "v2 = sum{a1} v0", 8 * 65504.0},
    {HALF "v2 = sum{a0,a1} v0", 32 * 65504.0},
    {HALF "v2 = max{a1} v0", 65504},
    {HALF "v2 = const -3e38\n v3 = max{a1} v0\n v4 = maximum v3 v2", 3e38},
    {HALF "v2 = const -3e38\n v3 = minimum v0 v2", 3e38},
    {HALF "v2 = exp v0", INFINITY},
    {HALF "v2 = div v0 v1", INFINITY},
    {HALF "v2 = log v0", INFINITY},
    {HALF "v2 = rcp v0", INFINITY},
    {BYTE "v2 = mask v1 v0", 65504},
    {BYTE "v2 = exp v0", 2.718281828459045},
    {LONG "v2 = tanh v0", 1},
    {LONG "v2 = clamp(-7,3) v0", 7},
    {LONG "v2 = const 5\n v3 = minimum v0 v2", FLT_MAX},
    {LONG "v2 = max{a1} v1", 3.3895313892515355e+38},
    {LONG "v2 = product{a1}{} v0 v1", 8 * (double)FLT_MAX * 3.3895313892515355e+38},
    {"v0 = load i32 t0[32] + 0 + a0*8 + a1*1\n v1 = neg v0", 2147483647},
    {"v0 = load f32 i0[32] + 0 + a0*8 + a1*1\n v1 = neg v0", 32},
};

static void bounds(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(values); i++) {
    struct arena mem = {0};
    const char *text = arena_printf(&mem, "kern {\n letters a0=4 a1=8\n %s\n}\n", values[i].values);
    const struct kern k = read_text(&mem, text);
    const double got = kern_bound(&k, k.nvalues - 1), want = values[i].bound;
    if (isinf(want) ? got < FLT_MAX : !(fabs(got - want) <= 1e-6 * want)) fail_msg("%g, not %g, of\n%s", got, want, text);
    arena_close(&mem);
  }
}

// ---- every elementwise operator ----

static double anything(struct rng *r, double limit)
{
  static const double special[] = {0, -0.0, INFINITY, -INFINITY, NAN};
  const uint64_t x = rng_next(r), way = x >> 32 & 7;
  if (way < COUNT(special)) return special[way];
  return limit * (way == 7 ? 1 : (double)(x & 0xfffff) / 0xfffff) * (x >> 40 & 1 ? -1 : 1);
}

static void no_number_is_larger(void **state)
{
  (void)state;
  struct rng r = {11};
  int bounded = 0;
  for (int op = 0; op < KERN_OPS; op++) {
    if (op < OPS && op_rows[op].rule != RULE_MAP) continue;
    for (int n = 0; n < 4000; n++) {
      struct arena mem = {0};
      static const double limits[] = {0.25, 1, 3, 65504};
      const double x = limits[n & 3], y = limits[n >> 2 & 3];
      struct attrs a = {.scalar = anything(&r, 4), .lo = -2 * x / 3, .hi = y, .slope = anything(&r, 2)};
      if (!isfinite(a.scalar) || !isfinite(a.slope)) a.scalar = a.slope = 0.75;
      struct kern k = {.mem = &mem};
      const int v = kern_map(&k, op, &a, kern_const(&k, x, 0), kern_const(&k, -y, 0), 0);
      const double most = kern_bound(&k, v);
      bounded += isfinite(most);
      for (int i = 0; i < 8; i++) {
        const double of_x = anything(&r, x), of_y = anything(&r, y), got = kern_apply(op, &k.v[v].a, of_x, of_y);
        if (isfinite(got) && fabs(got) > most * (1 + 1e-12)) fail_msg("%s(%g, %g) is %g, above %g", kern_op(op).name, of_x, of_y, got, most);
      }
      arena_close(&mem);
    }
  }
  assert_true(bounded > 20 * 4000);
}

// ---- guards and limits ----

#define SCORES(type, d)                                                                                                               \
  "kern {\n letters a0=4 a1=8 a3=8\n loops a2=3\n v0 = load " type " t0[32] + 0 + a0*8 + a3*1\n v1 = load " type                      \
  " t1[192] + 0 + a3*24 + a1*1 + a2*8\n v2 = product{a3}{} v0 v1\n v3 = mul_scalar(" d ") v2\n v4 = max{a1} v3\n v5 = const -3.4028"  \
  "234663852886e+38\n v6 = maximum v4 v5\n v7 = runmax{a2} v6\n v8 = runmove{a2} v6\n v9 = sub v3 v7\n v10 = exp v9\n v11 = exp v8\n" \
  " v12 = rescale{a1,a2} v10 v11\n save v12 f32 t2[4] + 0 + a0*1\n"
#define ALL_RULES (KERN_BIT(LIMIT) | KERN_BIT(EXP2) | KERN_BIT(DIFFERENCE) | KERN_BIT(CONSTANTS) | KERN_BIT(SCALED))

enum form { GUARDED, LOWERED, ABOVE_LIMIT };
static const struct {
  const char *text;
  enum form form;
} forms[] = {
    {SCORES("f16", "0.125") "}\n", LOWERED},
    {SCORES("f16", "1") "}\n", LOWERED},
    {SCORES("f16", "1e25") "}\n", ABOVE_LIMIT}, // scores of 3.4e35
    {SCORES("f16", "1e26") "}\n", GUARDED},
    {SCORES("bf16", "0.125") "}\n", GUARDED},
    {SCORES("f32", "0.125") "}\n", GUARDED},
    {SCORES("f16", "0.125") " v13 = max{a2} v6\n save v13 f32 t3[4] + 0 + a0*1\n}\n", ABOVE_LIMIT}, // what is saved stays
};

static bool has(const struct kern *k, int op)
{
  for (int i = 0; i < k->nvalues; i++)
    if (k->v[i].live && k->v[i].kind == KERN_MAP && k->v[i].op == op) return true;
  return false;
}

static bool has_const(const struct kern *k, double c)
{
  for (int i = 0; i < k->nvalues; i++)
    if (k->v[i].live && k->v[i].kind == KERN_CONST && k->v[i].a.scalar == c) return true;
  return false;
}

static void guards(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(forms); i++) {
    struct arena mem = {0};
    struct kern k = read_text(&mem, forms[i].text);
    char why[160] = "";
    kern_rewrite(&k, ALL_RULES);
    if (!kern_check(&k, why)) fail_msg("%s", why);
    assert_int_equal(has(&k, KERN_GUARD), forms[i].form == GUARDED);
    assert_int_equal(has_const(&k, -0x1p100), forms[i].form == LOWERED);
    assert_int_equal(has_const(&k, -(double)FLT_MAX), forms[i].form != LOWERED);
    arena_close(&mem);
  }
}

// As a GPU computes it: c x - (c m) in one instruction, so that only c m is rounded.
static float difference(float x, float m, double c)
{
  const float by = fabsf(m) < (float)kern_guard_limit(c) ? (float)c : (float)kern_guard_power(c);
  return fmaf(x, by, -(m * by));
}

// Equal scores have a power that is a number, and lower ones a smaller one, however large they are.
static void fused_differences(void **state)
{
  (void)state;
  static const double factors[] = {1.4426950408889634, 0.18033688011112042, 1.4426950408889634e-6, 2.8853900817779268, 40, 1e-30,
                                   -1.4426950408889634};
  for (size_t i = 0; i < COUNT(factors); i++) {
    const double c = factors[i];
    for (double size = 1e-3; size <= (double)FLT_MAX / fmax(1, fabs(kern_guard_power(c))); size *= 1.37)
      for (int sign = -1; sign <= 1; sign += 2) {
        const float m = (float)(sign * size), less = nextafterf(m, c > 0 ? -INFINITY : INFINITY);
        if (fabsf(difference(m, m, c)) > 64) fail_msg("%g times %g: a power of %g", c, (double)m, (double)difference(m, m, c));
        if (!(difference(less, m, c) <= difference(m, m, c))) fail_msg("%g times %g: less is more", c, (double)m);
      }
    const float lowest = -FLT_MAX; // of a finite mask
    if (fabs(kern_guard_power(c)) <= 1) assert_true(fabsf(difference(lowest, lowest, c)) <= 64);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(bounds), cmocka_unit_test(no_number_is_larger), cmocka_unit_test(guards),
                                     cmocka_unit_test(fused_differences)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

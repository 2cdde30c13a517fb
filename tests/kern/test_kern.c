// Kernels (src/kern): the text form reads back, the checker finds what is wrong, and each rewrite rule leaves what is saved the same within
// the rounding of float64, on kernels made for it and on random ones.
#include "kern_eval.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { TENSORS = 6, ELEMENTS = 1 << 12, RANDOM = 400 };

// ---- running ----

struct memory {
  double *buffer[TENSORS];
};

static struct memory filled(struct arena *mem)
{
  struct memory m;
  struct rng r = {7};
  for (int t = 0; t < TENSORS; t++) {
    m.buffer[t] = NEWS(mem, double, ELEMENTS);
    for (int i = 0; i < ELEMENTS; i++) m.buffer[t][i] = 0.5 + (double)(rng_next(&r) >> 11) * 0x1p-53;
  }
  return m;
}

static void same(const char *what, const struct memory *a, const struct memory *b)
{
  for (int t = 0; t < TENSORS; t++)
    for (int i = 0; i < ELEMENTS; i++) {
      double x = a->buffer[t][i], y = b->buffer[t][i];
      if (isfinite(x) && fabs(x) < 1e100 && !(fabs(x - y) <= 1e-7 * (1 + fabs(x))))
        fail_msg("%s: tensor %d, element %d: %.17g, then %.17g", what, t, i, x, y);
    }
}

static struct kern read_text(struct arena *mem, const char *text)
{
  struct kern k;
  struct err e = {0};
  if (kern_parse(mem, text, &k, &e) != OK) fail_msg("%s\n%s", e.text, text);
  return k;
}

static char *text_of(struct arena *mem, const struct kern *k)
{
  struct str s = {0};
  kern_print(k, &s);
  char *text = arena_strdup(mem, str_text(&s));
  return str_free(&s), text;
}

// How often the rules did something to a copy; what is saved must stay.
static int rewritten(struct arena *mem, const char *name, const struct kern *k, unsigned rules)
{
  struct kern to = *k;
  struct memory before = filled(mem), after = filled(mem);
  char why[160] = "";
  to.save = arena_copy(mem, k->save, sizeof *k->save * (size_t)k->nsaves);
  to.v = arena_copy(mem, k->v, sizeof *k->v * (size_t)k->nvalues), to.cap = to.nvalues;
  int fired = kern_rewrite(&to, rules);
  const char *what = arena_printf(mem, "%s\n%sbecomes\n%s", name, text_of(mem, k), text_of(mem, &to));
  if (!kern_check(&to, why)) fail_msg("%s: %s", what, why);
  kern_eval(k, before.buffer), kern_eval(&to, after.buffer);
  same(what, &before, &after);
  return fired;
}

// ---- kernels made for a rule ----

#define SOFTMAX                                                                              \
  "kern {\n letters a0=4 a1=8\n loops a2=3\n"                                                \
  " v0 = load f16 t0[96] + 0 + a0*24 + a1*1 + a2*8\n v1 = max{a1} v0\n v2 = runmax{a2} v1\n" \
  " v3 = runmove{a2} v1\n v4 = sub v0 v2\n v5 = exp v4\n v6 = exp v3\n v7 = rescale{a1,a2} v5 v6\n save v7 f32 t1[4] + 0 + a0*1\n}\n"

static const struct {
  const char *rule, *text;
} made[] = {
    {"running", SOFTMAX},
    {"rsqrt", "kern {\n letters a0=4\n v0 = load f32 t0[4] + 0 + a0*1\n v1 = load f32 t1[4] + 0 + a0*1\n v2 = sqrt v1\n v3 = div v0 v2\n"
              " save v3 f32 t2[4] + 0 + a0*1\n}\n"},
    {"moments", "kern {\n letters a0=4 a1=8\n v0 = load f16 t0[32] + 0 + a0*8 + a1*1\n v1 = sum{a1} v0\n v2 = mul_scalar(0.125) v1\n v3 = sub v0 v2\n"
                " v4 = square v3\n v5 = sum{a1} v4\n save v5 f32 t2[4] + 0 + a0*1\n}\n"},
    {"reciprocal", "kern {\n letters a0=4 a1=8\n v0 = load f16 t0[32] + 0 + a0*8 + a1*1\n v1 = sum{a1} v0\n v2 = div v0 v1\n"
                   " save v2 f16 t2[32] + 0 + a0*8 + a1*1\n}\n"},
    {"limit", "kern {\n letters a0=4 a1=8\n loops a2=3\n v0 = load f16 t0[96] + 0 + a0*24 + a1*1 + a2*8\n v1 = max{a1} v0\n v2 = const -3e+38\n"
              " v3 = maximum v1 v2\n v4 = runmax{a2} v3\n v5 = runmove{a2} v3\n v6 = sub v0 v4\n v7 = exp v6\n v8 = exp v5\n"
              " v9 = rescale{a1,a2} v7 v8\n save v9 f32 t1[4] + 0 + a0*1\n}\n"},
    {"exp2", "kern {\n letters a0=4\n v0 = load f16 t0[4] + 0 + a0*1\n v1 = mul_scalar(-0.5) v0\n v2 = exp v1\n save v2 f16 t2[4] + 0 + a0*1\n}\n"},
    {"difference", "kern {\n letters a0=4 a1=8\n v0 = load f16 t0[32] + 0 + a0*8 + a1*1\n v1 = max{a1} v0\n v2 = sub v0 v1\n v3 = exp2(1.44) v2\n"
                   " save v3 f16 t2[32] + 0 + a0*8 + a1*1\n}\n"},
    {"scaled",
     "kern {\n letters a0=4 a1=8 a2=4\n v0 = load f16 t0[32] + 0 + a0*8 + a1*1\n v1 = load f16 t1[32] + 0 + a1*4 + a2*1\n"
     " v2 = mul_scalar(0.5) v0\n v3 = product{a1}{} v2 v1\n v4 = max{a2} v3\n v5 = sum{a2} v3\n v6 = add v4 v5\n save v6 f32 t2[4] + 0 + a0*1\n}\n"},
    {"sums", "kern {\n letters a0=4 a1=8\n loops a2=3\n v0 = load f16 t0[96] + 0 + a0*24 + a1*1 + a2*8\n v1 = exp v0\n v2 = sum{a2} v1\n"
             " v3 = sum{a1} v2\n save v3 f32 t2[4] + 0 + a0*1\n}\n"},
    {"constants", "kern {\n letters a0=4\n v0 = load f16 t0[4] + 0 + a0*1\n v1 = const 3\n v2 = const 0.25\n v3 = add v1 v2\n v4 = mul v0 v3\n"
                  " v5 = mul_scalar(2) v4\n v6 = add_scalar(0) v5\n v7 = const 0\n v8 = sub v6 v7\n save v8 f16 t2[4] + 0 + a0*1\n}\n"},
    {"scan", "kern {\n letters a0=4 a1=8 a2=8\n v0 = load f16 t0[32] + 0 + a0*8 + a1*1\n v1 = square v0\n v2 = load f32 i0[8] + 0 + a1*1\n"
             " v3 = load f32 i1[8] + 0 + a2*1\n v4 = less_equal v2 v3\n v5 = product{a1}{} v1 v4\n save v5 f32 t2[32] + 0 + a0*8 + a2*1\n}\n"},
    {"scan",
     "kern {\n letters a0=5 a1=8 a2=8\n v0 = load f16 t0[40] + 0 + a0*8 + a1*1\n v1 = max{a1} v0\n v2 = sub v0 v1\n v3 = load f32 i0[8] + 0 + a1*1\n"
     " v4 = load f32 i1[8] + 0 + a2*1\n v5 = less_equal v3 v4\n v6 = product{a1}{} v5 v2\n save v6 f32 t2[40] + 0 + a0*8 + a2*1\n}\n"},
    {"push",
     "kern {\n letters a0=4 a1=8\n loops a2=3\n v0 = load f16 t0[96] + 0 + a0*24 + a1*1 + a2*8\n v1 = load f16 t1[24] + 0 + a1*1 + a2*8\n"
     " v2 = sum{a1} v0\n v3 = product{a1}{} v0 v1\n v4 = sub v2 v3\n v5 = mul_scalar(2) v4\n v6 = sum{a2} v5\n save v6 f32 t2[4] + 0 + a0*1\n}\n"},
    {"lift",
     "kern {\n letters a0=4 a1=8\n v0 = load f16 t0[32] + 0 + a0*8 + a1*1\n v1 = load f16 t1[4] + 0 + a0*1\n v2 = mul v1 v0\n v3 = div v2 v1\n"
     " v4 = sum{a1} v3\n save v4 f32 t2[4] + 0 + a0*1\n}\n"},
    {"weights",
     "kern {\n letters a0=4 a1=8\n loops a2=3\n v0 = load f16 t0[96] + 0 + a0*24 + a1*1 + a2*8\n v1 = load f16 t1[24] + 0 + a1*1 + a2*8\n"
     " v2 = load f16 t2[4] + 0 + a0*1\n v3 = const 0.5\n v4 = less v3 v2\n v5 = mul v4 v0\n v6 = product{a1}{} v5 v1\n v7 = rescale{a2} v6 v2\n"
     " save v7 f32 t3[4] + 0 + a0*1\n}\n"},
    {"dot",
     "kern {\n letters a0=4 a1=8\n v0 = load f16 t0[8] + 0 + a1*1\n v1 = load f16 t1[32] + 0 + a0*1 + a1*4\n v2 = mul v0 v1\n v3 = sum{a1} v2\n"
     " save v3 f32 t2[4] + 0 + a0*1\n}\n"},
    {"select", "kern {\n letters a0=4\n v0 = load f16 t0[4] + 0 + a0*1\n v1 = load f16 t1[4] + 0 + a0*1\n v2 = const 0.25\n v3 = less v2 v1\n"
               " v4 = mask v0 v3\n v5 = mul_scalar(8) v3\n v6 = add_scalar(-8) v5\n v7 = add v4 v6\n save v7 f32 t2[4] + 0 + a0*1\n}\n"},
    {"associate", "kern {\n letters a0=4 a1=8 a2=2 a3=5\n v0 = load f16 t0[32] + 0 + a0*8 + a1*1\n v1 = load f16 t1[16] + 0 + a1*2 + a2*1\n"
                  " v2 = load f16 t2[10] + 0 + a2*5 + a3*1\n v3 = load f16 t3[40] + 0 + a1*5 + a3*1\n v4 = product{a2}{} v1 v2\n v5 = neg v4\n"
                  " v6 = add v5 v3\n v7 = product{a1}{} v0 v6\n save v7 f32 t4[20] + 0 + a0*5 + a3*1\n}\n"},
};

static void each_rule(void **state)
{
  (void)state;
  for (int r = 0; r < KERN_RULES; r++) {
    int kernels = 0;
    for (size_t i = 0; i < COUNT(made); i++) {
      struct arena mem = {0};
      enum kern_rule rule;
      assert_true(kern_rule_find(made[i].rule, &rule));
      struct kern k = read_text(&mem, made[i].text);
      int fired = rewritten(&mem, kern_rule_name((enum kern_rule)r), &k, 1u << r);
      if (rule == (enum kern_rule)r && !fired) fail_msg("%s does nothing to the kernel made for it", made[i].rule);
      kernels += rule == (enum kern_rule)r;
      rewritten(&mem, "all rules", &k, ~0u);
      arena_close(&mem);
    }
    if (!kernels) fail_msg("no kernel is made for rule %s", kern_rule_name((enum kern_rule)r));
  }
}

// ---- random kernels ----

static int pick(struct rng *r, int n) { return (int)(rng_next(r) % (unsigned)n); }
static int recent(const struct kern *k, struct rng *r) { return k->nvalues - 1 - pick(r, MIN(k->nvalues, 4)); }

static int random_load(struct kern *k, struct rng *r)
{
  struct kern_access at = {.tensor = pick(r, 3), .type = F16, .elements = ELEMENTS, .offset = pick(r, 8)};
  int64_t n = 1;
  for (int a = k->naxes; a-- > 0;)
    if (pick(r, 3)) at.stride[a] = n, n *= k->extent[a];
  return kern_load(k, &at, 0);
}

// Operators without poles in what is computed here, which is mostly positive.
static int random_map(struct kern *k, struct rng *r)
{
  static const int ops[] = {OP_ADD, OP_SUB, OP_MUL, OP_DIV, OP_SQUARE, OP_NEG, OP_MUL_SCALAR, OP_ADD_SCALAR, OP_TANH, OP_EXP, OP_SQRT, OP_MAXIMUM};
  int op = ops[pick(r, COUNT(ops))], x = recent(k, r), y = recent(k, r);
  struct attrs a = {.scalar = 0.25 * (1 + pick(r, 6))};
  if (op == OP_SQRT || op == OP_EXP) x = kern_map(k, OP_TANH, NULL, kern_map(k, OP_SQUARE, NULL, x, -1, 0), -1, 0);
  if (op == OP_DIV) y = kern_map(k, OP_ADD_SCALAR, &a, kern_map(k, OP_SQUARE, NULL, y, -1, 0), -1, 0);
  if (op == OP_DIV && pick(r, 2)) y = kern_map(k, OP_SQRT, NULL, y, -1, 0);
  return kern_map(k, op, &a, x, y, 0);
}

static int index_along(struct kern *k, int axis)
{
  struct kern_access at = {.type = F32, .index = true, .elements = k->extent[axis]};
  at.stride[axis] = 1;
  return kern_load(k, &at, 0);
}

// A product with a triangle, where two axes are as long as one another.
static int random_scan(struct kern *k, struct rng *r, int x)
{
  const int a = pick(r, k->naxes), b = pick(r, k->naxes);
  if (a == b || k->extent[a] != k->extent[b]) return random_map(k, r);
  const int triangle = kern_map(k, OP_LESS_EQUAL, NULL, index_along(k, a), index_along(k, b), 0);
  return kern_add(k, (struct kern_value){.kind = KERN_PRODUCT, .nin = 2, .in = {x, triangle}, .folded = AXIS(a)});
}

static int random_value(struct kern *k, struct rng *r)
{
  int x = recent(k, r), y = recent(k, r);
  axis_set some = rng_next(r) & (AXIS(k->naxes) - 1);
  switch (pick(r, 9)) {
  case 0: return random_load(k, r);
  case 1: return kern_const(k, 0.5 * pick(r, 4), 0);
  case 2: return kern_fold(k, KERN_SUM, x, some, 0);
  case 3: return kern_fold(k, KERN_MAX, x, some, 0);
  case 4: return kern_add(k, (struct kern_value){.kind = KERN_PRODUCT, .nin = 2, .in = {x, y}, .folded = some});
  case 5: return kern_fold(k, KERN_SUM, kern_map(k, OP_MUL, NULL, x, y, 0), some, 0);
  case 6: return random_scan(k, r, x);
  default: return random_map(k, r);
  }
}

static struct kern random_kern(struct arena *mem, uint64_t seed)
{
  struct rng r = {seed};
  struct kern k = {.mem = mem, .naxes = 4, .letters = 7, .loops = 8};
  for (int a = 0; a < KERN_AXES; a++) k.extent[a] = a < 4 ? 2 + pick(&r, 3) : 1;
  random_load(&k, &r);
  for (int n = 3 + pick(&r, 12); n > 0; n--) random_value(&k, &r);
  k.nsaves = 2, k.save = NEWS(mem, struct kern_save, 2);
  for (int i = 0; i < 2; i++) {
    struct kern_access at = {.tensor = 4 + i, .type = F32, .elements = ELEMENTS};
    int v = k.nvalues - 1 - pick(&r, MIN(k.nvalues, 2));
    int64_t n = 1;
    for (int a = k.naxes; a-- > 0;)
      if (k.v[v].axes >> a & 1) at.stride[a] = n, n *= k.extent[a];
    k.save[i] = (struct kern_save){v, k.v[v].axes, at, 0};
  }
  return k;
}

static void random_kernels(void **state)
{
  (void)state;
  int fired[KERN_RULES] = {0};
  for (uint64_t seed = 1; seed <= RANDOM; seed++) {
    struct arena mem = {0};
    char why[160] = "";
    struct kern k = random_kern(&mem, seed);
    if (!kern_check(&k, why)) fail_msg("seed %llu: %s\n%s", (unsigned long long)seed, why, text_of(&mem, &k));
    for (int r = 0; r < KERN_RULES; r++) fired[r] += rewritten(&mem, kern_rule_name((enum kern_rule)r), &k, 1u << r);
    rewritten(&mem, "all rules", &k, ~0u);
    arena_close(&mem);
  }
  for (int r = 0; r < KERN_RULES; r++) { // random kernels have no running maxima, no variances, no conditions on rows and no `keep`
    if (!fired[r] &&
        !((KERN_BIT(RUNNING) | KERN_BIT(LIMIT) | KERN_BIT(MOMENTS) | KERN_BIT(DIFFERENCE) | KERN_BIT(SUMS) | KERN_BIT(WEIGHTS) | KERN_BIT(SELECT)) >>
              r &
          1))
      fail_msg("%s never did anything", kern_rule_name((enum kern_rule)r));
  }
}

// ---- text, checker ----

static void text_reads_back(void **state)
{
  (void)state;
  for (uint64_t seed = 1; seed <= RANDOM + COUNT(made); seed++) {
    struct arena mem = {0};
    struct kern k = seed > RANDOM ? read_text(&mem, made[seed - RANDOM - 1].text) : random_kern(&mem, seed), again;
    const char *text = text_of(&mem, &k);
    again = read_text(&mem, text);
    assert_string_equal(text_of(&mem, &again), text);
    arena_close(&mem);
  }
}

// Rows of t1 at 2 t0, stored at the rows t2 of t3.
#define CHOSEN                                                                                                                            \
  "kern {\n  letters a0=3 a1=4\n  v0 = load i32 t0[3] + 0 + a0*1\n  v1 = add v0 v0\n  v2 = chosen f32 t1[20] + 0 + a1*1 + at0*4 < 5 v1\n" \
  "  v3 = exp v2\n  v4 = load i32 t2[3] + 0 + a0*1\n  v5 = placed v3 v4\n  save v5 f32 t3[24] + 0 + a1*1 + at0*4 < 6\n}\n"

static void chosen_elements(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct kern k = read_text(&mem, CHOSEN);
  assert_string_equal(text_of(&mem, &k), CHOSEN);
  for (int way = 0; way < 2; way++) {
    struct memory m = filled(&mem);
    static const double from[3] = {1, 2, 3}, to[3] = {5, -1, 0}; // 2 * 3 is outside, and -1
    for (int i = 0; i < 3; i++) m.buffer[0][i] = from[i], m.buffer[2][i] = to[i];
    for (int i = 0; i < 24; i++) m.buffer[3][i] = 7;
    if (way) kern_rewrite(&k, ~0u), kern_join_axes(&k);
    kern_eval(&k, m.buffer);
    for (int i = 0; i < 24; i++) {
      double want = i / 4 == 5 ? exp(m.buffer[1][8 + i % 4]) : i / 4 == 0 ? 1 : 7;
      if (!(fabs(m.buffer[3][i] - want) <= 1e-12 * want)) fail_msg("way %d, element %d: %g, not %g", way, i, m.buffer[3][i], want);
    }
  }
  arena_close(&mem);
}

// The two largest of each column of t0, and their rows, before and after the two axes that number rows are one.
#define TOP                                                                                                                        \
  "kern {\n  letters a0=2 a1=3 a2=4\n  v0 = load f32 t0[24] + 0 + a0*12 + a1*4 + a2*1\n"                                           \
  "  v1 = top i32 i0[6] + 0 + a0*3 + a1*1 + at0*0 < 2{a0,a1} v0\n  v2 = topat i32 i0[6] + 0 + a0*3 + a1*1 + at0*0 < 2{a0,a1} v0\n" \
  "  save v1 f32 t1[8] + 0 + a2*1 + at0*4 < 2\n  save v2 i32 t2[8] + 0 + a2*1 + at0*4 < 2\n}\n"

static void largest_elements(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct kern k = read_text(&mem, TOP);
  assert_string_equal(text_of(&mem, &k), TOP);
  for (int way = 0; way < 2; way++) {
    struct memory m = filled(&mem);
    static const double x[6][4] = {{1, NAN, 2, 0}, {5, 1, 2, 0}, {1, 2, 2, 0}, {5, 3, 1, -1}, {4, 4, 0, 1}, {0, 5, 0, 0}};
    static const double want[4][4] = {{5, NAN, 2, 1}, {5, 5, 2, 0}, {1, 0, 0, 4}, {3, 5, 1, 0}}; // largest, next, their rows
    memcpy(m.buffer[0], x, sizeof x);
    if (way) kern_rewrite(&k, ~0u), kern_join_axes(&k);
    assert_int_equal(k.naxes, way ? 2 : 3);
    kern_eval(&k, m.buffer);
    for (int i = 0; i < 16; i++) {
      const double got = m.buffer[1 + i / 8][i % 8], w = want[i / 4][i % 4];
      if (got != w && !(isnan(got) && isnan(w))) fail_msg("way %d, result %d: %g, not %g", way, i, got, w);
    }
  }
  arena_close(&mem);
}

static void bad_texts(void **state)
{
  (void)state;
  static const struct {
    const char *text, *what;
  } bad[] = {
      {"", "expected kern"},
      {"kern { letters a0=0 }", "an integer in range"},
      {"kern { letters a99=2 }", "an integer in range"},
      {"kern { letters a0=2\n v1 = const 1 }", "the next number"},
      {"kern { letters a0=2\n v0 = foo v0 }", "an operator"},
      {"kern { letters a0=2\n v0 = matmul v0 }", "an operator"},
      {"kern { letters a0=2\n v0 = exp v0 }", "an integer in range"},
      {"kern { letters a0=2\n v0 = load f99 t0[1] + 0 }", "a dtype"},
      {"kern { letters a0=2\n v0 = load f16 t0[2] + 1 + a0*1 }", "outside of its buffer"},
      {"kern { letters a0=2\n v0 = const 1\n v1 = sum{a0} v0 }", "folds what its operand does not have"},
      {"kern { letters a0=2\n v0 = load f16 t0[2] + 0 + a0*1\n v1 = sum{} v0 }", "folds nothing"},
      {"kern { letters a0=2\n v0 = load f16 t0[2] + 0 + a0*1\n v1 = runmax{a0} v0 }", "runs over no loop"},
      {"kern { letters a0=2\n v0 = const 1\n save v0 f16 t0[2] + 0 + a0*1 }", "other axes than its value"},
      {"kern { letters a0=2\n v0 = const 1", "expected"},
      {"kern { letters a0=2\n v0 = const 1\n v1 = chosen f16 t0[4] + 0 + a0*1 v0 }", "an index without a limit"},
      {"kern { letters a0=2\n v0 = const 1\n v1 = chosen f16 t0[4] + 0 + a0*1 + at0*2 < 3 v0 }", "outside of its buffer"},
      {"kern { letters a0=2\n v0 = load f16 t0[2] + 0 + a0*1\n v1 = placed v0 v0\n v2 = exp v1 }", "a placed value as an operand"},
      {"kern { letters a0=2\n v0 = load f16 t0[2] + 0 + a0*1\n v1 = top i32 i0[2] + 0 + a0*1 + at0*0 < 1{a0} v0\n v2 = exp v1 }", "what was chosen"},
      {"kern { letters a0=2\n v0 = load f16 t0[2] + 0 + a0*1\n v1 = top i32 i0[2] + 0 + a0*1 + at0*0 < 3{a0} v0 }", "more than there is"},
      {"kern { letters a0=2\n v0 = load f16 t0[2] + 0 + a0*1\n v1 = top i32 i0[2] + 0 + a0*1 + at0*0 < 1{a0} v0\n save v1 f16 t1[2] + 0 }",
       "without a limit"},
      {"kern { letters a0=2\n v0 = load f16 t0[2] + 0 + a0*1\n v1 = placed v0 v0\n save v1 f16 t1[2] + 0 + a0*1 }", "without a limit"},
  };
  for (size_t i = 0; i < COUNT(bad); i++) {
    struct arena mem = {0};
    struct kern k;
    struct err e = {0};
    assert_int_equal(kern_parse(&mem, bad[i].text, &k, &e), USER);
    if (!strstr(e.text, bad[i].what)) fail_msg("%s: %s", bad[i].text, e.text);
    arena_close(&mem);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(each_rule),       cmocka_unit_test(random_kernels),   cmocka_unit_test(text_reads_back),
                                     cmocka_unit_test(chosen_elements), cmocka_unit_test(largest_elements), cmocka_unit_test(bad_texts)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

// Run-time extents. For each value the results are those of the program with that fixed extent, for any content of the padding. Printed texts are
// read back unchanged. Wrong declarations are errors.
#include "eval/eval.h"
#include "front/front.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { BOUND = 12 };

static int parse(struct arena *mem, const char *text, struct graph **g, struct err *e)
{
  return front_parse(mem, text, strlen(text), "test", 0, NULL, g, e);
}

// `bound` is the bound, and n in the fixed program. Bodies over X: f32[n, 4], Y: f32[n, 4], W: f32[4, 3], V: f32[n], T: i32[n] < 5, M: f32[4, n].
static const char *const bodies[] = {
    "X * 2 + exp(Y)",
    "sum(X, dim=0)",
    "sum(exp(X), dim=0) / n",
    "mean(X, dim=0)",
    "mean(square(X), dim=0) + max(Y, dim=0)",
    "max(-abs(X), dim=0)",
    "min(abs(X), dim=0)",
    "prod(X, dim=0)",
    "matmul(X, W)",
    "matmul(transpose(X), Y)",
    "matmul(transpose(exp(X)), 1 / Y)",
    "matmul(X, transpose(Y))",
    "softmax(X, dim=0)",
    "softmax(transpose(X), dim=1)",
    "softmax(transpose(X), M, dim=1)",
    "softmax(transpose(X), M * 0 - 3e38, dim=1)",
    "softmax(transpose(X), (M < 0) * -3e38, dim=1)",
    "softmax(transpose(X), log(M < 0), dim=1)",
    "matmul(softmax(matmul(X, transpose(Y)), dim=1), X)",
    "softmax_where(matmul(X, transpose(Y)), iota([n]) <= iota([n, 1]), dim=1)",
    "matmul(softmax_where(matmul(X, transpose(Y)), iota([n]) <= iota([n, 1]), dim=1), log(abs(X)))",
    "logsumexp(X, dim=0)",
    "rms_norm(transpose(X), V, eps=1e-5)",
    "layer_norm(transpose(X), V)",
    "rms_norm(X)",
    "cumsum(X, dim=0)",
    "cumsum(transpose(X), dim=1)",
    "argmax(X, dim=0)",
    "argmax(-abs(X), dim=0)",
    "reshape(sum(reshape(X, [n, 2, 2]), dim=0), [4])",
    "sum(reshape(X, [n, 2, 2]), dim=2)",
    "X[n - 1]",
    "X[0:1] + Y[0]",
    "sum(iota([n]) * V, dim=0)",
    "sum(iota([n]), dim=0)",
    "sum(iota([n, 4]), dim=0)",
    "sum(n * iota([4, 1]) + iota([n]), dim=1)",
    "where(V < 0, V, n)",
    "W[T, :][:, 0:2]",
    "sum(one_hot(T, extent=5), dim=0)",
    "sum(T, dim=0)",
    "max(T, dim=0)",
    "sum(where(iota([5]) == reshape(T, [n, 1]), 1, 0), dim=0)",
    "V / n",
    "concat(X, Y, dim=1)",
    "sum(concat(reshape(iota([bound]), [bound, 1]), X, dim=1), dim=0)",
    "softmax(exp(-(iota([bound]) + iota([2, 1]))), M[0:2], dim=1)",
    "softmax(exp(-(iota([bound]) + iota([2, 1]))), B[0:2], dim=1)",
    "softmax_where(exp(-(iota([bound]) + iota([2, 1]))), M[0:2] < 0, dim=1)",
    "layer_norm(iota([bound]) + iota([2, 1]), V)",
    "matmul(reshape(1 / (n - iota([bound])), [1, bound]), X)",
    "matmul(reshape(iota([bound]), [1, bound]) < 3, X)",
    "sum(chunk(X, dim=1, parts=2, index=1), dim=0)",
    "sum(repeat(X, dim=1, times=2), dim=0)",
};

static const char *text_of(struct arena *mem, const char *body, int n)
{
  return arena_printf(
      mem,
      "program p(%s) {\n%s  X: f32[n, 4]\n  Y: f32[n, 4]\n  W: f32[4, 3]\n  V: f32[n]\n  T: i32[n] < 4\n  M: f32[4, n]\n  B: bool[4, n]\n  bound = "
      "%d\n  return %s\n}\n",
      n ? arena_printf(mem, "n = %d", n) : "", n ? "" : arena_printf(mem, "  n: dim <= %d\n", BOUND), n ? n : BOUND, body);
}

static struct graph *plain(struct arena *mem, const char *text)
{
  struct err e = {0};
  struct graph *g;
  if (parse(mem, text, &g, &e) || graph_expand(mem, g, true, &g, &e)) {
    err_print(stderr, &e);
    fail_msg("%s", text);
  }
  return g;
}

static double *evaluate(struct arena *mem, const struct graph *g, void **inputs)
{
  struct err e = {0};
  void *out[1];
  if (eval_run(mem, g, DOM_F64, NULL, inputs, out, NULL, &e)) {
    err_print(stderr, &e);
    fail();
  }
  return out[0];
}

// The inputs of the fixed program within those of the other, whose padding is random, large or whole.
static void padded(struct arena *mem, const struct graph *g, const struct graph *fixed, int n, void *const *from, void **to)
{
  int in[16], at[16], count = graph_inputs(g, in);
  graph_inputs(fixed, at);
  eval_random(mem, g, DOM_F64, NULL, 7, to);
  *(double *)to[0] = n;
  for (int i = 1; i < count; i++) {
    const struct tensor *t = &g->tensors[in[i]];
    for (int64_t k = 0; k < shape_size(&t->shape) && !num_whole(t->dtype); k++) ((double *)to[i])[k] *= 1e4;
    extents_spread(&t->shape, &fixed->tensors[at[i - 1]].shape, sizeof(double), to[i], from[i - 1]);
  }
}

static void test_values(void **state)
{
  (void)state;
  for (size_t b = 0; b < COUNT(bodies); b++)
    for (int n = 1; n <= BOUND; n += n < 4 ? 1 : 4) {
      struct arena mem = {0};
      struct graph *g = plain(&mem, text_of(&mem, bodies[b], 0)), *fixed = plain(&mem, text_of(&mem, bodies[b], n));
      void *inputs[16], *wide[16];
      int out[1], want_out[1];
      eval_random(&mem, fixed, DOM_F64, NULL, 3, inputs);
      padded(&mem, g, fixed, n, inputs, wide);
      double *want = evaluate(&mem, fixed, inputs), *all = evaluate(&mem, g, wide);
      graph_outputs(g, out), graph_outputs(fixed, want_out);
      const struct shape *shape = &fixed->tensors[want_out[0]].shape;
      struct extent_values x = {.value = {0, n}};
      const struct shape is = extents_shape(&x, &g->tensors[out[0]]);
      if (!shape_eq(&is, shape)) fail_msg("%s: the result has another shape where n is %d", bodies[b], n);
      double *have = NEWS(&mem, double, shape_size(shape));
      extents_gather(&g->tensors[out[0]].shape, shape, sizeof(double), have, all);
      for (int64_t i = 0; i < shape_size(shape); i++)
        if (!(fabs(have[i] - want[i]) <= 1e-9 * fmax(1, fabs(want[i]))))
          fail_msg("%s: element %d is %g, not %g, where n is %d", bodies[b], (int)i, have[i], want[i], n);
      arena_close(&mem);
    }
}

static void test_text(void **state)
{
  (void)state;
  for (size_t b = 0; b < COUNT(bodies); b++) {
    struct arena mem = {0};
    struct err e = {0};
    struct graph *g, *again, *json;
    struct str text = {0}, as_json = {0};
    assert_int_equal(parse(&mem, text_of(&mem, bodies[b], 0), &g, &e), OK);
    graph_print(g, &text), graph_to_json(g, &as_json);
    if (parse(&mem, str_text(&text), &again, &e)) fail_msg("%s: %s", str_text(&text), e.text);
    if (graph_from_json(&mem, str_text(&as_json), as_json.n, "json", &json, &e)) fail_msg("%s: %s", str_text(&as_json), e.text);
    if (!graph_same(g, again)) fail_msg("%s: reads back as another graph:\n%s", bodies[b], str_text(&text));
    assert_true(graph_same(g, json));
    for (int t = 0; t < g->ntensors; t++) assert_memory_equal(g->tensors[t].runs, json->tensors[t].runs, sizeof g->tensors->runs);
    str_free(&text), str_free(&as_json);
    arena_close(&mem);
  }
}

static const struct {
  const char *text;
  enum errid id;
  int line;
  const char *says, *hint;
} mistakes[] = {
    {"n: dim\nreturn n", ERR_SYNTAX, 2, "the bound of a run-time extent", "dim <= 4096"},
    {"n: dim <= 1\nreturn n", ERR_EXTENT, 2, "its bound at least 2", ""},
    {"n: dim >= 9 <= 8\nreturn n", ERR_EXTENT, 2, "from 9 to 8", ""},
    {"n: dim <= 8\nX: f32[2 * n]\nreturn X", ERR_EXTENT, 3, "not a tensor", "stands alone"},
    {"n: dim <= 8\nX: f32[n]\nY: f32[8]\nreturn X + Y", ERR_SHAPE, 5, "[n] and [8]", "x[:n]"},
    {"n: dim <= 8\nm: dim <= 8\nX: f32[n]\nY: f32[m]\nreturn X + Y", ERR_SHAPE, 6, "run-time extents differ", ""},
    {"n: dim <= 8\nX: f32[2, n]\nY: f32[8, 3]\nreturn matmul(X, Y)", ERR_SHAPE, 5, "matmul of [2, n] and [8, 3]", ""},
    {"n: dim <= 8\nX: f32[n, 2]\nreturn concat(X, X, dim=0)", ERR_EXTENT, 4, "concat along dimension 0", "in the middle"},
    {"n: dim <= 8\nX: f32[n, 2]\nreturn split(X, dim=0, parts=2)", ERR_EXTENT, 4, "split along dimension 0", "no fixed number"},
    {"n: dim <= 8\nX: f32[n, 2]\nreturn repeat(X, dim=0, times=2)", ERR_EXTENT, 4, "repeat along", ""},
    {"n: dim <= 8\nX: f32[n, 2]\nreturn X[2:4]", ERR_EXTENT, 4, "slice along", "n: dim >= 8"},
    {"n: dim <= 8\nX: f32[n, 2]\nreturn X[1:n]", ERR_EXTENT, 4, "begins at 0", ""},
    {"n: dim <= 8\nX: f32[n, 2]\nreturn reshape(X, [16])", ERR_SHAPE, 4, "reshape of [n, 2]", "name it in the new shape"},
    {"n: dim <= 8\nX: f32[n, 2]\nreturn sum(X, dim=0, group=2)", ERR_EXTENT, 4, "sum along", "groups"},
    {"n: dim <= 8\nX: f32[n, 2]\nv, i = topk(X, k=3, dim=0)\nreturn v", ERR_EXTENT, 4, "topk along", "n: dim >= 8"},
    {"n: dim <= 8\nK: f32[n, 2] state\nk: f32[1, 2]\nK[0:1] = k\nreturn k", ERR_EXTENT, 3, "a state", "K[:, :n]"},
    {"n: dim <= 8\nt: i32[n] < 8, distinct\nreturn t", ERR_EXTENT, 3, "distinct", ">= -1"},
    {"at: i32[4] >= -1 < 63, distinct\nK: f32[64, 2] state\nk: f32[4, 2]\nK[at + 1] = k\nreturn k", ERR_REPEATED_INDEX, 5, "not known to be distinct",
     ""},
    {"n: dim <= 8\nreturn sum(iota([4, n]), dim=1)", ERR_EXTENT, 3, "over 4 rows", "iota([4, 1])"},
    {"n: dim <= 8\nX: f32[n]\nM: f32[2, n]\nreturn softmax(X, M, dim=0)", ERR_SHAPE, 5, "does not broadcast", ""},
    {"n: dim <= 8\nX: f32[n]\nt: i32[2] < 8, distinct\nY: f32[1, 1, 1, 1, 1, 1, 1, n]\nreturn update(X, t, Y, dim=0)", ERR_STATE_SHAPE, 6,
     "update of", ""},
    {"at: i32[4] >= -1 < 63, distinct\nK: f32[64, 2] state\nk: f32[2, 2]\na, b = split(at, dim=0, parts=2)\nK[a + 1] = k\nreturn k",
     ERR_REPEATED_INDEX, 6, "not known to be distinct", ""},
    {"at: i32[4] >= -1 < 63, distinct\nK: f32[64, 2] state\nk: f32[4, 2]\nK[floor(at) + 1] = k\nreturn k", ERR_REPEATED_INDEX, 5,
     "not known to be distinct", ""},
    {"at: i32[4] >= -1 < 63, distinct\nK: f32[64, 2] state\nk: f32[4, 2]\nb = at + 0\nK[b + 1] = k\nreturn k", ERR_REPEATED_INDEX, 6,
     "not known to be distinct", ""},
    {"at: i32[4] >= -1 < 63, distinct\nK: f32[64, 2] state\nk: f32[4, 2]\nb = 0 + at\nK[b + 1] = k\nreturn k", ERR_REPEATED_INDEX, 6,
     "not known to be distinct", ""},
    {"n: dim <= 8\nX: f32[2, n]\nreturn transpose(X, perm=[n, 0])", ERR_ATTRIBUTE, 4, "not a tensor", ""},
    {"world 2\nn: dim <= 8\nreturn n", ERR_WORLD, 3, "several devices", ""},
};

static void test_mistakes(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(mistakes); i++) {
    struct arena mem = {0};
    struct err e = {0};
    struct graph *g;
    const char *text = arena_printf(&mem, "program p() {\n%s\n}\n", mistakes[i].text);
    assert_int_equal(parse(&mem, text, &g, &e), USER);
    if (e.id != mistakes[i].id || e.at.line != mistakes[i].line || !strstr(e.text, mistakes[i].says)) {
      err_print(stderr, &e);
      fail_msg("%s", text);
    }
    if (!strstr(e.hint, mistakes[i].hint)) fail_msg("the hint of %s is %s", text, e.hint);
    arena_close(&mem);
  }
}

// A product of itself, of that, and so on reaches its factors on very many ways.
static void test_many_ways(void **state)
{
  (void)state;
  static const char *const parts[][2] = {{"softmax(X, dim=0)", "sum(a80, dim=0)"}, {"M < 0", "softmax_where(transpose(X), a80, dim=1)"}};
  for (size_t k = 0; k < COUNT(parts); k++) {
    struct arena mem = {0};
    struct err e = {0};
    struct graph *g;
    struct str text = {0};
    str_add(&text, "program p() {\n n: dim <= 8\n X: f32[n, 4]\n M: f32[4, n]\n a0 = %s\n", parts[k][0]);
    for (int i = 1; i <= 80; i++) str_add(&text, " a%d = a%d * a%d\n", i, i - 1, i - 1);
    str_add(&text, " return %s\n}\n", parts[k][1]);
    if (parse(&mem, str_text(&text), &g, &e)) fail_msg("%s", e.text);
    assert_int_equal(graph_outputs(g, NULL), 1);
    str_free(&text);
    arena_close(&mem);
  }
}

static double kept_number(const struct graph *g)
{
  double c = NAN;
  for (int i = 0; i < g->nnodes; i++)
    if (g->nodes[i].op == OP_KEEP) c = g->nodes[i].a.scalar;
  return c;
}

// In another dtype padding is its largest number; a number that the user wrote stays.
static void test_cast(void **state)
{
  (void)state;
  static const struct {
    const char *text;
    bool padding;
  } programs[] = {
      {"program p() {\n n: dim <= 8\n X: f32[n]\n return max(X, dim=0)\n}", true},
      {"program p() {\n n: dim <= 8\n X: f32[8]\n return where(iota([8]) < n, X, -1e38)\n}", false},
      {"program p() {\n X: f32[8]\n C: f32[8]\n return where(X < C, X, -3.4028234663852886e+38)\n}", false},
  };
  for (size_t i = 0; i < COUNT(programs); i++) {
    struct arena mem = {0};
    struct err e = {0};
    struct graph *g = plain(&mem, programs[i].text), *cast;
    const double was = kept_number(g), low = -dtype_largest(F16);
    if (graph_cast(&mem, g, F16, &cast, &e)) fail_msg("%s: %s", programs[i].text, e.text);
    const double want = programs[i].padding ? low : was, is = kept_number(cast);
    if (!(is >= want && is <= want)) fail_msg("%s: %g becomes %g", programs[i].text, was, is);
    arena_close(&mem);
  }
}

// Numbers drawn for an extent are whole and in its range, in every domain that has such numbers, and reach both ends.
static void test_drawn(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct err e = {0};
  struct graph *g;
  bool seen[7] = {false};
  assert_int_equal(parse(&mem, "program p() {\n n: dim >= 3 <= 6\n X: f32[n]\n return sum(X, dim=0)\n}", &g, &e), OK);
  for (uint64_t seed = 0; seed < 100; seed++) {
    void *inputs[2];
    eval_random(&mem, g, DOM_F64, NULL, seed, inputs);
    const double n = *(double *)inputs[0];
    assert_true(n == rint(n) && n >= 3 && n <= 6);
    seen[(int)n] = true;
  }
  for (int n = 3; n <= 6; n++) assert_true(seen[n]);
  arena_close(&mem);
}

// A step writes n rows into a state, and reads as many; -1 drops the others.
static void test_state(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct graph *g = plain(&mem, "program p() {\n n: dim <= 4\n at: i32[1] <= 4\n k: f32[n, 2]\n K: f32[8, 2] state\n K[at + iota([n])] = k\n"
                                "return sum(K[:n], dim=0)\n}");
  double n = 2, at = 1, k[] = {1, 2, 3, 4, NAN, 6, 7, 8}, K[16];
  for (int i = 0; i < 16; i++) K[i] = 100 + i;
  void *inputs[] = {&n, &at, k, K}, *out[2];
  struct err e = {0};
  assert_int_equal(eval_run(&mem, g, DOM_F64, NULL, inputs, out, NULL, &e), OK);
  const double *sum = out[0], *left = out[1];
  const double want[] = {100, 101, 1, 2, 3, 4, 106, 107, 108, 109, 110, 111, 112, 113, 114, 115};
  assert_true(sum[0] == 101 && sum[1] == 103);
  assert_memory_equal(left, want, sizeof want);
  arena_close(&mem);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_values),    cmocka_unit_test(test_text), cmocka_unit_test(test_mistakes),
                                     cmocka_unit_test(test_many_ways), cmocka_unit_test(test_cast), cmocka_unit_test(test_drawn),
                                     cmocka_unit_test(test_state)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

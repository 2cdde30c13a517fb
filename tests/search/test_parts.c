// split, concat and slices in the search: elementwise operators and reductions around them are one kernel, by rule or by the search of the core,
// in which parts of inputs are inputs; each kernel graph is proved and computes what the program does.
#include "examples.h"
#include "graphs.h"
#include "search/space.h"
#include "verify/verify.h"

static struct graph *plain(struct arena *mem, const char *text)
{
  struct err e = {0};
  struct graph *g, *p;
  const char *all = arena_printf(mem, "program p() {\n %s\n}\n", text);
  if (front_parse(mem, all, strlen(all), "test", 0, NULL, &g, &e) || graph_expand(mem, g, false, &p, &e)) fail_msg("%s\n%s", e.text, all);
  return p;
}

static int nodes_of(const struct graph *g, enum op op)
{
  int n = 0;
  for (int i = 0; i < g->nnodes; i++) n += g->nodes[i].op == op;
  return n;
}

static bool only_views_and_blocks(const struct graph *g)
{
  for (int i = 0; i < g->nnodes; i++) {
    enum rule r = op_rows[g->nodes[i].op].rule;
    if (r != RULE_IO && r != RULE_CONST && r != RULE_VIEW && r != RULE_SPLIT && r != RULE_GRAPH) return false;
  }
  return true;
}

// One of them in a kernel, which reads parts of inputs and stores parts of outputs where they are.
static const struct {
  const char *name, *text;
} fused[] = {
    {"rotary in halves", "X: f16[64, 4, 24]\n c: f16[64, 1, 12]\n s: f16[64, 1, 12]\n a, e = split(X, dim=2, parts=2)\n"
                         " return concat(a * c - e * s, a * s + e * c, dim=2)"},
    {"rotary in pairs", "X: f16[64, 4, 24]\n c: f16[64, 1, 12]\n s: f16[64, 1, 12]\n a, e = split(reshape(X, [64, 4, 12, 2]), dim=3, parts=2)\n"
                        " f = reshape(a, [64, 4, 12])\n g = reshape(e, [64, 4, 12])\n return reshape(concat(reshape(f * c - g * s, [64, 4, 12, 1]), "
                        "reshape(f * s + g * c, [64, 4, 12, 1]), dim=3), [64, 4, 24])"},
    {"odd halves, joined with more", "X: f16[64, 14]\n a, e = split(X, dim=1, parts=2)\n return X * 2 + concat(-e, a, dim=1)"},
    {"a norm before", "X: f16[64, 2, 16]\n w: f16[16]\n c: f16[64, 1, 8]\n a, e = split(rms_norm(X, w, eps=0.000001), dim=2, parts=2)\n"
                      " return concat(a * c - e, a + e * c, dim=2)"},
    {"a norm behind", "X: f16[64, 16]\n a, e = split(X, dim=1, parts=2)\n return rms_norm(concat(silu(a), e, dim=1))"},
    {"gates", "X: f16[32, 48]\n Z: f16[32, 12]\n i, f, g, o = split(X + 1, dim=1, parts=4)\n"
              " return sigmoid(o) * tanh(sigmoid(f) * Z + sigmoid(i) * tanh(g))"},
    {"unequal parts of what is computed",
     "X: f16[64, 2, 24]\n c: f16[64, 1, 4]\n x = exp(X)\n a = slice(x, dim=2, start=0, end=4)\n e = slice(x, dim=2, start=4, end=8)\n"
     " return concat(a * c - e, a + e * c, slice(x, dim=2, start=8, end=24), dim=2)"},
    {"slices of an input", "X: f16[32, 227]\n return silu(slice(X, dim=1, start=0, end=100)) * slice(X, dim=1, start=127, end=227)"},
    {"heads turned", "X: f16[4, 16, 24]\n c: f16[16, 4]\n q = transpose(reshape(X, [4, 16, 3, 8]), perm=[0, 2, 1, 3])\n"
                     " a, e = split(q, dim=3, parts=2)\n return concat(a * c - e, e * c + a, dim=3)"},
};

static void check_found(const char *name, const struct graph *p, const struct graph *g)
{
  char why[160] = "";
  struct err e = {0};
  if (!only_views_and_blocks(g)) fail_msg("%s: an operator has a kernel of its own", name);
  if (graph_check(g, &e)) fail_msg("%s: %s", name, e.text);
  if (!verify_prove(p, g, why)) fail_msg("%s: not proved: %s", name, why);
  assert_same_function(name, p, g);
}

static void one_kernel(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(fused); i++) {
    struct arena mem = {0};
    const struct graph *p = plain(&mem, fused[i].text);
    struct search_opts o = {.threads = 1, .seed = 7};
    struct search_result r;
    struct err e = {0};
    assert_int_equal(search_run(&mem, p, &machine, &o, &r, &e), OK);
    if (!r.n) fail_msg("%s: %s", fused[i].name, r.why);
    assert_int_equal(nodes_of(r.found[0].g, OP_BLOCK), 1);
    for (int k = 0; k < r.n && k < 3; k++) check_found(fused[i].name, p, r.found[k].g);
    assert_true(search_easy_ops(p, &o) >= 0);
    arena_close(&mem);
  }
}

// Attention of parts of one input: the core has three inputs, and graphs of the program have its one.
static void packed(void **state)
{
  (void)state;
  struct arena mem = {0};
  const struct graph *p = plain(&mem, "X: f16[2, 16, 72]\n q, k, v = split(transpose(reshape(X, [2, 16, 9, 8]), perm=[0, 2, 1, 3]), dim=1, parts=3)\n"
                                      " return matmul(softmax(matmul(q, transpose(k)), dim=3), v)");
  struct stem s;
  struct search_opts o = {.threads = 1, .seed = 7};
  struct search_result r;
  struct err e = {0};
  assert_true(stem_of(&mem, p, &s));
  assert_int_equal(graph_inputs(s.core, NULL), 3);
  assert_int_equal(nodes_of(s.core, OP_SPLIT), 0);
  assert_int_equal(search_run(&mem, p, &machine, &o, &r, &e), OK);
  assert_true(r.n > 0);
  for (int k = 0; k < r.n && k < 3; k++) {
    char why[160];
    assert_int_equal(graph_inputs(r.found[k].g, NULL), 1);
    assert_true(verify_prove(p, r.found[k].g, why));
  }
  arena_close(&mem);
}

static void no_stem(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct stem s;
  assert_false(stem_of(&mem, plain(&mem, "X: f16[4, 8]\n return exp(X)"), &s));
  assert_false(stem_of(&mem, plain(&mem, "X: f16[4, 8]\n a, b = split(exp(X), dim=1, parts=2)\n return a * b"), &s));
  assert_false(fuse_parts_can(plain(&mem, "X: f16[4, 8]\n return exp(X)")));
  assert_false(fuse_parts_can(plain(&mem, "X: f16[4, 8]\n W: f16[8, 8]\n return concat(matmul(X, W), X, dim=1)")));
  assert_false(fuse_parts_can(plain(&mem, "X: f16[4, 33]\n return slice(exp(X), dim=1, start=1, end=30)")));
  arena_close(&mem);
}

// Programs without products on a GPU: one kernel by rule, also where a search would be too hard, and beside what a search finds.
static void rows_by_rule(void **state)
{
  (void)state;
  static const struct {
    const char *name, *text;
    bool hard;
  } cases[] = {
      {"batch norm",
       "X: f16[6, 8, 15]\n w: f16[8, 1]\n b: f16[8, 1]\n y = X - mean(mean(X, dim=2), dim=0)\n"
       " return y / sqrt(mean(mean(square(y), dim=2), dim=0) + 0.00001) * w + b",
       true},
      {"group norm", "X: f16[2, 12, 10]\n w: f16[12, 1]\n y = layer_norm(reshape(X, [2, 3, 40]))\n return reshape(y, [2, 12, 10]) * w", true},
      {"row sums", "X: f16[16, 30]\n return X / sum(abs(X), dim=1)", false},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    struct arena mem = {0};
    const struct graph *p = plain(&mem, cases[i].text);
    struct search_opts o = {.threads = 1, .seed = 7, .fuse = 5};
    struct search_result r;
    struct err e = {0};
    int by_rule = -1;
    assert_int_equal(search_is_hard(p, &o), cases[i].hard);
    assert_int_equal(search_easy_ops(p, &o), 0);
    assert_int_equal(search_run(&mem, p, &machine, &o, &r, &e), OK);
    for (int k = 0; k < r.n && by_rule < 0; k++)
      if (strstr(r.found[k].schedule, "what nothing mixes")) by_rule = k;
    if (by_rule < 0) fail_msg("%s: %d graphs, none by rule", cases[i].name, r.n);
    if (!cases[i].hard) assert_true(r.n > 3);
    assert_int_equal(nodes_of(r.found[by_rule].g, OP_BLOCK), 1);
    check_found(cases[i].name, p, r.found[by_rule].g);
    arena_close(&mem);
  }
  struct arena mem = {0};
  assert_false(fuse_rows_can(plain(&mem, "X: f16[2, 131072]\n return exp(X) + sum(X, dim=1)"), 5)); // two blocks, or two clusters
  assert_true(fuse_rows_can(plain(&mem, "X: f16[8, 65536]\n return exp(X) + sum(X, dim=1)"), 5));
  assert_false(fuse_rows_can(plain(&mem, "X: f16[64, 64]\n W: f16[64, 64]\n return matmul(X, W)"), 5));
  arena_close(&mem);
}

// Dimensions that blocks may share out.
static void free_dims(void **state)
{
  (void)state;
  static const struct {
    const char *text;
    int n;
    int64_t extent[3];
  } cases[] = {
      {"X: f16[4, 6, 8]\n a, b = split(X, dim=2, parts=2)\n return a * b", 2, {4, 6}},
      {"X: f16[4, 6, 8]\n return sum(X, dim=1)", 2, {4, 8}},
      {"X: f16[4, 6, 8]\n return reshape(X, [4, 48])", 2, {4, 6}},
      {"X: f16[4, 12, 8]\n w: f16[12, 1]\n x = reshape(X, [4, 3, 32])\n return reshape(x - sum(x, dim=2), [4, 12, 8]) * w", 2, {4, 3}},
      {"X: f16[6, 6]\n return X + transpose(X)", 0, {0}},
      {"X: f16[4, 6]\n Y: f16[6]\n return X + Y, Y * 2", 1, {6}},
      {"X: f16[4, 6]\n return transpose(concat(X, X, dim=1))", 1, {4}},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    struct arena mem = {0};
    struct free_dims f;
    assert_true(free_dims_of(&mem, plain(&mem, cases[i].text), &f));
    if (f.n != cases[i].n) fail_msg("%s: %d dimensions", cases[i].text, f.n);
    for (int k = 0; k < f.n; k++) assert_int_equal(f.extent[k], cases[i].extent[k]);
    arena_close(&mem);
  }
}

// A product that sums over a dimension of an input of which a part is read elsewhere is a sum of products of parts.
static void sums_are_apart(void **state)
{
  (void)state;
  static const struct {
    const char *text;
    int products, slices; // afterwards
  } cases[] = {
      {"Q: f16[2, 4, 24]\n K: f16[2, 8, 24]\n return matmul(exp(matmul(Q, transpose(K))), slice(K, dim=2, start=0, end=16))", 3, 4},
      {"Q: f16[4, 40]\n K: f16[40, 8]\n return matmul(Q, K) * sum(slice(K, dim=0, start=16, end=32), dim=0)", 3, 6},
      {"Q: f16[4, 24]\n K: f16[24, 8]\n return matmul(Q, K) * sum(slice(K, dim=0, start=4, end=20), dim=0)", 1, 1}, // cuts between instructions
      {"Q: f16[8, 24]\n K: f16[8, 24]\n return matmul(Q, transpose(K)), exp(slice(K, dim=0, start=0, end=1))", 1, 1},
      {"Q: f16[4, 24]\n K: f16[8, 24]\n return matmul(exp(Q), transpose(K)), exp(slice(K, dim=1, start=0, end=16))", 1, 1},
      {"Q: f16[4, 24]\n K: f16[8, 24]\n return matmul(Q, transpose(K))", 1, 0},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    struct arena mem = {0};
    const struct graph *p = plain(&mem, cases[i].text), *g = sums_apart(&mem, p);
    assert_int_equal(nodes_of(g, OP_MATMUL), cases[i].products);
    assert_int_equal(nodes_of(g, OP_SLICE), cases[i].slices);
    assert_same_function(cases[i].text, p, g);
    arena_close(&mem);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(one_kernel), cmocka_unit_test(packed),       cmocka_unit_test(no_stem),
                                     cmocka_unit_test(free_dims),  cmocka_unit_test(rows_by_rule), cmocka_unit_test(sums_are_apart)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

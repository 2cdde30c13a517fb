// Graphs that the search makes of programs with `where`: an element that is not chosen does not reach the result, even if it is NaN or infinite.
// test: quick release
#include "examples.h"
#include "graphs.h"

static int count(const struct graph *g, enum op op)
{
  int n = 0;
  for (int i = 0; i < g->nnodes; i++) n += g->nodes[i].sub ? count(g->nodes[i].sub, op) : g->nodes[i].op == op;
  return n;
}

struct program {
  const char *text;
  bool masks; // alone
};

static void masks_stay_masks(void **state)
{
  (void)state;
#define PROGRAM(value) "program p() { X: f32[64, 64]\n Y: f32[64, 64]\n B: bool[64, 64]\n i = iota([64])\n j = iota([64, 1])\n return " value " }"
  static const struct program programs[] = {
      {PROGRAM("where(i <= j, X, 0), where(j < i, Y, 0)"), true},
      {PROGRAM("sum(where(i <= j, X, Y), dim=1)"), true},
      {PROGRAM("matmul(where(B, X, 0), Y)"), true},
      {PROGRAM("where((0 < X) * (X < Y), exp(X) * Y, Y)"), false}, // a product of numbers, and one of conditions
      {PROGRAM("where(i <= j, X, 0) + (0 < Y) * Y"), false},
  };
  for (size_t i = 0; i < COUNT(programs); i++) {
    struct arena mem = {0};
    struct target t;
    struct search_result r;
    struct err e = {0};
    struct search_opts o = {.threads = 2, .seed = 7};
    struct graph *plain;
    assert_int_equal(target_open("cpu", 1, true, &t, &e), OK);
    assert_int_equal(graph_expand(&mem, graph_of(&mem, programs[i].text), false, &plain, &e), OK);
    assert_int_equal(search_run(&mem, plain, &t, &o, &r, &e), OK);
    assert_true(r.n > 0);
    for (int k = 0; k < r.n; k++) {
      const int products = count(r.found[k].g, OP_MUL), hidden = count(r.found[k].g, OP_MASK);
      if (programs[i].masks ? products > 0 || !hidden : !products)
        fail_msg("%s: graph %d has %d products and %d masks", programs[i].text, k, products, hidden);
    }
    arena_close(&mem);
  }
}

// Comparisons of a number for each row with all columns are made in the kernel that uses them, whichever operand comes first.
static void numbers_of_rows_are_compared_in_the_kernel(void **state)
{
  (void)state;
  static const char *const conditions[] = {"iota([64]) == c", "c == iota([64])", "iota([64]) <= c", "c < iota([64])"};
  for (size_t i = 0; i < COUNT(conditions); i++) {
    struct arena mem = {0};
    struct target t;
    struct search_result r;
    struct err e = {0};
    struct search_opts o = {.threads = 2, .seed = 7};
    const char *text = "program p() { X: f32[64, 64]\n l: f32[64]\n c = reshape(l, [64, 1])\n return sum(where(%s, X, 0), dim=1) }";
    struct graph *plain;
    assert_int_equal(target_open("cpu", 1, true, &t, &e), OK);
    assert_int_equal(graph_expand(&mem, graph_of(&mem, arena_printf(&mem, text, conditions[i])), false, &plain, &e), OK);
    assert_int_equal(search_run(&mem, plain, &t, &o, &r, &e), OK);
    assert_true(r.n > 0);
    if (r.found[0].kernels != 1) fail_msg("%s: %d kernels", conditions[i], r.found[0].kernels);
    arena_close(&mem);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(masks_stay_masks), cmocka_unit_test(numbers_of_rows_are_compared_in_the_kernel)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

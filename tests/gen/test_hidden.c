// Iterations that a condition on indices hides are left out of generated loops where that changes nothing, and only there: results are
// those of the interpreter, whatever the values behind the extent are.
// test: quick sanitized
#include "../graphs.h"
#include "eval/eval.h"
#include "rt/rt.h"

#include <math.h>

#define GRAPH                                                                                                               \
  "graph g { n: dim <= 64\n q: f32[4, 8]\n K: f32[n, 8]\n V: f32[n, 8]\n s: i32[n] >= -1 < 63, distinct\n t = iota([64])\n" \
  "O = block(x=2; i=8) { v = iter(V, fmap={i:0})\n m = iter(n)\n a = iter(q, imap={x:0})\n k = iter(K, fmap={i:0})\n S = matmul(a, transpose(k))\n"
#define INDEX "  j = iter(t, fmap={i:0})\n  c = j < m\n"
#define SCORES "  top, change = accum_max(max(x, dim=1))\n  f = exp(change)\n  e = exp(x - top)\n"
#define END "}\n return O }"

static const struct {
  const char *name, *body;
  bool leaves_out;
} loops[] = {
    {"attention",
     GRAPH INDEX "  x = keep(S, c, scalar=-1e30)\n" SCORES "  save(accum_rescale(matmul(e, v), f) / accum_sum_rescale(e, f, dim=1), omap={x:0})" END,
     true},
    {"a masked product", GRAPH INDEX "  save(accum(matmul(mask(S, c), v)), omap={x:0})" END, true},
    {"a sum that is not masked", GRAPH INDEX "  save(accum(matmul(mask(S, c) + 1, v)), omap={x:0})" END, false},
    {"parts that are joined", GRAPH INDEX "  save(accum(mask(S, c) * sum(sum(v, dim=0), dim=1), fmap={i:1}), omap={x:0})" END, false},
    {"two conditions", GRAPH INDEX "  x = keep(S, c * (j < 9), scalar=-1e30)\n" SCORES "  save(accum_rescale(matmul(e, v), f), omap={x:0})" END,
     false},
    {"numbers that may show nothing", GRAPH "  p = iter(s, fmap={i:0})\n  save(accum(matmul(mask(S, p < m), v)), omap={x:0})" END, false},
    {"a score that others may be below",
     GRAPH INDEX "  x = keep(S, c, scalar=-2e4)\n" SCORES "  save(accum_rescale(matmul(e, v), f), omap={x:0})" END, false},
    {"a score that is not low", GRAPH INDEX "  x = keep(S, c, scalar=-10)\n" SCORES "  save(accum_rescale(matmul(e, v), f), omap={x:0})" END, false},
};

static void run(const char *name, const struct graph *g, struct module *m, int n)
{
  struct arena mem = {0};
  struct err e = {0};
  int in[8], out[1], nin = graph_inputs(g, in);
  void *wide[8], *at[8], *want[1];
  graph_outputs(g, out);
  eval_random(&mem, g, DOM_F64, NULL, (uint64_t)n, wide);
  *(double *)wide[0] = n;
  for (int i = 0; i < nin; i++) {
    const struct tensor *t = &g->tensors[in[i]];
    at[i] = NEWS(&mem, float, shape_size(&t->shape)); // i32 is as wide
    for (int64_t k = 0; k < shape_size(&t->shape); k++) num_write(t->dtype, at[i], k, ((double *)wide[i])[k]);
  }
  const int64_t size = shape_size(&g->tensors[out[0]].shape);
  float *have = NEWS(&mem, float, size);
  assert_int_equal(module_call(m, at, (void *[]){have}), 0);
  if (eval_run(&mem, g, DOM_F64, NULL, wide, want, NULL, &e)) fail_msg("%s: %s", name, e.text);
  for (int64_t k = 0; k < size; k++)
    if (!(fabs((double)have[k] - ((double *)want[0])[k]) <= 1e-4 * fmax(1, fabs(((double *)want[0])[k]))))
      fail_msg("%s: element %d is %g, not %g, where n is %d", name, (int)k, (double)have[k], ((double *)want[0])[k], n);
  arena_close(&mem);
}

static void test_loops(void **state)
{
  static const struct target host = {.name = "cpu", .cores = 2, .lanes = 16, .l3 = 32 << 20};
  static const int values[] = {1, 2, 7, 8, 9, 16, 17, 40, 63, 64};
  (void)state;
  for (size_t i = 0; i < COUNT(loops); i++) {
    struct arena mem = {0};
    struct err e = {0};
    struct str source = {0};
    struct module *m;
    struct graph *g = graph_of(&mem, loops[i].body);
    if (gen_c(g, "test", &host, &source, NULL, NULL, &e)) fail_msg("%s: %s", loops[i].name, e.text);
    const bool leaves_out = strstr(str_text(&source), "// masked iterations add nothing");
    if (leaves_out != loops[i].leaves_out) fail_msg("%s: iterations are %sleft out", loops[i].name, leaves_out ? "" : "not ");
    if (module_build(str_text(&source), "test", &m, &e)) fail_msg("%s: %s", loops[i].name, e.text);
    for (size_t k = 0; k < COUNT(values); k++) run(loops[i].name, g, m, values[k]);
    module_close(m), str_free(&source);
    arena_close(&mem);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_loops)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

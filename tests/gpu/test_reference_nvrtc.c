// test: check-all
// test: timeout 300
// NVRTC compiles the plain kernels of float64 references for each operator and dtype, and the kernel that compares. Without NVRTC the test is skipped.
#include "each_op.h"
#include "graphs.h"
#include "gpu/compare.h"
#include "base/child.h"
#include "gpu/plain.h"
struct sources { // of all codes, one code
  struct arena mem;
  struct code all;
  int cap;
};

static void take(struct sources *s, const struct graph *g)
{
  struct code c;
  struct err e = {0};
  if (plain_code(&s->mem, g, PLAIN_AS_IT_IS, &c, &e)) fail_msg("%s", e.text);
  for (int i = 0; i < c.nkernel; i++) PUSH(&s->mem, s->all.kernel, s->all.nkernel, s->cap) = c.kernel[i];
}

static void each_text_compiles(void **state)
{
  (void)state;
  struct sources s = {0};
  struct err e = {0};
  struct nvrtc *n;
  struct compile_result r;
  struct compile_stats stats;
  if (nvrtc_open(&n, &e)) skip();
  for (int op = 0; op < OPS; op++)
    for (int form = 0; form < 2; form++) {
      const struct graph *g = each_op_graph(&s.mem, (enum op)op, F32, form);
      if (g) take(&s, g);
    }
  for (int t = 0; t < DTYPES; t++) take(&s, each_op_graph(&s.mem, OP_TRANSPOSE, (enum dtype)t, 0));
  PUSH(&s.mem, s.all.kernel, s.all.nkernel, s.cap) = (struct code_kernel){.name = "compare", .source = compare_source(&s.mem)};
  const struct gpu_compiler by = gpu_compiler_nvrtc(n);
  assert_int_equal(compile_codes(&s.mem, &by, NULL, 90, 1, &s.all, &r, &stats, &e), OK);
  if (r.status != OK) fail_msg("%s", r.err.text);
  assert_true(stats.sources >= 50);
  for (int i = 0; i < s.all.nkernel; i++) assert_true(s.all.kernel[i].bytes > 0 && s.all.kernel[i].spilled <= 0);
  nvrtc_close(n);
  arena_close(&s.mem);
}

// An evaluator that compiles ahead waits for it when it is closed, and the race finds the kernels in the forge. Nothing is compiled for small programs,
// whose references the CPU computes, and none without an evaluator.
static void an_evaluator_compiles_ahead(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct err e = {0};
  struct gpu_forge *forge = gpu_forge_open(&(struct gpu_forge_opts){0});
  if (gpu_forge_ready(forge, &e)) skip();
  const struct graph *g = each_op_graph(&mem, OP_EXP, F32, 0);
  struct graph *stable;
  if (graph_expand(&mem, g, true, &stable, &e)) fail_msg("%s", e.text);
  gpu_evaluator_ahead(NULL, 90, g, NULL);
  for (int large = 0; large < 2; large++) {
    struct gpu_evaluator *v = gpu_evaluator_open(&(struct gpu_evaluator_opts){.which = large ? REFERENCE_GPU : REFERENCE_AUTO, .forge = forge});
    gpu_evaluator_ahead(v, 90, g, NULL);
    if (large) gpu_evaluator_ahead(v, 90, g, NULL); // again: the first thread has ended
    gpu_evaluator_close(v);
    struct code c[PLAIN_MODES];
    struct compile_result r[PLAIN_MODES];
    struct compile_stats stats;
    const struct patience over = {.until = 1e-9}; // nothing is compiled any more
    for (int m = 0; m < PLAIN_MODES; m++) assert_int_equal(plain_code(&mem, stable, (enum plain_mode)m, &c[m], &e), OK);
    assert_int_equal(gpu_forge_codes(&mem, forge, NULL, &over, 90, PLAIN_MODES, c, r, &stats, &e), OK);
    assert_int_equal(stats.recalled, large ? stats.sources : 0);
  }
  gpu_forge_close(forge);
  arena_close(&mem);
}

// Nodes of an operator have the same kernel, whatever their shapes, dtypes and attributes are.
static void one_kernel_an_operator(void **state)
{
  (void)state;
  static const char *const texts[] = {
      "program a() {\n X: f32[4, 70]\n W: f32[70, 50]\n b: f32[50]\n return exp(matmul(X * 2, W) + b)\n}\n",
      "program b() {\n X: bf16[2, 8, 33, 128]\n W: bf16[8, 128, 128]\n b: bf16[2, 8, 1, 1]\n y = exp(matmul(X * 3, W) + b)\n"
      " return exp(matmul(y, W) * 0.5) + y\n}\n"};
  struct arena mem = {0};
  struct err e = {0};
  struct code c[2];
  for (int i = 0; i < 2; i++) assert_int_equal(plain_code(&mem, graph_of(&mem, texts[i]), PLAIN_AS_IT_IS, &c[i], &e), OK);
  assert_int_equal(c[0].nkernel, 6); // the mode, an input, and four operators
  assert_int_equal(c[1].nkernel, c[0].nkernel);
  for (int i = 0; i < c[1].nkernel; i++) {
    int same = 0;
    for (int k = 0; k < c[0].nkernel; k++) same += !strcmp(c[0].kernel[k].source, c[1].kernel[i].source);
    assert_int_equal(same, 1);
  }
  arena_close(&mem);
}

// The database has the kernels for the next run.
static void kernels_are_kept(void **state)
{
  (void)state;
  struct scratch folder;
  struct arena mem = {0};
  struct err e = {0};
  struct db *db;
  const struct graph *g = each_op_graph(&mem, OP_EXP, F32, 0);
  if (scratch_open(&folder, &e) || db_open(arena_printf(&mem, "%s/kept.db", folder.path), &db, &e)) fail_msg("%s", e.text);
  struct gpu_forge *forge = gpu_forge_open(&(struct gpu_forge_opts){0});
  if (gpu_forge_ready(forge, &e)) skip();
  gpu_ahead_close(gpu_ahead_open(forge, db, 90, g, NULL));
  gpu_forge_close(forge);
  forge = gpu_forge_open(&(struct gpu_forge_opts){0});
  struct code c;
  struct graph *stable;
  struct compile_result r;
  struct compile_stats stats;
  const struct patience over = {.until = 1e-9}; // nothing is compiled any more
  if (graph_expand(&mem, g, true, &stable, &e) || plain_code(&mem, stable, PLAIN_ROUNDED, &c, &e)) fail_msg("%s", e.text);
  assert_int_equal(gpu_forge_codes(&mem, forge, db, &over, 90, 1, &c, &r, &stats, &e), OK);
  assert_true(stats.sources > 0);
  assert_int_equal(stats.recalled, stats.sources);
  gpu_forge_close(forge);
  db_close(db);
  scratch_close(&folder);
  arena_close(&mem);
}

// Several threads tell one forge of what they compiled.
static void threads_share_a_forge(void **state)
{
  (void)state;
  enum { THREADS = 4 };
  static const enum op ops[THREADS] = {OP_EXP, OP_SQRT, OP_NEG, OP_LOG};
  struct arena mem = {0};
  struct err e = {0};
  struct gpu_forge *forge = gpu_forge_open(&(struct gpu_forge_opts){0});
  if (gpu_forge_ready(forge, &e)) skip();
  const struct graph *g[THREADS];
  struct gpu_ahead *a[THREADS];
  for (int i = 0; i < THREADS; i++) {
    g[i] = each_op_graph(&mem, ops[i], F32, 0);
    a[i] = gpu_ahead_open(forge, NULL, 90, g[i], NULL);
    assert_non_null(a[i]);
  }
  for (int i = THREADS - 1; i >= 0; i--) gpu_ahead_close(a[i]);
  for (int i = 0; i < THREADS; i++) {
    struct code c;
    struct graph *stable;
    struct compile_result r;
    struct compile_stats stats;
    const struct patience until = {0};
    if (graph_expand(&mem, g[i], true, &stable, &e) || plain_code(&mem, stable, PLAIN_ROUNDED, &c, &e)) fail_msg("%s", e.text);
    assert_int_equal(gpu_forge_codes(&mem, forge, NULL, &until, 90, 1, &c, &r, &stats, &e), OK);
    assert_true(stats.sources > 0);
    assert_int_equal(stats.recalled, stats.sources);
  }
  gpu_forge_close(forge);
  arena_close(&mem);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(each_text_compiles), cmocka_unit_test(one_kernel_an_operator),
                                     cmocka_unit_test(kernels_are_kept), cmocka_unit_test(an_evaluator_compiles_ahead),
                                     cmocka_unit_test(threads_share_a_forge)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

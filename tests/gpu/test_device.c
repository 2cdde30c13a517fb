// Device programs of `mica lower` in the worker's code: arguments, workspaces, counters, and products by the library. Kernels run in the interpreter on
// poisoned memory, and the results are compared with float64.
#include "../gpu_of.h"
#include "graphs.h"
#include "plan/plan.h"
#include "lowered.h"
#include "pretend.h"
#include "tables.h"

static const struct {
  const char *name, *text;
  int launches; // 0: not said
} programs[] = {
    {"softmax", "program p() {\n X: f16[6, 200]\n return softmax(X, dim=1)\n}\n", 0},
    {"norm", "program p() {\n X: f16[5, 128]\n s: f16[128]\n t: f16[128]\n return layer_norm(X, s, t)\n}\n", 0},
    {"product", "program p() {\n X: f32[16, 32]\n W: f32[32, 24]\n return matmul(X, W)\n}\n", 1},
    {"products",
     "program p() {\n X: f32[3, 16, 32]\n W: f32[32, 24]\n V: f32[3, 24, 8]\n return matmul(relu(matmul(X, W)), "
     "V)\n}\n",
     2},
    {"a product with a bias, a matrix and relu",
     "graph p {\n X: f32[16, 32]\n W: f32[32, 24]\n C: f32[16, 24]\n v: f32[24]\n P = matmul(X, W)\n Y = block(x=4) {\n"
     "  p = iter(P, imap={x:0})\n  c = iter(C, imap={x:0})\n  v = iter(v)\n  save(relu(p * 0.5 - c + v), omap={x:0})\n }\n"
     " return Y\n}\n",
     1},
    {"a batch of products, each with a bias, transposed",
     "graph p {\n X: f32[3, 16, 32]\n W: f32[3, 32, 24]\n v: f32[3, 16]\n P = matmul(X, W)\n T = transpose(P)\n Y = block(x=3) {\n"
     "  p = iter(T, imap={x:0})\n  v = iter(v, imap={x:0})\n  save(p + reshape(v, [1, 1, 16]), omap={x:0})\n }\n return Y\n}\n",
     1},
    {"transposed", "program p() {\n Q: f32[2, 16, 32]\n K: f32[2, 24, 32]\n return matmul(Q, transpose(K))\n}\n", 1},
    {"two outputs", "program p() {\n X: f32[8, 64]\n Y: f32[8, 64]\n return exp(X) + Y, sum(X * Y, dim=1)\n}\n", 0},
    {"attention by the library",
     "program p() {\n Q: f32[2, 16, 32]\n K: f32[2, 64, 32]\n V: f32[2, 64, 32]\n"
     " return matmul(softmax(matmul(Q, transpose(K)), dim=2), V)\n}\n",
     0},
    {"a fused norm",
     "graph p {\n X: f16[16, 128]\n W: f16[128, 64]\n Y = block(x=2; i=2) {\n  x = iter(X, fmap={i:1})\n"
     "  w = iter(W, imap={x:1}, fmap={i:0})\n  a = accum(matmul(x, w))\n  n = accum_rms(x, dim=1)\n"
     "  save(a / n, omap={x:1})\n }\n return Y\n}\n",
     1},
    {"split keys",
     "graph p {\n Q: f16[2, 16, 32]\n K: f16[2, 32, 256]\n V: f16[2, 256, 32]\n"
     " A, B = block(x=2, y=2; i=2) {\n  q = iter(Q, imap={x:0})\n  k = iter(K, imap={x:0, y:2}, fmap={i:2})\n"
     "  v = iter(V, imap={x:0, y:1}, fmap={i:1})\n  e = exp(matmul(q, k) * 0.1)\n"
     "  save(accum(matmul(e, v)), omap={x:0, y:1})\n  save(accum_sum(e, dim=2), omap={x:0, y:1})\n }\n"
     " O = block(x=2) {\n  a = iter(A, imap={x:0})\n  b = iter(B, imap={x:0})\n"
     "  n = sum(reshape(a, [1, 2, 16, 32]), dim=1)\n  d = sum(reshape(b, [1, 2, 16, 1]), dim=1)\n"
     "  save(reshape(n / d, [1, 16, 32]), omap={x:0})\n }\n return O\n}\n",
     0},
};

struct fixture {
  struct arena mem;
  struct err e;
  struct problem problem;
  struct device_program p;
  struct code code;
  struct gpu_worker *w;
};

static int lower(struct fixture *f, const char *text)
{
  struct graph *g = graph_of(&f->mem, text), *stable;
  const struct lower_opts o = {.tails = true, .dependent = true};
  char note[256] = "";
  bool changed;
  if (problem_open(&f->problem, &f->mem, g, &(struct problem_wish){3}, &f->e)) return f->e.status;
  if (graph_expand(&f->mem, g, true, &stable, &f->e)) return f->e.status;
  if (plan_stable(&f->mem, stable, &stable, &changed, note, &f->e)) return f->e.status;
  return lower_program(&f->mem, stable, gpu_of("sm_90a"), &o, &f->p, &f->e);
}

static int run(struct fixture *f, struct check_answer *c)
{
  struct stage *s = pretend_stage();
  const struct gpu_worker_opts o = {.inside = true, .stage = s};
  struct run_answer a;
  int id;
  pretend_products(s);
  if (gpu_worker_open(&o, &f->w, &f->e) || gpu_worker_problem(f->w, f->problem.b, 2, &f->e)) return f->e.status;
  if (gpu_worker_load(f->w, &f->code, &id, &f->e) || gpu_worker_run(f->w, id, 2, 60, &a, &f->e)) return f->e.status;
  assert_false(a.differs);
  return check_outputs(&f->problem, a.first, c, &f->e);
}

static void one_program(const char *name, const char *text, int launches)
{
  struct fixture f = {0};
  struct compile_result r;
  struct compile_stats stats;
  struct check_answer c;
  int status = lower(&f, text);
  if (status == OK) status = code_make(&f.mem, &f.p, &f.code, &f.e);
  const struct gpu_compiler compiler = pretend_interpreter(&f.p);
  if (status == OK) status = compile_codes(&f.mem, &compiler, NULL, 90, 1, &f.code, &r, &stats, &f.e);
  if (status == OK && r.status != OK) f.e = r.err, status = r.status;
  if (status == OK) status = run(&f, &c);
  if (status != OK || *pretend.trouble) fail_msg("%s: %s %s", name, f.e.text, pretend.trouble);
  if (launches && f.p.nlaunch != launches) fail_msg("%s: %d launches", name, f.p.nlaunch);
  gpu_worker_close(f.w);
  assert_int_equal(pretend.allocated, pretend.released);
  assert_int_equal(pretend.modules, 0);
  problem_close(&f.problem);
  if (problem_open_special(&f.problem, &f.mem, graph_of(&f.mem, text), &(struct problem_wish){3}, &f.e) != OK) fail_msg("%s: %s", name, f.e.text);
  problem_close(&f.problem);
  arena_close(&f.mem);
}

static void programs_are_right(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(programs); i++) one_program(programs[i].name, programs[i].text, programs[i].launches);
}

// The first runs are slower, as clock rates rise. The choice does not depend on the order of the runs.
static void the_fastest_algorithm_is_chosen(void **state)
{
  (void)state;
  static const int word[] = {0, 1, 3}; // of the library's proposals
  static const char text[] = "program p() {\n X: f32[16, 32]\n W: f32[32, 24]\n return matmul(X, W)\n}\n";
  for (int best = 0; best < 3; best++) {
    struct fixture f = {0};
    if (lower(&f, text) != OK || code_make(&f.mem, &f.p, &f.code, &f.e) != OK) fail_msg("%s", f.e.text);
    struct stage *s = pretend_stage();
    const struct gpu_worker_opts o = {.inside = true, .stage = s};
    int id;
    pretend_products(s);
    for (int i = 0; i < 3; i++) pretend.product[word[i]] = i == best ? 20000 : 20600;
    pretend.cold = 13; // all runs of the first algorithm, if one algorithm is timed after the other
    if (gpu_worker_open(&o, &f.w, &f.e) || gpu_worker_problem(f.w, f.problem.b, 2, &f.e)) fail_msg("%s", f.e.text);
    if (gpu_worker_load(f.w, &f.code, &id, &f.e)) fail_msg("%s", f.e.text);
    assert_int_equal(gpu_worker_algorithms(f.w, id)[0], best);
    gpu_worker_close(f.w), problem_close(&f.problem), arena_close(&f.mem);
  }
}

static void elements_that_data_choose_are_right(void **state)
{
  (void)state;
  struct table t;
  table_open(&t, "gather");
  for (int i = 0; i < t.n; i++)
    if (!strstr(t.row[i].text, "matmul")) one_program(t.row[i].title, t.row[i].text, 0); // pretended products are of fp32
  table_close(&t);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(programs_are_right), cmocka_unit_test(the_fastest_algorithm_is_chosen),
                                     cmocka_unit_test(elements_that_data_choose_are_right)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

// Tests on this machine's GPU, if there is one: faulty kernels, products by cuBLASLt, and a race.
// test: timeout 300
#include "graphs.h"
#include "gpu/wire.h"
#include "plan/plan.h"
#include "lowered.h"
#include "once.h"
#include "referenced.h"
#include "special.h"

#include <math.h>
#include <stdlib.h>

enum { N = 1000 };

struct fixture {
  struct arena mem;
  struct err e;
  struct nvrtc *nvrtc;
  struct gpu_worker *w;
  struct gpu_worker_facts facts;
};

static const char twice[] = "program twice() {\n X: f32[1000]\n return X * 2\n}\n";

// False where there is no GPU to try things on.
static bool start(struct fixture *f)
{
  const struct gpu_worker_opts o = {.path = "/proc/self/exe"};
  memset(f, 0, sizeof *f);
  if (nvrtc_open(&f->nvrtc, &f->e)) return false;
  assert_int_equal(gpu_worker_open(&o, &f->w, &f->e), OK);
  return gpu_worker_facts(f->w, &f->facts, &f->e) == OK;
}

// Kernels that need these capabilities run on the GPU.
static bool runs(const struct fixture *f, uint32_t needs)
{
  const struct target *t = target_for_device(f->facts.gpu.arch);
  return t && !(needs & ~t->can);
}

static void end(struct fixture *f)
{
  gpu_worker_close(f->w);
  nvrtc_close(f->nvrtc);
  arena_close(&f->mem);
}

// ---- kernels by hand ----

#define KERNEL(name, body)                                                       \
  "extern \"C\" __global__ void " name "(const float *x, float *y, int *c)\n{\n" \
  "  int i = threadIdx.x + blockIdx.x * blockDim.x;\n  " body "\n}\n"
#define RIGHT "if (i < 1000) y[i] = 2 * x[i];"

static const struct {
  const char *name, *source;
  int status;
  const char *words;
} kernels[] = {
    {"right", KERNEL("right", RIGHT), OK, ""},
    {"off", KERNEL("off", RIGHT " if (i == 333) y[i] += 0.005f;"), NO, "element 333 is"},
    {"half", KERNEL("half", "if (i < 500) y[i] = 2 * x[i];"), NO, "element 500 is"},
    {"past", KERNEL("past", "if (i < 1001) y[i] = i < 1000 ? 2 * x[i] : 0;"), NO, "memory after an output"},
    {"count", KERNEL("count", RIGHT " if (!i) c[0]++;"), NO, "are not zero after it"},
    {"races", "__device__ int runs;\n" KERNEL("races", RIGHT " if (i == 999 && runs++ % 4 == 3) y[i] = 50;"), NO,
     "two runs on the same inputs differ"},
    {"traps", KERNEL("traps", RIGHT " asm volatile(\"trap;\");"), ENV, "running on the GPU"},
    {"illegal", KERNEL("illegal", RIGHT " if (!i) *(volatile int *)8 = 1;"), ENV, "running on the GPU"},
    {"hangs", KERNEL("hangs", RIGHT " while (((volatile int *)c)[0] == 0) __nanosleep(1000);"), ENV, "more than 1 seconds"},
    {"right", KERNEL("right", RIGHT), OK, ""},
};

static struct code *code_of(struct fixture *f, const char *name, const char *source)
{
  static const struct lower_place at[3] = {{PLACE_INPUT, 0, 0}, {PLACE_OUTPUT, 0, 0}, {PLACE_WORK, 0, 0}};
  struct code *c = NEW(&f->mem, struct code);
  struct cubin cubin;
  if (nvrtc_compile(f->nvrtc, &f->mem, name, source, f->facts.gpu.arch, &cubin, &f->e)) fail_msg("%s", f->e.text);
  *c = (struct code){.nkernel = 1, .nlaunch = 1, .workspace = 256, .zeroed = 256};
  c->kernel = NEW(&f->mem, struct code_kernel), c->launch = NEW(&f->mem, struct code_launch);
  *c->kernel = (struct code_kernel){.name = name, .cubin = cubin.bytes, .bytes = (int64_t)cubin.n, .cluster = 1};
  *c->launch = (struct code_launch){.name = name, .how = "by hand", .blocks = 8, .threads = 128, .narg = 3};
  c->launch->arg = NEWS(&f->mem, struct code_arg, 3);
  for (int i = 0; i < 3; i++) c->launch->arg[i].at = at[i];
  return c;
}

static int judge(struct fixture *f, const struct problem *p, const struct code *c)
{
  struct run_answer a;
  struct check_answer x;
  int id, status = gpu_worker_load(f->w, c, &id, &f->e);
  if (status == OK) status = gpu_worker_run(f->w, id, 6, 1, &a, &f->e);
  if (status == OK) status = check_outputs(p, a.first, &x, &f->e);
  if (status == OK && a.differs) status = check_repeats(p, a.first, a.other, &x, &f->e);
  return status;
}

static void bad_kernels_cost_themselves(void **state)
{
  (void)state;
  struct fixture f;
  struct problem p;
  if (!start(&f)) return end(&f), skip();
  assert_int_equal(problem_open(&p, &f.mem, graph_of(&f.mem, twice), &(struct problem_wish){7}, &f.e), OK);
  if (gpu_worker_problem(f.w, p.b, 0, &f.e)) fail_msg("%s", f.e.text);
  for (size_t i = 0; i < COUNT(kernels); i++) {
    f.e = (struct err){0};
    int status = judge(&f, &p, code_of(&f, kernels[i].name, kernels[i].source));
    if (status != kernels[i].status || !strstr(f.e.text, kernels[i].words)) fail_msg("%s: %d, %s", kernels[i].name, status, f.e.text);
  }
  assert_int_equal(gpu_worker_facts(f.w, &f.facts, &f.e), OK);
  assert_int_equal(f.facts.starts, 4); // three broke it
  assert_false(f.facts.inside);
  problem_close(&p);
  end(&f);
}

// Two kernels, the second launched before the first has ended: it has to wait before it reads.
static void early_readers_are_seen(void **state)
{
  (void)state;
  static const char *const sources[] = {
      KERNEL("first", "asm volatile(\"griddepcontrol.launch_dependents;\"); __nanosleep(200000); if (i < 1000) y[i] = 2 * x[i];"),
      KERNEL("second", "asm volatile(\"griddepcontrol.wait;\" ::: \"memory\"); if (i < 1000) y[i] = x[i];"),
      KERNEL("hasty", "if (i < 1000) y[i] = ((const volatile float *)x)[i];")};
  struct fixture f;
  struct problem p;
  if (!start(&f) || !runs(&f, CAN_CLUSTER | CAN_TMA)) return end(&f), skip();
  assert_int_equal(problem_open(&p, &f.mem, graph_of(&f.mem, twice), &(struct problem_wish){7}, &f.e), OK);
  if (gpu_worker_problem(f.w, p.b, 0, &f.e)) fail_msg("%s", f.e.text);
  const struct code *first = code_of(&f, "first", sources[0]);
  for (int hasty = 0; hasty < 2; hasty++) {
    const struct code *second = code_of(&f, hasty ? "hasty" : "second", sources[1 + hasty]);
    struct code both = {2, 2, NEWS(&f.mem, struct code_kernel, 2), NEWS(&f.mem, struct code_launch, 2), 256 + 4 * N, 256};
    both.kernel[0] = first->kernel[0], both.kernel[1] = second->kernel[0];
    both.launch[0] = first->launch[0], both.launch[1] = second->launch[0];
    both.launch[1].kernel = 1, both.launch[1].dependent = true;
    first->launch->arg[1].at = second->launch->arg[0].at = (struct lower_place){PLACE_WORK, 0, 256};
    f.e = (struct err){0};
    int status = judge(&f, &p, &both);
    if (status != (hasty ? NO : OK)) fail_msg("%s: %d, %s", second->kernel->name, status, f.e.text);
  }
  problem_close(&p);
  end(&f);
}

// ---- lowered programs ----

// For the target as it is on this device; lives in f->mem. ERR_TARGET where the device runs no kernels for it.
static int target_for(struct fixture *f, const char *target, struct target **out)
{
  const struct gpu_facts *g = &f->facts.gpu;
  *out = NEW(&f->mem, struct target);
  assert_int_equal(target_open(target, 1, true, *out, &f->e), OK);
  return target_fit(*out, &(struct target_facts){g->name, g->arch, g->processors, g->shared, g->shared_processor, g->l2, 0}, &f->e);
}

static int lower(struct fixture *f, const struct graph *g, const struct target *limits, struct device_program *out)
{
  const struct lower_opts o = {.tails = true, .dependent = true};
  struct graph *stable;
  char note[256] = "";
  bool changed;
  if (graph_expand(&f->mem, g, true, &stable, &f->e)) return f->e.status;
  if (plan_stable(&f->mem, stable, &stable, &changed, note, &f->e)) return f->e.status;
  return lower_program(&f->mem, stable, limits, &o, out, &f->e);
}

static const char *const programs[] = {
    "program softmax() {\n X: f16[64, 1024]\n return softmax(X, dim=1)\n}\n",
    "program product() {\n X: f16[64, 512]\n W: f16[512, 384]\n return matmul(X, W)\n}\n",
    "program bf() {\n X: bf16[3, 64, 512]\n W: bf16[512, 384]\n return matmul(X, W)\n}\n",
    "program full() {\n X: f32[2, 64, 128]\n W: f32[2, 128, 96]\n return matmul(X, W)\n}\n",
    "graph ends() {\n X: f16[64, 512]\n W: f16[512, 384]\n C: f16[64, 384]\n v: f16[384]\n P = matmul(X, W)\n Y = block(x=4) {\n"
    "  p = iter(P, imap={x:0})\n  c = iter(C, imap={x:0})\n  v = iter(v)\n  save(relu(p * 0.5 - c + v), omap={x:0})\n }\n return Y\n}\n",
    "graph turned() {\n X: f16[3, 64, 512]\n W: f16[3, 512, 384]\n v: f16[3, 64]\n P = matmul(X, W)\n T = transpose(P)\n Y = block(x=3, y=4) {\n"
    "  p = iter(T, imap={x:0, y:1})\n  v = iter(v, imap={x:0})\n  save(p + reshape(v, [1, 1, 64]), omap={x:0, y:1})\n }\n return Y\n}\n",
    "program attention() {\n Q: f16[4, 64, 64]\n K: f16[4, 256, 64]\n V: f16[4, 256, 64]\n"
    " return matmul(softmax(matmul(Q, transpose(K)) / 8, dim=2), V)\n}\n",
};

static void race_one(struct fixture *f, const struct target *limits, const char *text)
{
  struct graph *g = graph_of(&f->mem, text);
  struct device_program p;
  const struct device_program *one = &p;
  struct gpu_race r;
  struct str out = {0};
  const struct gpu_race_opts o = {.seed = 5, .with = f->w, .seconds = 0.2};
  if (lower(f, g, limits, &p)) fail_msg("%s: %s", text, f->e.text);
  if (gpu_race(&f->mem, 1, &one, g, &o, &r, &f->e)) fail_msg("%s: %s", text, f->e.text);
  gpu_race_text(&r, 1, &one, &out);
  print_message("%s%s\n", text, str_text(&out));
  str_free(&out);
  assert_int_equal(r.best, 0);
  assert_true(r.result[0].cold.median > 0 && isfinite(r.result[0].cold.median) && r.result[0].hot.median > 0);
  assert_true(r.result[0].check.relative > 0);
  assert_int_equal(strstr(r.machine, "kernels for") != NULL, limits->arch != f->facts.gpu.arch);
}

// For the device, and for all older targets: their instructions and capacities, compiled for the device. A newer target is refused.
static void programs_are_raced(void **state)
{
  (void)state;
  struct fixture f;
  int raced = 0;
  if (!start(&f) || !runs(&f, CAN_BASE)) return end(&f), skip();
  for (int t = 0; t < target_count(); t++) {
    struct target *limits;
    f.e = (struct err){0};
    if (!strcmp(target_name(t), "cpu")) continue;
    if (target_for(&f, target_name(t), &limits)) {
      assert_int_equal(f.e.id, ERR_TARGET);
      continue;
    }
    assert_int_equal(gpu_runs_on(limits), f.facts.gpu.arch);
    for (size_t i = 0; i < COUNT(programs); i++, raced++) race_one(&f, limits, programs[i]);
  }
  assert_true(raced >= (int)COUNT(programs));
  end(&f);
}

// ---- NaN and infinities ----

static const char *const with_special[] = {
    "program cells() {\n X: f16[64, 256]\n Y: f16[64, 256]\n return relu(X) + clamp(Y, lo=-1, hi=2), maximum(X, Y) * minimum(X, Y)\n}\n",
    "program rows() {\n X: f16[64, 256]\n return max(X, dim=1), sum(X, dim=1), rms_norm(X), layer_norm(X)\n}\n",
    "program wide() {\n X: bf16[64, 4096]\n return softmax(X, dim=1)\n}\n",
    "program masked() {\n Q: f16[4, 64, 64]\n K: f16[4, 256, 64]\n V: f16[4, 256, 64]\n M: f16[4, 64, 256]\n"
    " return matmul(softmax(matmul(Q, transpose(K)) / 8 + M, dim=2), V)\n}\n",
    "graph running() {\n Q: f16[4, 128, 64]\n K: f16[4, 64, 256]\n V: f16[4, 256, 64]\n M: f16[4, 128, 256]\n"
    " O = block(x=4, y=2; i=4) {\n  q = iter(Q, imap={x:0, y:1})\n  k = iter(K, imap={x:0}, fmap={i:2})\n  v = iter(V, imap={x:0}, fmap={i:1})\n"
    "  m = iter(M, imap={x:0, y:1}, fmap={i:2})\n  e = exp(matmul(q, k) * 0.125 + m)\n"
    "  save(accum(matmul(e, v)) / accum_sum(e, dim=2), omap={x:0, y:1})\n }\n return O\n}\n",
    "program ends() {\n X: f16[64, 512]\n W: f16[512, 384]\n return relu(matmul(X, W))\n}\n",
};

// Each program with NaN and the like in one of its inputs after the other.
static void hold_special(struct fixture *f, const struct target *limits, const char *text)
{
  struct graph *g = graph_of(&f->mem, text);
  struct device_program p;
  const struct device_program *one = &p;
  if (lower(f, g, limits, &p)) fail_msg("%s: %s", text, f->e.text);
  for (uint64_t seed = 1; seed <= 6; seed++) {
    const struct gpu_race_opts o = {.seed = seed, .with = f->w, .untimed = true};
    struct gpu_race r;
    if (gpu_race(&f->mem, 1, &one, g, &o, &r, &f->e)) fail_msg("%s: %s", text, f->e.text);
    if (r.best) fail_msg("%s, seed %d, %s: %s", text, (int)seed, p.launch[p.nlaunch - 1].how, r.result[0].err.text);
    const struct special_answer *a = &r.result[0].special;
    print_message("%.16s seed %d: %lld of %lld elements held\n", text, (int)seed, (long long)a->held, (long long)a->all);
    assert_true(a->all > 0 && a->held > a->all / 2);
  }
}

// Compares results for special values with a table.
static void hold_table(struct fixture *f, const struct target *limits)
{
  struct str text = {0};
  struct device_program p;
  struct buffers *b;
  str_add(&text, "program table() {\n X: f32[%d]\n Y: f32[%d]\n return ", SPECIAL_PAIRS, SPECIAL_PAIRS);
  for (size_t k = 0; k < COUNT(special_maps); k++) str_add(&text, "%s%s", k ? ", " : "", special_maps[k].expr);
  str_add(&text, "\n}\n");
  struct graph *g = graph_of(&f->mem, str_text(&text));
  if (lower(f, g, limits, &p)) fail_msg("%s", f->e.text);
  assert_int_equal(buffers_open(g, 1, &b, &f->e), OK);
  for (int i = 0; i < SPECIAL_PAIRS; i++) ((float *)b->in[0])[i] = (float)special_x[i], ((float *)b->in[1])[i] = (float)special_y[i];
  if (gpu_run_program(&f->mem, &p, b, &(struct gpu_race_opts){.with = f->w}, &f->e)) fail_msg("%s", f->e.text);
  int wrong = 0;
  for (size_t k = 0; k < COUNT(special_maps); k++)
    for (int i = 0; i < SPECIAL_PAIRS; i++) {
      double got = ((float *)b->out[k])[i], want = special_maps[k].want[i];
      if (special_same(got, want, 1e-4)) continue;
      print_error("%s of %g, %g is %g, not %g\n", special_maps[k].expr, special_x[i], special_y[i], got, want), wrong++;
    }
  assert_int_equal(wrong, 0);
  buffers_close(b), str_free(&text);
}

static void special_values(void **state)
{
  (void)state;
  struct fixture f;
  struct target *limits;
  struct target t;
  if (!start(&f) || !runs(&f, CAN_BASE)) return end(&f), skip();
  hold_table(&f, (assert_int_equal(target_for(&f, "sm_80", &limits), OK), limits));
  for (int k = 0; k < target_count(); k++) {
    if (!strcmp(target_name(k), "cpu") || target_open(target_name(k), 1, true, &t, &f.e) || target_for(&f, target_name(k), &limits)) continue;
    for (size_t i = 0; i < COUNT(with_special); i++) hold_special(&f, limits, with_special[i]);
  }
  f.e = (struct err){0};
  end(&f);
}

// Kernels that lose NaN are found.
static void lost_values_are_found(void **state)
{
  (void)state;
  static const struct {
    const char *name, *source;
    int status;
  } cases[] = {{"keeps", KERNEL("keeps", "if (i < 1000) y[i] = x[i] <= 0 ? 0 : x[i];"), OK},
               {"loses", KERNEL("loses", "if (i < 1000) y[i] = fmaxf(x[i], 0);"), NO},
               {"drops", KERNEL("drops", "if (i < 1000) y[i] = x[i] > 0 ? x[i] : 0;"), NO}};
  struct fixture f;
  struct problem p;
  if (!start(&f)) return end(&f), skip();
  assert_int_equal(
      problem_open_special(&p, &f.mem, graph_of(&f.mem, "program r() {\n X: f32[100, 10]\n return relu(X)\n}\n"), &(struct problem_wish){7}, &f.e),
      OK);
  if (gpu_worker_problem(f.w, p.b, 0, &f.e)) fail_msg("%s", f.e.text);
  for (size_t i = 0; i < COUNT(cases); i++) {
    struct run_answer a;
    struct special_answer x = {0};
    int id;
    f.e = (struct err){0};
    assert_int_equal(gpu_worker_load(f.w, code_of(&f, cases[i].name, cases[i].source), &id, &f.e), OK);
    assert_int_equal(gpu_worker_run(f.w, id, 1, 1, &a, &f.e), OK);
    int status = special_compare(&p.r, p.g, p.b, a.first, NULL, &x, &f.e);
    if (status != cases[i].status) fail_msg("%s: %d, %s", cases[i].name, status, f.e.text);
  }
  problem_close(&p);
  end(&f);
}

// Float64 references, with the device's functions in double, are those of the CPU.
static void references_are_the_cpus(void **state)
{
  (void)state;
  struct fixture f;
  if (!start(&f)) return end(&f), skip();
  struct referenced r = {.forge = gpu_forge_open(&(struct gpu_forge_opts){.worker = "/proc/self/exe"})};
  r.v = gpu_evaluator_open(&(struct gpu_evaluator_opts){.which = REFERENCE_GPU, .worker = "/proc/self/exe", .forge = r.forge});
  const int graphs = referenced_operators(&r);
  referenced_dtypes(&r);
  const struct gpu_evidence seen = gpu_evaluator_evidence(r.v);
  assert_true(graphs >= 100 && seen.checked >= graphs && !seen.differs);
  gpu_evaluator_close(r.v), gpu_forge_close(r.forge), arena_close(&r.mem);
  end(&f);
}

int main(int argc, char **argv)
{
  if (argc == 3 && !strcmp(argv[1], "gpu-worker")) return gpu_worker_main(atoi(argv[2]));
  if (argc == 2) cmocka_set_test_filter(argv[1]);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bad_kernels_cost_themselves), cmocka_unit_test(early_readers_are_seen), cmocka_unit_test(programs_are_raced),
      cmocka_unit_test(lost_values_are_found),       cmocka_unit_test(special_values),         cmocka_unit_test(references_are_the_cpus)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

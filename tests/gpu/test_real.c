// On this machine's GPU, where there is one: kernels that do what no kernel should, products by the vendor's library, a
// race. test: timeout 300
#include "graphs.h"
#include "gpu/wire.h"
#include "plan/plan.h"

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

static void end(struct fixture *f)
{
  gpu_worker_close(f->w);
  nvrtc_close(f->nvrtc);
  arena_close(&f->mem);
}

// ---- kernels by hand ----

#define KERNEL(name, body)                                                                                             \
  "extern \"C\" __global__ void " name "(const float *x, float *y, int *c)\n{\n"                                       \
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
    {"hangs", KERNEL("hangs", RIGHT " while (((volatile int *)c)[0] == 0) __nanosleep(1000);"), ENV,
     "more than 1 seconds"},
    {"right", KERNEL("right", RIGHT), OK, ""},
};

static struct code *code_of(struct fixture *f, const char *name, const char *source)
{
  static const struct place at[3] = {{PLACE_INPUT, 0, 0}, {PLACE_OUTPUT, 0, 0}, {PLACE_WORK, 0, 0}};
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
  assert_int_equal(problem_open(&p, &f.mem, graph_of(&f.mem, twice), 7, &f.e), OK);
  if (gpu_worker_problem(f.w, p.b, 0, &f.e)) fail_msg("%s", f.e.text);
  for (size_t i = 0; i < COUNT(kernels); i++) {
    f.e = (struct err){0};
    int status = judge(&f, &p, code_of(&f, kernels[i].name, kernels[i].source));
    if (status != kernels[i].status || !strstr(f.e.text, kernels[i].words))
      fail_msg("%s: %d, %s", kernels[i].name, status, f.e.text);
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
      KERNEL(
          "first",
          "asm volatile(\"griddepcontrol.launch_dependents;\"); __nanosleep(200000); if (i < 1000) y[i] = 2 * x[i];"),
      KERNEL("second", "asm volatile(\"griddepcontrol.wait;\" ::: \"memory\"); if (i < 1000) y[i] = x[i];"),
      KERNEL("hasty", "if (i < 1000) y[i] = ((const volatile float *)x)[i];")};
  struct fixture f;
  struct problem p;
  if (!start(&f) || f.facts.gpu.arch < 90) return end(&f), skip();
  assert_int_equal(problem_open(&p, &f.mem, graph_of(&f.mem, twice), 7, &f.e), OK);
  if (gpu_worker_problem(f.w, p.b, 0, &f.e)) fail_msg("%s", f.e.text);
  const struct code *first = code_of(&f, "first", sources[0]);
  for (int hasty = 0; hasty < 2; hasty++) {
    const struct code *second = code_of(&f, hasty ? "hasty" : "second", sources[1 + hasty]);
    struct code both = {2,           2,  NEWS(&f.mem, struct code_kernel, 2), NEWS(&f.mem, struct code_launch, 2),
                        256 + 4 * N, 256};
    both.kernel[0] = first->kernel[0], both.kernel[1] = second->kernel[0];
    both.launch[0] = first->launch[0], both.launch[1] = second->launch[0];
    both.launch[1].kernel = 1, both.launch[1].dependent = true;
    first->launch->arg[1].at = second->launch->arg[0].at = (struct place){PLACE_WORK, 0, 256};
    f.e = (struct err){0};
    int status = judge(&f, &p, &both);
    if (status != (hasty ? NO : OK)) fail_msg("%s: %d, %s", second->kernel->name, status, f.e.text);
  }
  problem_close(&p);
  end(&f);
}

// ---- lowered programs ----

// For the target as it is on this device; lives in f->mem. ERR_TARGET where the device runs no kernels for it.
static int limits_for(struct fixture *f, const char *target, struct gpu_limits **out)
{
  struct target t;
  const struct gpu_facts *g = &f->facts.gpu;
  *out = NEW(&f->mem, struct gpu_limits);
  assert_int_equal(target_open(target, 1, true, &t, &f->e), OK);
  if (target_fit(&t, &(struct target_facts){g->name, g->arch, g->processors, g->shared, g->shared_processor, g->l2, 0}, &f->e)) return f->e.status;
  return **out = gpu_limits(&t), OK;
}

static int lower(struct fixture *f, const struct graph *g, const struct gpu_limits *limits, struct device_program *out)
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

static void race_one(struct fixture *f, const struct gpu_limits *limits, const char *text)
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

// For the device, and for all older targets: their instructions and capacities, compiled for the device. What is newer is refused.
static void programs_are_raced(void **state)
{
  (void)state;
  struct fixture f;
  int raced = 0;
  if (!start(&f) || f.facts.gpu.arch < 80) return end(&f), skip();
  for (int t = 0; t < target_count(); t++) {
    struct gpu_limits *limits;
    f.e = (struct err){0};
    if (!strcmp(target_name(t), "cpu")) continue;
    if (limits_for(&f, target_name(t), &limits)) {
      assert_int_equal(f.e.id, ERR_TARGET);
      continue;
    }
    assert_int_equal(gpu_runs_on(limits), f.facts.gpu.arch);
    for (size_t i = 0; i < COUNT(programs); i++, raced++) race_one(&f, limits, programs[i]);
  }
  assert_true(raced >= (int)COUNT(programs));
  end(&f);
}

int main(int argc, char **argv)
{
  if (argc == 3 && !strcmp(argv[1], "gpu-worker")) return gpu_worker_main(atoi(argv[2]));
  const struct CMUnitTest tests[] = {cmocka_unit_test(bad_kernels_cost_themselves),
                                     cmocka_unit_test(early_readers_are_seen), cmocka_unit_test(programs_are_raced)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

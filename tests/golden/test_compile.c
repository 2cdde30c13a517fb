// NVRTC compiles the CUDA C++ of kernels. The kernels are those of the first graph of each table of tests/lower for sm_90a, and of one table in four
// for sm_80 too. With MICA_ALL=1 they are those of all graphs for both. No GPU is needed. Without NVRTC the test is skipped.
// test: release
// test: timeout 1800
#include "../tables.h"
#include "cuda/cuda.h"
#include "golden.h"
#include "lowered.h"
#include "lower/lower.h"
#include "plan/plan.h"
#include "thin.h"

#include <dirent.h>
#include <stdlib.h>
#include <stdio.h>

enum { SKIPPED = 77 };

static struct nvrtc *compiler;

static void compile_launch(struct arena *mem, const char *title, const struct device_program *d, const struct launch *l)
{
  struct err e = {0};
  struct str source = {0};
  struct cubin cubin;
  int status = cuda_print(l->p, l->k, d->gpu->arch, &source, &e);
  if (status == OK) status = nvrtc_compile(compiler, mem, l->name, str_text(&source), d->gpu->arch, &cubin, &e);
  if (status != OK) fail_msg("%s, %s for %s (%s): %s", title, l->name, cuda_arch_name(d->gpu->arch), l->how, e.text);
  str_free(&source);
}

// The kernels of a graph; how many.
static int compile_graph(const struct table_graph *x, const char *target)
{
  struct arena mem = {0};
  struct err e = {0};
  struct target t;
  struct graph *g;
  struct device_program d = {0};
  char note[256] = "";
  bool changed;
  int kernels = 0;
  if (target_open(target, 1, true, &t, &e) || graph_expand(&mem, graph_of(&mem, x->text), true, &g, &e) ||
      plan_stable(&mem, g, &g, &changed, note, &e))
    fail_msg("%s: %s", x->title, e.text);
  if (lower_program(&mem, g, &t, &(struct lower_opts){.tails = true, .dependent = true}, &d, &e)) fail_msg("%s: %s", x->title, e.text);
  for (int i = 0; i < d.nlaunch; i++)
    if (!d.launch[i].product) compile_launch(&mem, x->title, &d, &d.launch[i]), kernels++;
  arena_close(&mem);
  return kernels;
}

static int compile_table(const char *name, bool older)
{
  struct table t;
  int kernels = 0;
  table_open(&t, name);
  for (int i = 0; i < t.n; i += quick_step(t.n)) {
    kernels += compile_graph(&t.row[i], "sm_90a");
    if (older) kernels += compile_graph(&t.row[i], "sm_80");
  }
  table_close(&t);
  return kernels;
}

static void kernels_compile(void **state)
{
  (void)state;
  struct dirent **list;
  int kernels = 0, n = scandir("tests/lower/graphs", &list, NULL, alphasort);
  assert_true(n > 2);
  for (int i = 0; i < n; i++) {
    char name[64];
    if (sscanf(list[i]->d_name, "%63[a-z0-9_]", name) == 1) kernels += compile_table(name, i % quick_step(4) == 0);
    free(list[i]);
  }
  free(list);
  print_message("%d kernels\n", kernels);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(kernels_compile)};
  struct err e = {0};
  if (nvrtc_open(&compiler, &e) != OK) return printf("skipped: CUDA text is not compiled: %s (`make venv` installs NVRTC)\n", e.text), SKIPPED;
  int status = cmocka_run_group_tests(tests, NULL, NULL);
  return nvrtc_close(compiler), status;
}

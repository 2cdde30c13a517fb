// A job without a GPU stores machine code of the first candidates of a race in the database. The compiler is a fake one.
// test: timeout 300
// test: quick release
#include "../graphs.h"
#include "drive/drive.h"
#include "gpu/gpu.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>

#include <cmocka.h>

#include "folder.h"

static atomic_int compiled;

int gpu_identity(int device, char out[160], struct err *e)
{
  (void)device, *out = 0;
  return err_set(e, ERR_GPU, NOWHERE, "there is no GPU");
}

static int count(const void *arg, struct arena *mem, const char *name, const char *source, int arch, struct cubin *out, struct err *e)
{
  (void)arg, (void)mem, (void)name, (void)e;
  assert_int_equal(arch, 90);
  assert_true(strlen(source) > 0);
  compiled++;
  *out = (struct cubin){.bytes = "machine code", .n = 12, .ptx = "", .log = "", .registers = 40};
  return OK;
}

static int optimized(struct arena *mem, const char *db, int prepare)
{
  struct mica_options o = mica_options_default();
  struct err e = {0};
  json_t *report = NULL;
  bool recalled;
  const struct gpu_compiler by = {.compile = count, .major = 1};
  struct gpu_forge *forge = gpu_forge_open(&(struct gpu_forge_opts){.by = &by});
  o.target = "sm_90a", o.remember = db, o.db = db, o.measure = 2, o.threads = 2, o.fresh = true, o.prepare = prepare;
  compiled = 0;
  if (pipe_optimize_by(mem, graph_of(mem, "program norm() {\n X: f16[8, 128]\n W: f16[128, 64]\n return matmul(rms_norm(X), W)\n}\n"), &o, forge,
                       &report, &recalled, &e) != OK)
    fail_msg("%s", e.text);
  json_decref(report);
  return gpu_forge_close(forge), compiled;
}

static void each_is_compiled_once(void **state)
{
  (void)state;
  struct arena mem = {0};
  const char *few = arena_printf(&mem, "%s/few.db", folder), *many = arena_printf(&mem, "%s/many.db", folder);
  const int alone = optimized(&mem, NULL, 0);
  assert_true(alone > 0); // the result
  assert_int_equal(optimized(&mem, NULL, 5), alone);
  const int first = optimized(&mem, few, 2);
  assert_true(first >= 2);
  assert_int_equal(optimized(&mem, few, 2), 0); // they are known, and so is the result
  assert_true(optimized(&mem, many, 8) > first);
  arena_close(&mem);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(each_is_compiled_once)};
  return cmocka_run_group_tests(tests, folder_enter, folder_leave);
}

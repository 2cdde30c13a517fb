// Programs that run: of a report, of a saved folder, from many threads; and what a folder may hold and must not.
#include "saved.h"

#include <math.h>
#include <pthread.h>

enum { ROWS = 8, N = 64 };
static const char soft[] = "program soft() {\n  X: f32[8, 64]\n  E = exp(X)\n  return E / sum(E, dim=1)\n}\n";

static struct mica_report *optimized(struct mica_context *m)
{
  struct mica_program *p;
  struct mica_report *r;
  struct mica_options o = mica_options_default();
  static char db[512];
  snprintf(db, sizeof db, "%s/mica.db", folder);
  o.db = db, o.seconds = 0.05, o.measure = 1, o.threads = 1;
  if (mica_load_text(m, soft, "soft.mica", 0, NULL, &p) || mica_optimize(m, p, &o, &r)) fail_msg("%s", mica_error(m));
  return r;
}

static void softmax(struct mica_module *x, int seed)
{
  float in[ROWS * N], out[ROWS * N];
  const void *from[] = {in};
  void *to[] = {out};
  for (int i = 0; i < ROWS * N; i++) in[i] = (float)((i * 37 + seed * 11) % 101) / 50 - 1, out[i] = NAN;
  assert_int_equal(mica_module_call(x, from, to, NULL, NULL), MICA_OK);
  for (int r = 0; r < ROWS; r++) {
    double sum = 0;
    for (int i = 0; i < N; i++) sum += exp((double)in[r * N + i]);
    for (int i = 0; i < N; i++) assert_true(fabs((double)out[r * N + i] - exp((double)in[r * N + i]) / sum) < 1e-5);
  }
}

static void is_soft(struct mica_module *x)
{
  assert_string_equal(mica_module_name(x), "soft");
  assert_string_equal(mica_module_target(x), "cpu");
  assert_int_equal(mica_module_inputs(x), 1);
  assert_int_equal(mica_module_outputs(x), 1);
  struct mica_tensor t = mica_module_input(x, 0);
  assert_string_equal(t.name, "X");
  assert_true(t.dtype == MICA_F32 && t.ndim == 2 && t.shape[0] == ROWS && t.shape[1] == N);
  assert_int_equal(mica_module_output(x, 0).shape[1], N);
  assert_int_equal(mica_module_input(x, 1).ndim, 0);
  assert_int_equal(mica_module_workspace(x), 0);
  assert_int_equal(mica_module_prepare(x, NULL, NULL), MICA_OK);
}

// ---- the CPU ----

static void of_a_report_and_of_a_folder(void **state)
{
  (void)state;
  struct mica_context *m = mica_open(), *other = mica_open();
  struct mica_report *r = optimized(m);
  struct mica_module *x, *y;
  if (mica_module_of(m, r, &x)) fail_msg("%s", mica_error(m));
  is_soft(x);
  softmax(x, 1);
  if (mica_report_save(m, r, in_folder("soft"))) fail_msg("%s", mica_error(m));
  if (mica_module_load(other, in_folder("soft"), &y)) fail_msg("%s", mica_error(other));
  mica_close(m); // with x in it
  is_soft(y);
  softmax(y, 2);
  mica_module_close(y);
  assert_int_equal(mica_module_load(other, in_folder("soft"), &y), MICA_OK);
  assert_int_equal(mica_module_load(other, in_folder("soft"), &x), MICA_OK);
  mica_module_close(y);
  softmax(x, 3);
  mica_close(other);
}

// What does not fit is compiled again, and without a compiler that is the error.
static void compiled_where_it_has_to_be(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct mica_context *m = mica_open();
  struct mica_module *x;
  size_t n, length;
  char *so = NULL, *json = NULL, processor[64];
  read_as(&mem, "soft/kernel.so", &so, &n);
  read_as(&mem, "soft/program.json", &json, &length);
  setenv("CC", "/nowhere/cc", 1);
  assert_int_equal(mica_module_load(m, in_folder("soft"), &x), MICA_OK); // no compiler is needed
  mica_module_close(x);
  target_processor(processor);
  replaced("soft/program.json", processor, "x86-64 0000000000000000");
  assert_int_equal(mica_module_load(m, in_folder("soft"), &x), MICA_ENVIRONMENT);
  assert_non_null(strstr(mica_error(m), "/nowhere/cc"));
  unsetenv("CC");
  if (mica_module_load(m, in_folder("soft"), &x)) fail_msg("%s", mica_error(m));
  softmax(x, 4);
  mica_module_close(x);
  setenv("CC", "/nowhere/cc", 1); // it was kept
  if (mica_module_load(m, in_folder("soft"), &x)) fail_msg("%s", mica_error(m));
  softmax(x, 4);
  mica_module_close(x);
  unsetenv("CC");
  write_as("soft/program.json", json, length);
  write_as("soft/kernel.so", so, n / 2); // half of it
  if (mica_module_load(m, in_folder("soft"), &x)) fail_msg("%s", mica_error(m));
  softmax(x, 5);
  mica_module_close(x);
  write_as("soft/kernel.so", so, n);
  arena_close(&mem);
  mica_close(m);
}

static void addresses_are_checked(void **state)
{
  (void)state;
  struct mica_context *m = mica_open();
  struct mica_module *x;
  static float in[ROWS * N], out[ROWS * N];
  assert_int_equal(mica_module_load(m, in_folder("soft"), &x), MICA_OK);
  assert_string_equal(mica_error(m), "");
  assert_int_equal(mica_module_call(x, (const void *[]){NULL}, (void *[]){out}, NULL, NULL), MICA_USER);
  assert_non_null(strstr(mica_error(m), "input 0, `X`, has no address"));
  assert_int_equal(mica_module_call(x, (const void *[]){in}, (void *[]){(char *)out + 2}, NULL, NULL), MICA_USER);
  assert_non_null(strstr(mica_error(m), "no multiple of 4"));
  mica_module_close(x);
  assert_string_equal(mica_error(m), ""); // what it said went with it
  mica_close(m);
}

// ---- threads ----

struct runner {
  struct mica_module *x;
  int seed;
};

static void *runs(void *arg)
{
  const struct runner *r = arg;
  for (int i = 0; i < 20; i++) {
    softmax(r->x, r->seed + i);
    if (mica_module_call(r->x, (const void *[]){NULL}, (void *[]){NULL}, NULL, NULL) != MICA_USER) return arg;
  }
  return NULL;
}

static void many_threads(void **state)
{
  (void)state;
  struct mica_context *m = mica_open();
  struct runner r[4];
  pthread_t thread[COUNT(r)];
  void *failed;
  assert_int_equal(mica_module_load(m, in_folder("soft"), &r[0].x), MICA_OK);
  for (size_t i = 0; i < COUNT(r); i++) {
    r[i].x = r[0].x, r[i].seed = (int)i;
    assert_int_equal(pthread_create(&thread[i], NULL, runs, &r[i]), 0);
  }
  for (size_t i = 0; i < COUNT(r); i++) assert_int_equal(pthread_join(thread[i], &failed), 0), assert_null(failed);
  assert_non_null(strstr(mica_error(m), "has no address"));
  mica_close(m);
}

// ---- folders that are wrong ----

static const struct {
  const char *was, *now, *says;
} wrong[] = {
    {"\"program\"", "\"prog\"", "`program`"},
    {"\"arch\": \"cpu\"", "\"arch\": \"sm_13\"", "sm_13"},
    {"\"arch\": \"cpu\"", "\"arch\": 3", "`arch`"},
    {"\"arch\": \"cpu\"", "\"arch\": \"sm_90a\"", "`workspace`"},
    {"\"dtype\": \"f32\"", "\"dtype\": \"f64\"", "`dtype`"},
    {"\"inputs\": [", "\"inputs\": {}, \"x\": [", "`inputs`"},
    {"\"inputs\": [", "\"inputs\": [3, ", "entry 1 of `inputs`"},
    {"[8, 64]", "[8, 0]", "`shape`"},
    {"[8, 64]", "[8, -64]", "`shape`"},
    {"[8, 64]", "[1099511627776, 64]", "`shape`"},
    {"[8, 64]", "[1, 1, 1, 1, 1, 1, 1, 1, 1]", "`shape`"},
    {"[8, 64]", "[8, \"64\"]", "`shape`"},
    {"\"source\": \"kernel.c\"", "\"source\": \"../kernel.c\"", "`source`"},
    {"\"source\": \"kernel.c\"", "\"source\": \".\"", "`source`"},
    {"\"object\": \"kernel.so\"", "\"object\": \"/tmp/kernel.so\"", "`object`"},
    {"\"function\": \"soft\"", "\"function\": \"so ft\"", "`function`"},
    {"\"function\": \"soft\"", "\"function\": \"\"", "`function`"},
    {"\"object_hash\": \"", "\"object_hash\": \"xyz", "`object_hash`"},
    {"{", "", "program.json"},
    {"{", "{{", "program.json"},
};

static void wrong_folders(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct mica_context *m = mica_open();
  struct mica_module *x = (struct mica_module *)m;
  size_t n;
  char *json = NULL;
  read_as(&mem, "soft/program.json", &json, &n);
  assert_int_equal(mica_module_load(m, in_folder("nothing"), &x), MICA_ENVIRONMENT);
  assert_null(x);
  for (size_t i = 0; i < COUNT(wrong); i++) {
    replaced("soft/program.json", wrong[i].was, wrong[i].now);
    int status = mica_module_load(m, in_folder("soft"), &x);
    if (status != MICA_USER || !strstr(mica_error(m), wrong[i].says)) fail_msg("%s for %s: %d, %s", wrong[i].now, wrong[i].was, status, mica_error(m));
    write_as("soft/program.json", json, n);
  }
  for (size_t cut = 0; cut < n - 2; cut += 7) { // the end is missing
    write_as("soft/program.json", json, cut);
    assert_int_equal(mica_module_load(m, in_folder("soft"), &x), MICA_USER);
  }
  write_as("soft/program.json", json, n);
  arena_close(&mem);
  mica_close(m);
}

// With a default database of the test's own.
static int enter(void **state)
{
  return folder_enter(state) || setenv("MICA_DB", in_folder("default.db"), 1);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(of_a_report_and_of_a_folder), cmocka_unit_test(compiled_where_it_has_to_be),
                                     cmocka_unit_test(addresses_are_checked), cmocka_unit_test(many_threads), cmocka_unit_test(wrong_folders)};
  return cmocka_run_group_tests(tests, enter, folder_leave);
}

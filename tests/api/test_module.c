// Programs that run: of a report, of a saved folder, from many threads; and what a folder may hold and must not.
// test: quick sanitized
#include "saved.h"

#include <math.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ROWS = 8, N = 64 };
static const char soft[] = "program soft() {\n  X: f32[8, 64]\n  E = exp(X)\n  return E / sum(E, dim=1)\n}\n";

static struct mica_report *optimized(struct mica_context *m)
{
  struct mica_program *p;
  struct mica_report *r = NULL;
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

// Arrays of the values of a run-time extent, and of its bound.
static void with_a_run_time_extent(void **state)
{
  (void)state;
  static const char text[] = "program rows() {\n  n: dim <= 6\n  X: f32[2, n, 3]\n  return X + sum(X, dim=1), sum(X, dim=1)\n}\n";
  struct mica_context *m = mica_open();
  struct mica_program *p;
  struct mica_report *r;
  struct mica_module *x;
  struct mica_options o = mica_options_default();
  o.remember = false, o.seconds = 0.05, o.measure = 1, o.threads = 1;
  if (mica_load_text(m, text, "rows.mica", 0, NULL, &p) || mica_optimize(m, p, &o, &r) || mica_module_of(m, r, &x)) fail_msg("%s", mica_error(m));
  assert_true(mica_program_input_extent(p, 1, 1) == 0 && mica_program_input_extent(p, 1, 0) == -1 && mica_program_output_extent(p, 0, 1) == 0);
  assert_true(mica_module_input_extent(x, 1, 1) == 0 && mica_module_input_extent(x, 1, 2) == -1 && mica_module_input_extent(x, 9, 0) == -1);
  assert_true(mica_module_output_extent(x, 0, 1) == 0 && mica_module_output_extent(x, 1, 1) == -1 && mica_module_output_extent(x, 0, -1) == -1);
  assert_true(mica_module_is_extent(x, 0) && !mica_module_is_extent(x, 1) && !mica_module_is_extent(x, 2));
  for (int32_t n = 1; n <= 6; n++) {
    float in[36], out[36], sums[6], wide[36];
    for (int i = 0; i < 36; i++) in[i] = (float)(i % 7), out[i] = wide[i] = -1;
    if (mica_module_call_packed(x, (const void *const[]){&n, in}, (void *const[]){out, sums}, NULL)) fail_msg("%s", mica_error(m));
    for (int a = 0; a < 2; a++)
      for (int c = 0; c < 3; c++) {
        float sum = 0;
        for (int i = 0; i < n; i++) sum += in[(a * n + i) * 3 + c];
        assert_true(sums[a * 3 + c] == sum);
        for (int i = 0; i < n; i++) assert_true(out[(a * n + i) * 3 + c] == in[(a * n + i) * 3 + c] + sum);
      }
    for (int i = n * 6; i < 36; i++) assert_true(out[i] == -1); // no more is written
    const bool packed[] = {false, true, false, false};
    assert_int_equal(mica_module_call_packed(x, (const void *const[]){&n, in}, (void *const[]){wide, sums}, packed), MICA_OK);
    for (int i = 0; i < n * 3; i++) assert_true(wide[i] == out[i] && wide[18 + i] == out[n * 3 + i]);
  }
  for (int32_t n = 0; n <= 7; n += 7) {
    float in[42] = {0}, out[42] = {0}, sums[6] = {0};
    assert_int_equal(mica_module_call_packed(x, (const void *const[]){&n, in}, (void *const[]){out, sums}, NULL), MICA_USER);
    assert_non_null(strstr(mica_error(m), n ? "n is 7, at most 6" : "n is 0, at least 1"));
    assert_int_equal(mica_module_call(x, (const void *const[]){&n, in}, (void *const[]){out, sums}, NULL, NULL), MICA_USER);
  }
  const int32_t two = 2;
  const float in[36] = {0};
  float sums[6];
  assert_int_equal(mica_module_call_packed(x, (const void *const[]){&two, in}, (void *const[]){NULL, sums}, NULL), MICA_USER);
  assert_non_null(strstr(mica_error(m), "output 0"));
  if (mica_report_save(m, r, in_folder("rows"))) fail_msg("%s", mica_error(m));
  assert_int_equal(mica_module_load(m, in_folder("rows"), &x), MICA_OK);
  replaced("rows/program.json", "1, 6", "0, 6");
  seal("rows");
  assert_int_equal(mica_module_load(m, in_folder("rows"), &x), MICA_USER);
  assert_non_null(strstr(mica_error(m), "run-time extents"));
  mica_close(m);
}

// A module that does not fit is compiled again, and without a compiler that is the error.
static void compiled_where_it_has_to_be(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct mica_context *m = mica_open();
  struct mica_module *x;
  size_t length;
  char *json = NULL, processor[64];
  read_as(&mem, "soft/program.json", &json, &length);
  setenv("CC", "/nowhere/cc", 1);
  assert_int_equal(mica_module_load(m, in_folder("soft"), &x), MICA_OK); // no compiler is needed
  mica_module_close(x);
  target_processor(processor);
  replaced("soft/program.json", processor, "x86-64 0000000000000000");
  seal("soft");
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
  replaced("soft/program.json", "\"object\": \"kernel.so\"", "\"object\": null"); // as saved without a compiler
  seal("soft");
  if (mica_module_load(m, in_folder("soft"), &x)) fail_msg("%s", mica_error(m));
  softmax(x, 5);
  mica_module_close(x);
  write_as("soft/program.json", json, length);
  seal("soft");
  arena_close(&mem);
  mica_close(m);
}

static void only_frozen_inputs_are_frozen(void **state)
{
  (void)state;
  struct mica_context *m = mica_open();
  struct mica_module *x, *f = NULL;
  static float in[ROWS * N];
  assert_int_equal(mica_module_load(m, in_folder("soft"), &x), MICA_OK);
  assert_int_equal(mica_module_input(x, 0).frozen, 0);
  assert_int_equal(mica_module_freeze(x, (const void *[]){in}, &f), MICA_USER);
  assert_null(f);
  assert_non_null(strstr(mica_error(m), "has no frozen input"));
  mica_module_close(x);
  mica_close(m);
}

// A frozen module describes itself after the one that it was made of is closed.
static void a_frozen_module_stands_alone(void **state)
{
  (void)state;
  static const char text[] = "program frozen() {\n  X: f32[3, 8]\n  W: f32[8, 20] frozen\n  return exp(matmul(X, W)) + exp(W[0:1])\n}\n";
  static const float in[3 * 8], w[8 * 20];
  struct mica_context *m = mica_open();
  struct mica_options o = mica_options_default();
  struct mica_program *p;
  struct mica_report *r;
  struct mica_module *x, *f = NULL, *again = NULL;
  o.remember = 0, o.threads = 1, o.measure = 1;
  if (mica_load_text(m, text, "frozen.mica", 0, NULL, &p) || mica_optimize(m, p, &o, &r) || mica_module_of(m, r, &x)) fail_msg("%s", mica_error(m));
  if (mica_module_freeze(x, (const void *[]){in, w}, &f)) fail_msg("%s", mica_error(m));
  mica_module_close(x);
  for (int i = 0; i < 2; i++) {
    assert_false(mica_module_is_extent(f, i));
    for (int d = 0; d < 2; d++) assert_int_equal(mica_module_input_extent(f, i, d), -1);
  }
  assert_int_equal(mica_module_output_extent(f, 0, 0), -1);
  if (mica_module_freeze(f, (const void *[]){in, w}, &again)) fail_msg("%s", mica_error(m));
  mica_module_close(f), mica_module_close(again);
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
    {"\"object\": \"kernel.so\"", "\"object\": \"other.so\"", "other.so is needed"},
    {"[8, 64]", "[8, 32]", "graph.json"},
    {"\"inputs\": [", "\"inputs\": [{\"name\": \"Y\", \"dtype\": \"f32\", \"shape\": [8, 64]}, ", "graph.json"},
    {"\"dtype\": \"f32\"", "\"dtype\": \"f16\"", "graph.json"},
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
    seal("soft");
    int status = mica_module_load(m, in_folder("soft"), &x);
    if (status != MICA_USER || !strstr(mica_error(m), wrong[i].says))
      fail_msg("%s for %s: %d, %s", wrong[i].now, wrong[i].was, status, mica_error(m));
    write_as("soft/program.json", json, n);
  }
  for (size_t cut = 0; cut < n - 2; cut += 7) { // the end is missing
    write_as("soft/program.json", json, cut);
    seal("soft");
    assert_int_equal(mica_module_load(m, in_folder("soft"), &x), MICA_USER);
  }
  write_as("soft/program.json", json, n);
  seal("soft");
  arena_close(&mem);
  mica_close(m);
}

// The module reports the error after the graph is freed.
static void wrong_graph(void **state)
{
  (void)state;
  static const char *const now[][2] = {
      {"\"version\"", "\"verses\""}, {"{", "{{"}, {"\"op\"", "\"opp\""}, {"\"level\": \"kernel\"", "\"level\": \"block\""}};
  struct arena mem = {0};
  struct mica_context *m = mica_open();
  struct mica_module *x;
  size_t n;
  char *json = NULL;
  read_as(&mem, "soft/graph.json", &json, &n);
  for (size_t i = 0; i < COUNT(now); i++) {
    replaced("soft/graph.json", now[i][0], now[i][1]);
    seal("soft");
    assert_int_equal(mica_module_load(m, in_folder("soft"), &x), MICA_USER);
    if (strncmp(mica_error(m), "graph.json:", strlen("graph.json:"))) fail_msg("%s: %s", now[i][1], mica_error(m));
    write_as("soft/graph.json", json, n);
  }
  seal("soft");
  arena_close(&mem);
  mica_close(m);
}

// ---- folders that were changed ----

static void refused(struct mica_context *m, int wanted, const char *what, const char *says)
{
  struct mica_module *x;
  const int status = mica_module_load(m, in_folder("soft"), &x);
  if (status != wanted || !strstr(mica_error(m), what) || !strstr(mica_error(m), says)) fail_msg("%s, %s: %d, %s", what, says, status, mica_error(m));
}

static void any_file_changed(void **state)
{
  (void)state;
  static const char *const files[] = {"program.json", "kernel.so",   "kernel.c",    "kernel.h",   "graph.json", "graph.mica",
                                      "program.mica", "report.json", "report.html", "report.txt", FOLDER_SUMS};
  struct arena mem = {0};
  struct mica_context *m = mica_open();
  struct mica_module *x;
  for (size_t i = 0; i < COUNT(files); i++) {
    const char *name = arena_printf(&mem, "soft/%s", files[i]), *path = arena_strdup(&mem, in_folder(name));
    const bool list = !strcmp(files[i], FOLDER_SUMS);
    char *text;
    size_t n;
    read_as(&mem, name, &text, &n);
    text[n / 2] ^= 1;
    write_as(name, text, n);
    refused(m, MICA_USER, list ? "soft" : path, list ? "" : "is not the file that was saved");
    text[n / 2] ^= 1;
    write_as(name, text, n - 1);
    if (!list) refused(m, MICA_USER, path, "is not the file that was saved"); // the last line needs no end
    assert_int_equal(unlink(path), 0);
    refused(m, MICA_USER, path, "is missing");
    assert_int_equal(mkdir(path, 0755), 0);
    refused(m, MICA_USER, path, "is no regular file");
    assert_int_equal(rmdir(path), 0);
    write_as(name, text, n);
    assert_int_equal(chmod(path, 0666), 0);
    refused(m, MICA_ENVIRONMENT, path, "other users");
    assert_int_equal(chmod(path, 0644), 0);
    if (!geteuid()) {
      assert_int_equal(chown(path, 65534, 65534), 0);
      refused(m, MICA_ENVIRONMENT, path, "belongs to user 65534");
      assert_int_equal(chown(path, 0, 0), 0);
    }
  }
  write_as("soft/notes.txt", "mine", 4); // which nothing needs
  assert_int_equal(mica_module_load(m, in_folder("soft"), &x), MICA_OK);
  assert_int_equal(chmod(in_folder("soft"), 0777), 0);
  refused(m, MICA_ENVIRONMENT, "soft", "other users");
  assert_int_equal(chmod(in_folder("soft"), 0755), 0);
  static const char *const lists[] = {"", "x", "abc  program.json\n", "../program.json\n", "\n"};
  for (size_t i = 0; i < COUNT(lists); i++) {
    write_as("soft/" FOLDER_SUMS, lists[i], strlen(lists[i]));
    refused(m, MICA_USER, "", *lists[i] ? FOLDER_SUMS : "program.json is needed");
  }
  seal("soft");
  arena_close(&mem);
  mica_close(m);
}

// With a default database of the test's own.
static int enter(void **state) { return folder_enter(state) || setenv("MICA_DB", in_folder("default.db"), 1); }

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(of_a_report_and_of_a_folder),
                                     cmocka_unit_test(with_a_run_time_extent),
                                     cmocka_unit_test(compiled_where_it_has_to_be),
                                     cmocka_unit_test(only_frozen_inputs_are_frozen),
                                     cmocka_unit_test(a_frozen_module_stands_alone),
                                     cmocka_unit_test(addresses_are_checked),
                                     cmocka_unit_test(many_threads),
                                     cmocka_unit_test(wrong_folders),
                                     cmocka_unit_test(wrong_graph),
                                     cmocka_unit_test(any_file_changed)};
  return cmocka_run_group_tests(tests, enter, folder_leave);
}

// A time that is too short for a program of several parts, on a CPU. Results of finished parts are used, other parts run as the model chose, or
// operator by operator, and the whole program is measured.
// test: release
// test: timeout 300
#include "../graphs.h"
#include "../thin.h"
#include "drive/drive.h"
#include "report/report.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const double SECONDS = 8, OVER = 5.2; // OVER: when nothing is begun any more, as the last 3 seconds are for the whole
static const char several[] = "program several() {\n X: f32[64, 256]\n W: f32[256, 128]\n return softmax(matmul(softmax(X, dim=1), W), dim=1)\n}\n";

struct pace {
  double start;
  int part;    // the first that is compiled, -1: none yet
  bool stop;   // the user's flag is raised in the place of a wait
  bool first;  // that one waits too, so that nothing is measured before
  bool free;   // nothing waits
  double time; // in place of SECONDS, if not 0
  volatile int stopped;
};

// The compiling of parts after the first waits until the time is over.
static void wait_for_the_end(void *arg, const struct mica_progress *p)
{
  struct pace *w = arg;
  if (strcmp(p->stage, "compile") || w->free) return;
  if (w->part < 0) w->part = p->part;
  if (p->part == w->part && !w->first) return;
  if (w->stop) __atomic_store_n(&w->stopped, 1, __ATOMIC_RELAXED);
  while (now_seconds() < w->start + OVER && !w->stop) usleep(10000);
}

static int optimize_slowly(struct arena *mem, const char *text, struct pace *w, json_t **report, struct err *e)
{
  struct mica_options o = mica_options_default();
  bool recalled;
  o.remember = false, o.threads = 2, o.measure = 1, o.time = w->time > 0 ? w->time : SECONDS, o.seconds = 0.1;
  o.progress = wait_for_the_end, o.progress_arg = w, o.stop = &w->stopped;
  w->start = now_seconds(), w->part = -1;
  return pipe_optimize(mem, graph_of(mem, text), &o, report, &recalled, e);
}

static void the_best_until_then_is_the_result(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct pace w = {0};
  struct err e = {0};
  json_t *r;
  if (optimize_slowly(&mem, several, &w, &r, &e) != OK) fail_msg("%s", e.text);
  assert_true(json_is_true(json_object_get(r, "stopped")));
  const char *left = json_string_value(json_object_get(r, "left"));
  if (!strstr(left, "1 of 2 subprograms were not measured: as the model chose")) fail_msg("%s", left);
  const json_t *best = json_object_get(r, "best");
  double us = json_number_value(json_object_get(best, "us"));
  // On a slow machine there is no time left to measure the whole, or to check that operators are right, if they are faster.
  if (!(us > 0))
    assert_non_null(json_string_value(json_object_get(r, "warning")));
  else if (!strstr(left, "operator by operator was faster, but its numbers were not checked"))
    assert_true(us <= json_number_value(json_object_get(json_object_get(r, "baseline"), "us")));
  // The program put together was compared with float64.
  assert_true(json_is_true(json_object_get(best, "op_by_op")) || json_number_value(json_object_get(r, "max_rel_err")) > 0);
  json_decref(r);
  arena_close(&mem);
}

// No error. The program as the model chose, or operator by operator, is checked and measured, or a warning says that the time was over.
static void nothing_measured_is_no_error(void **state)
{
  (void)state;
  static const char *const texts[] = {several, "program soft() {\n X: f32[64, 256]\n return softmax(X, dim=1)\n}\n"};
  for (size_t i = (size_t)quick_step(2) - 1; i < COUNT(texts); i++) {
    struct arena mem = {0};
    struct pace w = {.first = true};
    struct err e = {0};
    json_t *r;
    if (optimize_slowly(&mem, texts[i], &w, &r, &e) != OK) fail_msg("%s", e.text);
    const json_t *best = json_object_get(r, "best");
    assert_true(json_is_true(json_object_get(r, "stopped")) && (!i || json_is_true(json_object_get(best, "op_by_op"))));
    const bool complete = json_number_value(json_object_get(best, "us")) > 0 && json_number_value(json_object_get(r, "max_rel_err")) > 0;
    assert_true(complete || json_string_value(json_object_get(r, "warning"))); // a busy machine may have no time left for both
    const char *left = json_string_value(json_object_get(r, "left"));
    if (!strstr(left, "search was ended early") && !strstr(left, " not measured: ")) fail_msg("%s", left);
    json_decref(r);
    arena_close(&mem);
  }
}

// Float64 takes minutes for the second one: what was not checked, or not measured, is no result. The program as written is, with a warning. The first
// may be checked and measured as the model chose.
static void nothing_unchecked_is_a_result(void **state)
{
  (void)state;
  static const char *const texts[] = {several, "program dear() {\n X: f32[3000, 40000]\n W: f32[40000, 3000]\n return matmul(X, W)\n}\n"};
  for (size_t i = 0; i < COUNT(texts); i++) {
    struct arena mem = {0};
    struct pace w = {.time = 0.001};
    struct err e = {0};
    struct str text = {0};
    json_t *r;
    if (optimize_slowly(&mem, texts[i], &w, &r, &e) != OK) fail_msg("%s", e.text);
    const json_t *best = json_object_get(r, "best"), *error = json_object_get(r, "max_rel_err");
    const bool checked = !json_is_null(error), measured = !json_is_null(json_object_get(best, "us"));
    const char *warning = json_string_value(json_object_get(r, "warning"));
    assert_true(json_is_true(json_object_get(r, "stopped")) && (json_is_true(json_object_get(best, "op_by_op")) || (!i && checked && measured)));
    assert_true(!checked || json_number_value(error) > 0);
    assert_true(i == 0 || !checked);
    if (!checked || !measured) {
      // The model's choice may be checked and not measured. The result is then op-by-op, which is neither.
      const bool either =
          warning && (strstr(warning, "was over before it was measured") || strstr(warning, "was over before its numbers were checked"));
      assert_true(either && (!checked || strstr(warning, "measured")));
      const char *told = strstr(warning, "operator by operator"); // once
      assert_true(told && !strstr(told + 1, "operator by operator"));
    }
    report_text(&mem, r, NULL, &text);
    if (!measured) assert_non_null(strstr(str_text(&text), "op-by-op   not measured"));
    str_free(&text);
    json_decref(r);
    arena_close(&mem);
  }
}

static int optimize_with_compiler(struct arena *mem, const char *compiler, struct pace *w, json_t **r, struct err *e)
{
  char folder[] = "/tmp/mica-slow-XXXXXX", cc[300];
  assert_non_null(mkdtemp(folder));
  snprintf(cc, sizeof cc, "%s/cc", folder);
  assert_int_equal(file_write(cc, compiler, strlen(compiler), e), OK);
  assert_int_equal(chmod(cc, 0700), 0);
  setenv("CC", cc, 1);
  const int status = optimize_slowly(mem, several, w, r, e);
  unsetenv("CC"), unlink(cc), rmdir(folder);
  return status;
}

// The time ends the compilers of both parts. The program operator by operator is compiled without a limit, and it is the result.
static void a_compiler_may_outlast_the_time(void **state)
{
  (void)state;
  static const char compiler[] = "#!/bin/sh\n[ \"$1\" = --version ] || sleep 3\nexec cc \"$@\"\n";
  struct arena mem = {0};
  struct pace w = {.time = 1, .free = true};
  struct err e = {0};
  json_t *r;
  if (optimize_with_compiler(&mem, compiler, &w, &r, &e) != OK) fail_msg("%s", e.text);
  assert_true(json_is_true(json_object_get(r, "stopped")) && json_is_true(json_object_get(json_object_get(r, "best"), "op_by_op")));
  const char *left = json_string_value(json_object_get(r, "left"));
  if (!strstr(left, "search was ended early") && !strstr(left, " not measured: ")) fail_msg("%s", left);
  json_decref(r);
  arena_close(&mem);
}

// The time ends the compiler of the program that was assembled from two parts with block graphs.
static void the_assembled_program_may_be_compiled_too_late(void **state)
{
  (void)state;
  static const char compiler[] = "#!/bin/bash\n"
                                 "for a; do [ \"${a##*/}\" != kernel.c ] || source=$a; done\n"
                                 "[ ! \"$source\" ] || [ \"$(grep -c '= block(' \"$source\")\" -lt 2 ] || sleep 100\n"
                                 "exec cc \"$@\"\n";
  struct arena mem = {0};
  struct pace w = {.time = SECONDS, .free = true};
  struct err e = {0};
  json_t *r;
  if (optimize_with_compiler(&mem, compiler, &w, &r, &e) != OK) fail_msg("%s", e.text);
  const json_t *best = json_object_get(r, "best");
  const char *warning = json_string_value(json_object_get(r, "warning")), *reason = json_string_value(json_object_get(best, "reason"));
  if (warning && strstr(warning, "was over before it was compiled")) { // otherwise only one part has a block graph, or the race ended earlier
    assert_true(json_is_true(json_object_get(best, "op_by_op")));
    assert_non_null(strstr(reason, "was over before it")); // was compiled, or its numbers were checked
  }
  assert_true(json_number_value(json_object_get(best, "us")) > 0 || warning);
  json_decref(r);
  arena_close(&mem);
}

static void a_user_does_not_wait_for_it(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct pace w = {.stop = true};
  struct err e = {0};
  json_t *r;
  assert_int_equal(optimize_slowly(&mem, several, &w, &r, &e), ENV);
  assert_int_equal(e.id, ERR_STOPPED);
  assert_null(r);
  arena_close(&mem);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(the_best_until_then_is_the_result),
                                     cmocka_unit_test(nothing_measured_is_no_error),
                                     cmocka_unit_test(nothing_unchecked_is_a_result),
                                     cmocka_unit_test(a_compiler_may_outlast_the_time),
                                     cmocka_unit_test(the_assembled_program_may_be_compiled_too_late),
                                     cmocka_unit_test(a_user_does_not_wait_for_it)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

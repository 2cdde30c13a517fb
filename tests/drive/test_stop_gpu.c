// Races on a simulated GPU (pretended_gpu.h) that are stopped by the user or at the end of the time. The result is the fastest measured candidate. The
// report says what was not tried, and the next job continues.
// test: timeout 400
// test: quick release
#include "pretended_gpu.h"
#include "thin.h"
#include "report/report.h"
#include "export/export.h"

// Smaller than in pretended_gpu.h: a stop takes the same way in a search of less.
static const char *const small[] = {
    "program soft() {\n X: f16[16, 64]\n return softmax(X, dim=1)\n}\n",
    "program norm() {\n X: f16[8, 64]\n W: f16[64, 32]\n return matmul(rms_norm(X), W)\n}\n",
};
static const char several[] = "program several() {\n X: f16[16, 64]\n W: f16[64, 32]\n return softmax(matmul(softmax(X, dim=1), W), dim=1)\n}\n";

struct stopped {
  struct arena mem;
  struct err e;
  json_t *report;
  int status;
};

static void optimize_and_stop(struct stopped *s, const char *text, int at, int told, bool is_quick, double time)
{
  struct mica_options o = mica_options_default();
  bool recalled;
  *s = (struct stopped){0};
  memset(&seen, 0, sizeof seen);
  seen.least = INFINITY, seen.clock = made_up, seen.stop_at = at, seen.told = told, seen.quick = is_quick, seen.waits = time > 0;
  o.target = "sm_90a", o.remember = database, o.db = database, o.measure = measured, o.threads = 2, o.tune = ENDLESS, o.time = time;
  o.stop = &seen.stop;
  s->status = pipe_optimize(&s->mem, graph_of(&s->mem, text), &o, &s->report, &recalled, &s->e);
  assert_int_equal(seen.open, 0);
  assert_false(recalled);
}

static void end_stopped(struct stopped *s)
{
  json_decref(s->report);
  arena_close(&s->mem);
}

// A stop in the first race, in a race of the climb, or in that of the finalists: the fastest measured program is the result, and the report lists the
// candidates that were not tried.
static void a_stop_keeps_the_fastest(void **state)
{
  (void)state;
  static const struct {
    int at, told;
    bool is_quick, climbs; // climbs: the climb has begun. Op-by-op is the first race, a few candidates the second, other ways two more
  } cases[] = {{1, 1, true, false}, {2, 2, true, false}, {3, 0, true, false}, {5, 5, true, true}, {6, 20, true, true}, {2, 4, false, true}};
  for (size_t i = (size_t)quick_step(2) - 1; i < COUNT(cases); i += (size_t)quick_step(2)) { // each kind is among the odd ones
    struct stopped s;
    optimize_and_stop(&s, small[0], cases[i].at, cases[i].told, cases[i].is_quick, 0);
    assert_int_equal(s.status, ENV);
    assert_int_equal(s.e.id, ERR_STOPPED);
    assert_non_null(s.report);
    assert_true(json_is_true(json_object_get(s.report, "stopped")));
    double us = number(s.report, "best", "us");
    if (fabs(us * 1e-6 - seen.least) > 1e-12) fail_msg("case %zu: %g us, and %g was measured", i, us, seen.least * 1e6);
    const char *left = json_string_value(json_object_get(s.report, "left"));
    assert_non_null(strstr(left, " variants of kernels were measured, "));
    assert_non_null(strstr(s.e.text, left));
    assert_int_equal(strstr(left, "the fastest was not tuned") != NULL, !cases[i].climbs);
    assert_true(json_is_true(json_object_get(json_object_get(s.report, "certificate"), "equal")));
    const char *out = arena_printf(&s.mem, "%s/stopped%zu", folder, i);
    s.e = (struct err){0};
    if (save_report(&s.mem, s.report, out, &s.e)) fail_msg("%s", s.e.text);
    end_stopped(&s);
  }
}

static void a_stop_before_anything_is_told(void **state)
{
  (void)state;
  struct stopped s;
  optimize_and_stop(&s, small[1], 1, 0, true, 0);
  assert_int_equal(s.status, ENV);
  assert_int_equal(s.e.id, ERR_STOPPED);
  assert_null(s.report);
  assert_non_null(strstr(s.e.text, "stopped before anything was measured"));
  end_stopped(&s);
}

// Nothing was measured in the time: the program operator by operator, with a warning.
static void check_unmeasured(struct stopped *s, const char *why)
{
  if (s->status != OK) fail_msg("%s", s->e.text);
  const json_t *best = json_object_get(s->report, "best");
  assert_true(json_is_true(json_object_get(s->report, "stopped")) && json_is_true(json_object_get(best, "op_by_op")));
  assert_true(json_is_null(json_object_get(best, "us")) && json_is_null(json_object_get(s->report, "max_rel_err")));
  const char *told = json_string_value(json_object_get(json_object_get(s->report, "gpu"), "unmeasured"));
  const char *warning = json_string_value(json_object_get(s->report, "warning"));
  if (!strstr(told, why) || !warning || !strstr(warning, why) || !strstr(warning, "operator by operator")) fail_msg("%s: %s", told, warning);
  const char *out = arena_printf(&s->mem, "%s/unmeasured", folder);
  if (save_report(&s->mem, s->report, out, &s->e)) fail_msg("%s", s->e.text);
}

// The end of the time is no error: that much was asked for. The sanitizers take several times as long to the first race.
static void the_time_is_heeded(void **state)
{
  (void)state;
  const int seconds = getenv("MICA_SANITIZED") ? 10 : 2;
  for (int told = thinned(3) - 1; told < 3; told += 2) {
    struct stopped s;
    optimize_and_stop(&s, small[0], 1, told, true, seconds);
    assert_int_equal(s.status, OK);
    if (!told) check_unmeasured(&s, arena_printf(&s.mem, "the time, %d seconds, was over before anything was measured", seconds));
    if (told) assert_true(json_is_true(json_object_get(s.report, "stopped")) && number(s.report, "best", "us") * 1e-6 > seen.least * 0.999999);
    end_stopped(&s);
  }
}

// A stopped run has no final result; the next run has it.
static void a_stopped_run_is_gone_on_with(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct stopped s;
  database = arena_printf(&mem, "%s/stopped.db", folder);
  optimize_and_stop(&s, small[0], 2, 8, true, 0);
  assert_int_equal(s.status, ENV);
  double before = number(s.report, "best", "us");
  end_stopped(&s);
  json_t *r = optimize(&mem, small[0], 0, made_up, ENDLESS);
  assert_true(seen.races > 0 && number(r, "best", "us") <= before);
  assert_false(json_is_true(json_object_get(r, "stopped")));
  assert_string_equal(json_string_value(json_object_get(r, "left")), "");
  json_decref(r);
  json_decref(optimize(&mem, small[0], 0, made_up, ENDLESS));
  assert_int_equal(seen.races, 0);
  database = NULL;
  arena_close(&mem);
}

// Parts that were raced are kept; the others are run operator by operator, and the whole is not measured.
static void parts_that_were_raced_are_kept(void **state)
{
  (void)state;
  struct stopped s;
  optimize_and_stop(&s, several, 1, 4, false, 0);
  assert_int_equal(s.status, ENV);
  assert_non_null(s.report);
  assert_true(json_array_size(json_object_get(s.report, "parts")) > 1);
  assert_true(json_is_null(json_object_get(json_object_get(s.report, "best"), "us")));
  assert_non_null(strstr(json_string_value(json_object_get(json_object_get(s.report, "gpu"), "unmeasured")), "its subprograms were"));
  struct str text = {0};
  report_text(&s.mem, s.report, NULL, &text);
  assert_non_null(strstr(str_text(&text), "stopped early"));
  str_free(&text);
  end_stopped(&s);
}

// If results cannot be checked in the time, nothing is raced. The model chooses, and the report tells why.
static void too_little_time_to_check_is_told(void **state)
{
  (void)state;
  static const char large[] = "program large() {\n X: f32[65536, 16384]\n return relu(X)\n}\n";
  for (int time = 10; time <= 100; time += 90) {
    struct stopped s;
    optimize_and_stop(&s, large, 0, 0, false, time);
    if (s.status != OK) fail_msg("%s", s.e.text);
    const char *told = json_string_value(json_object_get(json_object_get(s.report, "gpu"), "unmeasured"));
    assert_int_equal(strstr(told, "the time, 10 seconds, is too short to check 2.1e+09 elements") != NULL, time == 10);
    assert_int_equal(json_object_get(s.report, "warning") != NULL, time == 10);
    assert_int_equal(seen.sessions > 0, time == 100);
    end_stopped(&s);
  }
}

// A short job keeps a fifth of its time, others three seconds or a tenth, for the last race and for the proof.
static void time_is_kept_for_the_proof(void **state)
{
  (void)state;
  static const struct {
    double time, kept;
  } cases[] = {{10, 0.2 * 9.5}, {25, 3}, {60, 5.9}, {600, 10}};
  struct arena mem = {0};
  for (size_t i = 0; i < COUNT(cases); i++) {
    struct mica_options o = mica_options_default();
    struct job j = {.mem = &mem, .opts = &o, .program = graph_of(&mem, small[0]), .target = {.kind = TARGET_GPU}};
    o.time = cases[i].time;
    clock_open(&j);
    clock_part(&j, 1, 0);
    assert_true(fabs((clock_end(&j) - clock_climb(&j)) / 2 - cases[i].kept) < 1e-6); // once for the last race, once for the end of the job
    assert_false(clock_hurries(&j));
    clock_close(&j);
  }
  arena_close(&mem);
}

// ---- the race begins early ----

static int sessions_by_then; // when the search had ended

static void on_pass(void *arg, const char *line)
{
  (void)arg;
  if (!strncmp(line, "search ", 7)) sessions_by_then = seen.sessions;
}

static void optimize_watched(struct stopped *s, const char *text, double each)
{
  struct mica_options o = mica_options_default();
  bool recalled;
  *s = (struct stopped){0};
  memset(&seen, 0, sizeof seen);
  seen.least = INFINITY, seen.clock = made_up, seen.each = each, sessions_by_then = 0;
  o.target = "sm_90a", o.remember = false, o.measure = measured, o.threads = 2, o.tune = 1, o.time = 600, o.traced = on_pass;
  s->status = pipe_optimize(&s->mem, graph_of(&s->mem, text), &o, &s->report, &recalled, &s->e);
  if (s->status != OK) fail_msg("%s", s->e.text);
}

// Op-by-op is compiled during the search. The next batch has a few candidates, and later batches fill the remaining time.
static void the_race_begins_early(void **state)
{
  (void)state;
  static const double costs[] = {0, 1e4}; // seconds
  for (size_t i = 0; i < COUNT(costs); i++) {
    struct stopped s;
    optimize_watched(&s, small[1], costs[i]);
    assert_int_equal(sessions_by_then, 1);
    assert_int_equal(seen.size[0], 1);
    assert_true(seen.batches > 3 && seen.size[1] >= 1 && seen.size[1] <= 2);
    assert_int_equal(seen.size[2] > 3, costs[i] == 0);
    assert_int_equal(seen.open, 0);
    end_stopped(&s);
  }
}

// Op-by-op of a large program takes most of a short time. The first candidates are begun before its race ends, and are measured after it.
static void the_first_candidates_do_not_wait_for_op_by_op(void **state)
{
  (void)state;
  struct mica_options o = mica_options_default();
  struct stopped s = {0};
  bool recalled;
  memset(&seen, 0, sizeof seen);
  seen.least = INFINITY, seen.clock = made_up, seen.held = 2;
  o.target = "sm_90a", o.remember = false, o.measure = measured, o.threads = 2, o.tune = 0, o.time = 600;
  const double start = now_seconds();
  s.status = pipe_optimize(&s.mem, graph_of(&s.mem, small[1]), &o, &s.report, &recalled, &s.e);
  if (s.status != OK) fail_msg("%s", s.e.text);
  if (now_seconds() - start > PATIENCE) fail_msg("no batch was begun in %d seconds while op-by-op was raced", PATIENCE);
  assert_int_equal(seen.of[1], seen.of[0]); // one session
  assert_int_equal(seen.size[0], 1);
  assert_true(number(s.report, "best", "us") * 1e-6 <= seen.least * 1.000001);
  assert_int_equal(seen.open, 0);
  end_stopped(&s);
}

// ---- several parts ----

static const char four[] = "program four() {\n X: f16[16, 64]\n V: f16[64, 48]\n W: f16[48, 32]\n Y: f16[32, 80]\n"
                           " A = softmax(matmul(softmax(X, dim=1), V), dim=1)\n B = softmax(matmul(A, W), dim=1)\n"
                           " return softmax(matmul(B, Y), dim=1)\n}\n";
enum { PARTS = 4, TO_BEGIN = 2 * PARTS }; // batches: op-by-op of each, and the few candidates that the model likes best

// Sessions are those of the parts, in the order in which they are opened. The stop comes in the next batch.
static void every_part_is_measured_before_any_climbs(void **state)
{
  (void)state;
  struct stopped s;
  optimize_and_stop(&s, four, TO_BEGIN + 1, 0, true, 0);
  assert_int_equal(s.status, ENV);
  assert_int_equal(json_array_size(json_object_get(s.report, "parts")), PARTS);
  for (int i = 0; i < TO_BEGIN; i++) assert_int_equal(seen.of[i], i / 2 + 1);
  assert_int_equal(seen.sessions, PARTS);
  const char *left = json_string_value(json_object_get(s.report, "left"));
  if (strstr(left, "operator by operator")) fail_msg("%s", left);
  end_stopped(&s);
}

// ---- compilers that take longer than a part's time ----

enum { NONE = -1, FEW = 4 };
static const int never[3] = {NONE}, at_last[3] = {FEW}, second_never[3] = {0, NONE}, second_at_last[3] = {0, FEW};

static void optimize_late_until(struct stopped *s, const char *text, const int fast[3], int stop_at)
{
  struct mica_options o = mica_options_default();
  bool recalled;
  *s = (struct stopped){0};
  memset(&seen, 0, sizeof seen);
  seen.least = INFINITY, seen.clock = made_up, seen.stop_at = stop_at, seen.quick = true;
  memcpy(seen.fast, fast, sizeof seen.fast);
  o.stop = &seen.stop;
  o.target = "sm_90a", o.remember = database, o.db = database, o.measure = measured, o.threads = 2, o.time = 60, o.tune = 1;
  s->status = pipe_optimize(&s->mem, graph_of(&s->mem, text), &o, &s->report, &recalled, &s->e);
  assert_int_equal(seen.open, 0);
  assert_false(recalled);
}

static void optimize_late(struct stopped *s, const char *text, const int fast[3]) { optimize_late_until(s, text, fast, 0); }

// A candidate left because of its compiler waits again for the race of the remaining time. Stopped then, it has neither a result nor a fault.
static void a_stop_in_the_last_race_is_told(void **state)
{
  (void)state;
  for (int at = 1; at <= 4; at++) {
    struct stopped s;
    optimize_late_until(&s, small[1], never, at);
    assert_int_equal(s.status, ENV);
    assert_int_equal(s.e.id, ERR_STOPPED);
    assert_null(s.report);
    end_stopped(&s);
  }
}

// The report names the time limit as the reason. Candidates that were not tried are not reported as wrong.
static void no_time_to_compile_is_told(void **state)
{
  (void)state;
  struct stopped s;
  optimize_late(&s, small[1], never);
  check_unmeasured(&s, "the time, 60 seconds, was over before anything was measured");
  end_stopped(&s);
}

// The rest of the job's time is for a few programs.
static void what_is_left_of_the_time_is_used(void **state)
{
  (void)state;
  struct stopped s;
  optimize_late(&s, small[1], at_last);
  if (s.status != OK) fail_msg("%s", s.e.text);
  assert_true(seen.late > 0);
  assert_true(number(s.report, "best", "us") * 1e-6 > seen.least * 0.999999);
  end_stopped(&s);
}

static void a_part_without_time_runs_operator_by_operator(void **state)
{
  (void)state;
  static const int *const cases[] = {second_never, second_at_last};
  for (size_t i = 0; i < COUNT(cases); i++) {
    struct stopped s;
    optimize_late(&s, several, cases[i]);
    if (s.status != OK) fail_msg("%s", s.e.text);
    const char *left = json_string_value(json_object_get(s.report, "left"));
    bool nothing = strstr(left, "0 variants of kernels were measured") && strstr(left, "it runs operator by operator");
    assert_int_equal(nothing, cases[i] == second_never);
    assert_false(json_is_true(json_object_get(s.report, "stopped")));
    assert_true(number(s.report, "best", "us") > 0);
    end_stopped(&s);
  }
}

// A run that had too little time is no final result either: the next one has what was not tried.
static void a_run_without_time_is_gone_on_with(void **state)
{
  (void)state;
  if (thinned(2) > 1) skip();
  struct arena mem = {0};
  struct stopped s;
  database = arena_printf(&mem, "%s/late.db", folder);
  optimize_late(&s, several, second_never);
  double before = number(s.report, "best", "us");
  end_stopped(&s);
  json_t *r = optimize(&mem, several, 0, made_up, 1);
  assert_true(seen.races > 0 && number(r, "best", "us") <= before);
  assert_null(strstr(json_string_value(json_object_get(r, "left")), "operator by operator"));
  json_decref(r);
  database = NULL;
  arena_close(&mem);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_stop_keeps_the_fastest),
      cmocka_unit_test(a_stop_before_anything_is_told),
      cmocka_unit_test(the_time_is_heeded),
      cmocka_unit_test(a_stopped_run_is_gone_on_with),
      cmocka_unit_test(parts_that_were_raced_are_kept),
      cmocka_unit_test(a_stop_in_the_last_race_is_told),
      cmocka_unit_test(too_little_time_to_check_is_told),
      cmocka_unit_test(time_is_kept_for_the_proof),
      cmocka_unit_test(the_race_begins_early),
      cmocka_unit_test(the_first_candidates_do_not_wait_for_op_by_op),
      cmocka_unit_test(every_part_is_measured_before_any_climbs),
      cmocka_unit_test(no_time_to_compile_is_told),
      cmocka_unit_test(what_is_left_of_the_time_is_used),
      cmocka_unit_test(a_part_without_time_runs_operator_by_operator),
      cmocka_unit_test(a_run_without_time_is_gone_on_with),
  };
  return cmocka_run_group_tests(tests, folder_enter, folder_leave);
}

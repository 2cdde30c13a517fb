// Races on a simulated GPU, with times given by kernel names (pretend.h). The fastest correct candidate wins, whatever the others do. Results and
// machine code are remembered.
// test: quick release
#include "pretend.h"
#include "base/trace.h"
#include "folder.h"
#include "gpu/rank.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "once.h"
#include "twice.h"
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { N = 1000, MOST = 100 };

struct fixture {
  struct arena mem;
  struct err e;
  struct graph *g;
  struct gpu_race_opts o;
  struct gpu_compiler compiler;
  atomic_int compiled;
  const struct device_program *p[MOST];
  struct gpu_race r;
};

static void start(struct fixture *f)
{
  memset(f, 0, sizeof *f);
  f->g = twice(&f->mem, N);
  f->compiler = pretend_compiler;
  f->compiler.arg = &f->compiled;
  f->o = (struct gpu_race_opts){.seed = 3, .compiler = &f->compiler, .limit = 0.5, .seconds = 0.2, .worker = "/proc/self/exe"};
}

static int race(struct fixture *f, int n, const char *const *names)
{
  f->e = (struct err){0};
  for (int i = 0; i < n; i++) f->p[i] = pretend_program(&f->mem, &names[i], 1, N);
  return gpu_race(&f->mem, n, f->p, f->g, &f->o, &f->r, &f->e);
}

static void everything_has_its_verdict(void **state)
{
  (void)state;
  static const struct {
    const char *name;
    enum gpu_verdict verdict;
  } cases[] = {{"right_1000_3000", GPU_FINE}, {"off_1000_10", GPU_WRONG},           {"crash_1000_20", GPU_FAILED}, {"right_1000_2000", GPU_FINE},
               {"hang_1000_30", GPU_FAILED},  {"syntax_1000_40", GPU_NOT_COMPILED}, {"reset_1000_2500", GPU_FINE}, {"fail_1000_50", GPU_FAILED},
               {"race_1000_60", GPU_WRONG},   {"jitter_1000_9000", GPU_FINE},       {"lossy_1000_1900", GPU_WRONG}};
  const char *names[COUNT(cases)];
  struct fixture f;
  struct str text = {0};
  start(&f);
  for (size_t i = 0; i < COUNT(cases); i++) names[i] = cases[i].name;
  if (race(&f, (int)COUNT(cases), names)) fail_msg("%s", f.e.text);
  for (size_t i = 0; i < COUNT(cases); i++)
    if (f.r.result[i].verdict != cases[i].verdict) fail_msg("%s: %s", names[i], f.r.result[i].err.text);
  assert_int_equal(f.r.best, 3);
  assert_non_null(strstr(f.r.result[10].err.text, "on special inputs"));
  assert_true(f.r.result[3].special.all == N && f.r.result[3].special.held == N);
  assert_true(f.r.sure);
  assert_true(fabs(f.r.result[3].cold.median - 2e-6) < 1e-9 && fabs(f.r.result[3].hot.median - 2e-6) < 1e-9);
  assert_true(f.r.result[9].round >= 0 && f.r.result[1].round == -1);
  assert_int_equal(f.r.result[3].registers, 33);
  gpu_race_text(&f.r, (int)COUNT(cases), f.p, &text);
  assert_non_null(strstr(str_text(&text), "*   3      2.00"));
  str_free(&text);
  arena_close(&f.mem);
}

// Kernels of an older target are compiled for the device, and the report names both targets. Kernels for another device are not run.
static void older_targets_run_on_a_newer_device(void **state)
{
  (void)state;
  static const struct target newer = {.arch = 80, .runs_on = 90}, own = {.arch = 80};
  static const char *const name = "right_1000_3000";
  struct fixture f;
  start(&f);
  struct device_program p = *pretend_program(&f.mem, &name, 1, N);
  f.p[0] = &p;
  p.gpu = &newer;
  if (gpu_race(&f.mem, 1, f.p, f.g, &f.o, &f.r, &f.e)) fail_msg("%s", f.e.text);
  if (f.r.best) fail_msg("%s", f.r.result[0].err.text);
  assert_non_null(strstr(f.r.machine, "kernels for sm_80"));
  p.gpu = &own;
  assert_int_equal(gpu_race(&f.mem, 1, f.p, f.g, &f.o, &f.r, &f.e), USER);
  assert_non_null(strstr(f.e.text, "for compute capability 8.0, and none has 9.0"));
  arena_close(&f.mem);
}

static void the_fastest_of_many_wins(void **state)
{
  (void)state;
  const char *names[MOST];
  struct fixture f;
  start(&f);
  f.o.limit = 10;
  for (int i = 0; i < MOST; i++) names[i] = arena_printf(&f.mem, "right_1000_%d", 1000 + 37 * ((i * 61 + 7) % MOST));
  if (race(&f, MOST, names)) fail_msg("%s", f.e.text);
  assert_string_equal(names[f.r.best], "right_1000_1000");
  int finalists = 0;
  for (int i = 0; i < MOST; i++) finalists += f.r.result[i].hot.replays > 0;
  assert_int_equal(finalists, 4);
  assert_int_equal(f.r.compile.kernels, MOST);
  assert_int_equal(f.compiled, MOST);
  arena_close(&f.mem);
}

// Each stage of a race is one event of the job's trace; stages that a race does not come to are none.
static void stages_are_in_the_trace(void **state)
{
  (void)state;
  static const char *const stages[] = {"reference", "code", "check", "rounds", "final", "other inputs"};
  const char *names[2] = {"right_1000_3000", "right_1000_2000"}, *wrong[1] = {"off_1000_10"};
  struct fixture f;
  for (int good = 0; good < 2; good++) {
    struct trace *t = trace_open();
    struct str text = {0};
    start(&f);
    if (race(&f, good ? 2 : 1, good ? names : wrong)) fail_msg("%s", f.e.text);
    trace_text(t, &text);
    for (int i = 0; i < (int)COUNT(stages); i++) {
      const char *name = arena_printf(&f.mem, "\"%s\"", stages[i]), *at = strstr(str_text(&text), name);
      assert_true(at ? good || i < 3 : !good && i >= 3);
      assert_true(!at || !strstr(at + 1, name));
    }
    str_free(&text), trace_close(t), arena_close(&f.mem);
  }
}

// Separate kernels in a separate worker compute the reference on the device. The race is unchanged, and the trace names the machine that computed.
static void the_device_makes_the_reference(void **state)
{
  (void)state;
  const char *names[] = {"right_1000_3000", "off_1000_10", "lossy_1000_1900"};
  struct fixture f;
  struct trace *t = trace_open();
  struct str text = {0};
  start(&f);
  struct gpu_worker *w;
  const struct gpu_worker_opts inside = {.inside = true, .stage = pretend_stage()};
  assert_int_equal(gpu_worker_open(&inside, &w, &f.e), OK);
  struct gpu_forge *forge = gpu_forge_open(&(struct gpu_forge_opts){.by = &pretend_plain});
  f.o.evaluator = gpu_evaluator_open(&(struct gpu_evaluator_opts){.which = REFERENCE_GPU, .with = w, .forge = forge});
  if (race(&f, (int)COUNT(names), names)) fail_msg("%s", f.e.text);
  assert_int_equal(f.r.best, 0);
  assert_true(f.r.result[1].verdict == GPU_WRONG && f.r.result[2].verdict == GPU_WRONG);
  const struct gpu_evidence seen = gpu_evaluator_evidence(f.o.evaluator);
  assert_true(seen.computed >= 3 && seen.checked >= 3 && !seen.refused && !seen.differs); // own, other and special inputs
  trace_text(t, &text);
  assert_non_null(strstr(str_text(&text), "reference on the GPU"));
  assert_non_null(strstr(str_text(&text), "8 elements on the CPU, 0 differ"));
  gpu_evaluator_close(f.o.evaluator), gpu_forge_close(forge);
  str_free(&text), trace_close(t), arena_close(&f.mem);
}

// Races of one program: its reference is made once, kernels of the next are compiled during one, and a whole race after
// quick ones still has its other inputs.
static void races_share_what_they_can(void **state)
{
  (void)state;
  enum { TURNS = 4, EACH = 10 };
  struct fixture f;
  struct gpu_session *s;
  struct gpu_batch *b[TURNS + 1] = {NULL};
  const struct device_program *p[TURNS][EACH];
  double reference = 0;
  start(&f);
  f.o.limit = 10;
  assert_int_equal(gpu_session_open(f.g, &f.o, &s), OK);
  for (int t = 0; t < TURNS; t++)
    for (int i = 0; i < EACH; i++) {
      const char *name = i == 7 ? "off_1000_5" : arena_printf(&f.mem, "right_1000_%d", 3000 + 100 * i - 500 * t);
      p[t][i] = pretend_program(&f.mem, &name, 1, N);
    }
  for (int t = 0; t <= TURNS; t++) {
    f.o.quick = t != 2;
    if (t) gpu_batch_wait(b[t - 1]);
    if (t < TURNS && gpu_batch_start(s, &f.o, EACH, p[t], &b[t], &f.e)) fail_msg("%s", f.e.text);
    if (!t) continue;
    if (gpu_race_batch(&f.mem, b[t - 1], &f.r, &f.e)) fail_msg("%s", f.e.text);
    assert_int_equal(f.r.best, 0);
    assert_int_equal(f.r.result[7].verdict, GPU_WRONG);
    assert_true(fabs(f.r.result[0].cold.median - (3000 - 500 * (t - 1)) * 1e-9) < 1e-9);
    assert_int_equal(f.r.result[0].hot.replays > 0, t - 1 == 2);
    if (t == 1) reference = f.r.reference_seconds;
    assert_true(f.r.reference_seconds == reference);
  }
  assert_int_equal(f.compiled, 25); // each time once, and what is off
  for (int t = 0; t < TURNS; t++) gpu_batch_drop(b[t]);
  gpu_session_close(s);
  arena_close(&f.mem);
}

static int times_of(const struct trace *t, const char *what)
{
  struct str text = {0};
  int n = 0;
  trace_text(t, &text);
  for (const char *p = str_text(&text); (p = strstr(p, what)); p++) n++;
  return str_free(&text), n;
}

// In a quick race outputs are compared on the device. The CPU sees those that are called wrong, and all that differ from run to run.
static void a_quick_race_compares_on_the_device(void **state)
{
  (void)state;
  enum { LARGE = 1 << 18, EACH = 6 };
  static const char *const names[EACH] = {"right_262144_3000", "off_262144_10",    "right_262144_2000",
                                          "half_262144_20",    "jitter_262144_90", "race_262144_60"};
  static const enum gpu_verdict verdicts[EACH] = {GPU_FINE, GPU_WRONG, GPU_FINE, GPU_WRONG, GPU_FINE, GPU_WRONG};
  struct fixture f;
  struct gpu_session *s;
  struct gpu_batch *b;
  start(&f);
  struct trace *t = trace_open();
  f.g = twice(&f.mem, LARGE);
  f.o.quick = true, f.o.limit = 10;
  f.o.evaluator = gpu_evaluator_open(&(struct gpu_evaluator_opts){.which = REFERENCE_CPU});
  for (int i = 0; i < EACH; i++) f.p[i] = pretend_program(&f.mem, &names[i], 1, LARGE);
  assert_int_equal(gpu_session_open(f.g, &f.o, &s), OK);
  assert_int_equal(gpu_batch_start(s, &f.o, EACH, f.p, &b, &f.e), OK);
  if (gpu_race_batch(&f.mem, b, &f.r, &f.e)) fail_msg("%s", f.e.text);
  for (int i = 0; i < EACH; i++)
    if (f.r.result[i].verdict != verdicts[i]) fail_msg("%s: %s", names[i], f.r.result[i].err.text);
  assert_int_equal(f.r.best, 4);
  assert_true(f.r.result[4].check.repeats > 0 && f.r.result[0].check.repeats == 0);
  assert_int_equal(times_of(t, "\"comparison on the CPU\",\"cat\":\"stage\""), 2);
  gpu_batch_drop(b), gpu_session_close(s), gpu_evaluator_close(f.o.evaluator);
  trace_close(t), arena_close(&f.mem);
}

// Sessions of several programs share a worker and race one after the other: each has its own inputs there, also after another one was closed.
static void sessions_share_a_worker(void **state)
{
  (void)state;
  static const int sizes[] = {N, 1 << 14, 2 * N};
  enum { SESSIONS = COUNT(sizes), TURNS = 3 };
  struct fixture f;
  struct gpu_session *s[SESSIONS];
  struct gpu_worker *w;
  const struct gpu_worker_opts there = {.path = "/proc/self/exe"};
  start(&f);
  assert_int_equal(gpu_worker_open(&there, &w, &f.e), OK);
  f.o.with = w, f.o.quick = true, f.o.limit = 10;
  f.o.evaluator = gpu_evaluator_open(&(struct gpu_evaluator_opts){.which = REFERENCE_CPU});
  for (int i = 0; i < SESSIONS; i++) assert_int_equal(gpu_session_open(twice(&f.mem, sizes[i]), &f.o, &s[i]), OK);
  for (int t = 0; t < TURNS; t++)
    for (int i = 0; i < SESSIONS - (t == TURNS - 1); i++) {
      struct gpu_batch *b;
      const char *names[] = {arena_printf(&f.mem, "right_%d_%d", sizes[i], 3000 + t), arena_printf(&f.mem, "off_%d_%d", sizes[i], 10 + t)};
      for (int k = 0; k < 2; k++) f.p[k] = pretend_program(&f.mem, &names[k], 1, sizes[i]);
      assert_int_equal(gpu_batch_start(s[i], &f.o, 2, f.p, &b, &f.e), OK);
      if (gpu_race_batch(&f.mem, b, &f.r, &f.e)) fail_msg("%s", f.e.text);
      if (f.r.result[0].verdict != GPU_FINE) fail_msg("turn %d, session %d: %s", t, i, f.r.result[0].err.text);
      assert_int_equal(f.r.result[1].verdict, GPU_WRONG);
      gpu_batch_drop(b);
      if (i == SESSIONS - 1 && t == TURNS - 2) gpu_session_close(s[i]);
    }
  for (int i = 0; i < SESSIONS - 1; i++) gpu_session_close(s[i]);
  gpu_evaluator_close(f.o.evaluator), gpu_worker_close(w);
  arena_close(&f.mem);
}

static void nothing_right_is_no_error(void **state)
{
  (void)state;
  static const char *const names[] = {"off_1000_10", "half_1000_10"};
  struct fixture f;
  start(&f);
  assert_int_equal(race(&f, 2, names), OK);
  assert_int_equal(f.r.best, -1);
  assert_int_equal(f.r.result[1].err.id, ERR_WRONG);
  arena_close(&f.mem);
}

// Turns of the finalists in which others had the GPU are begun again until they are quiet; what stays disturbed is marked.
static void disturbed_turns_are_repeated(void **state)
{
  (void)state;
  static const char *const early = "early_1000_2000", *const busy = "busy_1000_2000";
  struct fixture f;
  start(&f);
  f.o.seconds = 100;
  assert_int_equal(race(&f, 1, &early), OK);
  assert_int_equal(f.r.best, 0);
  assert_int_equal(gpu_disturbed(&f.r.result[0].cold).why, DISTURBED_NOT);
  assert_true(f.r.result[0].cold.p90 < 2.01e-6);
  f.o.seconds = 0.1;
  assert_int_equal(race(&f, 1, &busy), OK);
  struct disturbed d = gpu_disturbed(&f.r.result[0].cold);
  assert_int_equal(f.r.best, 0);
  assert_int_equal(d.why, DISTURBED_SCATTERED);
  assert_true(d.by > 1.5 && d.by < 3.01);
  arena_close(&f.mem);
}

// The first replays of a candidate take ten times as long, because others have the GPU. It is not left out of a race of two, and wins.
static void first_replays_do_not_decide(void **state)
{
  (void)state;
  static const char *const names[] = {"waking_1000_2000", "right_1000_8000"};
  struct fixture f;
  start(&f);
  assert_int_equal(race(&f, 2, names), OK);
  assert_int_equal(f.r.best, 0);
  assert_true(f.r.result[0].cold.replays >= 20 && f.r.result[0].cold.median < 2.01e-6);
  arena_close(&f.mem);
}

// The device cannot be named here, so the parts that gpu_race puts together are tried: machine code is recalled by its
// source, a race by all that it depends on.
static void results_are_remembered(void **state)
{
  (void)state;
  static const char *const names[] = {"right_1000_2000", "right_1000_3000", "off_1000_10"};
  struct fixture f;
  struct gpu_race again = {0};
  char warning[256] = "";
  start(&f);
  const char *path = arena_printf(&f.mem, "%s/race.db", folder);
  assert_int_equal(db_open(path, &f.o.db, &f.e), OK);
  struct db *db = f.o.db;
  struct code codes[3];
  struct compile_result results[3];
  struct compile_stats stats;
  for (int turn = 0; turn < 2; turn++) {
    for (int i = 0; i < 3; i++) {
      f.p[i] = pretend_program(&f.mem, &names[i], 1, N);
      assert_int_equal(code_make(&f.mem, f.p[i], &codes[i], &f.e), OK);
    }
    assert_int_equal(compile_codes(&f.mem, &f.compiler, db, 90, 3, codes, results, &stats, &f.e), OK);
    assert_int_equal(stats.recalled, turn ? 3 : 0);
    assert_int_equal(f.compiled, 3);
    assert_int_equal(codes[1].kernel[0].registers, 33);
    assert_string_equal(codes[1].kernel[0].cubin, names[1]);
  }
  f.o.db = NULL;
  assert_int_equal(race(&f, 3, names), OK);
  const char *key = keep_key(&f.mem, 3, f.p, f.g, &f.o, "a GPU"), *other = keep_key(&f.mem, 3, f.p, f.g, &f.o, "another GPU");
  again.result = NEWS(&f.mem, struct gpu_result, 3);
  assert_false(keep_recall(&f.mem, db, key, 3, &again));
  keep_race(db, key, 3, f.p, &f.r, warning);
  assert_string_equal(warning, "");
  assert_false(keep_recall(&f.mem, db, other, 3, &again));
  assert_true(keep_recall(&f.mem, db, key, 3, &again));
  assert_true(again.recalled && again.best == 0 && again.sure == f.r.sure);
  for (int i = 0; i < 3; i++) {
    assert_int_equal(again.result[i].verdict, f.r.result[i].verdict);
    assert_true(again.result[i].cold.median == f.r.result[i].cold.median);
    assert_string_equal(again.result[i].err.text, f.r.result[i].err.text);
  }
  f.r.result[0].cold.p90 = 2 * f.r.result[0].cold.least; // others had the GPU: it is no last word
  keep_race(db, key, 3, f.p, &f.r, warning);
  assert_false(keep_recall(&f.mem, db, key, 3, &again));
  f.p[1] = f.p[0];
  assert_string_not_equal(key, keep_key(&f.mem, 3, f.p, f.g, &f.o, "a GPU"));
  db_close(db);
  arena_close(&f.mem);
}

static void put(struct fixture *f, const char *name, const char *text)
{
  const char *path = arena_printf(&f->mem, "%s/%s", folder, name);
  char *dir = arena_strdup(&f->mem, path);
  *strrchr(dir, '/') = 0;
  assert_int_equal(file_mkdirs(dir, &f->e), OK);
  assert_int_equal(file_write(path, text, strlen(text), &f->e), OK);
}

static void gpus_are_told_by_files(void **state)
{
  (void)state;
  struct fixture f;
  char name[160];
  start(&f);
  assert_false(identity_by_files(folder, name));
  put(&f, "gpus/0000:19:00.0/information", "Model: \t\t NVIDIA H200\nIRQ:   \t\t 18\n");
  assert_false(identity_by_files(folder, name));
  put(&f, "version", "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build\nGCC version: 12\n");
  assert_true(identity_by_files(folder, name));
  assert_string_equal(name, "NVIDIA H200, driver 570.86.15");
  put(&f, "version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.54.03  Tue Jun  6\n");
  put(&f, "gpus/0000:3b:00.0/information", "Model:  NVIDIA H200\n");
  assert_true(identity_by_files(folder, name));
  assert_string_equal(name, "NVIDIA H200, driver 535.54.03");
  put(&f, "gpus/0000:3b:00.0/information", "Model:  NVIDIA A100\n"); // which one is asked for is not told
  assert_false(identity_by_files(folder, name));
  arena_close(&f.mem);
}

static void orders_are_sure_or_not(void **state)
{
  (void)state;
  struct gpu_time t[3] = {{.median = 10, .low = 9.8, .high = 10.2}, {.median = 11, .low = 10.5, .high = 11.5}, {.median = 12, .low = 11, .high = 13}};
  assert_true(rank_sure(t, 3));
  t[1].low = 10.1;
  assert_false(rank_sure(t, 3));
  t[1].median = 10.05; // as good as equal
  assert_true(rank_sure(t, 3));
  double s[] = {5, 1, 4, 2, 3, 9, 8, 7, 6};
  struct gpu_time x;
  rank_time(s, 9, 7, &x);
  assert_true(x.median == 5 && x.least == 1 && x.low == 2 && x.high == 8 && x.p90 == 9 && x.launches == 7);
  int who[] = {0, 1, 2, 3, 4, 5};
  const double seconds[] = {5, 1, 4, 1.5, 30, 1.2};
  assert_int_equal(rank_keep(who, 6, seconds, 2, 2), 3);
  assert_true(who[0] == 1 && who[1] == 5 && who[2] == 3);
  bool flush;
  assert_int_equal(rank_launches(1e-5, 5e-4, 1000, &flush), 50);
  assert_true(flush);
  assert_int_equal(rank_launches(1e-5, 5e-4, 20, &flush), 40);
  assert_false(flush);
  assert_int_equal(rank_launches(4e-4, 5e-4, 20, &flush), 4);
  assert_int_equal(rank_launches(2e-3, 5e-4, 20, &flush), 1); // one that takes long is timed well alone
}

static void one_program_is_run(void **state)
{
  (void)state;
  static const char *const names[] = {"right_1000_10", "reset_1000_10"}, *const bad = "syntax_1000_10";
  struct fixture f;
  struct buffers *b;
  start(&f);
  assert_int_equal(buffers_open(f.g, 9, &b, &f.e), OK);
  if (gpu_run_program(&f.mem, pretend_program(&f.mem, names, 2, N), b, &f.o, &f.e)) fail_msg("%s", f.e.text);
  const float *x = b->in[0], *y = b->out[0];
  for (int i = 0; i < N; i++) assert_true(y[i] == 4 * x[i]);
  assert_int_equal(gpu_run_program(&f.mem, pretend_program(&f.mem, &bad, 1, N), b, &f.o, &f.e), ENV);
  assert_int_equal(f.e.id, ERR_COMPILER);
  buffers_close(b);
  arena_close(&f.mem);
}

int main(int argc, char **argv)
{
  if (argc == 3 && !strcmp(argv[1], "gpu-worker")) stage_serve_all(pretend_stage(), atoi(argv[2]));
  const struct CMUnitTest tests[] = {cmocka_unit_test(everything_has_its_verdict),
                                     cmocka_unit_test(older_targets_run_on_a_newer_device),
                                     cmocka_unit_test(the_fastest_of_many_wins),
                                     cmocka_unit_test(stages_are_in_the_trace),
                                     cmocka_unit_test(sessions_share_a_worker),
                                     cmocka_unit_test(races_share_what_they_can),
                                     cmocka_unit_test(a_quick_race_compares_on_the_device),
                                     cmocka_unit_test(nothing_right_is_no_error),
                                     cmocka_unit_test(disturbed_turns_are_repeated),
                                     cmocka_unit_test(first_replays_do_not_decide),
                                     cmocka_unit_test(results_are_remembered),
                                     cmocka_unit_test(one_program_is_run),
                                     cmocka_unit_test(gpus_are_told_by_files),
                                     cmocka_unit_test(orders_are_sure_or_not),
                                     cmocka_unit_test(the_device_makes_the_reference)};
  return cmocka_run_group_tests(tests, folder_enter, folder_leave);
}

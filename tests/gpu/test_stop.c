// Races that are stopped, and compilations that are given up. Hanging kernels are ended, measured times are reported and not measured again, and no
// process remains. If a stop has no effect, these tests do not end.
#include "pretend.h"
#include "folder.h"
#include "gpu/session.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "twice.h"
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N = 1000, MOST = 40, A_MOMENT = 300000 }; // microseconds

int gpu_identity(int device, char out[160], struct err *e)
{
  (void)device, (void)e;
  return snprintf(out, 160, "a pretended GPU"), OK;
}

struct fixture {
  struct arena mem;
  struct err e;
  struct graph *g;
  struct gpu_race_opts o;
  struct gpu_compiler compiler;
  atomic_int compiled;
  const struct device_program *p[MOST];
  struct gpu_race r;
  volatile int stop;
  const char *stage; // the stop comes when it is at...
  int at;            // ...for the so manieth time
  bool at_once;      // else a moment later,
  pthread_t late;    // by this thread; 0: none
};

static void *set_later(void *flag)
{
  usleep(A_MOMENT);
  __atomic_store_n((volatile int *)flag, 1, __ATOMIC_RELAXED);
  return NULL;
}

static void on_progress(void *arg, const char *stage, int done, int all)
{
  struct fixture *f = arg;
  (void)done, (void)all;
  if (!f->stage || strcmp(stage, f->stage) != 0 || f->at-- != 0) return;
  if (f->at_once)
    f->stop = 1;
  else
    assert_int_equal(pthread_create(&f->late, NULL, set_later, (void *)&f->stop), 0);
}

static void start(struct fixture *f)
{
  memset(f, 0, sizeof *f);
  f->g = twice(&f->mem, N);
  f->compiler = pretend_compiler;
  f->compiler.arg = &f->compiled;
  f->o = (struct gpu_race_opts){
      .seed = 3, .compiler = &f->compiler, .limit = 1e6, .worker = "/proc/self/exe", .stop = &f->stop, .progress = on_progress, .progress_arg = f};
}

static void no_process_is_left(void)
{
  assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
  assert_int_equal(errno, ECHILD);
}

static void stop_is_over(struct fixture *f)
{
  if (f->late) pthread_join(f->late, NULL);
  f->late = 0, f->stop = 0, f->stage = NULL;
}

static void end(struct fixture *f)
{
  stop_is_over(f);
  no_process_is_left();
  db_close(f->o.db);
  arena_close(&f->mem);
}

static int race(struct fixture *f, int n, const char *const *names)
{
  f->e = (struct err){0};
  for (int i = 0; i < n; i++) f->p[i] = pretend_program(&f->mem, &names[i], 1, N);
  return gpu_race(&f->mem, n, f->p, f->g, &f->o, &f->r, &f->e);
}

static void what_hangs_is_ended(void **state)
{
  (void)state;
  static const char *const names[] = {"right_1000_2000", "hang_1000_10", "right_1000_3000"};
  for (int with = 0; with < 2; with++) { // the caller's worker lives on
    struct fixture f;
    struct gpu_worker *w = NULL;
    const struct gpu_worker_opts o = {.path = "/proc/self/exe"};
    start(&f);
    if (with) assert_int_equal(gpu_worker_open(&o, &w, &f.e), OK);
    f.o.with = w;
    f.stage = "check", f.at = 1;
    assert_int_equal(race(&f, 3, names), ENV);
    assert_int_equal(f.e.id, ERR_STOPPED);
    assert_int_equal(f.r.best, -1); // nothing was timed
    assert_int_equal(f.r.result[1].cold.replays, 0);
    stop_is_over(&f);
    if (with) assert_int_equal(race(&f, 1, names), OK);
    gpu_worker_close(w);
    end(&f);
  }
}

static const char **many(struct arena *mem, int n, int from)
{
  const char **names = NEWS(mem, const char *, n);
  for (int i = 0; i < n; i++) names[i] = arena_printf(mem, "right_1000_%d", from + 37 * ((i * 61 + 7) % n));
  return names;
}

static void hang_in_the_end(struct arena *mem, const char **names, int n) { names[n - 1] = arena_printf(mem, "hang_1000_%d", n); }

// The stop occurs in the second round. The results of the first round are kept.
static void what_was_timed_is_told(void **state)
{
  (void)state;
  enum { COUNTED = 12 };
  struct fixture f;
  start(&f);
  const char **names = many(&f.mem, COUNTED, 2000);
  f.stage = "time", f.at = 1, f.at_once = true;
  assert_int_equal(race(&f, COUNTED, names), ENV);
  assert_int_equal(f.e.id, ERR_STOPPED);
  assert_string_equal(names[f.r.best], "right_1000_2000");
  for (int i = 0; i < COUNTED; i++) assert_true(f.r.result[i].verdict == GPU_FINE && f.r.result[i].cold.replays == 3);
  end(&f);
}

static int quick(struct fixture *f, struct gpu_session *s, int n, const char *const *names)
{
  struct gpu_batch *b;
  f->e = (struct err){0}, f->o.quick = true;
  for (int i = 0; i < n; i++) f->p[i] = pretend_program(&f->mem, &names[i], 1, N);
  int status = gpu_batch_start(s, &f->o, n, f->p, &b, &f->e);
  if (status == OK) status = gpu_race_batch(&f->mem, b, &f->r, &f->e);
  gpu_batch_drop(b);
  return status;
}

// Machine code in the database is taken for what is tried once, too, and nothing is put there.
static void what_was_prepared_is_not_compiled(void **state)
{
  (void)state;
  enum { EACH = 6, PREPARED = 4 };
  struct fixture f;
  struct gpu_session *s;
  struct code codes[EACH];
  struct compile_result results[EACH];
  struct compile_stats stats;
  start(&f);
  assert_int_equal(db_open(arena_printf(&f.mem, "%s/prepared.db", folder), &f.o.db, &f.e), OK);
  const char **a = many(&f.mem, EACH, 7000);
  for (int turn = 0; turn < 2; turn++) { // as another process would
    for (int i = 0; i < PREPARED && !turn; i++) assert_int_equal(code_make(&f.mem, pretend_program(&f.mem, &a[i], 1, N), &codes[i], &f.e), OK);
    if (!turn) assert_int_equal(compile_codes(&f.mem, &f.compiler, f.o.db, 90, PREPARED, codes, results, &stats, &f.e), OK);
    f.compiled = 0;
    f.o.fresh = true;
    assert_int_equal(gpu_session_open(f.g, &f.o, &s), OK);
    assert_int_equal(quick(&f, s, EACH, a), OK);
    assert_int_equal(f.compiled, EACH - PREPARED);
    for (int i = 0; i < EACH; i++) assert_int_equal(f.r.result[i].verdict, GPU_FINE);
    gpu_session_close(s);
  }
  end(&f);
}

// The first batch is measured, the second is stopped; in the next run those of the first are known, among others too.
static void what_was_measured_is_not_measured_again(void **state)
{
  (void)state;
  enum { EACH = 10 };
  struct fixture f;
  struct gpu_session *s;
  double first[EACH];
  start(&f);
  assert_int_equal(db_open(arena_printf(&f.mem, "%s/stop.db", folder), &f.o.db, &f.e), OK);
  const char **a = many(&f.mem, EACH, 2000), **b = many(&f.mem, EACH, 5000), *all[2 * EACH];
  assert_int_equal(gpu_session_open(f.g, &f.o, &s), OK);
  assert_int_equal(quick(&f, s, EACH, a), OK);
  for (int i = 0; i < EACH; i++) first[i] = f.r.result[i].cold.median;
  int best = f.r.best;
  const char *kept = b[EACH - 1];
  hang_in_the_end(&f.mem, b, EACH);
  f.stage = "check", f.at = EACH - 1;
  assert_int_equal(quick(&f, s, EACH, b), ENV);
  assert_int_equal(f.e.id, ERR_STOPPED);
  gpu_session_close(s);
  stop_is_over(&f);
  b[EACH - 1] = kept;
  for (int i = 0; i < EACH; i++) all[2 * i] = b[i], all[2 * i + 1] = a[i];
  f.compiled = 0;
  assert_int_equal(gpu_session_open(f.g, &f.o, &s), OK);
  assert_int_equal(quick(&f, s, 2 * EACH, all), OK);
  assert_int_equal(f.compiled, EACH);
  assert_false(f.r.recalled);
  assert_int_equal(f.r.best, 2 * best + 1);
  for (int i = 0; i < EACH; i++) {
    assert_true(f.r.result[2 * i + 1].cold.median == first[i]);
    assert_true(f.r.result[2 * i].verdict == GPU_FINE && f.r.result[2 * i].cold.replays > 0);
  }
  assert_int_equal(quick(&f, s, EACH, a), OK);
  assert_true(f.r.recalled);
  assert_int_equal(f.r.best, best);
  f.o.fresh = true;
  assert_int_equal(quick(&f, s, EACH, a), OK);
  assert_false(f.r.recalled);
  gpu_session_close(s);
  end(&f);
}

// If nothing ran, the fault is not known: the next run tries again.
static void a_race_that_nobody_ends_is_not_kept(void **state)
{
  (void)state;
  static const char *const names[] = {"fail_1000_10", "fail_1000_20"};
  struct fixture f;
  struct gpu_session *s;
  start(&f);
  assert_int_equal(db_open(arena_printf(&f.mem, "%s/fail.db", folder), &f.o.db, &f.e), OK);
  for (int turn = 0; turn < 2; turn++) {
    assert_int_equal(gpu_session_open(f.g, &f.o, &s), OK);
    assert_int_equal(quick(&f, s, 2, names), OK);
    assert_false(f.r.recalled);
    assert_int_equal(f.r.result[0].verdict, GPU_FAILED);
    gpu_session_close(s);
  }
  end(&f);
}

// ---- compiling ----

// Files that say which kernels are done; the environment has the beginning of their names.
static const char *mark_of(struct arena *mem, const char *name)
{
  const char *prefix = getenv("MICA_TEST_MARKS");
  return prefix ? arena_printf(mem, "%s%s", prefix, name) : NULL;
}

static void mark_done(struct arena *mem, const char *name)
{
  struct err e = {0};
  const char *path = mark_of(mem, name);
  if (path) assert_int_equal(file_write(path, "", 0, &e), OK);
}

// In the process that compiles: what is slow never ends.
static int slow_compile(const void *arg, struct arena *mem, const char *name, const char *source, int arch, struct cubin *out, struct err *e)
{
  if (!strncmp(name, "slow", 4)) sleep(100000);
  int status = pretend_compile(arg, mem, name, source, arch, out, e);
  mark_done(mem, name);
  if (!strncmp(name, "abort", 5)) _exit(1);
  return status;
}
static const struct gpu_compiler slow = {.compile = slow_compile, .major = 1};

static struct gpu_forge *forge(struct fixture *f, const char *worker)
{
  return gpu_forge_open(&(struct gpu_forge_opts){.by = &f->compiler, .worker = worker, .apart = true});
}

enum { KERNELS = 5 };
static const char *const kernels[KERNELS] = {"right_1000_10", "slow_1000_10", "syntax_1000_10", "abort_1000_10", "right_1000_20"};

// A stop a moment after all kernels but the slow one are done.
static void *stop_after_others(void *flag)
{
  struct arena mem = {0};
  for (int i = 0; i < KERNELS; i++)
    while (i != 1 && access(mark_of(&mem, kernels[i]), F_OK)) usleep(10000);
  arena_close(&mem);
  return set_later(flag);
}

static void compile_all(struct fixture *f, struct gpu_forge *g, const struct patience *until, struct compile_result *r, struct compile_stats *stats)
{
  struct code c[KERNELS];
  for (int i = 0; i < KERNELS; i++) {
    f->p[i] = pretend_program(&f->mem, &kernels[i], 1, N);
    assert_int_equal(code_make(&f->mem, f->p[i], &c[i], &f->e), OK);
  }
  assert_int_equal(gpu_forge_codes(&f->mem, g, NULL, until, 90, KERNELS, c, r, stats, &f->e), OK);
  for (int i = 0; i < KERNELS; i++)
    if (r[i].status == OK) assert_string_equal(c[i].kernel[0].cubin, kernels[i]);
}

// By the clock, then by a stop.
static void compiling_is_given_up(void **state)
{
  (void)state;
  for (int by_stop = 0; by_stop < 2; by_stop++) {
    struct fixture f;
    struct compile_result r[KERNELS];
    struct compile_stats stats;
    start(&f);
    struct gpu_forge *g = forge(&f, "/proc/self/exe");
    struct patience until = {.until = by_stop ? 0 : now_seconds() + 0.5, .stop = &f.stop};
    if (by_stop) assert_int_equal(pthread_create(&f.late, NULL, set_later, (void *)&f.stop), 0);
    compile_all(&f, g, &until, r, &stats);
    assert_int_equal(r[1].err.id, ERR_STOPPED);
    gpu_forge_close(g);
    if (by_stop) stop_is_over(&f);
    g = forge(&f, "/proc/self/exe");
    setenv("MICA_TEST_MARKS", arena_printf(&f.mem, "%s/done_%d_", folder, by_stop), 1);
    assert_int_equal(pthread_create(&f.late, NULL, stop_after_others, (void *)&f.stop), 0);
    compile_all(&f, g, &(struct patience){.stop = &f.stop}, r, &stats);
    stop_is_over(&f);
    unsetenv("MICA_TEST_MARKS");
    assert_int_equal(r[1].err.id, ERR_STOPPED);
    assert_int_equal(r[2].err.id, ERR_COMPILER);
    assert_non_null(strstr(r[2].err.text, "does not compile"));
    if (!strstr(r[3].err.text, "ended unexpectedly")) fail_msg("%d %s", by_stop, r[3].err.text);
    assert_true(r[0].status == OK && r[4].status == OK);
    compile_all(&f, g, &(struct patience){.until = now_seconds() + 0.5}, r, &stats);
    assert_int_equal(stats.recalled, 2);
    assert_true(r[0].status == OK && r[4].status == OK);
    assert_int_equal(f.compiled, 0); // not in this process
    gpu_forge_close(g);
    end(&f);
  }
}

// A batch that is dropped waits for no kernel.
static void a_dropped_batch_is_not_waited_for(void **state)
{
  (void)state;
  struct fixture f;
  struct gpu_session *s;
  struct gpu_batch *b;
  start(&f);
  f.o.forge = forge(&f, "/proc/self/exe");
  for (int i = 0; i < KERNELS; i++) f.p[i] = pretend_program(&f.mem, &kernels[i], 1, N);
  assert_int_equal(gpu_session_open(f.g, &f.o, &s), OK);
  assert_int_equal(gpu_batch_start(s, &f.o, KERNELS, f.p, &b, &f.e), OK);
  gpu_batch_drop(b);
  gpu_session_close(s);
  gpu_forge_close(f.o.forge);
  end(&f);
}

// Candidates that are not compiled in time are left, the others race.
static void the_others_race(void **state)
{
  (void)state;
  struct fixture f;
  start(&f);
  f.o.forge = forge(&f, "/proc/self/exe");
  f.o.compile_until = now_seconds() + (getenv("MICA_SANITIZED") ? 6 : 3); // for processes to begin
  if (race(&f, KERNELS, kernels)) fail_msg("%s", f.e.text);
  assert_int_equal(f.r.result[1].verdict, GPU_NOT_COMPILED);
  assert_int_equal(f.r.result[1].err.id, ERR_STOPPED);
  assert_int_equal(f.r.best, 0);
  gpu_forge_close(f.o.forge);
  end(&f);
}

static void what_is_no_worker_compiles_nothing(void **state)
{
  (void)state;
  static const char *const paths[] = {"/nowhere/mica", "/bin/true"};
  for (size_t i = 0; i < COUNT(paths); i++) {
    struct fixture f;
    struct compile_result r[KERNELS];
    struct compile_stats stats;
    start(&f);
    struct gpu_forge *g = forge(&f, paths[i]);
    compile_all(&f, g, &(struct patience){0}, r, &stats);
    assert_int_equal(f.compiled, KERNELS); // in this process, where nothing is slow
    assert_true(r[1].status == OK);
    gpu_forge_close(g);
    end(&f);
  }
}

// ---- what is asked before long work ----

static int unfit(const char *worker, int major, int arch, int64_t bytes, struct err *e)
{
  const struct gpu_compiler by = {.compile = pretend_compile, .major = major};
  const struct gpu_worker_opts o = {.path = worker};
  const struct gpu_need need = {arch, bytes};
  struct gpu_forge *g = gpu_forge_open(&(struct gpu_forge_opts){.by = &by});
  struct gpu_worker *w;
  *e = (struct err){0};
  assert_int_equal(gpu_forge_ready(g, e), OK);
  assert_int_equal(gpu_worker_open(&o, &w, e), OK);
  int status = gpu_machine_check(w, g, &need, e);
  gpu_worker_close(w);
  gpu_forge_close(g);
  no_process_is_left();
  return status;
}

static void an_unfit_machine_is_told(void **state)
{
  (void)state;
  struct err e;
  const int64_t some = 1 << 20, all = (int64_t)1 << 30; // as much as there is
  assert_int_equal(unfit("/proc/self/exe", 13, 90, some, &e), OK);
  assert_int_equal(unfit("/proc/self/exe", 14, 90, some, &e), ENV);
  assert_non_null(strstr(e.text, "the driver is for CUDA 13.0 and cannot load what NVRTC 14.0 compiles"));
  assert_int_equal(unfit("/proc/self/exe", 13, 80, some, &e), USER);
  assert_non_null(strstr(e.text, "compute capability 8.0, and none has 9.0"));
  assert_int_equal(unfit("/proc/self/exe", 13, 90, all, &e), ENV);
  assert_int_equal(e.id, ERR_MEMORY);
  assert_non_null(strstr(e.text, "1024 MB are free"));
}

int main(int argc, char **argv)
{
  if (argc == 3 && !strcmp(argv[1], "gpu-worker")) {
    struct stage *s = pretend_stage();
    s->by = &slow;
    stage_serve_all(s, atoi(argv[2]));
  }
  const struct CMUnitTest tests[] = {cmocka_unit_test(what_hangs_is_ended),
                                     cmocka_unit_test(what_was_timed_is_told),
                                     cmocka_unit_test(what_was_prepared_is_not_compiled),
                                     cmocka_unit_test(what_was_measured_is_not_measured_again),
                                     cmocka_unit_test(a_race_that_nobody_ends_is_not_kept),
                                     cmocka_unit_test(compiling_is_given_up),
                                     cmocka_unit_test(a_dropped_batch_is_not_waited_for),
                                     cmocka_unit_test(the_others_race),
                                     cmocka_unit_test(what_is_no_worker_compiles_nothing),
                                     cmocka_unit_test(an_unfit_machine_is_told)};
  return cmocka_run_group_tests(tests, folder_enter, folder_leave);
}

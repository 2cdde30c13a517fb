// Candidates in a worker process: errors found by runs on poisoned memory, and candidates that crash, end or hang the worker, without harm to others.
// The worker process is this executable with a simulated GPU.
#include "folder.h"
#include "graphs.h"
#include "pretend.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "twice.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N = 1000 };

struct fixture {
  struct arena mem;
  struct err e;
  struct gpu_worker *w;
  struct graph *g;
  struct problem problem;
};

static void start(struct fixture *f, bool inside)
{
  memset(f, 0, sizeof *f);
  f->g = twice(&f->mem, N);
  const struct gpu_worker_opts o = {.inside = inside, .path = "/proc/self/exe", .stage = inside ? pretend_stage() : NULL};
  assert_int_equal(gpu_worker_open(&o, &f->w, &f->e), OK);
  assert_int_equal(problem_open(&f->problem, &f->mem, f->g, &(struct problem_wish){7}, &f->e), OK);
  assert_int_equal(gpu_worker_problem(f->w, f->problem.b, 0, &f->e), OK);
}

static void end(struct fixture *f)
{
  gpu_worker_close(f->w);
  problem_close(&f->problem);
  arena_close(&f->mem);
}

static int load(struct fixture *f, int n, const char *const *names, int *id)
{
  f->e = (struct err){0};
  return gpu_worker_load(f->w, pretend_code(&f->mem, names, n, N), id, &f->e);
}

// Loads, runs and checks a candidate: its status, with the error in f->e.
static int judge(struct fixture *f, const char *name, double seconds)
{
  int id;
  struct run_answer a;
  struct check_answer c;
  int status = load(f, 1, &name, &id);
  if (status == OK) status = gpu_worker_run(f->w, id, 3, seconds, &a, &f->e);
  if (status == OK) status = check_outputs(&f->problem, a.first, &c, &f->e);
  if (status == OK && a.differs) status = check_repeats(&f->problem, a.first, a.other, &c, &f->e);
  return status;
}

static const struct verdict {
  const char *name;
  int status;
  const char *words;
} verdicts[] = {
    {"right_1000_10", OK, ""},
    {"reset_1000_10", OK, ""},
    {"jitter_1000_10", OK, ""},
    {"half_1000_10", NO, "element 500 is"},
    {"off_1000_10", NO, "element 333 is"},
    {"all_1000_10", NO, "differs from float64 by 0.02"},
    {"past_1000_10", NO, "memory after an output"},
    {"ahead_1000_10", NO, "memory before an output"},
    {"race_1000_10", NO, "two runs on the same inputs differ"},
    {"count_1000_10", NO, "are not zero after it"},
    {"right_1000_10", OK, ""}, // the counters of the one before are zero again
};

static void judge_all(struct fixture *f)
{
  for (size_t i = 0; i < COUNT(verdicts); i++) {
    const struct verdict *v = &verdicts[i];
    int status = judge(f, v->name, 10);
    if (status != v->status || !strstr(f->e.text, v->words)) fail_msg("%s: %d, %s", v->name, status, f->e.text);
    assert_int_equal(f->e.id, status == OK ? ERR_NONE : ERR_WRONG);
  }
}

static void runs_tell_what_is_wrong(void **state)
{
  (void)state;
  struct fixture f;
  start(&f, true);
  judge_all(&f);
  struct gpu_worker_facts facts;
  assert_int_equal(gpu_worker_facts(f.w, &facts, &f.e), OK);
  assert_true(facts.inside);
  end(&f);
  assert_int_equal(pretend.allocated, pretend.released);
  assert_int_equal(pretend.modules, 0);
  assert_int_equal(pretend.graphs, 0);
}

static void a_process_tells_the_same(void **state)
{
  (void)state;
  struct fixture f;
  struct gpu_worker_facts facts;
  start(&f, false);
  judge_all(&f);
  assert_int_equal(gpu_worker_facts(f.w, &facts, &f.e), OK);
  assert_false(facts.inside);
  assert_string_equal(facts.gpu.name, "none");
  assert_int_equal(facts.starts, 1);
  assert_string_equal(gpu_worker_warning(f.w), "");
  end(&f);
}

static void what_breaks_costs_itself_only(void **state)
{
  (void)state;
  static const struct verdict cases[] = {
      {"crash_1000_10", ENV, "the worker process ended unexpectedly"},
      {"hang_1000_10", ENV, "more than 0.3 seconds"},
      {"fail_1000_10", ENV, "an illegal address"},
  };
  struct fixture f;
  struct gpu_worker_facts facts;
  int good;
  start(&f, false);
  const char *name = "right_1000_10";
  assert_int_equal(load(&f, 1, &name, &good), OK);
  for (size_t i = 0; i < COUNT(cases); i++) {
    struct run_answer a;
    struct check_answer c;
    assert_int_equal(judge(&f, cases[i].name, 0.3), cases[i].status);
    if (!strstr(f.e.text, cases[i].words)) fail_msg("%s: %s", cases[i].name, f.e.text);
    f.e = (struct err){0};
    assert_int_equal(gpu_worker_run(f.w, good, 2, 10, &a, &f.e), OK); // sent again to the next worker
    assert_int_equal(check_outputs(&f.problem, a.first, &c, &f.e), OK);
    assert_int_equal(gpu_worker_facts(f.w, &facts, &f.e), OK);
    assert_int_equal(facts.starts, (int)i + 2);
  }
  end(&f);
}

// In the graph that is timed it breaks, though alone it ran: the first three launches of a replay are fine.
static void a_culprit_is_found(void **state)
{
  (void)state;
  static const char *const names[] = {"right_1000_10", "crash_1000_10", "right_1000_20"};
  const int launches[] = {4, 4, 4};
  struct fixture f;
  int id[3], culprit;
  double seconds[3 * 5];
  start(&f, false);
  for (int i = 0; i < 3; i++) assert_int_equal(load(&f, 1, &names[i], &id[i]), OK);
  struct time_request q = {.replays = 5, .n = 3, .id = id, .launches = launches};
  assert_int_equal(gpu_worker_time(f.w, &q, 10, seconds, &culprit, &f.e), ENV);
  assert_int_equal(culprit, 1);
  id[1] = id[2], q.n = 2, f.e = (struct err){0};
  assert_int_equal(gpu_worker_time(f.w, &q, 10, seconds, &culprit, &f.e), OK);
  for (int i = 0; i < 5; i++) assert_true(seconds[i] > 9.9e-9 && seconds[i] < 10.1e-9 && seconds[5 + i] > 19.9e-9);
  end(&f);
}

// A kernel between others reads the values that those before it wrote in the same run.
static void workspaces_hold_what_is_between(void **state)
{
  (void)state;
  static const char *const names[] = {"right_1000_10", "reset_1000_10", "right_1000_20"};
  struct fixture f;
  struct run_answer a;
  int id;
  start(&f, true);
  assert_int_equal(load(&f, 3, names, &id), OK);
  assert_int_equal(gpu_worker_run(f.w, id, 2, 10, &a, &f.e), OK);
  const float *x = f.problem.b->in[0], *y = a.first[0];
  for (int i = 0; i < N; i++) assert_true(y[i] == 8 * x[i]);
  end(&f);
}

// Cold sets are more than twice the L2 of 60 MiB that at least is assumed.
static void sets_are_more_than_the_cache(void **state)
{
  (void)state;
  struct fixture f;
  start(&f, true);
  assert_int_equal(gpu_worker_sets(f.w), 4096); // 4000 bytes
  assert_int_equal(gpu_worker_problem(f.w, f.problem.b, 3, &f.e), OK);
  assert_int_equal(gpu_worker_sets(f.w), 3);
  end(&f);
}

// Sets differ, or a candidate that keeps results of the last run would not be found. A mask would have holes if it were rotated.
static void masks_are_the_same_in_all_sets(void **state)
{
  (void)state;
  struct fixture f = {.g = NULL};
  struct stage *stage = pretend_stage();
  static const char text[] = "program masked() {\n X: f32[48, 64]\n M: f32[48, 64]\n return softmax(X, M, dim=1)\n}\n";
  assert_int_equal(gpu_worker_open(&(struct gpu_worker_opts){.inside = true, .stage = stage}, &f.w, &f.e), OK);
  for (uint64_t seed = 6; seed < 8; seed++) { // odd seeds make masks that hide
    assert_int_equal(problem_open(&f.problem, &f.mem, graph_of(&f.mem, text), &(struct problem_wish){seed}, &f.e), OK);
    assert_int_equal(gpu_worker_problem(f.w, f.problem.b, 3, &f.e), OK);
    for (int i = 0; i < 2; i++) {
      const char *set = (const char *)(uintptr_t)stage->in + stage->in_at[i];
      assert_int_equal(!memcmp(set, set + stage->in_bytes, f.problem.b->in_bytes[i]), seed % 2 && i);
    }
    problem_close(&f.problem);
  }
  gpu_worker_close(f.w);
  arena_close(&f.mem);
}

static void what_is_no_worker_is_told(void **state)
{
  (void)state;
  static const char *const paths[] = {"/nowhere/mica", "/bin/true", "/bin/sh"};
  for (size_t i = 0; i < COUNT(paths); i++) {
    struct arena mem = {0};
    struct err e = {0};
    struct gpu_worker *w;
    struct gpu_worker_facts facts;
    const struct gpu_worker_opts o = {.path = paths[i]};
    assert_int_equal(gpu_worker_open(&o, &w, &e), OK);
    gpu_worker_facts(w, &facts, &e); // with or without a GPU
    if (!facts.inside) fail_msg("%s taken for a worker", paths[i]);
    assert_non_null(strstr(gpu_worker_warning(w), paths[i]));
    gpu_worker_close(w);
    arena_close(&mem);
  }
}

// The order is: the given path, then the environment's, then PATH (this executable has no `mica` beside it).
static void workers_are_found(void **state)
{
  (void)state;
  char *path = strdup(getenv("PATH") ? getenv("PATH") : ""), out[512], why[200], link[300];
  snprintf(link, sizeof link, "%s/mica", folder);
  assert_int_equal(symlink("/bin/true", link), 0);
  unsetenv("MICA_WORKER");
  setenv("PATH", "/nowhere", 1);
  assert_false(worker_find(NULL, out, why));
  assert_non_null(strstr(why, "MICA_WORKER"));
  struct str both = {0};
  str_add(&both, "/nowhere:%s", folder);
  setenv("PATH", str_text(&both), 1);
  assert_true(worker_find(NULL, out, why));
  assert_string_equal(out, link);
  setenv("MICA_WORKER", "/bin/sh", 1);
  assert_true(worker_find(NULL, out, why));
  assert_string_equal(out, "/bin/sh");
  assert_true(worker_find("/bin/true", out, why));
  assert_string_equal(out, "/bin/true");
  setenv("MICA_WORKER", "/nowhere/mica", 1);
  assert_false(worker_find(NULL, out, why));
  unsetenv("MICA_WORKER");
  setenv("PATH", path, 1);
  str_free(&both);
  free(path);
}

// Without a device, every request fails with that message, and none waits for another answer. The test asks for a device that no machine has.
static void no_device_is_told_again(void **state)
{
  (void)state;
  setenv("PRETEND_NONE", "1", 1);
  struct gpu_worker *w;
  struct err e = {0};
  const struct gpu_worker_opts o = {.path = "/proc/self/exe", .device = 1000};
  assert_int_equal(gpu_worker_open(&o, &w, &e), OK);
  for (int i = 0; i < 3; i++) {
    struct gpu_worker_facts facts;
    e = (struct err){0};
    assert_int_equal(gpu_worker_facts(w, &facts, &e), ENV);
    assert_int_equal(e.id, ERR_GPU);
    assert_false(facts.inside);
  }
  gpu_worker_close(w);
  unsetenv("PRETEND_NONE");
}

// Without an executable, this process serves the requests, and a warning states it.
static void the_library_serves_itself(void **state)
{
  (void)state;
  struct err e = {0};
  struct gpu_worker *w;
  const struct gpu_worker_opts o = {.path = "/nowhere/mica"};
  assert_int_equal(gpu_worker_open(&o, &w, &e), OK);
  assert_non_null(strstr(gpu_worker_warning(w), "/nowhere/mica cannot be executed"));
  gpu_worker_close(w);
}

int main(int argc, char **argv)
{
  if (argc == 3 && !strcmp(argv[1], "gpu-worker")) stage_serve_all(getenv("PRETEND_NONE") ? stage_new() : pretend_stage(), atoi(argv[2]));
  const struct CMUnitTest tests[] = {cmocka_unit_test(runs_tell_what_is_wrong),         cmocka_unit_test(a_process_tells_the_same),
                                     cmocka_unit_test(what_breaks_costs_itself_only),   cmocka_unit_test(a_culprit_is_found),
                                     cmocka_unit_test(workspaces_hold_what_is_between), cmocka_unit_test(sets_are_more_than_the_cache),
                                     cmocka_unit_test(what_is_no_worker_is_told),       cmocka_unit_test(workers_are_found),
                                     cmocka_unit_test(no_device_is_told_again),         cmocka_unit_test(the_library_serves_itself),
                                     cmocka_unit_test(masks_are_the_same_in_all_sets)};
  return cmocka_run_group_tests(tests, folder_enter, folder_leave);
}

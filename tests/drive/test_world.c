// Programs of several devices by the public interface. Subprograms are those of one rank, and the result is equal to the program of all ranks.
// test: quick release
// test: timeout 300
#include "folder.h"
#include "drive/drive.h"
#include "front/front.h"

#include <setjmp.h>
#include <string.h>

#include <cmocka.h>

static struct mica_program *load(struct mica_context *m, const char *path, int nset, const char *const *set)
{
  struct mica_program *p;
  if (mica_load(m, path, nset, set, &p) != MICA_OK) fail_msg("%s", mica_error(m));
  return p;
}

static struct mica_options quick(void)
{
  struct mica_options o = mica_options_default();
  o.seconds = 0.05, o.measure = 1, o.tune = 0, o.threads = 2, o.disturbed = true, o.max_block_ops = 3, o.max_values = 200;
  return o;
}

static void all_ranks_on_this_machine(void **state)
{
  (void)state;
  static const char *const set[] = {"m=8", "n=32", "k=64"};
  struct mica_context *m = mica_open();
  struct mica_report *r, *again;
  struct mica_options o = quick();
  char path[128];
  snprintf(path, sizeof path, "%s/mica.db", folder);
  o.db = path;
  struct mica_program *p = load(m, "examples/world/sequence_parallel_mlp.mica", COUNT(set), set);
  assert_int_equal(mica_program_input(p, 0).shape[0], 8); // of the whole tensor, of which a rank has two rows
  if (mica_optimize(m, p, &o, &r) != MICA_OK) fail_msg("%s", mica_error(m));
  json_t *v = json_loads(mica_report_json(r), 0, NULL), *ranks = json_object_get(v, "ranks");
  assert_int_equal(json_integer_value(json_object_get(ranks, "world")), 4);
  assert_int_equal(json_integer_value(json_object_get(ranks, "meetings_written")), 3);
  assert_true(json_number_value(json_object_get(ranks, "model_us")) <= json_number_value(json_object_get(ranks, "model_us_written")));
  assert_true(json_is_true(json_object_get(json_object_get(v, "certificate"), "proved")));
  assert_true(json_number_value(json_object_get(v, "max_rel_err")) < 1e-4);
  assert_true(json_array_size(json_object_get(v, "parts")) >= 2);
  json_decref(v);
  assert_non_null(strstr(mica_report_text(r), "X f32[8, 32], G f32[32], W1 f32[32, 64], W2 f32[64, 32] -> f32[8, 32]; 4 devices"));
  assert_non_null(strstr(mica_report_text(r), "ranks      4, which meet "));
  assert_int_equal(mica_optimize(m, p, &o, &again), MICA_OK);
  assert_true(mica_report_recalled(again));
  snprintf(path, sizeof path, "%s/out", folder);
  assert_int_equal(mica_report_save(m, again, path), MICA_OK);
  snprintf(path, sizeof path, "%s/out/program.mica", folder);
  const char *json;
  assert_int_equal(mica_verify(m, load(m, path, 0, NULL), p, 1, &json), MICA_OK);
  snprintf(path, sizeof path, "%s/out/graph.mica", folder);
  assert_int_equal(mica_verify(m, load(m, path, 0, NULL), p, 1, &json), MICA_OK);
  mica_close(m);
}

// Two sums become one, and the certificate of that is part of the program's.
static void moved_sums(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct err e = {0};
  struct graph *g;
  struct job j;
  struct mica_options o = quick();
  o.remember = false;
  assert_int_equal(load_file(&mem, "tests/ranks/two_sums.mica", 0, NULL, &g, &e), OK);
  assert_int_equal(job_open(&j, &mem, g, &o, &e), OK);
  assert_int_equal(job_split(&j, &e), OK);
  assert_int_equal(ranks_meetings(j.plain), 2);
  assert_int_equal(ranks_meetings(j.moved.g), 1);
  assert_int_equal(j.stable->world, 1);
  assert_int_equal(j.split.n, 2);
  assert_int_equal(j.split.nmeetings, 1);
  job_close(&j);
  arena_close(&mem);
}

// A result that stays divided costs no meeting, and the folder has what one rank runs.
static void results_that_stay_divided(void **state)
{
  (void)state;
  static const char text[] = "program w {\n world 2\n X: f32[8, 16] shard(0)\n W: f32[16, 8]\n return shard(relu(matmul(X, W)), 0)\n}";
  struct mica_context *m = mica_open();
  struct mica_program *p, *rank;
  struct mica_report *r;
  struct mica_options o = quick();
  char path[128];
  const char *json;
  o.remember = false;
  if (mica_load_text(m, text, "w.mica", 0, NULL, &p) || mica_optimize(m, p, &o, &r)) fail_msg("%s", mica_error(m));
  json_t *v = json_loads(mica_report_json(r), 0, NULL), *ranks = json_object_get(v, "ranks");
  assert_int_equal(json_integer_value(json_object_get(ranks, "meetings")), 0);
  assert_int_equal(json_integer_value(json_object_get(json_object_get(ranks, "kernels"), "world")), 2);
  json_decref(v);
  assert_non_null(strstr(mica_report_text(r), "-> f32[8, 8]; 2 devices"));
  snprintf(path, sizeof path, "%s/divided", folder);
  assert_int_equal(mica_report_save(m, r, path), MICA_OK);
  snprintf(path, sizeof path, "%s/divided/rank.mica", folder);
  rank = load(m, path, 0, NULL);
  assert_int_equal(mica_program_world(rank), 2);
  assert_int_equal(mica_program_output_shard(rank, 0), 0);
  assert_int_equal(mica_verify(m, rank, p, 1, &json), MICA_OK);
  mica_close(m);
}

// A cache that is divided: one update of the whole in the graph of all ranks, and one of its part in that of a rank.
static void states(void **state)
{
  (void)state;
  static const char *const set[] = {"h=4", "most=8", "d=4"};
  struct mica_context *m = mica_open();
  struct mica_report *r;
  struct mica_module *x, *rank;
  struct mica_options o = quick();
  o.remember = false;
  struct mica_program *p = load(m, "examples/world/tensor_parallel_decode.mica", COUNT(set), set);
  assert_int_equal(mica_program_output_shard(p, 1), 0);
  assert_int_equal(mica_program_output(p, 1).shape[0], 4); // of the whole cache
  assert_int_equal(mica_program_output(p, 1).state, 6);
  if (mica_optimize(m, p, &o, &r) || mica_module_of(m, r, &x) || mica_module_rank(x, 3, NULL, 1, &rank)) fail_msg("%s", mica_error(m));
  assert_non_null(strstr(mica_report_text(r), "-> f32[1, 16], f32[4, 8, 4], f32[4, 8, 4]; 4 devices"));
  assert_int_equal(mica_module_input(rank, 5).shape[0], 1);
  assert_int_equal(mica_module_input(rank, 5).state, 6);
  assert_int_equal(mica_module_output(rank, 1).shape[0], 1);
  mica_close(m);
}

static void refused(const char *text, const char *target, const char *says)
{
  struct mica_context *m = mica_open();
  struct mica_program *p;
  struct mica_report *r;
  struct mica_options o = quick();
  o.target = target, o.remember = false;
  assert_int_equal(mica_load_text(m, text, "w.mica", 0, NULL, &p), MICA_OK);
  assert_int_equal(mica_optimize(m, p, &o, &r), MICA_USER);
  if (!strstr(mica_error(m), says)) fail_msg("%s", mica_error(m));
  mica_close(m);
}

static void what_cannot_be_optimized(void **state)
{
  (void)state;
  refused("program w {\n world 2\n X: bool[4, 8] shard(0)\n Y: f32[4, 8] shard(0)\n return all_reduce(X), all_reduce(exp(Y))\n}", "sm_90a",
          "GPUs exchange no such tensor");
  refused("program w {\n world 2\n X: f32[4, 8] shard(0)\n return all_gather(X, 0)\n}", "cpu",
          "computes nothing between its operators of all devices");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_ranks_on_this_machine), cmocka_unit_test(moved_sums),
      cmocka_unit_test(results_that_stay_divided), cmocka_unit_test(states),
      cmocka_unit_test(what_cannot_be_optimized),
  };
  return cmocka_run_group_tests(tests, folder_enter, folder_leave);
}

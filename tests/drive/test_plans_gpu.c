// Plans on a simulated GPU (pretended_gpu.h). The winner of a measured race becomes a plan. The next user's job races it against op-by-op, without a
// search. Plans of other GPUs are ignored. If a plan is wrong on the GPU, it is dropped, and the job searches.
// test: timeout 300
// test: quick release
#include "pretended_gpu.h"
#include "sim/device_proof.h"

static char first[64], second[64], plans[64];
static int proofs; // that were begun; atomic

double device_proof_work(const struct lower_plan *p, const struct choice *pick) { return (void)p, (void)pick, 0; }

int device_prove(struct arena *mem, const struct lower_plan *p, const struct choice *pick, int only, uint64_t seed, int threads, stop_flag stop,
                 struct device_proof *out, const char **why, struct err *e)
{
  (void)mem, (void)pick, (void)only, (void)seed, (void)threads, (void)stop, (void)why, (void)e;
  *out = (struct device_proof){.kernels = p->nunits, .run = p->nunits, .note = ""};
  __atomic_add_fetch(&proofs, 1, __ATOMIC_RELEASE);
  return OK;
}

static int enter(void **state)
{
  if (folder_enter(state)) return 1;
  snprintf(first, sizeof first, "%s/first.db", folder), snprintf(second, sizeof second, "%s/second.db", folder);
  snprintf(plans, sizeof plans, "%s/sm_90a.jsonl", folder);
  return setenv("MICA_PLANS", folder, 1);
}

static int write_plan(void *arg, const char *json)
{
  str_add(arg, "%s\n", json);
  return OK;
}

// Publishes the winners of the first user's races; `gpu`: the name that takes the place of the GPU's.
static void publish(const char *gpu)
{
  struct db *db;
  struct err e = {0};
  struct str text = {0};
  plans_head(&text);
  if (db_open(first, &db, &e) != OK || plans_each(db, write_plan, &text, &e) != OK) fail_msg("%s", e.text);
  db_close(db);
  const char *name = "a pretended GPU";
  char *at = strstr(text.p, name);
  assert_non_null(at);
  if (gpu) memcpy(at, gpu, strlen(name));
  assert_int_equal(file_write(plans, text.p, text.n, &e), OK);
  str_free(&text);
}

static const json_t *part(const json_t *r) { return json_array_get(json_object_get(r, "parts"), 0); }

static json_t *run_with(struct arena *mem, const char *db, pretended_clock *times)
{
  unlink(second);
  database = db;
  return optimize(mem, texts[0], 0, times, ENDLESS);
}

static json_t *run(struct arena *mem, const char *db) { return run_with(mem, db, made_up); }

// The race ends when the interpreter has begun.
static double after_a_proof(const struct device_program *d)
{
  for (int ms = 0; ms < 20000 && !__atomic_load_n(&proofs, __ATOMIC_ACQUIRE); ms++) usleep(1000);
  return made_up(d);
}

static void a_winner_is_used_without_a_search(void **state)
{
  (void)state;
  struct arena mem = {0};
  json_t *a = run(&mem, first);
  const double us = number(a, "best", "us");
  assert_true(number(a, "search", "states") > 0 && !json_object_get(part(a), "plan"));
  publish(NULL);
  __atomic_store_n(&proofs, 0, __ATOMIC_RELEASE);
  json_t *b = run_with(&mem, second, after_a_proof);
  assert_int_equal(proofs, 1); // during the race, and not again after it
  assert_true(number(b, "search", "states") == 0 && json_object_get(part(b), "plan"));
  assert_true(seen.races == 1 && seen.programs == 2); // the plan and op-by-op, once
  assert_true(fabs(number(b, "best", "us") - us) < 1e-9);
  assert_true(json_is_true(json_object_get(json_object_get(b, "certificate"), "proved")));
  json_decref(a), json_decref(b);
  arena_close(&mem);
}

static void another_gpu_searches(void **state)
{
  (void)state;
  struct arena mem = {0};
  publish("another devices");
  json_t *r = run(&mem, second);
  assert_true(number(r, "search", "states") > 0 && !json_object_get(part(r), "plan"));
  json_decref(r);
  arena_close(&mem);
}

static bool of_one_kernel(const struct device_program *d) { return d->nlaunch == 1; }
static double with_one_wrong(const struct device_program *d)
{
  seen.bad = of_one_kernel, seen.verdict = GPU_WRONG; // from the first that is measured
  return made_up(d);
}

// With these times the plan is rejected: the job searches, and a warning gives the reason.
static void left_for_a_search(double (*times)(const struct device_program *d), const char *why)
{
  struct arena mem = {0};
  publish(NULL);
  unlink(second);
  database = second;
  json_t *r = optimize(&mem, texts[0], 0, times, ENDLESS);
  assert_true(number(r, "search", "states") > 0 && !json_object_get(part(r), "plan"));
  const char *warning = json_string_value(json_object_get(r, "warning"));
  assert_non_null(warning);
  assert_non_null(strstr(warning, why));
  json_decref(r);
  arena_close(&mem);
}

static void a_wrong_one_is_left_for_a_search(void **state) { (void)state, left_for_a_search(with_one_wrong, "sm_90a.jsonl:2 is not used"); }

// The winner elsewhere is slower than op-by-op here.
static double with_one_slow(const struct device_program *d) { return made_up(d) * (of_one_kernel(d) ? 100 : 1); }
static void a_slow_one_is_left_for_a_search(void **state) { (void)state, left_for_a_search(with_one_slow, "op-by-op was as fast on this GPU"); }

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_winner_is_used_without_a_search),
      cmocka_unit_test(another_gpu_searches),
      cmocka_unit_test(a_wrong_one_is_left_for_a_search),
      cmocka_unit_test(a_slow_one_is_left_for_a_search),
  };
  return cmocka_run_group_tests(tests, enter, folder_leave);
}

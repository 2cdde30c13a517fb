// The race on a GPU without one: gpu_identity and gpu_race are this test's, which makes up a time for every device program
// and calls some of them wrong. What the report says is then known: the fastest right one of all that took part.
#include "../graphs.h"
#include "core/core.h"
#include "gpu/gpu.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static struct {
  int races, programs, wrong;
  double least, last; // of all that were right; of the first program of the last race
  int spoil;          // of so many one is wrong
} seen;

int gpu_identity(int device, char out[160], struct err *e)
{
  (void)device, (void)e;
  return snprintf(out, 160, "a pretended GPU"), OK;
}

static double made_up(const struct device_program *d)
{
  return d->cost * (1 + (double)(program_hash(d, 5) % 64) / 64);
}

int gpu_race(struct arena *mem, int n, const struct device_program *const *programs, const struct graph *reference,
             const struct gpu_race_opts *o, struct gpu_race *out, struct err *e)
{
  (void)reference, (void)o, (void)e;
  *out = (struct gpu_race){.best = -1, .result = NEWS(mem, struct gpu_result, n + 1)};
  seen.races++, seen.programs += n;
  for (int i = 0; i < n; i++) {
    struct gpu_result *r = &out->result[i];
    double t = made_up(programs[i]);
    if (seen.spoil && program_hash(programs[i], 6) % (unsigned)seen.spoil == 0) {
      r->verdict = GPU_WRONG, seen.wrong++;
      err_set(&r->err, ERR_WRONG, NOWHERE, "made up");
      continue;
    }
    r->cold = (struct gpu_time){t, t, t, t, t, 20, 1};
    r->check.relative = 1e-4;
    if (out->best < 0 || t < out->result[out->best].cold.median) out->best = i;
    seen.least = fmin(seen.least, t);
  }
  seen.last = out->result[0].verdict == GPU_FINE ? out->result[0].cold.median : NAN;
  return OK;
}

static json_t *optimize(struct arena *mem, const char *text, int spoil)
{
  struct mica_options o = mica_options_default();
  struct err e = {0};
  json_t *report = NULL;
  bool recalled;
  memset(&seen, 0, sizeof seen);
  seen.least = INFINITY, seen.spoil = spoil;
  o.target = "sm_90a", o.remember = false, o.measure = 2, o.threads = 1;
  if (pipe_optimize(mem, graph_of(mem, text), &o, &report, &recalled, &e) != OK) fail_msg("%s", e.text);
  assert_non_null(report);
  return report;
}

static double number(const json_t *r, const char *a, const char *b)
{
  const json_t *v = json_object_get(json_object_get(r, a), b);
  assert_true(json_is_number(v));
  return json_number_value(v);
}

static const char *const texts[] = {
    "program soft() {\n X: f16[64, 256]\n return softmax(X, dim=1)\n}\n",
    "program norm() {\n X: f16[8, 128]\n W: f16[128, 64]\n return matmul(rms_norm(X), W)\n}\n",
};

static void the_fastest_right_one_is_reported(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(texts); i++)
    for (int spoil = 0; spoil < 4; spoil += 3) {
      struct arena mem = {0};
      json_t *r = optimize(&mem, texts[i], spoil);
      assert_true(seen.races >= 2 && seen.programs > 8);
      if (spoil) assert_true(seen.wrong > 0);
      assert_true(fabs(number(r, "best", "us") * 1e-6 - seen.least) < 1e-12);
      assert_true(fabs(seen.last - seen.least) < 1e-12); // the whole was put together from the winner's choices
      assert_string_equal(json_string_value(json_object_get(json_object_get(r, "gpu"), "unmeasured")), "");
      assert_string_equal(json_string_value(json_object_get(r, "device")), "a pretended GPU");
      assert_true(json_number_value(json_object_get(r, "max_rel_err")) == 1e-4);
      json_decref(r);
      arena_close(&mem);
    }
}

// Where no program is right there is nothing to report.
static void all_wrong_is_an_error(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct mica_options o = mica_options_default();
  struct err e = {0};
  json_t *report = NULL;
  bool recalled;
  memset(&seen, 0, sizeof seen);
  seen.least = INFINITY, seen.spoil = 1;
  o.target = "sm_90a", o.remember = false, o.measure = 2, o.threads = 1;
  assert_int_not_equal(pipe_optimize(&mem, graph_of(&mem, texts[0]), &o, &report, &recalled, &e), OK);
  assert_null(report);
  assert_non_null(strstr(e.text, "made up"));
  arena_close(&mem);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_fastest_right_one_is_reported),
      cmocka_unit_test(all_wrong_is_an_error),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

// Races on a simulated GPU (pretended_gpu.h): the fastest correct candidate is reported, the climb reaches a local minimum, and a second job finds
// the remembered result.
// test: timeout 400
// test: quick release
#include "pretended_gpu.h"
#include "thin.h"
#include "export/export.h"

// The fewer kernels of ours, the faster.
static double library_wins(const struct device_program *d)
{
  double t = 1e-6;
  for (int i = 0; i < d->nlaunch; i++) t += d->launch[i].product ? 0 : 1e-6;
  return d->nlaunch > 1 ? t : 1e-3;
}

static void the_fastest_right_one_is_reported(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(texts); i++)
    for (int spoil = 0; spoil < 4; spoil += 3) {
      if (quick_step(2) > 1 && (i == 0) == (spoil == 0)) continue; // each text and each way once
      struct arena mem = {0};
      json_t *r = optimize(&mem, texts[i], spoil, made_up, ENDLESS);
      assert_true(seen.races >= 2 && seen.programs > 8);
      assert_true(!seen.wild && (seen.tame > 0) == (i == 0)); // a sum of plain exponentials of 70,000 elements is too large for f16
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

// ---- a hill with a known top ----

static struct {
  struct choice top;
  double noise; // the most that a time is off, as a part of it
  bool dependent;
  unsigned asked;
} hill;

// Knobs by their logarithms; the model knows nothing of it.
static double on_the_hill(const struct device_program *d)
{
  double t = 10e-6 * d->nlaunch;
  for (int i = 0; i < d->nlaunch; i++) {
    struct choice c;
    if (d->launch[i].product || !scheme_parse(d->launch[i].how, &c)) continue;
    if (c.scheme != hill.top.scheme) t += 5e-6;
    for (int k = 0; k < KNOBS && c.scheme == hill.top.scheme; k++) t += 0.4e-6 * fabs(log2(1 + c.k.v[k]) - log2(1 + hill.top.k.v[k]));
    if (d->launch[i].dependent != hill.dependent) t += 1e-6;
  }
  return t * (1 + hill.noise * ((double)(hash_mix(7, hill.asked++) % 201) / 100 - 1));
}

// Knobs that `want` does not name are 0.
static bool made_so(const char *how, const char *want)
{
  struct choice a, b;
  assert_true(scheme_parse(how, &a) && scheme_parse(want, &b));
  return a.scheme == b.scheme && a.tail == b.tail && !memcmp(&a.k, &b.k, sizeof a.k);
}

static const char *first_how(const json_t *report)
{
  const json_t *launches = json_object_get(json_object_get(report, "gpu"), "launches");
  assert_int_equal(json_array_size(launches), 1);
  return json_string_value(json_object_get(json_array_get(launches, 0), "how"));
}

// ---- the course in the report ----

// "stages 3 to 4, ahead 2 to 1", "with the next kernel as its tail", "mma ... instead of rows ...", "launches ...", "kernel 1: x 8 to 16": what is
// about knobs is done to c.
static void turn(struct choice *c, const char *change)
{
  char text[1024];
  snprintf(text, sizeof text, "%s", change);
  for (char *rest = text, *part; (part = strtok_r(rest, ";", &rest));) {
    char *instead = strstr(part, " instead of "), *each = part;
    part += strspn(part, " ");
    if (instead) *instead = 0, assert_true(scheme_parse(part, c));
    if (instead || !strncmp(part, "kernel ", 7) || !strncmp(part, "launches ", 9)) continue;
    for (char *knob; (knob = strtok_r(each, ",", &each));) {
      char name[32];
      int from, to, k = 0;
      assert_int_equal(sscanf(knob, " %31s %d to %d", name, &from, &to), 3);
      const struct scheme *s = scheme_at(c->scheme);
      while (k < KNOBS && s->knob[k] && strcmp(s->knob[k], name)) k++;
      assert_true(k < KNOBS && s->knob[k] && c->k.v[k] == from);
      c->k.v[k] = to;
    }
  }
}

// Checks the course of the only kernel: each line falls from step to step, and what was turned leads from where it began to the kernel of the report.
static int check_course(const json_t *r)
{
  const json_t *course = json_object_get(json_array_get(json_object_get(r, "parts"), 0), "climb"), *s;
  struct choice c[3] = {{0}};
  double us[3] = {0}, ways = 0;
  int steps = 0;
  size_t i;
  json_array_foreach(course, i, s)
  {
    int line = (int)json_integer_value(json_object_get(s, "line")) - 1;
    const char *change = json_string_value(json_object_get(s, "change"));
    double now = json_number_value(json_object_get(s, "us")), before = json_number_value(json_object_get(s, "before_us"));
    bool exact = json_is_true(json_object_get(s, "exact"));
    assert_true(line >= 0 && line < 3 && change && now > 0 && exact == (i + 1 == json_array_size(course)));
    assert_true(json_number_value(json_object_get(s, "measured")) >= ways);
    ways = json_number_value(json_object_get(s, "measured"));
    if (!exact && !before) assert_true(!us[line] && scheme_parse(change, &c[line]));
    if (before) assert_true(before == us[line] && now < before);
    if (before || exact) turn(&c[line], change);
    if (exact) assert_true(fabs(now - number(r, "best", "us")) < 1e-9 && c[line].scheme >= 0);
    steps += before > 0, us[line] = now;
    struct choice end;
    assert_true(
        scheme_parse(json_string_value(json_object_get(json_array_get(json_object_get(json_object_get(r, "gpu"), "launches"), 0), "how")), &end));
    if (exact) assert_true(end.scheme == c[line].scheme && !memcmp(&end.k, &c[line].k, sizeof end.k));
  }
  return steps;
}

static const char *const tops[] = {"rows vec=2 across=32 down=1 join=8 regs=0 deep=0 stream=0",
                                   "rows vec=1 across=256 down=1 join=1 regs=0 deep=0 stream=0",
                                   "rows vec=8 across=32 down=1 join=16 regs=0 deep=0 stream=1"};

static void the_hill_is_climbed(void **state)
{
  (void)state;
  size_t far = 0, climbs = 0;
  int steps = 0;
  for (size_t i = 0; i < COUNT(tops); i++)
    for (int dependent = 0; dependent < 2; dependent++) {
      if (quick_step(2) > 1 && dependent != (int)i % 2) continue;
      struct arena mem = {0};
      hill.noise = 0, hill.dependent = dependent, hill.asked = 0;
      assert_true(scheme_parse(tops[i], &hill.top));
      json_t *r = optimize(&mem, texts[0], 0, on_the_hill, ENDLESS);
      assert_true(made_so(first_how(r), tops[i]));
      assert_true(fabs(number(r, "best", "us") - 10) < 1e-9);
      steps += check_course(r);
      json_decref(r);
      r = optimize(&mem, texts[0], 0, on_the_hill, 0);
      assert_null(json_object_get(json_array_get(json_object_get(r, "parts"), 0), "climb"));
      far += number(r, "best", "us") > 10.1, climbs++; // it is no starter
      json_decref(r);
      arena_close(&mem);
    }
  assert_true(2 * far > climbs && steps > 0);
}

// Noise is no step: the climb ends, near the top, and after about as many races.
static void noise_is_not_climbed(void **state)
{
  (void)state;
  struct arena mem = {0};
  hill.dependent = true;
  assert_true(scheme_parse(tops[1], &hill.top));
  int races[2];
  for (int noisy = 0; noisy < 2; noisy++) {
    hill.noise = noisy ? 0.005 : 0, hill.asked = 0;
    json_t *r = optimize(&mem, texts[0], 0, on_the_hill, ENDLESS);
    races[noisy] = seen.races;
    assert_true(number(r, "best", "us") < 10 * 1.03);
    json_decref(r);
  }
  assert_true(races[1] < 2 * races[0]);
  arena_close(&mem);
}

// Units that only one of two graphs leaves to the library, sizes of the others changed.
static void products_by_the_library_are_climbed(void **state)
{
  (void)state;
  struct arena mem = {0};
  measured = 12;
  json_t *r =
      optimize(&mem, "program gemm() {\n X: f16[512, 256]\n W: f16[256, 384]\n b: f16[384]\n return relu(matmul(X, W) + b)\n}\n", 0, library_wins, 8);
  measured = 2;
  assert_true(number(r, "best", "us") > 0);
  json_decref(r);
  arena_close(&mem);
}

// An earlier result is found again: the whole at once, and where more or less time is given the race starts from it. The
// saved program is the measured one.
// ---- products with and without what follows them ----

static bool ends_are_good;

static double by_ends(const struct device_program *d)
{
  double t = 30e-6 + 1e-6 * d->nlaunch;
  for (int i = 0; i < d->nlaunch; i++) {
    if (!d->launch[i].product) continue;
    t -= 10e-6;
    if (d->launch[i].last != d->launch[i].first) t += ends_are_good ? -5e-6 : 5e-6;
  }
  return t;
}

static char *kernel_source(const char *out)
{
  char path[256];
  static char text[1 << 20];
  snprintf(path, sizeof path, "%s/kernel.cu", out);
  FILE *f = fopen(path, "r");
  assert_non_null(f);
  text[fread(text, 1, sizeof text - 1, f)] = 0;
  return fclose(f), text;
}

// The faster way is reported, remembered and exported, with the algorithm that was.
static void products_are_raced_with_and_without_what_follows(void **state)
{
  (void)state;
  static const char program[] = "program ends() {\n X: f16[512, 256]\n W: f16[256, 384]\n b: f16[384]\n return relu(matmul(X, W) + b)\n}\n";
  measured = 6;
  for (int good = 0; good < 2; good++) {
    struct arena mem = {0};
    struct err e = {0};
    database = arena_printf(&mem, "%s/ends%d.db", folder, good);
    ends_are_good = good;
    for (int turn = 0; turn < 2; turn++) {
      json_t *r = optimize(&mem, program, 0, by_ends, 0);
      const json_t *launches = json_object_get(json_object_get(r, "gpu"), "launches"), *first = json_array_get(launches, 0);
      assert_int_equal(seen.races == 0, turn);
      assert_true((json_array_size(launches) == 1) == good); // else a kernel or two behind the product
      assert_string_equal(json_string_value(json_object_get(first, "how")), good ? "cublaslt epilogue=relu_bias" : "cublaslt");
      assert_int_equal(json_integer_value(json_object_get(first, "algorithm")), 3);
      const char *out = arena_printf(&mem, "%s/ends%d%d", folder, good, turn);
      if (save_report(&mem, r, out, &e)) fail_msg("%s", e.text);
      const char *source = kernel_source(out);
      assert_non_null(strstr(source, "multiply(&p, 3, "));
      assert_true((strstr(source, "cublasLtEpilogue_t)6") != NULL) == good);
      json_decref(r);
    }
    arena_close(&mem);
  }
  database = NULL, measured = 2;
}

static void the_top_is_remembered(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct err e = {0};
  database = arena_printf(&mem, "%s/top.db", folder);
  hill.noise = 0, hill.dependent = false, hill.asked = 0;
  assert_true(scheme_parse(tops[0], &hill.top));
  for (int turn = 0; turn < 3; turn++) {
    json_t *r = optimize(&mem, texts[0], 0, on_the_hill, turn == 2 ? 0 : ENDLESS);
    assert_true(made_so(first_how(r), tops[0]));
    assert_int_equal(seen.races == 0, turn == 1);
    const char *out = arena_printf(&mem, "%s/out%d", folder, turn);
    if (save_report(&mem, r, out, &e)) fail_msg("%s", e.text);
    json_t *saved = json_load_file(arena_printf(&mem, "%s/program.json", out), 0, NULL);
    const json_t *launch = json_array_get(json_object_get(saved, "launches"), 0);
    assert_true(made_so(json_string_value(json_object_get(launch, "how")), tops[0]));
    assert_true(json_is_false(json_object_get(launch, "dependent")));
    json_decref(saved);
    json_decref(r);
  }
  database = NULL;
  arena_close(&mem);
}

// ---- launches with tails ----

static bool tails_are_good;

static double by_tails(const struct device_program *d)
{
  bool any = false;
  for (int i = 0; i < d->nlaunch; i++) any = any || d->launch[i].first != d->launch[i].last;
  return 10e-6 + 1e-7 * d->nlaunch + 1e-9 * (double)(program_hash(d, 5) % 64) - (any == tails_are_good ? 2e-6 : 0);
}

static const char split[] = "graph gated() {\n X: f16[1, 512]\n W1: f16[512, 256]\n W2: f16[512, 256]\n"
                            " t0, t1 = block(x=4, y=4) {\n w1 = iter(W1, imap={x:1, y:0})\n x = iter(X, imap={y:1})\n"
                            " w2 = iter(W2, imap={x:1, y:0})\n t0 = matmul(x, w1)\n t1 = matmul(x, w2)\n"
                            " save(reshape(t0, [1, 1, 64]), omap={x:2, y:0})\n save(reshape(t1, [1, 1, 64]), omap={x:2, y:0})\n }\n"
                            " t2 = block(x=32) {\n t1 = iter(t1, imap={x:2})\n t0 = iter(t0, imap={x:2})\n t2 = sum(t1, dim=0)\n"
                            " t3 = sum(t0, dim=0)\n save(reshape(t2 * silu(t3), [1, 8]), omap={x:1})\n }\n return t2\n}\n";

static void open_job(struct arena *mem, struct job *j, struct contest *c, struct part *part, struct mica_options *o)
{
  struct err e = {0};
  *o = mica_options_default();
  part->g = graph_of(mem, split);
  *j = (struct job){.mem = mem, .opts = o, .program = part->g, .unmeasured = "", .threads = 1, .split = {1, part}, .contests = c};
  if (target_open("sm_90a", 1, true, &j->target, &e)) fail_msg("%s", e.text);
  *c = (struct contest){.part = part, .twin = -1, .why = "", .ncand = 1, .cand = NEW(mem, struct candidate)};
  c->cand[0] = (struct candidate){.found = part->g, .schedule = "", .note = ""};
  device_candidate(j, c, &c->cand[0]);
  if (c->cand[0].dropped) fail_msg("%s", c->cand[0].dropped);
}

static const char *hows(struct arena *mem, const struct device_program *d)
{
  const char *all = "";
  for (int i = 0; i < d->nlaunch; i++) all = arena_printf(mem, "%s%s;", all, d->launch[i].how);
  return all;
}

// Candidates that the model does not prefer are tried too. A program rebuilt from the launches in the report is the same.
static void tails_are_tried_both_ways(void **state)
{
  (void)state;
  for (int good = 0; good < 2; good++) {
    struct arena mem = {0};
    struct err e = {0};
    struct mica_options o;
    struct part part = {0};
    struct contest c;
    struct job j;
    struct gpu_session *session;
    struct lower_plan p;
    struct choice *pick;
    struct device_program again;
    tails_are_good = good, seen.clock = by_tails, seen.spoil = 0;
    open_job(&mem, &j, &c, &part, &o);
    gpu_session_open(part.g, &(struct gpu_race_opts){0}, &session);
    struct entrants *f = race_gpu_open(&j, &c, 0, session);
    if (race_gpu_climb(f, ENDLESS, &e) || climb_finals(f, &e)) fail_msg("%s", e.text);
    const struct entrant *x = &f->x[entrants_fastest(f, -1, true)];
    struct candidate *k = &c.cand[x->cand];
    if (device_take(&j, k, &x->plan->p, x->pick, &e)) fail_msg("%s", e.text);
    const char *how = hows(&mem, &k->gpu.lowered->program);
    assert_int_equal(strstr(how, " tail;") != NULL, good);
    assert_true(by_tails(&k->gpu.lowered->program) == x->seconds);
    json_t *launches = launches_json(k->gpu.lowered);
    if (launches_read(&mem, launches, NULL, k->g, &j.target, &p, &pick, &e)) fail_msg("%s", e.text);
    if (lower_make(&mem, &p, pick, &again, &e)) fail_msg("%s", e.text);
    assert_true(program_hash(&again, 1) == program_hash(&k->gpu.lowered->program, 1));
    json_decref(launches);
    entrants_close(f);
    gpu_session_close(session);
    for (int i = 0; i < j.narenas; i++) arena_close(j.arenas[i]); // of threads that lowered other sizes
    arena_close(&mem);
  }
}

// Fewer kernels are faster in every race but the last one.
static double turns_round(const struct device_program *d) { return seen.final ? 1e-5 / d->nlaunch : 1e-6 * d->nlaunch; }

// A winner that is slower than op-by-op when both are timed alone is not the result. Op-by-op is then, and is proved.
static void op_by_op_wins_the_last_race(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(texts); i++) {
    struct arena mem = {0};
    json_t *r = optimize(&mem, texts[i], 0, turns_round, 0), *best = json_object_get(r, "best"), *gpu = json_object_get(r, "gpu");
    assert_true(seen.final && json_is_true(json_object_get(best, "op_by_op")));
    assert_true(number(r, "best", "us") == number(r, "baseline", "us"));
    assert_true(number(r, "best", "kernels") > 1);
    assert_string_equal(json_string_value(json_object_get(best, "reason")), "op-by-op was faster in the last race");
    assert_true(json_integer_value(json_object_get(json_object_get(gpu, "interpreter"), "kernels")) > 0);
    assert_true(json_is_true(json_object_get(json_object_get(r, "certificate"), "equal")));
    json_decref(r);
    arena_close(&mem);
  }
}

// If no program is right there is nothing to report.
static void all_wrong_is_an_error(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct mica_options o = mica_options_default();
  struct err e = {0};
  json_t *report = NULL;
  bool recalled;
  memset(&seen, 0, sizeof seen);
  seen.least = INFINITY, seen.spoil = 1, seen.clock = made_up;
  o.target = "sm_90a", o.remember = false, o.measure = 2, o.threads = 1, o.tune = ENDLESS;
  assert_int_not_equal(pipe_optimize(&mem, graph_of(&mem, texts[0]), &o, &report, &recalled, &e), OK);
  assert_null(report);
  assert_non_null(strstr(e.text, "made up"));
  arena_close(&mem);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_fastest_right_one_is_reported),
      cmocka_unit_test(the_hill_is_climbed),
      cmocka_unit_test(noise_is_not_climbed),
      cmocka_unit_test(products_by_the_library_are_climbed),
      cmocka_unit_test(products_are_raced_with_and_without_what_follows),
      cmocka_unit_test(the_top_is_remembered),
      cmocka_unit_test(tails_are_tried_both_ways),
      cmocka_unit_test(op_by_op_wins_the_last_race),
      cmocka_unit_test(all_wrong_is_an_error),
  };
  return cmocka_run_group_tests(tests, folder_enter, folder_leave);
}

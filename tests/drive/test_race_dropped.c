// The report has a command for each candidate that a race on a GPU drops. The command must make the same kernels and fail for the same reason. The GPU
// is simulated (pretended_gpu.h).
// test: timeout 200
// test: quick release
#include "pretended_gpu.h"

static char last_bad[1024]; // how the last of them was made

static bool fused(const struct device_program *d)
{
  if (d->nlaunch != 1 || d->launch[0].product) return false;
  snprintf(last_bad, sizeof last_bad, "%s%s", d->launch[0].how, d->launch[0].dependent ? "" : "; independent");
  return true;
}

// The word behind `before` in the line, without quotes.
static const char *word_after(struct arena *mem, const char *line, const char *before)
{
  const char *at = strstr(line, before);
  if (!at) fail_msg("%s is not in %s", before, line);
  at += strlen(before);
  const char quoted = *at == '\'', *end = quoted ? strchr(++at, '\'') : at + strcspn(at, " \n");
  return arena_printf(mem, "%.*s", (int)(end - at), at);
}

// Runs the command: the same pass drops the same kernels for the same reason.
static void run_again(struct arena *mem, const char *line, const char *pass)
{
  struct mica_options o = mica_options_default();
  struct graph *g;
  struct err e = {0};
  char *text;
  size_t n;
  json_t *report = NULL;
  bool recalled;
  const char *part = word_after(mem, line, "mica optimize "), *knobs = word_after(mem, line, "--knobs ");
  if (file_read(mem, part, &text, &n, &e) || front_parse(mem, text, n, part, 0, NULL, &g, &e)) fail_msg("%s", e.text);
  o.target = word_after(mem, line, "--target "), o.candidate = word_after(mem, line, "--candidate "), o.knobs = knobs;
  o.stop_after = word_after(mem, line, "--stop-after "), o.remember = false, o.threads = 2, o.tune = ENDLESS;
  assert_string_equal(o.stop_after, pass);
  seen.wrong = 0, *last_bad = 0;
  assert_int_equal(pipe_optimize(mem, g, &o, &report, &recalled, &e), NO);
  assert_int_equal(e.id, ERR_DROPPED);
  assert_non_null(strstr(e.text, arena_printf(mem, "the pass %s drops the candidate", pass)));
  assert_non_null(strstr(e.text, "made up"));
  assert_int_equal(seen.wrong, 1); // no other way is tried
  assert_string_equal(last_bad, knobs);
}

static void what_a_race_drops_has_a_command(void **state)
{
  (void)state;
  static const struct {
    enum gpu_verdict verdict;
    const char *pass, *reason;
  } rows[] = {{GPU_WRONG, "race", ": race: wrong: made up"},
              {GPU_FAILED, "race", ": race: failed: made up"},
              {GPU_NOT_COMPILED, "nvrtc", ": nvrtc: compiler: made up"}};
  for (size_t i = 0; i < COUNT(rows); i++) {
    struct arena mem = {0};
    struct mica_options o = mica_options_default();
    struct err e = {0};
    json_t *report = NULL;
    bool recalled;
    char *text;
    size_t n;
    memset(&seen, 0, sizeof seen);
    seen.least = INFINITY, seen.clock = made_up, seen.bad = fused, seen.verdict = rows[i].verdict;
    o.target = "sm_90a", o.remember = false, o.measure = 4, o.threads = 2, o.tune = 0, o.keep_dropped = arena_printf(&mem, "%s/kept%zu", folder, i);
    if (pipe_optimize(&mem, graph_of(&mem, texts[1]), &o, &report, &recalled, &e)) fail_msg("%s", e.text);
    json_decref(report);
    if (file_read(&mem, arena_printf(&mem, "%s/dropped.sh", o.keep_dropped), &text, &n, &e)) fail_msg("%s", e.text);
    const char *first = strstr(text, rows[i].reason);
    if (!first) fail_msg("no command in: %s", text);
    const char *line = strchr(first, '\n') + 1;
    if (rows[i].verdict == GPU_NOT_COMPILED) // the compiler that is here takes the kernel
      assert_string_equal(word_after(&mem, line, "--stop-after "), "nvrtc");
    else
      run_again(&mem, line, rows[i].pass);
    arena_close(&mem);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_a_race_drops_has_a_command),
  };
  return cmocka_run_group_tests(tests, folder_enter, folder_leave);
}

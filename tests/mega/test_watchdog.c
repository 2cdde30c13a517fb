// The watchdog: a plan whose event never comes ends as hung, with a record of who waited for what, and the next run works. Data that a body
// cannot take, and versions that are rewritten too early, end a run too.
#include "megas.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { STEPS = 4 };

struct watched {
  struct megas x;
  float **first;
  int32_t *want;
};

static void begin(struct watched *w, const char *file, int rows, int workers)
{
  struct mega_sizes s = mega_tiny(rows, workers, 3, STEPS);
  mega_open(&w->x, file, &s);
  assert_int_equal(mega_values_make(&w->x.mem, w->x.m, 11, &w->first, &w->x.err), OK);
  assert_int_equal(mega_reference(&w->x.mem, w->x.config, w->x.m, w->first, STEPS, &w->want, &w->x.err), OK);
}

static void works(struct watched *w)
{
  struct mega_answer a;
  w->x.err = (struct err){0};
  assert_int_equal(mega_run(&w->x.mem, w->x.p, w->first, STEPS, 60, &a, &w->x.err), OK);
  assert_memory_equal(a.tokens, w->want, sizeof *w->want * (size_t)(STEPS * w->x.m->rows));
}

static void hangs(struct watched *w, const char *says)
{
  struct mega_answer a;
  w->x.err = (struct err){0};
  assert_int_equal(mega_run(&w->x.mem, w->x.p, w->first, STEPS, 0.2, &a, &w->x.err), NO);
  assert_int_equal(w->x.err.id, ERR_HUNG);
  assert_true(a.hung);
  if (!strstr(a.record, says)) fail_msg("%s: no `%s`", a.record, says);
}

static int event_of_kind(const struct mega_plan *p, enum mega_signal kind)
{
  for (int e = 0; e < p->nevents; e++)
    if (p->event[e].kind == kind) return e;
  fail();
  return -1;
}

static void counter_that_is_never_full(void **state)
{
  struct watched w;
  (void)state;
  begin(&w, "examples/mega/tiny_llama.json", 1, 3);
  struct mega_event *ev = &w.x.p->event[event_of_kind(w.x.p, MEGA_COUNTER)];
  ev->count++;
  hangs(&w, "(counter of ");
  ev->count--;
  works(&w);
  mega_close(&w.x);
}

// An event of many tasks, awaited as a counter of more than there are.
static void flags_that_are_too_few(void **state)
{
  struct watched w;
  (void)state;
  begin(&w, "examples/mega/tiny_qwen3.json", 9, 16);
  struct mega_plan *p = w.x.p;
  struct mega_event *ev = &p->event[event_of_kind(p, MEGA_COUNTER)]; // flags are for more tasks than this machine has threads
  ev->kind = MEGA_FLAG, ev->count = mega_event_count(p, ev);
  int node = ev->node, last = p->m->workers - 1;
  uint16_t *hi = &p->hi[node * p->m->workers + last], *lo = &p->lo[node * p->m->workers + last];
  works(&w);
  assert_true(*hi > *lo);
  ev->kind = MEGA_COUNTER, ev->count = 1000;
  hangs(&w, "wanted 1000");
  ev->kind = MEGA_FLAG, ev->count = mega_event_count(p, ev);
  works(&w);
  mega_close(&w.x);
}

static void tile_that_nobody_runs(void **state)
{
  struct watched w;
  (void)state;
  begin(&w, "examples/mega/tiny_llama.json", 1, 2);
  uint16_t *hi = &w.x.p->hi[w.x.p->m->workers * (w.x.p->nnodes - 4) + 1];
  --*hi;
  hangs(&w, "waited for a word of");
  ++*hi;
  works(&w);
  mega_close(&w.x);
}

static void pipeline_in_a_circle(void **state)
{
  struct watched w;
  (void)state;
  begin(&w, "examples/mega/tiny_llama.json", 1, 2);
  int *pipe = w.x.p->pipe, n = w.x.p->nnodes;
  for (int i = 0; i < n; i++) pipe[i] = n - 1 - i;
  struct mega_proof proof;
  assert_int_equal(mega_prove(w.x.p, &proof, &w.x.err), NO);
  assert_int_equal(proof.fault[0].check, MEGA_CHECK_DEADLOCK);
  mega_close(&w.x);
}

static void token_outside_of_the_table(void **state)
{
  struct watched w;
  struct mega_answer a;
  (void)state;
  begin(&w, "examples/mega/tiny_llama.json", 1, 3);
  float *token = w.first[mega_tensor_find(w.x.m, "token")], was = *token;
  *token = 101;
  assert_int_equal(mega_run(&w.x.mem, w.x.p, w.first, STEPS, 60, &a, &w.x.err), NO);
  assert_int_equal(w.x.err.id, ERR_WRONG);
  assert_false(a.hung);
  const char *at = strstr(a.record, "at embed tile "); // of the first worker that sees it
  if (!at || !strstr(at, ": a token is outside of the table")) fail_msg("%s", a.record);
  *token = was;
  works(&w);
  mega_close(&w.x);
}

static void more_steps_than_positions(void **state)
{
  struct watched w;
  struct mega_answer a;
  (void)state;
  begin(&w, "examples/mega/tiny_llama.json", 1, 3);
  assert_int_equal(mega_run(&w.x.mem, w.x.p, w.first, 100, 60, &a, &w.x.err), USER);
  assert_non_null(strstr(w.x.err.text, "cache has no room for 103 positions"));
  mega_close(&w.x);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(counter_that_is_never_full), cmocka_unit_test(flags_that_are_too_few),     cmocka_unit_test(tile_that_nobody_runs),
      cmocka_unit_test(pipeline_in_a_circle),       cmocka_unit_test(token_outside_of_the_table), cmocka_unit_test(more_steps_than_positions),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

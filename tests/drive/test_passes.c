// The rows of pass.def: inputs of a pass are outputs of earlier ones. If a pass is replaced by one with a wrong output, the check after it must fail,
// with a message that names the pass.
#include "drive/pass.h"
#include "front/front.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>

#include <cmocka.h>

static const char text[] = "program chain() {\n  X: f16[64, 64]\n  W: f16[64, 64]\n  return exp(relu(matmul(X, W)))\n}\n";

static void rows_fit(void **state)
{
  (void)state;
  bool made[IRS] = {[IR_TEXT] = true};
  for (int i = 0; i < PASSES; i++) {
    const struct pass *p = &passes[i];
    assert_int_equal(pass_find(p->name, strlen(p->name)), i);
    assert_true(made[p->in]);
    assert_non_null(p->values);
    assert_true(p->scope != OF_CANDIDATE || i <= LAST_OF_CANDIDATE);
    made[p->out] = true;
  }
  for (int i = 0; i < IRS; i++) {
    assert_true(made[i]);
    assert_true(!irs[i].parse || irs[i].print);
  }
}

// ---- wrong outputs ----

// A product of operands that do not fit.
static struct graph *spoilt(const struct pass_on *on, const struct graph *g)
{
  struct graph *bad = graph_copy(on->j->mem, g);
  bad->tensors[0].shape.d[1] += 1;
  return bad;
}

static int wrong_expand(const struct pass_on *on, struct err *e)
{
  assert_int_equal(run_expand(on, e), OK);
  return on->j->plain = spoilt(on, on->j->plain), OK;
}

static int wrong_stable(const struct pass_on *on, struct err *e)
{
  assert_int_equal(run_stable(on, e), OK);
  return on->x->g = spoilt(on, on->x->g), OK;
}

static int wrong_thread_graphs(const struct pass_on *on, struct err *e)
{
  assert_int_equal(run_thread_graphs(on, e), OK);
  return on->x->g = spoilt(on, on->x->g), OK;
}

static int wrong_lower(const struct pass_on *on, struct err *e)
{
  assert_int_equal(run_lower(on, e), OK);
  on->x->gpu.lowered->program.launch[0].text = "kernel of_nothing {";
  return OK;
}

static int wrong_join(const struct pass_on *on, struct err *e)
{
  (void)e;
  return on->j->best.g = spoilt(on, on->j->plain), OK;
}

static int run_with(const char *target, const struct pass *rows, bool check, struct err *e)
{
  struct arena mem = {0};
  struct graph *g;
  struct job j;
  json_t *report = NULL;
  bool recalled;
  struct mica_options o = job_defaults();
  o.target = target, o.check_passes = check, o.max_block_ops = 3, o.measure = 1, o.remember = false, o.seconds = 0.01, o.threads = 2;
  assert_int_equal(load_text(&mem, text, "chain.mica", 0, NULL, &g, e), OK);
  assert_int_equal(job_open(&j, &mem, g, &o, e), OK);
  j.rows = rows;
  int status = pipe_line(&j, &report, &recalled, e);
  json_decref(report);
  job_close(&j);
  return arena_close(&mem), status;
}

static void caught(const char *target, int pass, int (*wrong)(const struct pass_on *, struct err *))
{
  struct pass rows[PASSES];
  struct err e = {0};
  char said[96];
  memcpy(rows, passes, sizeof rows);
  rows[pass].run = wrong;
  snprintf(said, sizeof said, "the pass %s made a %s that is not well-formed", passes[pass].name, irs[passes[pass].out].name);
  assert_int_equal(run_with(target, rows, true, &e), NO);
  assert_int_equal(e.id, ERR_WRONG);
  if (!strstr(e.text, said)) fail_msg("%s", e.text);
}

static void wrong_outputs_are_caught(void **state)
{
  (void)state;
  caught("cpu", PASS_EXPAND, wrong_expand);
  caught("cpu", PASS_STABLE, wrong_stable);
  caught("cpu", PASS_THREAD_GRAPHS, wrong_thread_graphs);
  caught("sm_80", PASS_LOWER, wrong_lower);
  caught("sm_80", PASS_JOIN, wrong_join);
}

// ---- results of another dtype ----

static enum dtype other_dtype(const void *arg, enum dtype was)
{
  (void)arg;
  return was == F32 ? F16 : F32;
}

static atomic_int asked, refused; // candidates are compiled at once; how many there are depends on what was measured
static int stable_of_another_dtype(const struct pass_on *on, struct err *e)
{
  struct candidate x = *on->x;
  struct graph *bad;
  struct err f = {0};
  assert_int_equal(graph_rebuild(on->j->mem, x.found, &(struct rebuilding){.dtype = other_dtype}, &bad, &f), OK);
  x.found = bad;
  asked++;
  refused += run_stable(&(struct pass_on){on->j, on->c, &x}, &f) != OK && f.id == ERR_DTYPE && strstr(f.text, "its result 1 is ");
  return run_stable(on, e);
}

static void results_of_another_dtype_are_refused(void **state)
{
  (void)state;
  struct pass rows[PASSES];
  struct err e = {0};
  memcpy(rows, passes, sizeof rows);
  rows[PASS_STABLE].run = stable_of_another_dtype;
  if (run_with("cpu", rows, true, &e) != OK) fail_msg("%s", e.text);
  assert_true(refused > 0);
  assert_int_equal(refused, asked);
}

static void right_ones_pass(void **state)
{
  (void)state;
  struct err e = {0};
  if (run_with("sm_80", passes, true, &e) != OK) fail_msg("%s", e.text);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(rows_fit), cmocka_unit_test(wrong_outputs_are_caught),
                                     cmocka_unit_test(results_of_another_dtype_are_refused), cmocka_unit_test(right_ones_pass)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

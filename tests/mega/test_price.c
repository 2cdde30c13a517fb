// The model of a step's time: memory alone is a bound from below; a slower chain of events costs more; attention of many positions is divided.
#include "megas.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static struct mega_config a_config(void)
{
  return (struct mega_config){.name = "priced",
                              .layers = 4,
                              .heads = 16,
                              .kv = 4,
                              .dim = 64,
                              .hidden = 1024,
                              .inner = 2048,
                              .vocab = 4096,
                              .eps = 1e-5,
                              .theta = 1e4,
                              .type = mega_type_find("bf16"),
                              .tied = true};
}

static void price_of(const struct mega_sizes *s, struct mega_price *out, double *bytes)
{
  struct arena own = {0};
  struct mega_config c = a_config();
  struct mega_model *m;
  struct mega_plan *p;
  struct err e = {0};
  assert_int_equal(mega_from_config(&own, &c, s, &m, &e), OK);
  assert_int_equal(mega_plan_make(&own, m, &p, &e), OK);
  mega_price(&own, p, out);
  *bytes = 0;
  for (int t = 0; t < m->ntensors; t++) *bytes += m->tensor[t].kind == MEGA_WEIGHTS ? (double)mega_elements(&m->tensor[t]) * 2 : 0;
  for (int n = 1; n < p->nnodes; n++) assert_true(out->end[n] > 0 && out->end[n] <= out->end[p->nnodes - 1] + 1e-6);
  out->end = NULL;
  arena_close(&own);
}

static void bounds(void **state)
{
  struct mega_sizes s = {.rows = 1, .workers = 16, .context = 64, .parts = 1};
  struct mega_price a, less, more;
  double bytes;
  (void)state;
  price_of(&s, &a, &bytes);
  assert_true(a.busy > 0.98 * bytes / 4400 && a.busy < 1.1 * bytes / 4400);
  assert_true(a.step >= 0.99 * a.busy);
  s.stages = 2, price_of(&s, &less, &bytes); // memory idles while tasks wait for one another
  s.stages = 40, price_of(&s, &more, &bytes);
  assert_true(less.step > a.step && more.step <= a.step);
}

static void same_each_time(void **state)
{
  struct mega_sizes s = {.rows = 2, .workers = 7, .context = 100, .parts = 2};
  struct mega_price a, b;
  double bytes;
  (void)state;
  price_of(&s, &a, &bytes), price_of(&s, &b, &bytes);
  assert_true(a.step == b.step && a.busy == b.busy);
}

// Parts cost more than they save at few positions, and save more at many.
static void parts(void **state)
{
  struct mega_config c = a_config();
  struct mega_sizes s = {.rows = 1, .workers = 64, .context = 40};
  struct err e = {0};
  (void)state;
  assert_int_equal(mega_parts_choose(&c, &s, &e), OK);
  assert_int_equal(s.parts, 1);
  s.context = 4096, s.parts = 0, s.merge = MEGA_MERGE_ANY;
  assert_int_equal(mega_parts_choose(&c, &s, &e), OK);
  assert_true(s.parts >= 4);
  assert_int_equal(s.merge, MEGA_MERGE_PRODUCT); // of one row: an operator costs another event
}

// An operator merges the parts of several rows if attention has fewer tiles than there are workers. Otherwise there is one part.
static void merges(void **state)
{
  static const struct {
    int rows, workers, parts;
    enum mega_merge merge;
  } want[] = {{8, 132, 2, MEGA_MERGE_OPERATOR}, {8, 64, 1, MEGA_MERGE_PRODUCT}, {16, 132, 1, MEGA_MERGE_PRODUCT}, {4, 132, 4, MEGA_MERGE_OPERATOR}};
  struct mega_config c = a_config();
  struct err e = {0};
  (void)state;
  c.heads = 32, c.kv = 8, c.dim = 128, c.hidden = 4096, c.inner = 14336;
  for (size_t i = 0; i < COUNT(want); i++) {
    struct mega_sizes s = {.rows = want[i].rows, .workers = want[i].workers, .context = 1024};
    assert_int_equal(mega_parts_choose(&c, &s, &e), OK);
    if (s.parts != want[i].parts || s.merge != want[i].merge) fail_msg("%d rows, %d workers: %d parts", s.rows, s.workers, s.parts);
  }
  // A stated number of parts is kept.
  struct mega_sizes s = {.rows = 8, .workers = 132, .context = 1024, .parts = 4};
  assert_int_equal(mega_parts_choose(&c, &s, &e), OK);
  assert_int_equal(s.parts, 4);
  assert_int_equal(s.merge, MEGA_MERGE_OPERATOR);
}

// A step of a plan of 64 rows whose products have so many pieces of their input in shared memory.
static double step_with(const struct mega_plan *p, int slots)
{
  struct arena own = {0};
  struct mega_plan with = *p;
  struct mega_price price;
  for (int o = 0; o < p->m->nops && slots; o++)
    if (mega_weight_bytes(p->m, &p->m->op[o])) with.feed[o] = (struct mega_feed){slots, 16, 2};
  mega_price(&own, &with, &price);
  arena_close(&own);
  return price.step;
}

// Fewer pieces of an input are slower, until memory is the bound.
static void pieces_of_inputs(void **state)
{
  struct arena own = {0};
  struct mega_config c = a_config();
  struct mega_sizes s = {.rows = 64, .workers = 16, .context = 64, .parts = 1};
  struct mega_model *m;
  struct mega_plan *p;
  struct err e = {0};
  (void)state;
  assert_int_equal(mega_from_config(&own, &c, &s, &m, &e), OK);
  assert_int_equal(mega_plan_make(&own, m, &p, &e), OK);
  double one = step_with(p, 1), two = step_with(p, 2), eight = step_with(p, 8);
  assert_true(one > 1.05 * two && two > 1.05 * eight);
  assert_true(step_with(p, 8) == eight);
  arena_close(&own);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(bounds), cmocka_unit_test(same_each_time), cmocka_unit_test(parts), cmocka_unit_test(merges),
                                     cmocka_unit_test(pieces_of_inputs)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

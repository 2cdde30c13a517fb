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
  int few, many;
  (void)state;
  assert_int_equal(mega_parts_choose(&c, &s, &few, &e), OK);
  s.context = 4096;
  assert_int_equal(mega_parts_choose(&c, &s, &many, &e), OK);
  assert_int_equal(few, 1);
  assert_true(many >= 4);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(bounds), cmocka_unit_test(same_each_time), cmocka_unit_test(parts)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

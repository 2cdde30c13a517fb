// A cover has every value that a scheme lists of a knob, every pair of values with `pairs`, some that it does not list, nothing twice
// and nothing that does not fit.
#include "cover.h"
#include "given.h"
#include "plan/plan.h"

#include <math.h>

enum { MOST = 1024 };

static bool has(const struct choice *c, int n, int a, int va, int b, int vb)
{
  for (int i = 0; i < n; i++)
    if (c[i].k.v[a] == va && c[i].k.v[b] == vb) return true;
  return false;
}

static void hold(const char *name, int scheme, const struct lower_job *j, bool pairs)
{
  struct choice *listed = NEWS(j->mem, struct choice, MOST), *cover = NEWS(j->mem, struct choice, MOST);
  int all = scheme_settings(j, scheme, MOST, listed), n = scheme_cover(j, scheme, pairs, MOST, cover), beyond = 0;
  const struct scheme *s = scheme_at(scheme);
  if (!all || !n || n > all + 64) fail_msg("%s: %d of %d settings of %s", s->name, n, all, name);
  for (int i = 0; i < n; i++) {
    assert_int_equal(cover[i].scheme, scheme);
    assert_true(isfinite(cover[i].cost) && cover[i].cost == scheme_cost(s, j, &cover[i].k));
    for (int o = 0; o < i; o++) assert_memory_not_equal(&cover[i].k, &cover[o].k, sizeof cover[i].k);
    for (int k = 0; k < KNOBS && s->knob[k]; k++) beyond += !has(listed, all, k, cover[i].k.v[k], k, cover[i].k.v[k]);
  }
  if (!beyond) fail_msg("%s: nothing but what is listed of %s", s->name, name);
  for (int i = 0; i < all; i++)
    for (int a = 0; a < KNOBS && s->knob[a]; a++)
      for (int b = pairs ? 0 : a; pairs ? b < KNOBS && s->knob[b] : b == a; b++)
        if (!has(cover, n, a, listed[i].k.v[a], b, listed[i].k.v[b]))
          fail_msg("%s: no %s=%d %s=%d in %d settings", s->name, s->knob[a], listed[i].k.v[a], s->knob[b], listed[i].k.v[b], n);
}

static void every_value_occurs(void **state)
{
  (void)state;
  const struct target gpu = h200();
  unsigned held = 0; // schemes
  struct table t;
  table_open(&t, "cover");
  for (int g = 0; g < t.n; g++)
    for (int s = 0; s < scheme_count(); s++) {
      struct arena mem = {0};
      struct err e = {0};
      struct lower_plan p;
      must(lower_plan(&mem, graph_of(&mem, t.row[g].text), &gpu, &(struct lower_opts){.dependent = true}, &p, &e), t.row[g].title, &e);
      struct lower_job j = lower_unit_job(&mem, &p, &p.unit[p.nunits - 1], false); // before it are parts of f32
      if (scheme_settings(&j, s, 1, NEWS(&mem, struct choice, 1))) {
        held |= 1u << s;
        for (int pairs = 0; pairs < 2; pairs++) hold(t.row[g].title, s, &j, pairs);
      } else
        assert_int_equal(scheme_cover(&j, s, false, MOST, NEWS(&mem, struct choice, MOST)), 0);
      arena_close(&mem);
    }
  table_close(&t);
  assert_int_equal(held, (1u << scheme_count()) - 1);
}

static void no_more_than_asked(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct err e = {0};
  struct lower_plan p;
  struct choice out[2];
  const struct target gpu = h200();
  must(lower_plan(&mem, table_graph(&mem, "cover", "product"), &gpu, &(struct lower_opts){.dependent = true}, &p, &e), "a product", &e);
  struct lower_job j = lower_unit_job(&mem, &p, &p.unit[p.nunits - 1], false); // before it are parts of f32
  for (int s = 0; s < scheme_count(); s++)
    if (!strcmp(scheme_at(s)->name, "mma")) assert_int_equal(scheme_cover(&j, s, true, 2, out), 2);
  arena_close(&mem);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_value_occurs), cmocka_unit_test(no_more_than_asked)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

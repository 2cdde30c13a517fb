// Products of what a loop does not change come in steps of the loop, where that is the same function, and stay whole elsewhere.
#include "../tables.h"
#include "lower/lower.h"

static void test_steps(void **state)
{
  (void)state;
  struct table t;
  table_open(&t, "steps");
  for (int i = 0; i < t.n; i++) {
    const char *name = t.row[i].title;
    bool changes = !strcmp(table_field(&t.row[i], "changed"), "yes");
    struct arena mem = {0};
    struct err e = {0};
    struct graph *out, *g = graph_of(&mem, t.row[i].text);
    if (step_products(&mem, g, &out, &e) || graph_check(out, &e)) fail_msg("%s: %s", name, e.text);
    if (graph_same(g, out) == changes) fail_msg("%s: %s", name, changes ? "stays as it was" : "was changed");
    if (changes) assert_same_function(name, g, out);
    arena_close(&mem);
  }
  table_close(&t);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_steps)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

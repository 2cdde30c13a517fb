// Programs with data-dependent indices, through the whole pipeline on a simulated GPU. One race has plans with gathers as separate kernels, and
// plans with gathers inside of the kernels that read them.
// test: timeout 400
// test: quick release
#include "pretended_gpu.h"
#include "tables.h"
#include "thin.h"

static void each_is_optimized(void **state)
{
  (void)state;
  struct table t;
  table_open(&t, "gather");
  for (int i = 0; i < t.n; i += quick_step(5)) {
    struct arena mem = {0};
    json_t *r = optimize(&mem, t.row[i].text, 0, made_up, ENDLESS);
    assert_true(seen.races > 0);
    json_decref(r);
    arena_close(&mem);
  }
  table_close(&t);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(each_is_optimized)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

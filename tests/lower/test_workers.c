// Kernels of persistent blocks, which take work tiles in turns: each scheme's are clean in the interpreter and equal to float64.
// test: timeout 300
#include "held.h"
#include "given.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void work_tiles_in_turns(void **state)
{
  (void)state;
  static const struct {
    const char *table, *scheme;
    int loops; // at least
  } rows[] = {
      {"rows", "rows", 20},   {"mma_gemm", "mma", 0},   {"mma_joined", "mma", 4},       {"mma_chains", "mma", 4},
      {"mma_sums", "mma", 2}, {"skinny", "skinny", 12}, {"wgmma_products", "wgmma", 2}, {"wgmma_chains", "wgmma", 2},
  };
  for (size_t i = 0; i < COUNT(rows); i++) {
    int loops = hold_workers(rows[i].table, rows[i].scheme);
    print_message("%s: %d\n", rows[i].table, loops);
    if (loops < rows[i].loops) fail_msg("%s: %d kernels with more work tiles than blocks", rows[i].table, loops);
  }
}

// Shared memory, clusters and early launches agree with the budget.
static void the_budget_is_kept(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct err e = {0};
  struct lower_plan p;
  const struct target gpu = h200(), budget = gpu_budget(&gpu, 3, 32768);
  struct table t;
  table_open(&t, "cover");
  for (int i = 0; i < t.n; i++) {
    must(lower_plan(&mem, graph_of(&mem, t.row[i].text), &budget, &(struct lower_opts){.dependent = true}, &p, &e), t.row[i].title, &e);
    for (int u = 0; u < p.nunits; u++)
      for (int k = 0; k < p.unit[u].nchoices && !p.unit[u].product; k++) {
        struct device_program d;
        struct choice *pick = NEWS(&mem, struct choice, p.nunits);
        for (int o = 0; o < p.nunits; o++) pick[o] = p.unit[o].choice[0];
        pick[u] = p.unit[u].choice[k];
        must(lower_make(&mem, &p, pick, &d, &e), t.row[i].title, &e);
        const struct tile_kernel *made = d.launch[u].k;
        assert_true(made->shared_bytes <= 32768);
        assert_true(ex_value(made->groups[made->grid].size) <= 3 && made->cluster <= 1);
        assert_null(strstr(d.launch[u].text, "Sync<grid."));
      }
  }
  table_close(&t);
  arena_close(&mem);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(work_tiles_in_turns), cmocka_unit_test(the_budget_is_kept)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

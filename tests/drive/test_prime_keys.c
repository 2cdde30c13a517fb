// Attention with numbers of keys that no good tile divides: the first graphs have few kernels, and take much less time than op-by-op.
// test: release
// test: timeout 600
#include "drive/drive.h"
#include "front/front.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const struct {
  struct setting set[5];
  int kernels; // of the first graph, at most
} rows[] = {
    {{{"b", 4}, {"h", 16}, {"t", 257}, {"s", 257}, {"d", 64}}, 1},
    {{{"b", 4}, {"h", 16}, {"t", 577}, {"s", 577}, {"d", 64}}, 1},
    {{{"b", 4}, {"h", 2}, {"t", 6}, {"s", 16213}, {"d", 64}}, 2}, // 31 * 523: parts of keys
};

static void few_kernels_come_first(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(rows); i++) {
    struct arena mem = {0};
    struct job j;
    struct err e = {0};
    struct graph *g = NULL;
    struct mica_options o = mica_options_default();
    struct search_result r;
    o.target = "sm_90a", o.threads = o.search_threads = 2, o.remember = false;
    assert_int_equal(front_load(&mem, MICA_SOURCE_DIR "/bench/programs/attention.mica", 5, rows[i].set, &g, &e), OK);
    assert_int_equal(job_open(&j, &mem, g, &o, &e), OK);
    assert_int_equal(job_split(&j, &e), OK);
    struct contest *c = &j.contests[0];
    struct pricing by = price_open(&mem, &j.target, c->part->g);
    assert_int_equal(pipe_search_part(&j, c, &r, &e), OK);
    assert_true(r.n > 0);
    if (r.found[0].kernels > rows[i].kernels) fail_msg("row %zu: %d kernels", i, r.found[0].kernels);
    assert_true(2 * price_graph(&by, r.found[0].g, 0) < price_graph(&by, c->part->g, 0));
    job_close(&j);
    arena_close(&mem);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(few_kernels_come_first)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

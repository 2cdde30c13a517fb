// Scans on GPUs: products with a triangle of ones are kernels of the scheme rows. The interpreter finds nothing against them, for the cheapest plan of
// two GPUs and for choices of each kernel: over lanes, warps, blocks of a cluster, and rounds.
// test: quick release
// test: timeout 300
#include "run_table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void cheapest(void **state)
{
  (void)state;
  run_cheapest("scan", gpu_of("sm_90a")), run_cheapest("scan", gpu_of("sm_80"));
  run_cheapest("scan_fused", gpu_of("sm_90a")), run_cheapest("scan_parts", gpu_of("sm_90a"));
}

struct kinds {
  int lanes, warps, clusters, rounds, alone; // programs with such a scan; alone: a thread has all of the axis, or of a round of it
};
static void count_kinds(void *arg, const struct device_program *d)
{
  struct kinds *k = arg;
  const char *text = d->launch[0].text;
  const bool scans = strstr(text, "%upto") != NULL;
  k->lanes += scans && strstr(text, "Shfl<up"), k->alone += scans && !strstr(text, "Shfl<up");
  k->warps += scans && strstr(text, "%before"), k->rounds += scans && strstr(text, "%carry");
  k->clusters += scans && (strstr(d->launch[0].how, "cluster=") || strstr(d->launch[0].how, "stack="));
}

static void all_choices(void **state)
{
  (void)state;
  struct target gpu = h200();
  struct kinds k = {0};
  assert_true(run_choices("scan", &gpu, 3, count_kinds, &k) > 50);
  assert_true(run_choices("scan_fused", &gpu, 5, count_kinds, &k) > 20);
  assert_true(run_choices("scan_small", &gpu, 1, NULL, NULL) > 10);
  assert_true(k.lanes > 10 && k.warps > 10 && k.clusters > 2 && k.rounds > 2 && k.alone > 2);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(cheapest), cmocka_unit_test(all_choices)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

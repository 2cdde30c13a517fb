// Targets: rows of GPUs have plausible numbers and need no GPU. Facts of the present device replace those of its row.
#include "target/rates.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct target open_target(const char *name)
{
  struct target t;
  struct err e = {0};
  assert_int_equal(target_open(name, 2, true, &t, &e), OK);
  assert_string_equal(t.name, name);
  return t;
}

static void test_list(void **state)
{
  (void)state;
  int gpus = 0;
  assert_string_equal(target_name(0), "cpu");
  for (int i = 0; i < target_count(); i++) {
    struct target t = open_target(target_name(i));
    assert_true(*target_doc(i) && *t.device);
    assert_true(t.cores > 0 && t.scratch > 0 && t.memory > 0 && t.l2 > 0);
    assert_true(t.bandwidth > 0 && t.cache_bandwidth > t.bandwidth && t.flops > 0 && t.exp_rate > 0 && t.launch > 0 && t.link > 0 && t.meeting > 0);
    assert_int_equal(t.kind == TARGET_GPU, !strncmp(t.name, "sm_", 3));
    gpus += t.kind == TARGET_GPU;
  }
  assert_int_equal(gpus, target_gpus());
}

// Kernels are compiled for this processor, so its rates are those of its widest vectors, whatever Mica was compiled for.
static void test_rates(void **state)
{
  (void)state;
  struct target t, usual = open_target("cpu");
  struct err e = {0};
#if defined(__x86_64__)
  if (usual.lanes != 8 || (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))) assert_int_equal(rates_work()->lanes, usual.lanes);
#endif
  assert_true(rates_work()->lanes >= rates_plain.lanes);
  assert_int_equal(target_open("cpu", 1, false, &t, &e), OK);
  assert_true(t.bandwidth > 0 && t.cache_bandwidth > 0 && t.flops > 0 && t.exp_rate > 0 && t.launch > 0 && t.link > 0 && t.meeting > 0 &&
              t.flops < 1e15);
}

static bool cpuinfo_has(const char *flag)
{
  char row[8192];
  bool has = false;
  FILE *f = fopen("/proc/cpuinfo", "r");
  while (f && !has && fgets(row, sizeof row, f)) has = strstr(row, flag) != NULL;
  if (f) fclose(f);
  return has;
}

// Products of bf16 have a rate where the instruction is there, and that of f32 elsewhere.
static void test_pair_rate(void **state)
{
  (void)state;
  struct target measured, usual = open_target("cpu");
  struct err e = {0};
  assert_int_equal(target_open("cpu", 1, false, &measured, &e), OK);
  assert_int_equal(usual.pair_flops > 0, cpuinfo_has("avx512_bf16"));
  assert_int_equal(measured.pair_flops > 0, usual.pair_flops > 0);
  for (int i = 0; i < target_count(); i++) {
    struct target t = open_target(target_name(i));
    assert_true(target_products(&t, false) == t.flops && target_products(&t, true) == MAX(t.flops, t.pair_flops));
  }
  usual.pair_flops = 3 * usual.flops;
  assert_true(target_products(&usual, true) == 3 * usual.flops && target_products(&usual, false) == usual.flops);
}

static void test_gpus(void **state)
{
  (void)state;
  for (int i = 0; i < target_count(); i++) {
    struct target t = open_target(target_name(i));
    if (t.kind != TARGET_GPU) continue;
    assert_int_equal(t.arch, atoi(t.name + 3));
    assert_int_equal(t.runs_on, t.arch);
    assert_ptr_equal(target_gpu(t.arch), target_gpu_at(i - 1)); // no compute capability twice
    assert_true(t.scratch < t.shared_processor && t.registers == 65536 && t.threads % 32 == 0 && t.blocks > 0);
    assert_true((t.cluster > 1) == !!(t.can & CAN_CLUSTER) && t.mma > 0 && t.mma <= 1);
    for (size_t k = 0; k < COUNT(t.reach); k++) assert_true(t.reach[k] > 0 && t.reach[k] <= (k ? t.reach[k - 1] : 1));
    assert_true(t.lane_rate > 0 && t.special_rate > 0 && t.shared_rate > 0 && t.mma_share > 0);
    assert_true(t.vector_rate < t.flops && t.exp_rate < t.vector_rate); // tensor cores, then lanes, then the special unit
    double clock = t.vector_rate / t.cores / t.lanes;
    assert_true(clock > 1e9 && clock < 3e9);
  }
  assert_int_equal(open_target("sm_90a").scratch, 227 << 10);
}

static void test_unknown(void **state)
{
  (void)state;
  struct target t;
  struct err e = {0};
  assert_int_equal(target_open("sm_91", 2, true, &t, &e), USER);
  assert_non_null(strstr(e.hint, "mica targets"));
}

static void test_own(void **state)
{
  (void)state;
  struct target row = open_target("sm_90a"), t = row, host = open_target("cpu");
  struct target_facts pcie = {.device = "H100 PCIe", .arch = 90, .processors = 114, .shared = 227 << 10, .l2 = 52428800};
  assert_true(target_own(&t, &pcie));
  assert_string_equal(t.device, "H100 PCIe");
  assert_string_equal(t.name, "sm_90a");
  assert_int_equal(t.cores, 114);
  assert_int_equal(t.l2, 52428800);
  assert_int_equal(t.memory, row.memory); // not told
  assert_true(t.flops < row.flops && t.vector_rate < row.vector_rate);
  assert_float_equal(t.flops / t.cores, row.flops / row.cores, 1e3);
  t = row;
  pcie.arch = 80;
  assert_false(target_own(&t, &pcie));
  assert_int_equal(t.cores, row.cores);
  pcie.arch = 90, pcie.processors = 0; // nothing known
  assert_false(target_own(&t, &pcie));
  pcie.processors = 114;
  assert_false(target_own(&host, &pcie));
}

// A block's limits are the least of both; the rates are those of the device, by its row.
static void test_other_device(void **state)
{
  (void)state;
  struct err e = {0};
  const struct target row = open_target("sm_90a");
  struct target_facts h200 = {.device = "H200", .arch = 90, .processors = 66, .shared = 227 << 10, .shared_processor = 228 << 10, .l2 = 1 << 20};
  static const char *const others[] = {"sm_80", "sm_86", "sm_89"};
  for (size_t i = 0; i < COUNT(others); i++) {
    const struct target was = open_target(others[i]);
    struct target t = was;
    assert_int_equal(target_fit(&t, &h200, &e), OK);
    assert_string_equal(t.name, others[i]);
    assert_string_equal(t.device, "H200");
    assert_true(t.arch == was.arch && t.runs_on == 90 && t.can == was.can);
    assert_true(t.scratch == was.scratch && t.shared_processor == was.shared_processor && t.registers == was.registers);
    assert_true(t.threads == was.threads && t.blocks == was.blocks && t.cluster == was.cluster);
    assert_true(t.cores == 66 && t.l2 == 1 << 20 && t.bandwidth == row.bandwidth && t.lane_rate == row.lane_rate);
    assert_float_equal(t.flops, row.flops / 2, 1e3);
  }
  h200.shared = 48 << 10;
  struct target t = open_target("sm_80");
  assert_int_equal(target_fit(&t, &h200, &e), OK);
  assert_int_equal(t.scratch, 48 << 10);
}

// Instructions decide, not numbers: a device needs a row, and the row all capabilities of the target.
static void test_unfit_device(void **state)
{
  (void)state;
  static const struct {
    const char *target, *device;
    int arch, status;
    const char *text, *hint;
  } rows[] = {
      {"sm_90a", "H100", 90, OK, "", ""},
      {"cpu", "H100", 90, OK, "", ""},
      {"sm_86", "A100", 80, OK, "", ""},
      {"sm_80", "RTX 3090 Ti of tomorrow", 88, OK, "", ""},
      {"sm_90a", "A10", 86, USER, "A10: compute capability 8.6 has no fp8, stmatrix, clusters, TMA, ", "it runs kernels for sm_80, sm_86, sm_87; "},
      {"sm_89", "A100", 80, USER, "8.0 has no fp8", "it runs kernels for sm_80, sm_86, sm_87; "},
      {"sm_80", "T4", 75, USER, "there is no target for this machine's T4: its compute capability is 7.5", "targets of GPUs are: sm_80, "},
      {"sm_90a", "GPU", 93, USER, "there is no target for this machine's GPU", ""},
  };
  for (size_t i = 0; i < COUNT(rows); i++) {
    struct err e = {0};
    struct target t = open_target(rows[i].target), was = t;
    struct target_facts f = {.device = rows[i].device, .arch = rows[i].arch, .processors = 100};
    assert_int_equal(target_fit(&t, &f, &e), rows[i].status);
    if (!strstr(e.text, rows[i].text) || !strstr(e.hint, rows[i].hint)) fail_msg("%s on %s: %s, %s", rows[i].target, rows[i].device, e.text, e.hint);
    if (rows[i].status != OK) assert_memory_equal(&t, &was, sizeof t);
  }
}

// Each compute capability of the table has its own row; one that has none has the row of the same major version whose code it runs.
static void test_best_for_device(void **state)
{
  (void)state;
  struct err e = {0};
  const char *name = NULL;
  for (int i = 0; i < target_gpus(); i++) {
    const struct target *row = target_gpu_at(i);
    const struct target_facts f = {.device = "GPU", .arch = row->arch, .processors = 40};
    struct target t = open_target(row->name);
    assert_int_equal(target_on(&f, &name, &e), OK);
    assert_string_equal(name, row->name);
    assert_int_equal(target_fit(&t, &f, &e), OK);
    assert_int_equal(t.runs_on, row->arch);
  }
  static const struct {
    int arch;
    const char *name; // NULL: none
  } rows[] = {{82, "sm_80"}, {88, "sm_87"}, {75, NULL}, {91, NULL}, {200, NULL}};
  for (size_t i = 0; i < COUNT(rows); i++) {
    const struct target_facts f = {.device = "GPU", .arch = rows[i].arch, .processors = 40};
    assert_int_equal(target_on(&f, &name, &e), rows[i].name ? OK : USER);
    if (rows[i].name) assert_string_equal(name, rows[i].name);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_list),         cmocka_unit_test(test_rates),        cmocka_unit_test(test_pair_rate),
      cmocka_unit_test(test_gpus),         cmocka_unit_test(test_unknown),      cmocka_unit_test(test_own),
      cmocka_unit_test(test_other_device), cmocka_unit_test(test_unfit_device), cmocka_unit_test(test_best_for_device)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

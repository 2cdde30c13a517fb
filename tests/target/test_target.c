// Targets: rows of GPUs are plausible and need no GPU; facts of a device replace a row's.
#include "target/rates.h"

#include <setjmp.h>
#include <stdarg.h>
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
    assert_true(t.bandwidth > 0 && t.cache_bandwidth > t.bandwidth && t.flops > 0 && t.exp_rate > 0 && t.launch > 0);
    assert_int_equal(t.kind == TARGET_GPU, !strncmp(t.name, "sm_", 3));
    gpus += t.kind == TARGET_GPU;
  }
  assert_int_equal(gpus, 4);
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
  assert_true(t.bandwidth > 0 && t.cache_bandwidth > 0 && t.flops > 0 && t.exp_rate > 0 && t.launch > 0 && t.flops < 1e15);
}

static void test_gpus(void **state)
{
  (void)state;
  for (int i = 0; i < target_count(); i++) {
    struct target t = open_target(target_name(i));
    if (t.kind != TARGET_GPU) continue;
    assert_int_equal(t.arch / 10, t.name[3] - '0');
    assert_int_equal(t.arch % 10, t.name[4] - '0');
    assert_true(t.scratch < t.shared_processor && t.registers == 65536);
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
  assert_non_null(strstr(e.hint, "cpu, sm_80, sm_86, sm_89, sm_90a"));
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

// What a block may have is the least of both; the rates are those of the device, by its row where it has one.
static void test_newer_device(void **state)
{
  (void)state;
  struct err e = {0};
  const struct target row = open_target("sm_90a");
  struct target_facts h200 = {.device = "H200", .arch = 90, .processors = 66, .shared = 227 << 10, .shared_processor = 228 << 10, .l2 = 1 << 20};
  static const char *const older[] = {"sm_80", "sm_86", "sm_89"};
  for (size_t i = 0; i < COUNT(older); i++) {
    const struct target was = open_target(older[i]);
    struct target t = was;
    assert_int_equal(target_fit(&t, &h200, &e), OK);
    assert_string_equal(t.name, older[i]);
    assert_string_equal(t.device, "H200");
    assert_true(t.arch == was.arch && t.runs_on == 90 && was.runs_on == was.arch);
    assert_true(t.scratch == was.scratch && t.shared_processor == was.shared_processor && t.registers == was.registers);
    assert_true(t.cores == 66 && t.l2 == 1 << 20 && t.bandwidth == row.bandwidth);
    assert_float_equal(t.flops, row.flops / 2, 1e3);
  }
  h200.shared = 48 << 10;
  struct target t = open_target("sm_80");
  assert_int_equal(target_fit(&t, &h200, &e), OK);
  assert_int_equal(t.scratch, 48 << 10);
  struct target_facts unknown = {.device = "GPU", .arch = 70 + 50, .processors = 216};
  t = open_target("sm_80");
  assert_int_equal(target_fit(&t, &unknown, &e), OK);
  assert_true(t.runs_on == 120 && t.scratch == 163 << 10);
  assert_float_equal(t.flops, 2 * open_target("sm_80").flops, 1e3);
}

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
      {"sm_90a", "A10", 86, USER, "A10: its compute capability, 8.6, is older", "no newer than the GPU"},
      {"sm_86", "A100", 80, USER, "8.0, is older", "no newer than the GPU"},
      {"sm_90a", "B200", 100, USER, "10.0, is newer, and only sm_90 itself", "older than sm_90"},
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

static void test_best_for_device(void **state)
{
  (void)state;
  static const struct {
    int arch;
    const char *name; // NULL: none
  } rows[] = {{90, "sm_90a"}, {89, "sm_89"}, {86, "sm_86"}, {87, "sm_86"}, {80, "sm_80"}, {100, "sm_89"}, {120, "sm_89"}, {75, NULL}};
  for (size_t i = 0; i < COUNT(rows); i++) {
    struct err e = {0};
    const char *name = NULL;
    const struct target_facts f = {.device = "T4", .arch = rows[i].arch, .processors = 40};
    if (target_on(&f, &name, &e) == OK) {
      struct target t = open_target(name);
      assert_string_equal(name, rows[i].name);
      assert_int_equal(target_fit(&t, &f, &e), OK);
    } else {
      assert_null(rows[i].name);
      assert_string_equal(e.text, "there is no target for this machine's T4: its compute capability is 7.5");
      assert_non_null(strstr(e.hint, "sm_80"));
    }
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_list), cmocka_unit_test(test_rates),        cmocka_unit_test(test_gpus),         cmocka_unit_test(test_unknown),
      cmocka_unit_test(test_own),  cmocka_unit_test(test_newer_device), cmocka_unit_test(test_unfit_device), cmocka_unit_test(test_best_for_device)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

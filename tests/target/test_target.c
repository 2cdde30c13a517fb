// Targets: rows of GPUs are plausible and need no GPU; facts of a device replace a row's.
#include "target/target.h"

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

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_list), cmocka_unit_test(test_gpus), cmocka_unit_test(test_unknown),
                                     cmocka_unit_test(test_own)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

// Programs looked at through the interface, and options of callers who know another version of it.
#include "api/api.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void looks(void **state)
{
  (void)state;
  struct mica_context *m = mica_open();
  struct mica_program *p;
  const char *text;
  assert_int_equal(mica_load_text(m, "program two(n = 3) {\n A: f16[n, 4]\n b: f32[]\n y = A + b\n return y, sum(A, dim=1)\n}\n", "two", 0, NULL, &p),
                   MICA_OK);
  assert_string_equal(mica_program_name(p), "two");
  assert_int_equal(mica_program_inputs(p), 2);
  assert_int_equal(mica_program_outputs(p), 2);
  struct mica_tensor a = mica_program_input(p, 0), b = mica_program_input(p, 1), y = mica_program_output(p, 0), z = mica_program_output(p, 1);
  assert_string_equal(a.name, "A");
  assert_true(a.dtype == MICA_F16 && a.ndim == 2 && a.shape[0] == 3 && a.shape[1] == 4);
  assert_true(b.dtype == MICA_F32 && b.ndim == 0);
  assert_string_equal(y.name, "y");
  assert_true(y.dtype == MICA_F32 && y.ndim == 2 && y.shape[1] == 4);
  assert_string_equal(z.name, "");
  assert_true(z.dtype == MICA_F16 && z.shape[0] == 3 && z.shape[1] == 1);
  assert_int_equal(mica_program_input(p, 2).ndim + mica_program_input(p, -1).ndim + mica_program_output(p, 9).ndim, 0);
  assert_string_equal(mica_program_input(p, 2).name, "");
  assert_int_equal(mica_program_text(m, p, &text), MICA_OK);
  assert_int_equal(mica_load_text(m, text, "again", 0, NULL, &p), MICA_OK);
  mica_close(m);
}

static void options_grow(void **state)
{
  (void)state;
  struct mica_options o = mica_options_default(), taken;
  struct err e = {0};
  assert_int_equal(o.size, sizeof o);
  assert_int_equal(options_take(NULL, &taken, &e), OK);
  assert_string_equal(taken.target, "cpu");
  struct {
    struct mica_options known;
    int64_t later;
  } newer;
  mica_options_init(&newer.known, sizeof newer);
  assert_true(newer.known.size == sizeof newer && newer.later == 0 && newer.known.measure == o.measure);
  newer.known.measure = 3;
  assert_int_equal(options_take(&newer.known, &taken, &e), OK);
  assert_true(taken.measure == 3 && taken.size == sizeof taken);
  struct mica_options first = {.size = offsetof(struct mica_options, progress_arg) + sizeof first.progress_arg, .target = "cpu", .measure = 4};
  assert_int_equal(options_take(&first, &taken, &e), OK); // of the first version, which ended there
  assert_true(taken.measure == 4 && !taken.accept);
  newer.later = 1;
  assert_int_equal(options_take(&newer.known, &taken, &e), USER);
  assert_non_null(strstr(e.text, "an option is set"));
  static const size_t sizes[] = {0, 8, offsetof(struct mica_options, progress_arg), (size_t)1 << 20, SIZE_MAX};
  for (size_t i = 0; i < COUNT(sizes); i++) {
    struct err mine = {0};
    o.size = sizes[i];
    assert_int_equal(options_take(&o, &taken, &mine), USER);
    assert_non_null(strstr(mine.text, "the size of the options"));
  }
  assert_int_equal(mica_abi_version(), MICA_ABI_VERSION);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(looks), cmocka_unit_test(options_grow)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

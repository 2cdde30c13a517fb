// Kernels with a re-tiled grid: clean in the interpreter and equal to float64.
// test: timeout 300
#include "given.h"
#include "held.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define TEST(table)                      \
  static void test_##table(void **state) \
  {                                      \
    (void)state;                         \
    hold("cut_" #table);                 \
  }
TEST(by_mma)
TEST(by_wgmma)

// Sums of sums are decided once for each tensor: 40 of them lead from a product to the sum on 2^40 ways.
static void many_sums(void **state)
{
  (void)state;
  const struct target gpu = h200();
  struct arena mem = {0};
  struct err e = {0};
  struct lower_plan p;
  const char *sums = "";
  for (int i = 0; i < 40; i++) sums = arena_printf(&mem, "%s s%d = s%d + s%d\n", sums, i + 1, i, i);
  const char *text = arena_printf(&mem,
                                  "X: f16[128, 256]\n W: f16[256, 128]\n O = block(x=2, y=2; i=4) {\n x = iter(X, imap={x:0}, fmap={i:1})\n"
                                  " w = iter(W, imap={y:1}, fmap={i:0})\n s0 = matmul(x, w)\n%s save(accum(s40), omap={x:0, y:1})\n }\n return O",
                                  sums);
  must(lower_plan(&mem, read(&mem, text), &gpu, &(struct lower_opts){.dependent = true}, &p, &e), "many sums", &e);
  assert_true(p.unit[0].nchoices > 0);
  arena_close(&mem);
}

// Narrow blocks that are more than the multiprocessors become fewer and wider ones; few of them stay.
static void narrow_columns(void **state)
{
  (void)state;
  const struct target gpu = h200();
  for (int columns = 1024; columns <= 10240; columns += 9216) {
    struct arena mem = {0};
    struct err e = {0};
    struct lower_plan p;
    int wide = 0;
    const char *text = arena_printf(&mem,
                                    "X: f16[128, 256]\n W: f16[256, %d]\n O = block(x=%d; i=4) {\n x = iter(X, fmap={i:1})\n"
                                    " w = iter(W, imap={x:1}, fmap={i:0})\n save(gelu(accum(matmul(x, w))), omap={x:1})\n }\n return O",
                                    columns, columns / 64);
    must(lower_plan(&mem, read(&mem, text), &gpu, &(struct lower_opts){.dependent = true}, &p, &e), "narrow columns", &e);
    for (int i = 0; i < p.unit[0].nchoices; i++) wide += scheme_knob(&p.unit[0].choice[i], "cols") == 128;
    assert_true((wide > 0) == (columns == 10240));
    arena_close(&mem);
  }
}

// Blocks of one column are re-tiled into blocks of 128 columns or more. If these are fewer than half of the multiprocessors, blocks of fewer columns
// are tried too.
static void single_columns(void **state)
{
  (void)state;
  const struct target gpu = h200();
  for (int columns = 1487; columns <= 10247; columns += 8760) {
    struct arena mem = {0};
    struct err e = {0};
    struct lower_plan p;
    int wide = 0, narrow = 0;
    const char *text = arena_printf(&mem,
                                    "X: f16[112, 256]\n W: f16[%d, 256]\n O = block(x=%d; i=4) {\n x = iter(X, fmap={i:1})\n"
                                    " w = iter(W, imap={x:0}, fmap={i:1})\n save(accum(matmul(x, transpose(w))), omap={x:1})\n }\n return O",
                                    columns, columns);
    must(lower_plan(&mem, read(&mem, text), &gpu, &(struct lower_opts){.dependent = true}, &p, &e), "single columns", &e);
    for (int i = 0; i < p.unit[0].nchoices; i++) {
      const struct choice *c = &p.unit[0].choice[i];
      const int64_t cols = strcmp(scheme_at(c->scheme)->name, "wgmma") ? 0 : scheme_knob(c, "cols");
      wide += cols >= 128, narrow += cols > 0 && cols < 128;
    }
    assert_true(wide > 0);
    assert_true((narrow > 0) == (columns == 1487));
    arena_close(&mem);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_by_mma), cmocka_unit_test(test_by_wgmma), cmocka_unit_test(many_sums),
                                     cmocka_unit_test(narrow_columns), cmocka_unit_test(single_columns)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

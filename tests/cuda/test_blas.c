// Products by the vendor's library, with a library that multiplies column-major matrices as its descriptions say:
// whatever the strides, D is A B.
#include "columns.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 4096 };
static gpu_address address(const float *p) { return (gpu_address)(uintptr_t)p; }

// 0: rows, 1: columns, 2: rows with a gap, 3: columns with a gap.
static void strides(int way, int64_t rows, int64_t cols, int64_t *s)
{
  int64_t gap = way > 1 ? 3 : 0;
  s[1] = way % 2 ? 1 : cols + gap, s[2] = way % 2 ? rows + gap : 1;
  s[0] = (rows + gap) * (cols + gap);
}

static void one_product(const struct blas_product *p)
{
  static float a[ROOM], b[ROOM], d[ROOM];
  struct blas_plan *plan;
  struct blas_algorithm how;
  struct err e = {0};
  int n;
  for (int i = 0; i < ROOM; i++) a[i] = (float)(i % 17 - 8), b[i] = (float)(i % 13 - 6), d[i] = -1000;
  if (blas_plan(&library, p, &plan, &e)) fail_msg("%s", e.text);
  assert_int_equal(blas_algorithms(plan, 0, 1, &how, &n, &e), OK);
  if (blas_run(plan, &how, address(a), address(b), address(d), 0, &e)) fail_msg("%s", e.text);
  for (int64_t t = 0; t < p->batch; t++)
    for (int64_t i = 0; i < p->m; i++)
      for (int64_t j = 0; j < p->n; j++) {
        double sum = 0;
        for (int64_t l = 0; l < p->k; l++)
          sum += (double)a[t * p->stride[0][0] + i * p->stride[0][1] + l * p->stride[0][2]] *
                 (double)b[t * p->stride[1][0] + l * p->stride[1][1] + j * p->stride[1][2]];
        float got = d[t * p->stride[2][0] + i * p->stride[2][1] + j * p->stride[2][2]];
        if ((double)got != sum) fail_msg("[%d, %d, %d] is %g, not %g", (int)t, (int)i, (int)j, (double)got, sum);
      }
  blas_plan_close(plan);
}

static void all_strides_multiply(void **state)
{
  (void)state;
  static const int64_t sizes[][4] = {{1, 5, 7, 3}, {3, 5, 7, 3}, {2, 1, 7, 3}, {2, 5, 1, 3}, {2, 5, 7, 1},
                                     {1, 1, 1, 1}, {2, 1, 1, 6}, {2, 6, 1, 1}, {2, 1, 6, 1}};
  for (size_t i = 0; i < COUNT(sizes); i++)
    for (int way = 0; way < 64; way++)
      for (int shared = 0; shared < 2; shared++) {
        struct blas_product p = {.type = {TT_F32, TT_F32, TT_F32},
                                 .batch = sizes[i][0],
                                 .m = sizes[i][1],
                                 .n = sizes[i][2],
                                 .k = sizes[i][3]};
        strides(way % 4, p.m, p.k, p.stride[0]);
        strides(way / 4 % 4, p.k, p.n, p.stride[1]);
        strides(way / 16, p.m, p.n, p.stride[2]);
        if (shared) p.stride[1][0] = 0; // one matrix for the whole batch
        one_product(&p);
      }
  assert_int_equal(alive, 0);
}

static void what_is_not_taken_is_told(void **state)
{
  (void)state;
  static const struct blas_product good = {{TT_F16, TT_F16, TT_F16}, 1, 4, 4, 4, {{16, 4, 1}, {16, 4, 1}, {16, 4, 1}}};
  struct blas_product p[4] = {good, good, good, good};
  p[0].stride[0][2] = 2; // nothing is contiguous
  p[1].stride[2][1] = 2; // rows overlap
  p[2].type[1] = TT_I32;
  p[3].batch = 0;
  for (size_t i = 0; i < COUNT(p); i++) {
    struct blas_plan *plan;
    struct err e = {0};
    assert_int_equal(blas_plan(&library, &p[i], &plan, &e), USER);
    assert_int_equal(e.id, ERR_TARGET);
    assert_null(plan);
  }
  assert_int_equal(alive, 0);
}

static void algorithms_that_fit_are_offered(void **state)
{
  (void)state;
  static const struct blas_product p = {{TT_F16, TT_F16, TT_F16}, 1, 4, 4, 4, {{16, 4, 1}, {16, 4, 1}, {16, 4, 1}}};
  struct blas_plan *plan;
  struct blas_algorithm a[8];
  struct err e = {0};
  int n;
  assert_int_equal(blas_plan(&library, &p, &plan, &e), OK);
  assert_int_equal(blas_algorithms(plan, 2000, 8, a, &n, &e), OK);
  assert_int_equal(n, 3); // one failed
  assert_true(a[1].words[0] == 1 && a[1].workspace == 1000 && a[2].words[0] == 3);
  assert_int_equal(blas_algorithms(plan, 999, 8, a, &n, &e), OK);
  assert_int_equal(n, 2);
  assert_int_equal(blas_algorithms(plan, 0, 0, a, &n, &e), USER);
  blas_plan_close(plan);
  assert_int_equal(alive, 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(all_strides_multiply),
                                     cmocka_unit_test(what_is_not_taken_is_told),
                                     cmocka_unit_test(algorithms_that_fit_are_offered)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

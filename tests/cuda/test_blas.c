// Products by cuBLASLt, with a replacement that multiplies column-major matrices as described by its arguments. D must be A B for all strides.
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

static double at(const struct blas_product *p, int o, const float *x, int64_t batch, int64_t row, int64_t col)
{
  return (double)x[batch * p->stride[o][0] + row * p->stride[o][1] + col * p->stride[o][2]];
}

static void one_product(const struct blas_product *p)
{
  static float x[BLAS_OPERANDS][ROOM];
  static const int step[BLAS_OPERANDS] = {17, 13, 2, 11, 7};
  gpu_address operand[BLAS_OPERANDS];
  struct blas_plan *plan;
  struct blas_algorithm how;
  struct err e = {0};
  int n, given = 0;
  for (int o = 0; o < BLAS_OPERANDS; o++) {
    for (int i = 0; i < ROOM; i++) x[o][i] = o == BLAS_D ? -1000 : (float)(i % step[o] - step[o] / 2);
    if (blas_has(p, o)) operand[given++] = address(x[o]);
  }
  assert_int_equal(given, blas_operands(p));
  if (blas_plan(&library, p, &plan, &e)) fail_msg("%s", e.text);
  assert_int_equal(blas_algorithms(plan, 0, 1, &how, &n, &e), OK);
  if (blas_run(plan, &how, operand, 0, &e)) fail_msg("%s", e.text);
  for (int64_t t = 0; t < p->batch; t++)
    for (int64_t i = 0; i < p->m; i++)
      for (int64_t j = 0; j < p->n; j++) {
        double sum = 0;
        for (int64_t l = 0; l < p->k; l++) sum += at(p, BLAS_A, x[BLAS_A], t, i, l) * at(p, BLAS_B, x[BLAS_B], t, l, j);
        sum *= (double)p->alpha;
        if (blas_has(p, BLAS_C)) sum += (double)p->beta * at(p, BLAS_C, x[BLAS_C], t, i, j);
        if (blas_has(p, BLAS_BIAS)) sum += at(p, BLAS_BIAS, x[BLAS_BIAS], t, i, j);
        if (p->epilogue == EPILOGUE_RELU || p->epilogue == EPILOGUE_RELU_BIAS) sum = sum < 0 ? 0 : sum;
        double got = at(p, BLAS_D, x[BLAS_D], t, i, j);
        if (got != sum) fail_msg("[%d, %d, %d] is %g, not %g", (int)t, (int)i, (int)j, got, sum);
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
        struct blas_product p = {
            .type = {TT_F32, TT_F32, TT_F32}, .alpha = 1, .batch = sizes[i][0], .m = sizes[i][1], .n = sizes[i][2], .k = sizes[i][3]};
        strides(way % 4, p.m, p.k, p.stride[0]);
        strides(way / 4 % 4, p.k, p.n, p.stride[1]);
        strides(way / 16, p.m, p.n, p.stride[2]);
        if (shared) p.stride[1][0] = 0; // one matrix for the whole batch
        one_product(&p);
      }
  assert_int_equal(alive, 0);
}

// D by rows and by columns, C as D or with a gap; a bias along the rows of the library, of which each matrix may have its own.
static void all_epilogues_end(void **state)
{
  (void)state;
  for (int e = 0; e < EPILOGUES; e++)
    for (int way = 0; way < 16; way++)
      for (int how = 0; how < 6; how++) {
        int64_t batch = way < 8 ? 1 : 3, row = way % 2 ? 1 : 0, own = way / 4 % 2;
        struct blas_product p = {.type = {TT_F32, TT_F32, TT_F32, TT_F32, TT_F32},
                                 .batch = batch,
                                 .m = 5,
                                 .n = 7,
                                 .k = 3,
                                 .epilogue = (enum epilogue)e,
                                 .alpha = how % 2 ? 0.5f : 1,
                                 .beta = (float)(how / 2)};
        strides(0, p.m, p.k, p.stride[BLAS_A]), strides(1, p.k, p.n, p.stride[BLAS_B]);
        strides(way % 2, p.m, p.n, p.stride[BLAS_D]), strides(way % 4, p.m, p.n, p.stride[BLAS_C]);
        p.stride[BLAS_BIAS][0] = own * 16, p.stride[BLAS_BIAS][2 - row] = 1;
        one_product(&p);
      }
  assert_int_equal(alive, 0);
}

static void what_is_not_taken_is_told(void **state)
{
  (void)state;
  static const struct blas_product good = {.type = {TT_F16, TT_F16, TT_F16, TT_F16, TT_F16},
                                           .batch = 1,
                                           .m = 4,
                                           .n = 4,
                                           .k = 4,
                                           .stride = {{16, 4, 1}, {16, 4, 1}, {16, 4, 1}, {16, 4, 1}, {0, 0, 1}},
                                           .epilogue = EPILOGUE_RELU_BIAS,
                                           .alpha = 1,
                                           .beta = 1};
  struct blas_product p[10] = {good, good, good, good, good, good, good, good, good, good};
  p[0].stride[0][2] = 2; // nothing is contiguous
  p[1].stride[2][1] = 2; // rows overlap
  p[2].type[1] = TT_I32;
  p[3].batch = 0;
  p[4].stride[BLAS_C][1] = 1, p[4].stride[BLAS_C][2] = 4; // C by columns, D by rows
  p[5].type[BLAS_C] = TT_F32;
  p[6].type[BLAS_BIAS] = TT_F32;
  p[7].stride[BLAS_BIAS][1] = 1, p[7].stride[BLAS_BIAS][2] = 0; // along the columns of the library
  p[8].stride[BLAS_BIAS][2] = 2;
  p[9].type[BLAS_D] = TT_BF16;
  for (size_t i = 0; i < COUNT(p); i++) {
    struct blas_plan *plan;
    struct err e = {0};
    assert_int_equal(blas_plan(&library, &p[i], &plan, &e), USER);
    assert_int_equal(e.id, ERR_TARGET);
    assert_null(plan);
  }
  struct blas_arranged fits;
  assert_true(blas_arrange(&good, &fits));
  assert_int_equal(alive, 0);
}

static void algorithms_that_fit_are_offered(void **state)
{
  (void)state;
  static const struct blas_product p = {
      .type = {TT_F16, TT_F16, TT_F16}, .batch = 1, .m = 4, .n = 4, .k = 4, .alpha = 1, .stride = {{16, 4, 1}, {16, 4, 1}, {16, 4, 1}}};
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
  const struct CMUnitTest tests[] = {cmocka_unit_test(all_strides_multiply), cmocka_unit_test(all_epilogues_end),
                                     cmocka_unit_test(what_is_not_taken_is_told), cmocka_unit_test(algorithms_that_fit_are_offered)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

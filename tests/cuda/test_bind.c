// What a launch is made of, and how results are compared; needs no GPU.
#include "cuda/cuda.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>

static const char source[] = "order row\n"
                             "kernel scale {\n"
                             "  param M in 8..100\n"
                             "  param N in 8..4096 multiple 8\n"
                             "  %x:[M, N].fp16.GL\n"
                             "  %y:[M, N].fp16.GL\n"
                             "  #g:[ceil(M, 4)].block\n"
                             "  #t:[4, 32].thread\n"
                             "  %y <- Spec<<<#g, #t>>>(%x) {\n"
                             "    @b = #g.indices()\n"
                             "    @r, @i = #t.indices()\n"
                             "    #me = #t.scalar()\n"
                             "    for (j = 0; j < ceil(N, 256); j += 1) {\n"
                             "      %v:[8].fp16.RF\n"
                             "      %v <- Move<<<#g, #me>>>(%x.tile([1, 8])[@b * 4 + @r, j * 32 + @i])\n"
                             "      %y.tile([1, 8])[@b * 4 + @r, j * 32 + @i] <- Move<<<#g, #me>>>(%v)\n"
                             "    }\n"
                             "  }\n"
                             "}\n";

static void a_launch(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct err e = {0};
  struct tile_program *p;
  if (tile_parse(&mem, "scale", source, &p, &e) || tile_lower(p, p->kernels[0], 80, &e)) err_print(stderr, &e);
  assert_int_equal(e.status, OK);
  struct tile_kernel *k = p->kernels[0];
  int64_t sizes[2] = {10, 40};
  gpu_address buffers[8] = {0x1000, 0x2000};
  struct gpu_launch l;
  assert_int_equal(cuda_bind(NULL, &mem, p, k, sizes, buffers, &l, &e), OK);
  assert_int_equal(l.blocks, 3);
  assert_int_equal(l.threads, 128);
  assert_false(l.dependent);
  assert_int_equal(*(gpu_address *)l.args[0], 0x1000);
  assert_int_equal(*(gpu_address *)l.args[1], 0x2000);
  assert_int_equal(*(int32_t *)l.args[2], 10);
  assert_int_equal(*(int32_t *)l.args[3], 40);
  assert_int_equal(cuda_elements(&mem, p, k, 0, sizes), 400);
  static const int64_t wrong[][2] = {{7, 40}, {10, 4104}, {10, 41}, {-8, 40}};
  for (size_t i = 0; i < COUNT(wrong); i++) {
    struct err mine = {0};
    assert_int_equal(cuda_bind(NULL, &mem, p, k, wrong[i], buffers, &l, &mine), USER);
    assert_non_null(strstr(mine.text, "the kernel takes"));
  }
  arena_close(&mem);
}

static void results_are_compared(void **state)
{
  (void)state;
  float a[4] = {1, 2, 2, -INFINITY}, b[4] = {1, 2, 2, -INFINITY};
  struct cuda_difference d = cuda_compare(TT_F32, a, b, 4);
  assert_int_equal(d.other, 0);
  assert_int_equal(d.first, -1);
  assert_true(d.relative == 0);
  a[1] = 2.3f;
  d = cuda_compare(TT_F32, a, b, 3);
  assert_int_equal(d.other, 1);
  assert_int_equal(d.first, 1);
  assert_true(fabs(d.relative - 0.1) < 1e-6);
  a[2] = b[2] = NAN; // the same bits, and still no result
  d = cuda_compare(TT_F32, a, b, 3);
  assert_false(d.relative <= 1e9);
  uint16_t zero[2] = {0, 0x8000}, one[2] = {0, 0}; // -0 is not +0
  d = cuda_compare(TT_F16, zero, one, 2);
  assert_int_equal(d.other, 1);
  assert_true(d.relative == 0);
}

static void without_a_device(void **state)
{
  (void)state;
  struct gpu *g = NULL;
  struct err e = {0};
  if (gpu_open(0, &g, &e) == OK) { // a machine with one
    assert_true(gpu_facts(g)->arch >= 50 && gpu_facts(g)->processors > 0);
    gpu_close(g);
    return;
  }
  assert_null(g);
  assert_int_equal(e.status, ENV);
  assert_int_equal(e.id, ERR_GPU);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_launch), cmocka_unit_test(results_are_compared), cmocka_unit_test(without_a_device)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

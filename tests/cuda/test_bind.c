// Arguments of a launch, and the comparison of results. Needs no GPU.
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
  static const int64_t wrong[][2] = {{7, 40}, {10, 4104}, {10, 41}, {-8, 40}};
  for (size_t i = 0; i < COUNT(wrong); i++) {
    struct err mine = {0};
    assert_int_equal(cuda_bind(NULL, &mem, p, k, wrong[i], buffers, &l, &mine), USER);
    assert_non_null(strstr(mine.text, "the kernel takes"));
  }
  arena_close(&mem);
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
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_launch), cmocka_unit_test(without_a_device)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

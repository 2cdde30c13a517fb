// Timing of kernels, with a driver that records its calls (fake.h). Launches alternate between sets of buffers, times are those of the fake clock,
// and all memory is freed.
#include "fake.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

static const char source[] = "order row\nkernel twice {\n  param N in 8..1000000 multiple 8\n"
                             "  %x:[N].fp16.GL\n  %y:[N].fp16.GL\n  #g:[ceil(N, 256)].block\n  #t:[32].thread\n"
                             "  %y <- Spec<<<#g, #t>>>(%x) {\n    @b = #g.indices()\n    @i = #t.indices()\n"
                             "    #me = #t.scalar()\n    %v:[8].fp16.RF\n"
                             "    %v <- Move<<<#g, #me>>>(%x.tile([8])[@b * 32 + @i])\n"
                             "    %y.tile([8])[@b * 32 + @i] <- Move<<<#g, #me>>>(%v)\n  }\n}\n";

struct fixture {
  struct arena mem;
  struct err e;
  struct gpu g;
  struct tile_program *p;
  struct cuda_ready ready;
  struct cuda_time t;
};

static void start(struct fixture *f)
{
  memset(f, 0, sizeof *f);
  fake_gpu(&f->g);
  if (tile_parse(&f->mem, "twice", source, &f->p, &f->e) || tile_lower(f->p, f->p->kernels[0], 80, &f->e)) err_print(stderr, &f->e);
  assert_int_equal(f->e.status, OK);
  struct cubin code = {.bytes = "code", .n = 4};
  assert_int_equal(gpu_load(&f->g, &code, &f->ready.module, &f->e), OK);
  assert_int_equal(gpu_find(f->ready.module, "twice", 0, 1, &f->ready.kernel, &f->e), OK);
}

static int time_it(struct fixture *f, int64_t n)
{
  struct tile_kernel *k = f->p->kernels[0];
  const size_t size = (size_t)n * 2, bytes[2] = {size, size};
  void *host[2] = {arena_alloc(&f->mem, size), arena_alloc(&f->mem, size)};
  assert_int_equal(k->nbuffers >= 2 && k->buffers[0].mem == MEM_GL && k->buffers[1].mem == MEM_GL, 1);
  void **all = NEWS(&f->mem, void *, k->nbuffers);
  size_t *sizes = NEWS(&f->mem, size_t, k->nbuffers);
  memcpy(all, host, sizeof host), memcpy(sizes, bytes, sizeof bytes);
  return cuda_time(&f->g, &f->mem, f->p, k, &f->ready, &n, all, sizes, &f->t, &f->e);
}

static void end(struct fixture *f)
{
  assert_int_equal(fake.allocated, fake.released);
  assert_int_equal(fake.graphs, 0);
  gpu_unload(f->ready.module);
  arena_close(&f->mem);
}

// Sets of 16 KiB are 130 sets for an L2 of 1 MiB. Each launch uses the next set, and the order repeats.
static void launches_take_turns(void **state)
{
  (void)state;
  static const struct {
    int64_t n;
    int sets, launches;
  } cases[] = {{4096, 130, 130}, {8, 256, 256}, {1 << 15, 18, 72}, {1000000, 2, 64}};
  for (size_t i = 0; i < COUNT(cases); i++) {
    struct fixture f;
    start(&f);
    assert_int_equal(time_it(&f, cases[i].n), OK);
    assert_int_equal(f.t.sets, cases[i].sets);
    assert_int_equal(f.t.bytes, 4 * cases[i].n);
    assert_true(f.t.sets == 256 || f.t.sets * f.t.bytes > 2 * FAKE_L2);
    assert_int_equal(fake.allocated, 2 * cases[i].sets);
    assert_int_equal(fake.launches, cases[i].launches);
    assert_int_equal(fake.recorded, cases[i].launches);
    for (int j = 0; j < fake.recorded; j++)
      for (int k = 0; k < j; k++) assert_int_equal(fake.first[j] == fake.first[k], (j - k) % f.t.sets == 0);
    end(&f);
  }
}

static void times_are_of_a_launch(void **state)
{
  (void)state;
  struct fixture f;
  start(&f);
  assert_int_equal(time_it(&f, 4096), OK);
  assert_int_equal(fake.replays, 15); // 1 to 15 ms
  assert_true(fabs(f.t.median - 8e-3 / 130) < 1e-9);
  assert_true(fabs(f.t.least - 1e-3 / 130) < 1e-9);
  assert_true(fabs(f.t.most - 15e-3 / 130) < 1e-9);
  end(&f);
}

static void a_failing_launch_is_told(void **state)
{
  (void)state;
  struct fixture f;
  start(&f);
  fake.fail_at = 3;
  assert_int_equal(time_it(&f, 4096), ENV);
  assert_non_null(strstr(f.e.text, "FAKE_FAILED"));
  assert_int_equal(fake.launches, 3);
  assert_int_equal(fake.replays, 0);
  end(&f); // the recording was ended, the memory is given back
}

static void wrong_sizes_are_told(void **state)
{
  (void)state;
  struct fixture f;
  start(&f);
  assert_int_equal(time_it(&f, 12), USER);
  assert_int_equal(fake.launches, 0);
  end(&f);
}

static void rows(void **state)
{
  (void)state;
  const struct cuda_time t = {.median = 2e-6, .least = 1.5e-6, .most = 3e-6, .bytes = 4000, .sets = 3};
  struct str s = {0};
  cuda_time_csv("k", "M=8,N=8", &t, 0, &s);
  assert_string_equal(str_text(&s), "k,\"M=8,N=8\",2.000,1.500,3.000,4000,2.0,");
  cuda_time_csv("", "", &t, 5e6, &s);
  assert_string_equal(str_text(&s) + strlen("k,\"M=8,N=8\",2.000,1.500,3.000,4000,2.0,"), ",\"\",2.000,1.500,3.000,4000,2.0,2.5");
  str_free(&s);
  assert_string_equal(cuda_time_columns, "kernel,sizes,us median,us least,us most,bytes,GB/s,TFLOP/s");
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(launches_take_turns), cmocka_unit_test(times_are_of_a_launch),
                                     cmocka_unit_test(a_failing_launch_is_told), cmocka_unit_test(wrong_sizes_are_told), cmocka_unit_test(rows)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

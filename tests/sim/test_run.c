// Small kernels against references in C.
#include "tiles.h"

#include "sim/number.h"

#include <math.h>

static void copies(void **state)
{
  (void)state;
  struct tile_run t;
  tile_open(&t, "copy", "order row\nkernel copy { param N\n %X:[N].fp16.GL\n %Y:[N].fp16.GL\n #g:[ceil(N, 1024)].block\n #t:[128].thread\n"
                        "%Y <- Spec<<<#g, #t>>>(%X) {\n @b = #g.indices()\n @i = #t.indices()\n #me = #t.scalar()\n"
                        "%r:[8].fp16.RF\n %x = %X.tile([1024])[@b].tile([8])\n %y = %Y.tile([1024])[@b].tile([8])\n"
                        "%r <- Move<<<#g, #me>>>(%x[@i])\n %y[@i] <- Move<<<#g, #me>>>(%r)\n}\n}\n", "N=5003");
  tile_fill(&t, 1, "Y");
  tile_clean(&t);
  int64_t n;
  const void *x = tile_data(&t, "X", &n), *y = tile_data(&t, "Y", NULL);
  assert_int_equal(n, 5003);
  assert_memory_equal(x, y, (size_t)n * 2);
  assert_int_equal(t.r.blocks, 5);
  tile_close(&t);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(copies)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

// Blocks of a multiprocessor whose warpgroups can have the registers that they ask for.
#include "tile/tile.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const struct {
  int groups;
  const char *first, *others; // what the first warpgroup executes, and all others
  int blocks;
} cases[] = {{3, "setmaxnreg.dec, 24", "setmaxnreg.inc, 240", 1},
             {2, "setmaxnreg.dec, 40", "setmaxnreg.inc, 208", 2},
             {2, "setmaxnreg.dec, 48", "setmaxnreg.inc, 208", 2},
             {2, "setmaxnreg.dec, 56", "setmaxnreg.inc, 208", 1}, // 264 registers, and 256 are half
             {3, "setmaxnreg.dec, 24", NULL, 1},                  // the others keep what they have at the start
             {3, NULL, NULL, 0}};

static const char *sync(struct arena *mem, const char *what) { return what ? arena_printf(mem, "Sync<%s><<<#grid, #group>>>()", what) : ""; }

static void blocks(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(cases); i++) {
    struct arena mem = {0};
    struct err e = {0};
    struct tile_program *p;
    const char *text =
        arena_printf(&mem,
                     "order row\nkernel k {\n target sm_90a\n %%Y:[%d].fp32.GL\n #grid:[1].block\n #t:[%d].thread\n"
                     " %%Y <- Spec<<<#grid, #t>>>() {\n #me = #t.scalar()\n #groups:[%d].[128].thread = #t.tile([128])\n"
                     " @g, @i = #groups.indices()\n #group:[128].thread = #groups[@g]\n %%x:[].fp32.RF\n"
                     " %%x <- Init<1.0><<<#grid, #me>>>()\n if (@g == 0) {\n%s\n} else {\n%s\n}\n"
                     " %%Y[@g * 128 + @i] <- Move<<<#grid, #me>>>(%%x)\n }\n}\n",
                     128 * cases[i].groups, 128 * cases[i].groups, cases[i].groups, sync(&mem, cases[i].first), sync(&mem, cases[i].others));
    if (tile_parse_set(&mem, "k.tile", text, 0, NULL, &p, &e) != OK || tile_lower(p, p->kernels[0], 90, &e) != OK) fail_msg("%s", e.text);
    assert_int_equal(tile_blocks_by_registers(p->kernels[0]), cases[i].blocks);
    arena_close(&mem);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(blocks)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

// Attention and products with iterations that conditions on indices hide: clean in the interpreter and equal to float64, by all choices.
// test: timeout 300
// test: quick release
#include "../graphs.h"
#include "held.h"
#include "lower/lower.h"
#include "target/target.h"

#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void by_all_choices(void **state)
{
  (void)state;
  hold_choices("hidden", INT_MAX);
}

// The items of persistent blocks of a lower triangle have one iteration or all. One block has only long ones. On an H200 such a kernel takes 163 us, and
// 131 with an item a block.
static void the_longest_persistent_block_counts(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct target t;
  struct err e = {0};
  struct lower_plan p;
  double one = INFINITY, persistent = INFINITY;
  const char *text = "graph g {\n X: f16[4096, 4096]\n Y: f16[4096, 4096]\n N = iota([4096])\n R = iota([4096, 1])\n"
                     " O = block(x=32, y=16; i=64) {\n x = iter(X, imap={x:0}, fmap={i:1})\n y = iter(Y, imap={y:1}, fmap={i:0})\n"
                     " n = iter(N, imap={y:0})\n r = iter(R, imap={x:0})\n save(mask(accum(matmul(x, y)), n <= r), omap={x:0, y:1})\n }\n"
                     " return O\n}\n";
  if (target_open("sm_90a", 0, true, &t, &e)) fail_msg("%s", e.text);
  if (lower_plan(&mem, graph_of(&mem, text), &t, &(struct lower_opts){.dependent = true}, &p, &e)) fail_msg("%s", e.text);
  for (int i = 0; i < p.unit[0].nchoices; i++) {
    const struct choice *c = &p.unit[0].choice[i];
    if (strcmp(scheme_at(c->scheme)->name, "wgmma") != 0) continue;
    double *least = scheme_knob(c, "blocks") ? &persistent : &one;
    *least = fmin(*least, c->cost);
  }
  assert_true(isfinite(persistent) && one * 1.2 < persistent);
  arena_close(&mem);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(by_all_choices), cmocka_unit_test(the_longest_persistent_block_counts)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

// Inputs of products whose rows begin anywhere are copied to rows at 16 bytes, where a kernel could not read them or the model prefers it.
// test: timeout 300
// test: quick release
#include "../thin.h"
#include "given.h"
#include "run_table.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void cheapest(void **state)
{
  (void)state;
  const struct target gpu = h200();
  run_cheapest("aligned", &gpu);
}

static void choices(void **state)
{
  (void)state;
  const struct target gpu = h200();
  assert_true(run_choices("aligned", &gpu, 8 * quick_step(2) * thinned(2), NULL, NULL) > 0);
}

static double cost(struct arena *mem, const char *text)
{
  const struct target gpu = h200();
  struct err e = {0};
  struct lower_plan p;
  double sum = 0;
  must(lower_plan(mem, read(mem, text), &gpu, &(struct lower_opts){.dependent = true}, &p, &e), text, &e);
  for (int u = 0; u < p.nunits; u++) sum += p.unit[u].nchoices ? p.unit[u].choice[0].cost : INFINITY;
  return sum;
}

// The library is slow where rows are no whole chunks of 16 bytes, and copies of large operands cost less.
static void priced(void **state)
{
  (void)state;
  struct arena mem = {0};
#define INPUTS "X: f16[2048, 4095]\n W: f16[4095, 4096]\n"
  const double library = cost(&mem, INPUTS "return matmul(X, W)");
  const double copied = cost(&mem, INPUTS "O = block(x=16, y=32; i=4095) {\n x = iter(X, imap={x:0}, fmap={i:1})\n"
                                          " w = iter(W, imap={y:1}, fmap={i:0})\n save(accum(matmul(x, w)), omap={x:0, y:1})\n }\n return O");
  assert_true(copied < 0.6 * library);
  assert_true(library > 1.5 * cost(&mem, "X: f16[2048, 4096]\n W: f16[4096, 4096]\n return matmul(X, W)"));
  arena_close(&mem);
}

// TMA loads a mask of booleans from a copy of 16 bits.
static void masks(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct lower_plan p;
  struct err e = {0};
  const struct target gpu = h200();
  const char *text = "Q: f16[64, 512, 64]\n K: f16[64, 512, 64]\n V: f16[64, 512, 64]\n M: bool[1, 512, 512]\n O = block(x=64, y=4; i=8) {\n"
                     " q = iter(Q, imap={x:0, y:1})\n k = iter(K, imap={x:0}, fmap={i:1})\n v = iter(V, imap={x:0}, fmap={i:1})\n"
                     " m = iter(M, imap={y:1}, fmap={i:2})\n e = mask(exp(matmul(q, transpose(k, perm=[0, 2, 1])) * 0.1), m)\n"
                     " save(accum(matmul(e, v)) / accum(sum(e, dim=2)), omap={x:0, y:1})\n }\n return O";
  must(lower_plan(&mem, read(&mem, text), &gpu, &(struct lower_opts){.dependent = true}, &p, &e), "a mask", &e);
  assert_int_equal(p.nunits, 2);
  assert_true(legal_copied(p.g, p.g->nodes[p.unit[0].first].out) && p.store[p.g->nodes[p.unit[0].first].out] == F16);
  struct str how = {0};
  scheme_text(&p.unit[1].choice[0], &how);
  assert_non_null(strstr(str_text(&how), "brought=1"));
  str_free(&how), arena_close(&mem);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(cheapest), cmocka_unit_test(choices), cmocka_unit_test(priced), cmocka_unit_test(masks)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

// Kernels that go on with the tiles of the one before become one, which computes the same; others stay apart.
#include "../gpu_of.h"
#include "../graphs.h"
#include "eval/eval.h"
#include "lower/lower.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SCALED "X: f16[8, 64]\n A: f16[8, 64]\n P = block(x=4) { x = iter(X, imap={x:0})\n save(x / sqrt(mean(x * x, dim=1)), omap={x:0}) }\n"

static const struct {
  const char *name, *text;
  int blocks; // left of them
} graphs[] = {
    {"two norms",
     SCALED
     "O = block(x=4) { p = iter(P, imap={x:0})\n a = iter(A, imap={x:0})\n y = p * a\n save(y / sqrt(mean(y * y, dim=1)), omap={x:0}) }\n return O",
     1},
    {"three in a row",
     SCALED "Q = block(x=4) { p = iter(P, imap={x:0})\n save(exp(p), omap={x:0}) }\n"
            "O = block(x=4) { q = iter(Q, imap={x:0})\n save(q / sum(q, dim=1), omap={x:0}) }\n return O",
     1},
    {"after a loop, two tensors",
     "X: f16[8, 64]\n W: f16[64, 32]\n"
     "P, Q = block(x=2; i=4) { x = iter(X, fmap={i:1})\n w = iter(W, imap={x:1}, fmap={i:0})\n p = accum(matmul(x, w))\n save(p, omap={x:1})\n "
     "save(exp(p), omap={x:1}) }\n"
     "O = block(x=2) { q = iter(Q, imap={x:1})\n p = iter(P, imap={x:1})\n save(p * q, omap={x:1}) }\n return O",
     1},
    {"an axis of extent 1 more", SCALED "O = block(x=4, y=1) { p = iter(P, imap={x:0, y:1})\n save(exp(p), omap={x:0, y:1}) }\n return O", 1},
    {"other tiles", SCALED "O = block(x=4) { p = iter(P, imap={x:1})\n save(exp(p), omap={x:1}) }\n return O", 2},
    {"other blocks", SCALED "O = block(x=2) { p = iter(P, imap={x:0})\n save(exp(p), omap={x:0}) }\n return O", 2},
    {"all of it", SCALED "O = block(x=4) { p = iter(P)\n a = iter(A, imap={x:0})\n save(a + sum(p, dim=0), omap={x:0}) }\n return O", 2},
    {"an output of the program", SCALED "O = block(x=4) { p = iter(P, imap={x:0})\n save(exp(p), omap={x:0}) }\n return P, O", 2},
    {"read by another too",
     SCALED "Q = block(x=4) { p = iter(P, imap={x:0})\n save(exp(p), omap={x:0}) }\n"
            "O = block(x=2) { p = iter(P, imap={x:0})\n q = iter(Q, imap={x:0})\n save(p + q, omap={x:0}) }\n return O",
     3},
    {"a loop in the second", SCALED "O = block(x=4; i=2) { p = iter(P, imap={x:0}, fmap={i:1})\n save(accum_sum(p, dim=1), omap={x:0}) }\n return O",
     2},
};

static int count_blocks(const struct graph *g)
{
  int n = 0;
  for (int i = 0; i < g->nnodes; i++) n += g->nodes[i].op == OP_BLOCK;
  return n;
}

static double **evaluated(struct arena *mem, const struct graph *g)
{
  struct err e = {0};
  double **in = NEWS(mem, double *, g->nnodes), **out = NEWS(mem, double *, g->nnodes);
  eval_random(mem, g, DOM_F64, NULL, 7, (void **)in);
  assert_int_equal(eval_run(mem, g, DOM_F64, NULL, (void *const *)in, (void **)out, NULL, &e), OK);
  return out;
}

static void merged(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(graphs); i++) {
    struct arena mem = {0};
    struct err e = {0};
    struct graph *g = graph_of(&mem, arena_printf(&mem, "graph g {\n %s\n}\n", graphs[i].text)), *m = NULL;
    int before = count_blocks(g), status = lower_merge(&mem, g, &m, &e), outputs[8];
    if (status != (graphs[i].blocks < before ? OK : NO)) fail_msg("%s: status %d %s", graphs[i].name, status, e.text);
    if (status == OK) {
      if (count_blocks(m) != graphs[i].blocks) fail_msg("%s: %d blocks", graphs[i].name, count_blocks(m));
      double **was = evaluated(&mem, g), **is = evaluated(&mem, m);
      int n = graph_outputs(g, outputs);
      for (int k = 0; k < n; k++)
        for (int64_t x = 0; x < shape_size(&g->tensors[outputs[k]].shape); x++)
          if (was[k][x] != is[k][x]) fail_msg("%s: output %d differs at %d", graphs[i].name, k, (int)x);
    }
    arena_close(&mem);
  }
}

// The plan takes the longer kernel where the model likes it.
static void planned(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct err e = {0};
  struct lower_plan p;
  struct graph *g = graph_of(&mem, arena_printf(&mem, "graph g {\n %s\n}\n", graphs[0].text));
  if (lower_plan(&mem, g, gpu_of("sm_90a"), &(struct lower_opts){.dependent = true}, &p, &e)) fail_msg("%s", e.text);
  assert_int_equal(p.nunits, 1);
  assert_true(p.unit[0].nchoices > 0);
  arena_close(&mem);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(merged), cmocka_unit_test(planned)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

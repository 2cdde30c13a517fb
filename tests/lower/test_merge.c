// Kernels that go on with the tiles of the one before become one, which computes the same; others stay apart.
#include "../gpu_of.h"
#include "../tables.h"
#include "eval/eval.h"
#include "lower/lower.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

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
  struct table t;
  table_open(&t, "merge");
  for (int i = 0; i < t.n; i++) {
    const char *name = t.row[i].title;
    int left = (int)table_number(&t.row[i], "blocks");
    struct arena mem = {0};
    struct err e = {0};
    struct graph *g = graph_of(&mem, t.row[i].text), *m = NULL;
    int before = count_blocks(g), status = legal_merge(&mem, g, &m, &e), outputs[8];
    if (status != (left < before ? OK : NO)) fail_msg("%s: status %d %s", name, status, e.text);
    if (status == OK) {
      if (count_blocks(m) != left) fail_msg("%s: %d blocks", name, count_blocks(m));
      double **was = evaluated(&mem, g), **is = evaluated(&mem, m);
      int n = graph_outputs(g, outputs);
      for (int k = 0; k < n; k++)
        for (int64_t x = 0; x < shape_size(&g->tensors[outputs[k]].shape); x++)
          if (was[k][x] != is[k][x]) fail_msg("%s: output %d differs at %d", name, k, (int)x);
    }
    arena_close(&mem);
  }
  table_close(&t);
}

// The plan takes the longer kernel where the model likes it.
static void planned(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct err e = {0};
  struct lower_plan p;
  struct graph *g = table_graph(&mem, "merge", "two_norms");
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

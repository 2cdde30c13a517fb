// muGraphs with one change (mutate.h) of the pairs of cases.h. Block graphs have no evaluator of their own here: the
// truth is that of the interpreter in float64.
#include "cases.h"
#include "front/front.h"
#include "mutate.h"
#include "pairs.h"

#include <math.h>
#include <string.h>

struct choice {
  struct gen *g;
  struct arena *mem;
  int seen;
  struct graph *graph;
};

static void maybe(void *arg, const struct graph *mutant, const struct mutation *what)
{
  struct choice *c = arg;
  (void)what;
  if (!draw(c->g, ++c->seen)) c->graph = graph_copy(c->mem, mutant);
}

static struct graph *parsed(struct arena *mem, const char *text)
{
  struct graph *g = NULL;
  struct err e = {0};
  CHECK(!front_parse(mem, text, strlen(text), "case", 0, NULL, &g, &e));
  return g;
}

static enum truth of_reals(struct arena *mem, const struct graph *a, const struct graph *b)
{
  int outs[64], n = graph_outputs(a, outs);
  bool close = true;
  for (uint64_t seed = 0; seed < 3; seed++) {
    void *in[64], *x[64], *y[64];
    eval_random(mem, a, DOM_F64, NULL, seed, in);
    real_run(mem, a, in, x), real_run(mem, b, in, y);
    for (int i = 0; i < n; i++)
      for (int64_t k = 0; k < shape_size(&a->tensors[outs[i]].shape); k++) {
        double u = ((double *)x[i])[k], v = ((double *)y[i])[k], most = fmax(fabs(u), fabs(v));
        if (isfinite(u) && isfinite(v) && fabs(u - v) > 1e-6 * most + 1e-12) return TRUTH_DIFFERENT;
        close &= fabs(u - v) <= 1e-10 * most;
      }
  }
  return close ? TRUTH_EQUAL : TRUTH_UNCLEAR;
}

void mutated(struct gen *g, enum kind_id kind)
{
  (void)kind;
  if (g->truth) return; // the first time has done it
  const struct equal_case *k = &equal_cases[draw(g, equal_count)];
  struct arena mem = {0};
  struct graph *program = parsed(&mem, k->program);
  struct choice c = {.g = g, .mem = &mem};
  mutants(parsed(&mem, k->graph), maybe, &c);
  if (c.graph) {
    g->p->written = true, g->p->truth = of_reals(&mem, program, c.graph);
    graph_print(program, &g->p->text[0]), graph_print(c.graph, &g->p->text[1]);
  }
  arena_close(&mem);
}

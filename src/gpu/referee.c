// Computes elements of a result again on the CPU that a device computed in float64, each from the elements that it depends on, back to the inputs.
// Both evaluate the program in float64, so they differ only by the order of sums.
#include "gpu/referee.h"
#include "base/memory.h"
#include "eval/eval.h"

#include <math.h>

enum { ELEMENTS = 8 };                         // of each output: the first, the last, others at random
static const int64_t STEPS = INT64_C(3) << 26; // limit for one element: about two seconds
static const double SAME = 1e-9;               // relative to an element, and to the largest computed one of the output

struct referee_reading {
  const struct reference64_from *from;
  int inputs; // that `from` reads
  double *const *given;
};
struct referee_element {
  bool checked;
  double device, cpu;
};
struct refereeing {
  const struct graph *g;
  struct eval_reader in;
  const int *outs;
  double *const *outputs;
  struct referee_element *element; // ELEMENTS for each output
  uint64_t seed;
  int64_t steps;
  stop_flag stop;
};

static double read_one(const void *arg, int input, int64_t i)
{
  const struct referee_reading *r = arg;
  double x;
  if (input >= r->inputs) return r->given[input - r->inputs][i];
  r->from->read(r->from->arg, input, i, i + 1, &x);
  return x;
}

// Only the CPU's numbers determine the tolerance: a wrong number of the device must not widen it.
static double largest(const struct referee_element *x)
{
  double most = 0;
  for (int i = 0; i < ELEMENTS; i++)
    if (x[i].checked && isfinite(x[i].cpu)) most = fmax(most, fabs(x[i].cpu));
  return most;
}

static bool same(double x, double y, double typical)
{
  if (isnan(x) || isnan(y)) return isnan(x) && isnan(y);
  if (isinf(x) || isinf(y)) return isinf(x) && isinf(y) && (x > 0) == (y > 0);
  return fabs(x - y) <= SAME * fabs(y) + SAME * typical;
}

static void check_one(void *arg, int k, int worker)
{
  (void)worker;
  struct refereeing *r = arg;
  const int out = k / ELEMENTS, which = k % ELEMENTS, t = r->outs[out];
  const int64_t n = shape_size(&r->g->tensors[t].shape);
  struct rng draw = {hash_mix(r->seed, (uint64_t)k)};
  const int64_t i = which == 0 ? 0 : which == 1 ? n - 1 : (int64_t)rng_below(&draw, (uint64_t)n);
  double x;
  if (stop_set(r->stop) || which >= n || eval_element(r->g, &r->in, r->steps, t, i, &x) != OK) return;
  r->element[k] = (struct referee_element){true, r->outputs[out][i], x};
}

struct referee_answer referee(const struct graph *g, const struct reference64_from *from, double *const *given, double *const *outputs, uint64_t seed,
                              int64_t steps)
{
  const int nout = graph_outputs(g, NULL);
  int *outs = MEM_NEWS(int, nout + 1);
  struct referee_element *all = MEM_NEWS(struct referee_element, nout * ELEMENTS + 1);
  const struct referee_reading reading = {from, from->b->nin, given};
  struct refereeing r = {.g = g,
                         .in = {read_one, &reading},
                         .outs = outs,
                         .outputs = outputs,
                         .element = all,
                         .seed = seed,
                         .steps = steps ? steps : STEPS,
                         .stop = from->stop};
  struct referee_answer a = {0};
  graph_outputs(g, outs);
  pool_run(pool_cores(), nout * ELEMENTS, check_one, &r);
  for (int k = 0; k < nout * ELEMENTS; k++) {
    const struct referee_element *x = &all[k];
    a.checked += x->checked;
    a.differs += x->checked && !same(x->device, x->cpu, largest(all + k / ELEMENTS * ELEMENTS));
  }
  for (int i = 0; i < nout; i++) {
    bool any = false;
    for (int k = 0; k < ELEMENTS; k++) any |= all[i * ELEMENTS + k].checked;
    a.unchecked += !any;
  }
  mem_free(outs), mem_free(all);
  return a;
}

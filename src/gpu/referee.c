// Elements of a result that a device computed in float64, computed again on the CPU: each from the elements that it depends on, back to the
// inputs. Both are the program in float64, so they differ by the order of sums alone.
#include "gpu/referee.h"
#include "base/memory.h"
#include "eval/eval.h"

#include <math.h>
#include <stdatomic.h>

enum { ELEMENTS = 8 };                         // of each output: the first, the last, others by chance
static const int64_t STEPS = INT64_C(1) << 26; // that one element may take: about a second
static const double SAME = 1e-9;               // of an element, and of what is typical

struct referee_reading {
  const struct graph *g;
  const struct reference64_from *from;
};
struct refereeing {
  const struct graph *g;
  struct eval_reader in;
  const int *outs;
  double *const *outputs;
  const double *typical;
  uint64_t seed;
  stop_flag stop;
  atomic_llong checked, differs;
};

static double read_one(const void *arg, int input, int64_t i)
{
  const struct referee_reading *r = arg;
  double x;
  r->from->read(r->from->arg, input, i, i + 1, &x);
  return x;
}

static double typical_of(const double *x, int64_t n)
{
  double sum = 0;
  int64_t numbers = 0;
  for (int64_t i = 0; i < n; i++)
    if (isfinite(x[i])) sum += x[i] * x[i], numbers++;
  return sqrt(sum / (double)MAX(numbers, 1));
}

static bool same(double x, double y, double typical)
{
  if (isnan(x) || isnan(y)) return isnan(x) && isnan(y);
  if (isinf(x) || isinf(y)) return isinf(x) && isinf(y) && (x > 0) == (y > 0);
  return fabs(x - y) <= SAME * (fabs(y) + typical);
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
  if (stop_set(r->stop) || which >= n || eval_element(r->g, &r->in, STEPS, t, i, &x) != OK) return;
  atomic_fetch_add(&r->checked, 1);
  if (!same(r->outputs[out][i], x, r->typical[out])) atomic_fetch_add(&r->differs, 1);
}

struct referee_answer referee(const struct graph *g, const struct reference64_from *from, double *const *outputs, uint64_t seed)
{
  const int nout = graph_outputs(g, NULL);
  int *outs = MEM_NEWS(int, nout + 1);
  double *typical = MEM_NEWS(double, nout + 1);
  const struct referee_reading reading = {g, from};
  struct refereeing r = {.g = g, .in = {read_one, &reading}, .outs = outs, .outputs = outputs, .typical = typical, .seed = seed, .stop = from->stop};
  graph_outputs(g, outs);
  for (int i = 0; i < nout; i++) typical[i] = typical_of(outputs[i], shape_size(&g->tensors[outs[i]].shape));
  pool_run(pool_cores(), nout * ELEMENTS, check_one, &r);
  mem_free(outs), mem_free(typical);
  return (struct referee_answer){r.checked, r.differs};
}

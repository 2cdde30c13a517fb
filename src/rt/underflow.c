// Bounds the effect of underflow. A number near the least one of its dtype has an error of up to half the spacing of the subnormal numbers: f16 keeps
// two bits of 1e-7. No relative tolerance covers this, so a failed check asks how far underflow alone may change the outputs. The graph is evaluated
// twice more in float64 with every computed value moved by that error: once all towards zero, as when many terms of a sum become 0, and once each in
// a random direction, as rounding does. The moves propagate to later values. The first evaluation multiplies along a dimension from the smallest
// factor on, since a partial product may underflow where the product does not.
//
// Checks of single elements move values by some roundings of their dtypes instead (NUDGE_ROUNDING). An element that changes by much then is a small
// difference of large numbers, or divided by one.
#include "base/memory.h"
#include "rt/rt.h"

#include <math.h>

enum { PIECE = 1 << 16 };
static const double ROUNDINGS = 4; // each half a unit in the last place

struct underflow_values {
  double *x;
  int64_t n;
  enum dtype t;
  enum nudge how;
  uint64_t seed;
};

static void round_piece(void *arg, int piece, int worker)
{
  (void)worker;
  const struct underflow_values *v = arg;
  int64_t from = (int64_t)piece * PIECE, to = MIN(from + PIECE, v->n);
  for (int64_t i = from; i < to; i++) v->x[i] = num_round(v->t, v->x[i]);
}

static void run_pieces(struct underflow_values *v, void (*piece)(void *, int, int))
{
  pool_run(pool_cores(), (int)((v->n + PIECE - 1) / PIECE), piece, v);
}

void round_values(double *x, int64_t n, enum dtype t) { run_pieces(&(struct underflow_values){.x = x, .n = n, .t = t}, round_piece); }

static void nudge_piece(void *arg, int piece, int worker)
{
  (void)worker;
  const struct underflow_values *v = arg;
  struct rng r = {hash_mix(v->seed, (uint64_t)piece)};
  const double unit = ldexp(1, -1 - num_rows[v->t].mantissa);
  int64_t from = (int64_t)piece * PIECE, to = MIN(from + PIECE, v->n);
  for (int64_t i = from; i < to; i++) {
    const double x = v->x[i], by = v->how == NUDGE_ROUNDING ? ROUNDINGS * fabs(x) * unit : dtype_underflow(v->t);
    const bool up = v->how != NUDGE_DOWN && rng_below(&r, 2);
    if (x != 0 && isfinite(x)) v->x[i] = copysign(fmax(0, up ? fabs(x) + by : fabs(x) - by), x);
  }
}

void nudge_values(double *x, int64_t n, enum dtype t, enum nudge how, uint64_t seed)
{
  run_pieces(&(struct underflow_values){x, n, t, how, seed}, nudge_piece);
}

// Elements that are not finite are skipped.
static double distance(const double *x, const double *y, int64_t n)
{
  double sum = 0;
  for (int64_t i = 0; i < n; i++)
    if (isfinite(x[i]) && isfinite(y[i])) sum += (x[i] - y[i]) * (x[i] - y[i]);
  return sqrt(sum);
}

int underflow_floors(const struct reference64 *r, const struct reference64_from *from, double *floor, struct err *e)
{
  int status = OK, nout = graph_outputs(r->g, NULL), *outs = MEM_NEWS(int, nout + 1);
  graph_outputs(r->g, outs);
  for (enum nudge how = NUDGE_DOWN; how <= NUDGE_EITHER && status == OK; how++) {
    struct reference64 moved = {0};
    struct reference64_from other = {.read = from->read, .arg = from->arg, .b = from->b, .nudge = how, .stop = from->stop};
    status = reference64_run(&moved, r->g, &other, e);
    for (int i = 0; i < nout && status == OK; i++) {
      const int t = outs[i];
      floor[t] = fmax(floor[t], distance(moved.value[t], r->value[t], shape_size(&r->g->tensors[t].shape)));
    }
    reference64_close(&moved);
  }
  return mem_free(outs), status;
}

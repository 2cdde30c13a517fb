// Values in float64: each is an array over its axes. For small kernels, in tests of rules.
#include "kern_eval.h"

#include <math.h>

struct kern_evaluating {
  const struct kern *k;
  double *const *buffer, **of;  // by tensor; by value
  int64_t (*stride)[KERN_AXES]; // by value
  int64_t at[KERN_AXES];        // the index that is computed
};

static int64_t place(const struct kern_evaluating *e, const int64_t *stride)
{
  int64_t x = 0;
  for (int a = 0; a < e->k->naxes; a++) x += stride[a] * e->at[a];
  return x;
}

static double value_at(const struct kern_evaluating *e, int v) { return e->of[v][place(e, e->stride[v])]; }

// The next index of the axes in s, the last axis first; false behind the last.
static bool next(struct kern_evaluating *e, axis_set s)
{
  for (int a = e->k->naxes; a-- > 0;) {
    if (!(s >> a & 1)) continue;
    if (++e->at[a] < e->k->extent[a]) return true;
    e->at[a] = 0;
  }
  return false;
}

// Reductions at one index; of rescaled sums the iterations are the outer loop.
static double folded(struct kern_evaluating *e, const struct kern_value *v)
{
  double sum = v->kind == KERN_MAX ? -INFINITY : v->kind == KERN_PROD ? 1 : 0;
  axis_set loops = v->kind == KERN_RESCALE ? v->folded & e->k->loops : 0;
  do {
    if (loops) sum *= value_at(e, v->in[1]);
    do {
      double x = value_at(e, v->in[0]);
      sum = v->kind == KERN_MAX ? fmax(sum, x) : v->kind == KERN_PROD ? sum * x : sum + (v->kind == KERN_PRODUCT ? x * value_at(e, v->in[1]) : x);
    } while (next(e, v->folded & ~loops));
  } while (next(e, loops));
  return sum;
}

// The maximum of this iteration, or what it lost against that of the one before, at all iterations of the index.
static void run(struct kern_evaluating *e, int i)
{
  const struct kern_value *v = &e->k->v[i];
  double most = -INFINITY;
  bool first = true;
  do {
    double now = fmax(most, value_at(e, v->in[0]));
    e->of[i][place(e, e->stride[i])] = v->kind == KERN_RUN_MAX ? now : first ? 0 : most - now;
    most = now, first = false;
  } while (next(e, v->folded));
}

// The place that the indices say, the first of them operand `from`; -1: one is outside of its limit.
static int64_t chosen_place(const struct kern_evaluating *e, const struct kern_value *v, const struct kern_access *a, int from)
{
  int64_t x = a->offset + place(e, a->stride);
  for (int i = 0; i < KERN_CHOSEN_BY && a->by[i].limit; i++) {
    double at = value_at(e, v->in[from + i]);
    if (!(at >= 0 && at < (double)a->by[i].limit)) return -1;
    x += a->by[i].stride * (int64_t)at;
  }
  return x;
}

// Number k of the largest elements at this index, or which it is: NaN is the largest, of equal ones the first comes first.
static double top(struct kern_evaluating *e, const struct kern_value *v, int64_t k)
{
  double last = NAN, last_at = -1;
  for (int64_t i = 0; i <= k; i++) {
    double best = -INFINITY, best_at = -1;
    do {
      const double x = value_at(e, v->in[0]), at = (double)(v->at.offset + place(e, v->at.stride));
      const bool left = isnan(last) ? !isnan(x) || at > last_at : x < last || (x <= last && at > last_at);
      if (left && (best_at < 0 || (isnan(x) ? !isnan(best) || at < best_at : x > best || (x >= best && at < best_at)))) best = x, best_at = at;
    } while (next(e, v->folded));
    last = best, last_at = best_at;
  }
  return v->kind == KERN_TOP ? last : last_at;
}

// The sum of the elements up to the index that is computed.
static double scanned(struct kern_evaluating *e, const struct kern_value *v)
{
  const int a = __builtin_ctzll(v->folded);
  const int64_t last = e->at[a];
  double sum = 0;
  for (e->at[a] = 0; e->at[a] < last; e->at[a]++) sum += value_at(e, v->in[0]);
  return sum + value_at(e, v->in[0]);
}

static double one(struct kern_evaluating *e, const struct kern_value *v)
{
  int64_t at;
  switch (v->kind) {
  case KERN_LOAD:
    if (v->at.index) return (double)(v->at.offset + place(e, v->at.stride));
    return e->buffer[v->at.tensor][v->at.offset + place(e, v->at.stride)];
  case KERN_CONST: return v->a.scalar;
  case KERN_MAP: return kern_apply(v->op, &v->a, value_at(e, v->in[0]), v->nin > 1 ? value_at(e, v->in[1]) : 0);
  case KERN_SPREAD:
  case KERN_PLACED: return value_at(e, v->in[0]);
  case KERN_CHOSEN: at = chosen_place(e, v, &v->at, 0); return at < 0 ? 0 : e->buffer[v->at.tensor][at];
  case KERN_SUM:
  case KERN_MAX:
  case KERN_PROD:
  case KERN_PRODUCT:
  case KERN_RESCALE: return folded(e, v);
  case KERN_SCAN: return scanned(e, v);
  case KERN_RUN_MAX:
  case KERN_RUN_MOVE:
  case KERN_TOP:
  case KERN_TOP_AT: // where they are stored
  case KERN_KINDS: break;
  }
  return NAN;
}

void kern_eval(const struct kern *k, double *const *buffer)
{
  struct arena mem = {0};
  struct kern_evaluating e = {.k = k, .buffer = buffer, .of = NEWS(&mem, double *, k->nvalues + 1)};
  e.stride = arena_alloc(&mem, sizeof *e.stride * (size_t)(k->nvalues + 1));
  for (int i = 0; i < k->nvalues; i++) {
    const struct kern_value *v = &k->v[i];
    bool runs = v->kind == KERN_RUN_MAX || v->kind == KERN_RUN_MOVE;
    int64_t n = 1;
    for (int a = k->naxes; a-- > 0;)
      if (v->axes >> a & 1) e.stride[i][a] = n, n *= k->extent[a];
    e.of[i] = NEWS(&mem, double, n);
    do {
      if (runs)
        run(&e, i);
      else
        e.of[i][place(&e, e.stride[i])] = one(&e, v);
    } while (next(&e, runs ? v->axes & ~v->folded : v->axes));
  }
  for (int i = 0; i < k->nsaves; i++) {
    const struct kern_save *s = &k->save[i];
    const struct kern_value *v = &k->v[s->value];
    do {
      const int64_t to = s->at.offset + place(&e, s->at.stride);
      for (int64_t n = 0; kern_tops(v) && n < s->at.by[0].limit; n++) buffer[s->at.tensor][to + n * s->at.by[0].stride] = top(&e, v, n);
      if (kern_tops(v)) continue;
      int64_t at = chosen_place(&e, &k->v[s->value], &s->at, 1);
      if (at >= 0) buffer[s->at.tensor][at] = value_at(&e, s->value);
    } while (next(&e, s->axes));
  }
  arena_close(&mem);
}

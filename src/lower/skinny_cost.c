// What settings of the knobs cost, modelled.
#include "lower/skinny.h"

#include <math.h>

struct traffic { // bytes of a block: of its own columns, in all, in flight at a time
  double own, all, flight;
};

// So many blocks at a time: the memory's bytes by its rate, if enough are in flight, whichever multiprocessors they lie on;
// and what the fullest multiprocessor takes in, from memory or the L2 cache, by what it can draw.
static double wave(const struct gpu_limits *gpu, const struct traffic *t, int64_t blocks)
{
  const double loaded = 1.2e-6, draws = 3; // latency under load; what a multiprocessor can draw, in shares of the memory's rate
  double most = (double)((blocks + gpu->processors - 1) / gpu->processors);
  double memory = (double)blocks * t->own / MIN(gpu->bandwidth, (double)blocks * t->flight / loaded);
  return MAX(memory, most * t->all / MIN(draws * gpu->bandwidth / gpu->processors, most * t->flight / loaded));
}

// Down to a power of this: the model errs by more.
static const double FINE = 1.05;

double sk_cost(const struct sk_plan *p, const struct sk_shape *s)
{
  const struct gpu_limits *gpu = p->j->gpu;
  struct traffic t = {0, 2.0 * (double)(p->rows.size * p->k.size / s->split), 0};
  double once = t.all * s->split; // bytes that all blocks read
  for (int i = 0; i < p->nproducts; i++) {
    double bytes = 2.0 * (double)(s->take[i].width * p->k.size / s->split);
    *(p->product[i].wide ? &t.own : &once) += p->product[i].wide ? bytes : bytes * s->split;
    t.all += bytes, t.flight += 2.0 * (s->ring ? s->depth : s->depth + 0.3) * s->take[i].width * s->kv * 4 * s->warps;
  }
  int64_t blocks = MAX(p->blocks.size, 1) * s->subs * s->split;
  int64_t fit = MIN(gpu->registers / ((int64_t)(MIN(s->registers, 255) + 7) / 8 * 8 * s->threads), gpu->shared_processor / (s->shared + 1024));
  fit = MAX(1, MIN(fit, 2048 / s->threads)) * gpu->processors;
  int64_t full = blocks / fit, rest = blocks % fit;
  double read = (double)full * wave(gpu, &t, fit) + (rest ? wave(gpu, &t, rest) : 0) + once / gpu->bandwidth;
  double reduce = 0.3e-6 + 0.01e-6 * s->warps * (double)((s->items + s->threads - 1) / s->threads);
  double cluster = s->split > 1 ? 0.3e-6 + 0.03e-6 * s->split : 0, second = p->nseconds ? 0.3e-6 : 0;
  double deep = s->ring ? 0 : 0.1e-6 * (s->depth - 1); // until the first of them is there
  double all = gpu->launch + read + reduce + cluster + second + deep + 0.3e-6 * (double)(full + (rest > 0) - 1);
  return pow(FINE, floor(log(all) / log(FINE)));
}

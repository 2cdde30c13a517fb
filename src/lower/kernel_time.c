// The time of a kernel from its counted work (count.def) and fitted rates (rate.def). Five kinds of work overlap on a multiprocessor:
//
//   moved   the slowest of: bytes from memory, bytes through L2, bytes into the multiprocessor with most items, and rows of TMA boxes there;
//           then its L1 lines
//   work    tensor cores, shared memory and lanes, on the multiprocessor with most items
//   ring    waits of an item for loads in a pipeline, and for its iterations: barriers, reductions, chains of instructions, and loads without
//           a stage
//   wait    latencies that no loop hides: the first load, prefetches before it, reductions, barriers, chains; once for each wave of blocks
//   start   the start of the launch
//
// The longest of the first three counts in full. Each other one counts only as far as it is not overlapped: all of it when a block loads, computes
// and stores one after the other; less with more iterations of a loop, more blocks beside it, and more waves after it. Other blocks of the
// multiprocessor hide waits, except in the first wave. Three exponents model the effects of multiprocessors without a block, of blocks beside each
// other, and of bytes in flight.
#include "lower/count.h"

#include <math.h>

const struct kernel_rates kernel_rates = {
#define RATE(id, rows, mma, wgmma, skinny, library, doc) .id = {rows, mma, wgmma, skinny, library},
#define RATE_OF_ALL(id, value, doc) .id = {value, value, value, value, value},
#include "lower/rate.def"
#undef RATE
#undef RATE_OF_ALL
};

// bytes: unit of the bytes in flight; LEAST, MOST: range in which its exponent was fitted
static const double STAGE = 65536, LEAST = 1.0 / 16, MOST = 4;
enum { SMOOTH = 6 }; // number of waves from which a partial last one does not matter

struct kernel_time_placed { // the placement of items
  // waves of blocks; blocks on a multiprocessor at a time; items of one; multiprocessors with a block; warps on one
  double turns, here, most, busy, warps;
  bool walks;
};

// A cluster stays within one group of multiprocessors, so some multiprocessors have no room for larger clusters.
double kernel_reach(const struct target *gpu, double cluster)
{
  return gpu->cores * (cluster <= 2 ? 1 : gpu->reach[cluster <= 4 ? 0 : cluster <= 8 ? 1 : 2]);
}

static double whole(double n, double few) { return n < few ? ceil(n - 1e-9) : n; }

static struct kernel_time_placed placed_of(const struct kernel_counts *c, const struct target *gpu)
{
  double processors = gpu->cores;
  double at_once = fmin(fmin(c->items, c->blocks), kernel_reach(gpu, c->cluster) * c->room), here = ceil(at_once / processors);
  return (struct kernel_time_placed){.turns = whole(c->items / at_once, SMOOTH),
                                     .here = here,
                                     .most = whole(c->items / processors, SMOOTH * c->room),
                                     .busy = fmin(at_once, processors),
                                     .warps = here * c->threads / 32,
                                     .walks = c->items > c->blocks + 0.5};
}

static double norm(double a, double b, double p)
{
  double high = fmax(a, b) + 1e-12, low = fmin(a, b) + 1e-12;
  return high * pow(1 + pow(low / high, p), 1 / p);
}

#define R(id) (r->id[kind])

static double moved(const struct kernel_counts *c, const struct target *gpu, const struct kernel_rates *r, int kind,
                    const struct kernel_time_placed *s)
{
  double memory = c->memory / (gpu->bandwidth * R(memory)) + c->near * s->most * gpu->cores / c->items / (gpu->cache_bandwidth * R(near));
  double cache = fmax(c->cache / (gpu->cache_bandwidth * R(cache)), s->most * c->cache / c->items / R(port));
  return fmax(memory, fmax(cache, s->most * c->boxed * R(box))) + c->lines / s->busy * R(line);
}

static double work(const struct kernel_counts *c, const struct target *gpu, const struct kernel_rates *r, int kind,
                   const struct kernel_time_placed *s)
{
  double flops = gpu->flops / gpu->cores, few = fmin(1, s->warps / R(lane_warps));
  double tensor = c->mma / (flops * R(mma) * gpu->mma_share * fmin(1, s->warps / R(mma_warps))) + c->wgmma / (flops * R(wgmma));
  double shared = c->shared / (gpu->shared_rate * R(shared)),
         lanes = c->lanes / (gpu->lane_rate * R(lane) * few) + c->exps / (gpu->special_rate * R(exp) * few);
  return norm(s->most * tensor, norm(s->most * shared, s->most * lanes, R(beside)), c->overlap > 0 ? R(overlap) : R(beside));
}

// Products that only accumulate run throughout the iterations of their loop, and hide almost all shorter work.
static double shows_beneath(double share, double least) { return least + (1 - least) * share * share; }

double kernel_time(const struct kernel_counts *c, const struct target *gpu, const struct kernel_rates *r)
{
  if (!r) r = &kernel_rates;
  const int kind = (int)c->kind;
  const struct kernel_time_placed s = placed_of(c, gpu);
  double refills = c->flight > 0 ? fmax(1, c->loaded / c->flight) : 1;
  double bytes = moved(c, gpu, r, kind, &s), computing = fmax(work(c, gpu, r, kind, &s), c->fed / (gpu->cache_bandwidth * R(fed)));
  double ring = s.turns * (R(refill) * (refills - 1) + R(latency) * c->loop_waits + R(step) * c->steps + R(loop_fold) * c->loop_folds +
                           R(loop_barrier) * c->loop_barriers * s.warps + R(loop_chain) * c->loop_chain);
  double once = (s.walks ? R(walk) : R(turn)) + R(latency) * c->waits + R(fold) * c->folds + R(barrier) * c->barriers + R(chain) * c->chain +
                R(cluster) * log2(fmax(1, c->cluster)) + (c->soon > 0 ? R(soon) * c->soon * s.here / MEMORY_LINE : R(late));
  double wait = once * (1 + (s.turns - 1) / pow(s.here, R(hide_waits))), ends = s.most * c->ends / (gpu->lane_rate * R(ends));
  double hidden = pow(refills, R(hide_refills)) * pow(s.here, R(hide_here)) * pow(s.turns, R(hide_turns)), least = fmin(1, R(show)),
         show = least + (1 - least) / hidden;
  double longest = fmax(bytes, fmax(computing, ring));
  bool beneath = c->overlap > 1 && longest == computing;
  double late = beneath ? c->lines / s.busy * R(line) : 0; // after the loop
  if (beneath) show = fmin(show, shows_beneath(fmax(bytes, ring) / computing, R(beneath)));
  double all =
      R(start) + longest + show * (bytes - late + computing + ring - longest) + late + wait + ends + R(block) * s.most + R(thread) * c->threads;
  all = fmax(longest, all - R(abreast) * c->abreast * (s.turns - 1));
  double deep = c->flight > 0 ? fmin(fmax(c->flight * s.here / STAGE, LEAST), MOST) : 1;
  return gpu->launch + all * pow(s.busy / gpu->cores, R(idle)) * pow(s.here, R(crowd)) * pow(deep, R(deep)) + R(tail) * c->tail;
}

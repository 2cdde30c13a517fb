// Counts the work of a kernel for given settings (count.def).
#include "lower/count.h"
#include "lower/skinny.h"

#include <math.h>

double sk_room(const struct sk_plan *p, const struct sk_shape *s)
{
  const struct target *gpu = p->j->gpu;
  int64_t registers = (int64_t)(MIN(s->registers, 255) + 7) / 8 * 8 * s->threads;
  int64_t fit = MIN(gpu->registers / registers, gpu->shared_processor / (s->shared + 1024));
  return (double)MAX(1, MIN(fit, gpu->threads / s->threads));
}

// If columns are contiguous, byte permutations make pairs along k.
static void loop(const struct sk_plan *p, const struct sk_shape *s, struct kernel_counts *c)
{
  double k = (double)(p->k.size / s->split), rows = (double)p->rows.size, x = rows * k;
  const double loads = s->kv / s->unit; // of X, for each step of a lane; each has an address if there are several
  c->loaded += 2 * x, c->lanes += x / 4 * (1 + 4 * p->nstats) + (loads > 1 ? x * 3 / s->unit : 0);
  double piece = 8 * s->kv, lines = loads * 2 * x / fmin(MEMORY_LINE, piece), soon = 2 * rows * s->kv * 4; // four lanes have adjacent pieces of k
  for (int i = 0; i < p->nproducts; i++) {
    const struct sk_take *t = &s->take[i];
    double elements = t->width * k;
    c->loaded += 2 * elements, c->flight += 2.0 * (s->depth + 0.3) * t->width * s->kv * 4 * s->warps;
    lines += 2 * elements / fmin(MEMORY_LINE, 2.0 * (t->along ? 4 * s->kv : 8 * t->vector)) * (t->single ? t->vector : t->anywhere ? 2 : 1);
    soon += 2.0 * t->width * s->kv * 4;
    c->mma += 2 * elements * 8 * s->tiles;
    // One by one, an instruction and an address for each. Eight columns that begin anywhere take 2 loads, their addresses, and 19 instructions to shift.
    // If a lane has 8 values of k, the compiler knows how far each is shifted, and the loop has less than half of the instructions of one by one.
    c->lanes += elements * (t->along ? 0.25 : t->single ? 2 : !t->anywhere ? 0.75 : s->kv == 8 ? 1 : 4);
    c->shared += 4 * rows * t->width * (s->warps + 1);
  }
  c->flight += 2 * rows * s->kv * 4 * s->warps * s->depth;
  c->steps = (double)s->rounds, c->soon = soon * s->warps * s->ahead, c->lines = c->items * lines;
}

// Counts the sums over warps, then over the cluster, then the items of each thread.
static void after(const struct sk_plan *p, const struct sk_shape *s, struct kernel_counts *c)
{
  double turns = (double)((s->share + s->threads - 1) / s->threads);
  c->barriers += 2 + p->nseconds + (s->split > 1 ? 1 : 0);
  c->chain += turns * s->warps * s->item + s->split * s->item + 10.0 * p->nstats;
  c->waits += (s->early ? 0 : 1);
  for (int i = 0; i < p->nseconds; i++) {
    double n = (double)p->second[i].cols.size;
    c->chain += turns * n * s->item / 2, c->lanes += (double)s->share * n * s->item;
  }
  c->lanes += (double)s->items * s->warps * s->item * 2;
}

void sk_count(const struct sk_plan *p, const struct sk_shape *s, struct kernel_counts *c)
{
  *c = (struct kernel_counts){
      .kind = COUNT_SKINNY, .blocks = (double)(MAX(p->blocks.size, 1) * s->subs * s->split), .threads = s->threads, .cluster = s->split};
  c->items = c->blocks, c->room = sk_room(p, s), c->registers = s->registers;
  count_tensors(p->j, c);
  loop(p, s, c), after(p, s, c);
  c->cache = c->items * c->loaded;
}

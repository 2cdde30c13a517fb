// Sizes around those of a kernel graph: each axis of its heavy kernels is divided more or less often, then one axis at the expense of another. Both
// climbs use this.
#include "drive/drive.h"
#include "plan/plan.h"

#include <string.h>

enum { PRIMES = 4 };
static const double HEAVY = 0.25; // kernels with less than this share of the largest traffic keep their sizes

// Elements that the blocks of a kernel read and write.
static double traffic(const struct graph *sub)
{
  double blocks = (double)graph_blocks(sub), iterations = (double)graph_iterations(sub), sum = 0;
  for (int i = 0; i < sub->nnodes; i++) {
    const struct node *n = &sub->nodes[i];
    if (n->op == OP_ITER) sum += (double)shape_size(&sub->tensors[n->out].shape) * blocks * (sub->tensors[n->out].phase == VARYING ? iterations : 1);
    if (n->op == OP_SAVE) sum += (double)shape_size(&sub->tensors[n->in[0]].shape) * blocks;
  }
  return sum;
}

static double heaviest(const struct graph *g)
{
  double most = 0;
  for (int i = 0; i < g->nnodes; i++)
    if (g->nodes[i].op == OP_BLOCK) most = MAX(most, traffic(g->nodes[i].sub));
  return most;
}

static int64_t *axis_of(struct axes *a, const struct graph *sub, int i) { return i < sub->ngrid ? &a->grid[i] : &a->loop[i - sub->ngrid]; }

// Multiplies axis i and divides axis o by a number; -1: no axis. Loop axes follow grid axes.
static bool axes_of(const struct graph *sub, int i, int o, int by, struct axes *a)
{
  memcpy(a->grid, sub->grid, sizeof a->grid), memcpy(a->loop, sub->loop, sizeof a->loop);
  int64_t *down = o < 0 ? NULL : axis_of(a, sub, o);
  if (down && *down % by) return false;
  if (down) *down /= by;
  if (i >= 0) *axis_of(a, sub, i) *= by;
  return true;
}

// By the smallest prime that divides.
static void step(const struct graph *sub, int node, int i, int o, bool (*add)(void *, int, const struct axes *), void *arg)
{
  static const int prime[PRIMES] = {2, 3, 5, 7};
  struct axes a;
  for (int p = 0; p < PRIMES; p++)
    if (axes_of(sub, i, o, prime[p], &a) && add(arg, node, &a)) return;
}

void sizes_near(const struct graph *g, bool (*add)(void *arg, int node, const struct axes *to), bool (*more)(void *arg), void *arg)
{
  double heavy = HEAVY * heaviest(g);
  for (int pairs = 0; pairs < 2; pairs++)
    for (int n = 0; n < g->nnodes; n++) {
      const struct graph *sub = g->nodes[n].sub;
      int naxes = sub ? sub->ngrid + sub->nloop : 0;
      if (!sub || traffic(sub) < heavy) continue;
      for (int i = -1; i < naxes; i++)
        for (int o = -1; o < naxes; o++)
          if (i != o && pairs == (i >= 0 && o >= 0) && more(arg)) step(sub, n, i, o, add, arg);
    }
}

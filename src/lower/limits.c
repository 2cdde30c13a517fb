// A target's capabilities, as schemes need them.
#include "lower/lower.h"

struct gpu_limits gpu_limits(const struct target *t)
{
  return (struct gpu_limits){.arch = t->arch,
                             .processors = t->cores,
                             .can = t->can,
                             .f32_products = t->f32_products,
                             .threads = t->threads,
                             .blocks = t->blocks,
                             .cluster = t->cluster,
                             .reach = {t->reach[0], t->reach[1], t->reach[2]},
                             .mma_share = t->mma_share,
                             .lane_rate = t->lane_rate,
                             .special_rate = t->special_rate,
                             .shared_rate = t->shared_rate,
                             .shared = t->scratch,
                             .shared_processor = t->shared_processor,
                             .registers = t->registers,
                             .l2 = t->l2,
                             .bandwidth = t->bandwidth,
                             .l2_bandwidth = t->cache_bandwidth,
                             .flops = t->flops,
                             .launch = t->launch,
                             .link = t->link,
                             .meeting = t->meeting,
                             .runs_on = t->runs_on};
}

struct gpu_limits gpu_budget(const struct gpu_limits *gpu, int workers, int64_t shared)
{
  struct gpu_limits x = *gpu;
  x.workers = x.processors = workers, x.cluster = 1, x.can &= ~(CAN_PDL | CAN_CLUSTER);
  if (shared && shared < x.shared) x.shared = shared;
  return x;
}

int64_t gpu_blocks(const struct gpu_limits *gpu, int64_t tiles) { return gpu->workers ? MIN(gpu->workers, tiles) : tiles; }

int gpu_runs_on(const struct gpu_limits *gpu) { return gpu->runs_on ? gpu->runs_on : gpu->arch; }

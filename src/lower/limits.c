// What a target can do, as schemes want to know it.
#include "lower/lower.h"

struct gpu_limits gpu_limits(const struct target *t)
{
  return (struct gpu_limits){.arch = t->arch,
                             .processors = t->cores,
                             .can = t->can,
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
                             .runs_on = t->runs_on};
}

int gpu_runs_on(const struct gpu_limits *gpu) { return gpu->runs_on ? gpu->runs_on : gpu->arch; }

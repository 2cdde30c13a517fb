// What a target can do, as schemes want to know it.
#include "lower/lower.h"

struct gpu_limits gpu_limits(const struct target *t)
{
  return (struct gpu_limits){.arch = t->arch,
                             .processors = t->cores,
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

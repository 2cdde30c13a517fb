// Budgets of kernels of persistent blocks, and the architecture that kernels are compiled for.
#include "lower/lower.h"

struct target gpu_budget(const struct target *gpu, int workers, int64_t shared)
{
  struct target x = *gpu;
  x.workers = x.cores = workers, x.cluster = 1, x.can &= ~(CAN_PDL | CAN_CLUSTER);
  if (shared && shared < x.scratch) x.scratch = shared;
  return x;
}

int64_t gpu_blocks(const struct target *gpu, int64_t tiles) { return gpu->workers ? MIN(gpu->workers, tiles) : tiles; }

int gpu_runs_on(const struct target *gpu) { return gpu->runs_on ? gpu->runs_on : gpu->arch; }

// What GPUs of an architecture can do, where no device can be asked.
#include "core/device_host.h"

static const struct gpu_limits rows[] = {
    {.arch = 80, .processors = 108, .shared = 166912, .shared_processor = 167936, .registers = 65536, .l2 = 40 << 20,
     .bandwidth = 1.4e12, .l2_bandwidth = 3.5e12, .flops = 2.8e14, .launch = 1.2e-6},
    {.arch = 86, .processors = 84, .shared = 101376, .shared_processor = 102400, .registers = 65536, .l2 = 6 << 20,
     .bandwidth = 7e11, .l2_bandwidth = 2e12, .flops = 1.2e14, .launch = 1.2e-6},
    {.arch = 89, .processors = 128, .shared = 101376, .shared_processor = 102400, .registers = 65536, .l2 = 72 << 20,
     .bandwidth = 9e11, .l2_bandwidth = 4e12, .flops = 3e14, .launch = 1.2e-6},
    {.arch = 90, .processors = 132, .shared = 232448, .shared_processor = 233472, .registers = 65536, .l2 = 50 << 20,
     .bandwidth = 4.28e12, .l2_bandwidth = 7e12, .flops = 7.8e14, .launch = 0.9e-6},
};

const struct gpu_limits *gpu_limits_of(int arch)
{
  for (size_t i = 0; i < COUNT(rows); i++)
    if (rows[i].arch == arch) return &rows[i];
  return NULL;
}

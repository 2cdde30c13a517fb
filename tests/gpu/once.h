// Runs a device program once on given inputs.
#ifndef TESTS_GPU_ONCE_H
#define TESTS_GPU_ONCE_H

#include "gpu/gpu.h"

// One program on the inputs of b; its outputs go to b->out. Options that count: device, limit, worker, with, compiler, db.
int gpu_run_program(struct arena *mem, const struct device_program *p, struct buffers *b, const struct gpu_race_opts *o, struct err *e);

#endif

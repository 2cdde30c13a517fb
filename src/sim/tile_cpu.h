// tile_cpu: a tile kernel printed as C, compiled by the system's compiler and run on this machine.
#ifndef MICA_SIM_TILE_CPU_H
#define MICA_SIM_TILE_CPU_H

#include "rt/rt.h"
#include "tile/tile.h"

// Builds a module from k, which must be lowered. The caller frees it with module_close.
int tile_cpu_build(const struct tile_program *p, const struct tile_kernel *k, struct module **m, struct err *e);
// Calls it. data: by buffer of the kernel; only those in global memory are read. params: values of k->params.
int tile_cpu_run(struct module *m, const struct tile_kernel *k, const int64_t *params, void *const *data, struct err *e);

#endif

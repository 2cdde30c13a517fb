// device_fed: special inputs (rt/special.c) of a kernel that reads results of other kernels. The whole graph is evaluated on special inputs, in
// float64 rounded to the dtypes. The kernel gets the values of the tensors that it reads.
#ifndef MICA_SIM_DEVICE_FED_H
#define MICA_SIM_DEVICE_FED_H

#include "rt/rt.h"
#include "verify/verify.h"

struct fed { // inputs of the kernel
  int n;
  int *from;  // by input: the tensor of the whole graph
  bool *made; // by input: another kernel computes it
};
// g with the tensors that the kernel reads as outputs, and with fewer blocks and iterations if possible (verify_shrink_axes). Tensors and nodes keep
// their numbers. NULL on error.
struct graph *fed_graph(struct arena *mem, const struct graph *g, const struct fed *f, struct shrink_steps at_once, struct err *e);
// Fills the inputs of `to`, which has the inputs of `kernel`. whole: the result of fed_graph.
int fed_inputs(const struct fed *f, const struct graph *whole, const struct graph *kernel, uint64_t seed, int round, stop_flag stop,
               struct buffers *to, struct err *e);

#endif

// device_fed: special inputs (rt/special.c) of a kernel that reads what other kernels leave. The whole graph gets them, and the kernel what the
// kernels before it make of them, in float64 rounded to their dtypes.
#ifndef MICA_SIM_DEVICE_FED_H
#define MICA_SIM_DEVICE_FED_H

#include "rt/rt.h"
#include "verify/verify.h"

struct fed { // by input of the kernel
  int n;
  int *from;  // the tensor of the whole graph that it is
  bool *made; // another kernel makes it
};
// g with what the kernel reads as outputs, and fewer blocks and iterations where that can be (verify_shrink_axes). Tensors and nodes have the same numbers. NULL: an error.
struct graph *fed_graph(struct arena *mem, const struct graph *g, const struct fed *f, struct shrink_steps at_once, struct err *e);
// Fills the inputs of `to`, which are those of `kernel`. whole: of fed_graph.
int fed_inputs(const struct fed *f, const struct graph *whole, const struct graph *kernel, uint64_t seed, int round, stop_flag stop,
               struct buffers *to, struct err *e);

#endif

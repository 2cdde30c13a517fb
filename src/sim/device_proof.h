// device_proof: checks the kernels of a device program. Each kernel is run alone in the interpreter, with its own tiles and knobs but fewer blocks and
// iterations, and compared with its block graph in float64. Inputs are random. If that is cheap enough, the kernel is also run on special
// inputs, such as NaN and infinities, or on values that the kernels before it compute from these. The verifier, not this check, shows
// that the kernel graph computes the program.
#ifndef MICA_SIM_DEVICE_PROOF_H
#define MICA_SIM_DEVICE_PROOF_H

#include "sim/device_host.h"

struct device_proof {
  int kernels, run, full;   // kernels, without library products; those run in the interpreter; those run at full size
  int64_t blocks, elements; // blocks that were run; operations on elements
  double relative;          // the largest error, as a fraction of the bound
  int64_t held, special;    // runs on special inputs (rt/special.c): number of elements compared, and of all elements
  double seconds;
  const char *note; // kernels that were not run, with reasons; "" if all were
};
// device_small.c: the same graph with fewer slices in inputs from which data choose; tensors keep their numbers.
struct graph *device_fewer_slices(struct arena *mem, struct graph *g);
// Approximate number of element operations of device_prove for all units, without running any.
double device_proof_work(const struct lower_plan *p, const struct choice *pick);
// Checks unit `only`, or all units if it is -1, by so many threads. NO, with the reason in *why, if a kernel is wrong. An error if the check could not be made.
int device_prove(struct arena *mem, const struct lower_plan *p, const struct choice *pick, int only, uint64_t seed, int threads, stop_flag stop,
                 struct device_proof *out, const char **why, struct err *e);

#endif

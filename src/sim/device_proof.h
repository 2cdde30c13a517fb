// device_proof: are the kernels of a device program right? Each is run in the interpreter, by itself, with the tiles and the
// knobs that it has but fewer blocks and iterations, and held against its block graph in float64: on random inputs, and where that takes little,
// on inputs with NaN, infinities and the like, or on what the kernels before it make of these. That what the kernel graph
// computes is the program is another matter: the verifier's.
#ifndef MICA_SIM_DEVICE_PROOF_H
#define MICA_SIM_DEVICE_PROOF_H

#include "sim/device_host.h"

struct device_proof {
  int kernels, run, full;   // without products; run in the interpreter; of these at full size
  int64_t blocks, elements; // that were run; operations on elements
  double relative;          // the largest error, as a part of what is accepted
  int64_t held, special;    // of kernels that ran on special inputs too (rt/special.c): elements that were compared, of all
  double seconds;
  const char *note; // what was not run and why; "" where everything was
};
// device_small.c: the same graph with fewer slices to choose from, where its choices are of inputs; tensors keep their numbers.
struct graph *device_fewer_slices(struct arena *mem, struct graph *g);
// Unit `only`, or all of them where it is -1. NO with the reason in *why where a kernel is wrong; an error where it could not be told.
int device_prove(struct arena *mem, const struct lower_plan *p, const struct choice *pick, int only, uint64_t seed, stop_flag stop,
                 struct device_proof *out, const char **why, struct err *e);

#endif

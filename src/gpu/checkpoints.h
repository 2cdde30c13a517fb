// checkpoints: results within a program that are compared with the CPU's too. An element of a deep program may depend on billions of others. So some
// results between inputs and outputs are downloaded, and an element is computed from the nearest of them. Private to gpu.
#ifndef MICA_GPU_CHECKPOINTS_H
#define MICA_GPU_CHECKPOINTS_H

#include "ir/ir.h"

struct checkpoints {
  int n;
  int *tensor;        // of the program
  struct graph *more; // the program with the checkpoints as further outputs; tensors keep their numbers
  struct graph *from; // the same outputs; operators read further inputs, one a checkpoint, in place of the checkpoints
};
// Steps of eval_element for one element of tensor t, estimated.
double checkpoints_steps(const struct graph *g, int t);
// g: a kernel graph without composites. No checkpoints if no element of an output takes more than `most` steps; otherwise an element of an output or of
// a checkpoint takes about `each` steps at most, if that is possible.
int checkpoints_of(struct arena *mem, const struct graph *g, double most, double each, struct checkpoints *out, struct err *e);

#endif

// Reads machine code without a disassembler: number of instructions of a kernel, and instructions before its wait.
#ifndef TESTS_CUDA_SASS_H
#define TESTS_CUDA_SASS_H

#include "cuda/cuda.h"

// Instructions but padding of the first kernel in a cubin, sm_80 and later; of these, integer arithmetic. -1: no code
// found.
struct sass {
  int all, integer;
  int waits, early; // for the kernel ahead (griddepcontrol.wait); loads from global memory before the first wait
};
struct sass sass_count(const struct cubin *c);

#endif

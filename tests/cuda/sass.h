// Machine code looked at without a disassembler: how many instructions a kernel has.
#ifndef TESTS_CUDA_SASS_H
#define TESTS_CUDA_SASS_H

#include "cuda/cuda.h"

// Instructions but padding of the first kernel in a cubin, sm_80 and later; of these, integer arithmetic. -1: no code
// found.
struct sass {
  int all, integer;
};
struct sass sass_count(const struct cubin *c);

#endif

// A kernel with one atom of any row of the instruction table, made by hand: what a row's text is printed with.
#ifndef TESTS_CUDA_ROWS_H
#define TESTS_CUDA_ROWS_H

#include "cuda/cuda.h"

struct made { // a kernel that is being made
  struct arena *mem;
  struct tile_program *p;
  struct tile_kernel *k;
  struct builder b;
  struct err e;
  int block, thread; // groups
  int names;
};

void made_open(struct made *m, struct arena *mem);
void made_row(struct made *m, const struct instr *row); // registers are loaded before and stored behind it
void made_close(struct made *m);                        // the kernel is whole

#endif

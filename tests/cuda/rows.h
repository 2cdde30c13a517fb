// Makes a kernel with one atom of a given row of the instruction table, to print the row's text.
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

// One kernel with these rows as text, in the arena; NULL with the error printed.
const char *rows_printed(struct arena *mem, const struct instr *const *rows, int n, int arch);
// Compiles all rows that are legal for the architecture, many a kernel; how many there were, -1 with the error printed.
int rows_compile(const struct nvrtc *r, int arch);
struct nvrtc *rows_compiler(void); // NULL, with a message, where NVRTC is missing

#endif

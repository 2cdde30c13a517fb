// Compares float64 references of a device with the CPU's.
#ifndef MICA_TESTS_REFERENCED_H
#define MICA_TESTS_REFERENCED_H

#include "gpu/gpu.h"

struct referenced { // an evaluator and what it needs
  struct arena mem;
  struct err e;
  struct gpu_forge *forge;
  struct gpu_evaluator *v;
};
struct referenced_reading { // inputs of g as numbers
  const struct graph *g;
  const struct buffers *b;
  int ins[8];
  bool flushed;
};
void referenced_read(const void *arg, int input, int64_t from, int64_t to, double *out);
// All of what may become of values: as they are, rounded, moved. special: NaN, infinities and the like among the inputs.
void referenced_as_on_cpu(struct referenced *f, const struct graph *g, const char *name, bool special);
int referenced_operators(struct referenced *f); // each operator in each of its forms; how many graphs
void referenced_dtypes(struct referenced *f);   // inputs of each dtype, results rounded to it

#endif

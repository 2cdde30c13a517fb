// compare: inside gpu, outputs of candidates of a quick race held against the reference on the device. The fastest are held against it on the CPU,
// too (gpu_check.c), before one of them is the result.
#ifndef MICA_GPU_COMPARE_H
#define MICA_GPU_COMPARE_H

#include "gpu/wire.h"

enum { COMPARE_THREADS = 256, COMPARE_BLOCKS = 512, COMPARE_WORDS = -1 }; // WORDS: in place of a type

struct compare_sums {       // an output
  double difference, worst; // sum of squares; the largest difference as a part of what is typical and of the element
  int64_t lost;             // elements that are not finite and ought to be
};
struct compare_output {
  int64_t n;
  enum dtype type;
  double typical;
  const double *expected;
};
struct compare_plan { // lives as long as the problem of the worker
  int nout;
  struct compare_output *out;
  const struct code *code; // of the kernel
};

// ---- gpu_compare.c ----
const char *compare_source(struct arena *mem); // of the kernel, `compare`
// NULL where it is not worth its start, or an output has whole numbers. In mem.
struct compare_plan *compare_plan(struct arena *mem, const struct problem *p, struct gpu_forge *f, struct db *db, const struct patience *until,
                                  int arch);
// ---- gpu_check.c ----
bool compare_fine(const struct problem *p, const struct compare_sums *x, struct check_answer *a); // false: the CPU has the last word

#endif

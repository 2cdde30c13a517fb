// compare: compares outputs of candidates of a quick race with the reference on the device. The CPU compares the finalists again (gpu_check.c).
// Private to gpu.
#ifndef MICA_GPU_COMPARE_H
#define MICA_GPU_COMPARE_H

#include "gpu/wire.h"

enum { COMPARE_THREADS = 256, COMPARE_BLOCKS = 512, COMPARE_WORDS = -1 }; // WORDS: replaces a type

struct compare_sums {       // sums for one output
  double difference, worst; // sum of squares; largest difference, relative to the typical size and the element
  int64_t lost;             // elements that are not finite and should be
};
struct compare_output {
  int64_t n;
  enum dtype type;
  double typical;
  const double *expected;
};
struct compare_plan { // lives as long as the worker's problem
  int nout;
  struct compare_output *out;
  const struct code *code; // of the comparing kernel
};

// ---- gpu_compare.c ----
const char *compare_source(struct arena *mem); // source of the kernel `compare`
// NULL if comparing on the device does not pay, or an output has integers. Allocated in mem.
struct compare_plan *compare_plan(struct arena *mem, const struct problem *p, struct gpu_forge *f, struct db *db, const struct patience *until,
                                  int arch);
// ---- gpu_check.c ----
bool compare_fine(const struct problem *p, const struct compare_sums *x, struct check_answer *a); // false: the CPU must decide

#endif

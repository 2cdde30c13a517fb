// Cost of kernels: schemes count what a kernel does (count.def), kernel_time says how long that takes, with rates that were
// fitted to measurements (rate.def, bench/calibrate.c).
//
//   count.c        what all schemes count alike: bytes of tensors
//   kernel_time.c  the model
#ifndef MICA_LOWER_COUNT_H
#define MICA_LOWER_COUNT_H

#include "lower/lower.h"

struct kernel_counts {
#define COUNTED(id, doc) double id;
#include "lower/count.def"
#undef COUNTED
};
enum { MEMORY_SECTOR = 32, MEMORY_LINE = 128 }; // bytes that memory moves at least, and that L1 has together
enum count_kind { COUNT_ROWS, COUNT_MMA, COUNT_WGMMA, COUNT_SKINNY, COUNT_LIBRARY, COUNT_KINDS };
struct kernel_rates {
#define RATE(id, rows, mma, wgmma, skinny, library, doc) double id[COUNT_KINDS];
#define RATE_OF_ALL(id, value, doc) double id[COUNT_KINDS];
#include "lower/rate.def"
#undef RATE
#undef RATE_OF_ALL
};
extern const struct kernel_rates kernel_rates; // as fitted

// Seconds; rates NULL: as fitted.
double kernel_time(const struct kernel_counts *c, const struct target *gpu, const struct kernel_rates *rates);

// ---- count.c ----

bool count_is_output(const struct graph *kernels, int tensor); // the program hands it back
// Bytes of a tensor of the kernel graph: to memory, or near where another kernel of the graph is at their other end.
void count_bytes(const struct lower_job *j, int tensor, double bytes, struct kernel_counts *c);
double count_run(const struct norm *n, const struct plan_access *a); // elements that lie together in a tile
// All iterators and savers of the kernel and its tail, each tensor once; what only lies between the two is left out.
void count_tensors(const struct lower_job *j, struct kernel_counts *c);
void count_product(const struct graph *g, const enum dtype *store, const struct library_product *x, const struct target *gpu,
                   struct kernel_counts *c);

#endif

// The cost of kernels: schemes count a kernel's work (count.def), and kernel_time computes its time with fitted rates (rate.def, bench/calibrate.c).
//
//   count.c        counts shared by all schemes: bytes of tensors
//   kernel_time.c  the model
#ifndef MICA_LOWER_COUNT_H
#define MICA_LOWER_COUNT_H

#include "lower/lower.h"

struct kernel_counts {
#define COUNTED(id, doc) double id;
#include "lower/count.def"
#undef COUNTED
};
enum { MEMORY_SECTOR = 32, MEMORY_LINE = 128 }; // least bytes of a memory access; bytes of an L1 line
enum count_kind { COUNT_ROWS, COUNT_MMA, COUNT_WGMMA, COUNT_SKINNY, COUNT_LIBRARY, COUNT_KINDS };
struct kernel_rates {
#define RATE(id, rows, mma, wgmma, skinny, library, doc) double id[COUNT_KINDS];
#define RATE_OF_ALL(id, value, doc) double id[COUNT_KINDS];
#include "lower/rate.def"
#undef RATE
#undef RATE_OF_ALL
};
extern const struct kernel_rates kernel_rates; // fitted

// Seconds; rates NULL: the fitted ones.
double kernel_time(const struct kernel_counts *c, const struct target *gpu, const struct kernel_rates *rates);

double kernel_reach(const struct target *gpu, double cluster); // multiprocessors that such clusters can occupy

// ---- count.c ----

bool count_is_output(const struct graph *kernels, int tensor); // whether it is an output of the program
// Counts the bytes of a tensor of the kernel graph: as memory traffic, or as near if another kernel of the graph writes or reads it.
void count_bytes(const struct lower_job *j, int tensor, double bytes, struct kernel_counts *c);
double count_run(const struct norm *n, const struct plan_access *a); // contiguous elements of a tile
// All iterators and savers of the kernel and its tail, each tensor once; tensors between the two are omitted.
void count_tensors(const struct lower_job *j, struct kernel_counts *c);
void count_product(const struct graph *g, const enum dtype *store, const struct library_product *x, const struct target *gpu,
                   struct kernel_counts *c);

#endif

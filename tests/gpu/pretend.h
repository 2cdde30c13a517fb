// A simulated GPU in host memory. Its machine code is a kernel's name, VERB_N_NANOSECONDS. VERB is the function of the kernel on its buffers x and y of N
// fp32 elements, and a third buffer of counters. The clock is the sum of the kernels' NANOSECONDS.
#ifndef MICA_TESTS_PRETEND_H
#define MICA_TESTS_PRETEND_H

#include "gpu/stage.h"

enum { PRETEND_L2 = 1 << 20 };
struct pretend {
  int allocated, released, modules, graphs, launches, replays; // modules, graphs: that are not given back
  int times;                                                   // that were read from events
  double clock;                                                // ns
  bool lost;
  double plain_off;  // what a plain kernel adds to the first element of its result
  char trouble[400]; // what the interpreter found
  double product[4]; // ns of the library's algorithms, by their first word
  int products;      // number of products that ran
  int cold;          // the first `cold` products take 10% longer
};
extern struct pretend pretend;
struct gpu *pretend_gpu(void); // to be closed by gpu_close
struct stage *pretend_stage(void);
// arg: NULL, or an atomic_int that counts the calls.
int pretend_compile(const void *arg, struct arena *mem, const char *name, const char *source, int arch, struct cubin *out, struct err *e);
extern const struct gpu_compiler pretend_compiler;
extern const struct gpu_compiler pretend_plain; // of plain kernels of float64 references, which run on this processor
// For real device programs, one at a time: kernels run in the interpreter, in this process; products of fp32 matrices
// in place of the vendor's library.
struct gpu_compiler pretend_interpreter(const struct device_program *p);
void pretend_products(struct stage *s);

// A device program of kernels by their names: the first reads input 0, each next one what the one before it wrote to
// the workspace, the last one writes output 0.
struct device_program *pretend_program(struct arena *mem, const char *const *names, int n, int elements);
struct code *pretend_code(struct arena *mem, const char *const *names, int n, int elements); // compiled

#endif

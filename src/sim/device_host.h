// device_host: a device program (lower/lower.h) in this machine's memory. Kernels run in the interpreter, library products in a loop.
// Results of every launch are compared with the kernel graph in float64.
#ifndef MICA_SIM_DEVICE_HOST_H
#define MICA_SIM_DEVICE_HOST_H

#include "lower/lower.h"
#include "rt/rt.h"
#include "sim/sim.h"

struct device_host {
  struct arena *mem;
  const struct device_program *d;
  void **in, **out; // buffers by input and output of the program
  enum tile_type *in_type;
  int *in_tensor; // by input: tensor of the kernel graph
  char *work;
  double scale;                     // factor of the random inputs
  const struct device_host_opts *o; // set during device_host_open only
  const enum dtype *dtype;
  stop_flag stop;
  const struct graph *g; // the reference: another program, or the kernel graph with all results of kernels as outputs
  bool own;              // g is that kernel graph
  struct reference64 reference;
};
struct device_answer { // comparison of a tensor that a launch wrote
  const char *name;
  int launch, tensor;      // number of the launch; tensor of the kernel graph
  int output;              // number of the program's output, or -1
  int64_t elements, wrong; // number of elements, and of those beyond the tolerance of one element
  int64_t worst;           // index of the element with the largest error
  double got, want;        // its values
  double relative, bound;  // ||kernel - graph|| / ||graph||, and its bound
  bool fine;               // within the tolerances
};

struct device_host_opts {
  const struct graph *program;  // the reference, or NULL for the kernel graph itself
  const bool *positive;         // by input of the program: its random values are positive; or NULL
  const double *size;           // by input of the program: factor of its random values; or NULL
  const enum dtype *dtype;      // by tensor of the kernel graph: the dtype that gives its tolerance; NULL: its own
  const struct buffers *inputs; // row-major values of `program`'s inputs; the reference is then not evaluated. NULL: random ones
  uint64_t seed;
  double most;    // largest factor of random values; 0: 1
  stop_flag stop; // stops the evaluation of the reference; or NULL
};
// Sets up memory, inputs and the reference. Inputs are normal, times the largest of `most`, most/4, most/16, .. that keeps the reference in the range
// of its dtypes. Must be closed after an error too.
int device_host_open(struct device_host *h, struct arena *mem, const struct device_program *d, const struct device_host_opts *o, struct err *e);
void device_host_close(struct device_host *h);
// Runs launch number i; earlier ones must have run. The report is empty for products. Buffers that the launch writes and
// does not read have NaN before.
int device_host_launch(struct device_host *h, int i, struct sim_report *r, stop_flag stop, struct err *e);
// Copies output i to `out` in row-major order, in the dtype of the reference. False: no launch writes it.
bool device_host_output(const struct device_host *h, int i, void *out);
// Compares at most `most` results of launch i for which the reference has values. Returns their number. Unfinished after a stop.
int device_host_compare(const struct device_host *h, int i, int most, struct device_answer *out);
// Whether rounding alone, of each value to its dtype, moves the reference by half of a tolerance or more. False if a value leaves its range.
bool device_host_rounding_counts(const struct device_host *h);
bool device_host_counters_zero(const struct device_host *h);             // every launch must leave its counters at zero
void device_answer_text(const struct device_answer *a, struct str *out); // a line

#endif

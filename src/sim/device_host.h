// device_host: a device program (lower/lower.h) in this machine's memory: kernels by the interpreter, products by a loop.
// Results of every launch are compared with the kernel graph in float64.
#ifndef MICA_SIM_DEVICE_HOST_H
#define MICA_SIM_DEVICE_HOST_H

#include "lower/lower.h"
#include "rt/rt.h"
#include "sim/sim.h"

struct device_host {
  struct arena *mem;
  const struct device_program *d;
  void **in, **out; // by the program's inputs and outputs
  enum tile_type *in_type;
  int *in_tensor; // of the kernel graph
  char *work;
  double scale;                     // of the random inputs
  const struct device_host_opts *o; // while it is opened
  const enum dtype *dtype;
  stop_flag stop;
  const struct graph *g; // the reference: the kernel graph, what is between kernels an output too; or another program
  bool own;              // g is that kernel graph
  struct reference64 reference;
};
struct device_answer { // a tensor that a launch wrote
  const char *name;
  int launch, tensor;      // of the kernel graph
  int output;              // of the program, or -1
  int64_t elements, wrong; // beyond the tolerance of one element
  int64_t worst;
  double got, want;       // there
  double relative, bound; // ||kernel - graph|| / ||graph||, and the most that is accepted
  bool fine;
};

struct device_host_opts {
  const struct graph *program;  // the reference, or NULL for the kernel graph itself
  const bool *positive;         // by input of the program: its values are; or NULL
  const double *size;           // by input of the program: its values are smaller by this factor; or NULL
  const enum dtype *dtype;      // by tensor of the kernel graph: how exact it must be; NULL: as its dtype
  const struct buffers *inputs; // values of `program`'s inputs, row by row; NULL: random ones. With them nothing is evaluated
  uint64_t seed;
  stop_flag stop; // of the reference, or NULL
};
// Random normal inputs, times the largest of 1, 1/4, 1/16, .. that keeps the reference in the range of its dtypes. To be closed
// after an error too.
int device_host_open(struct device_host *h, struct arena *mem, const struct device_program *d, const struct device_host_opts *o, struct err *e);
void device_host_close(struct device_host *h);
// Launch number i after those before it. The report is empty for products. Buffers that it writes and does not read
// hold not-a-number before.
int device_host_launch(struct device_host *h, int i, struct sim_report *r, stop_flag stop, struct err *e);
// Output i, row by row, in the dtype that it has in the reference. False: no launch writes it.
bool device_host_output(const struct device_host *h, int i, void *out);
// Compares the results of launch i for which the reference has values: at most `most`. Returns how many.
int device_host_compare(const struct device_host *h, int i, int most, struct device_answer *out);
bool device_host_counters_zero(const struct device_host *h);             // as every launch must leave them
void device_answer_text(const struct device_answer *a, struct str *out); // a line

#endif

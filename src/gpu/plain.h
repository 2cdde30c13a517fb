// plain: a program as code with one plain kernel in double for each operator, the float64 reference. No part of it comes from a scheme; the
// expression of an operator is that of its row in op.def. Private to gpu.
#ifndef MICA_GPU_PLAIN_H
#define MICA_GPU_PLAIN_H

#include "gpu/gpu.h"
#include "gpu/plain_args.h"

// Unmodified, rounded, or perturbed values (reference64_from in rt.h): each mode has its own code.
enum plain_mode { PLAIN_AS_IT_IS, PLAIN_ROUNDED, PLAIN_ROUNDED_FLUSHED, PLAIN_NUDGED_DOWN, PLAIN_NUDGED_EITHER, PLAIN_MODES };
enum plain_told {
  TOLD_RANGE,
  TOLD_MODE,
  TOLD_INDEX,
  TOLD_REST,
  PLAIN_TOLD
}; // ints of the last output: a value exceeded its range, ..., an index its dimension

// ---- plain_text.c: a kernel's text, arguments and number of blocks ----
struct plain_kernel {
  struct str text; // definitions, then plain.cuh
  struct plain_args args;
  int64_t blocks;
};
enum { PLAIN_THREADS = 256 };
void plain_mode_text(enum plain_mode m, struct plain_kernel *k);
void plain_input_text(const struct tensor *t, struct plain_kernel *k);
void plain_copy_text(const struct tensor *t, struct plain_kernel *k); // copies doubles
// Describes launch number `part` of node n: its text, the result that it writes (counted from n->out) and its operands. False: there is no such
// launch.
struct plain_launch {
  int result, nin, in[3]; // in: tensors
};
bool plain_node_text(const struct graph *g, const struct node *n, int part, struct plain_kernel *k, struct plain_launch *l);
bool plain_takes(const struct node *n);                       // whether the operator has a plain kernel
void plain_without_includes(struct str *s, const char *text); // removes #include lines, as NVRTC has no headers

// ---- plain_code.c ----
// g without composites. Outputs are those of g as doubles, followed by PLAIN_TOLD ints. NO: an operator has no plain kernel; e names it.
int plain_code(struct arena *mem, const struct graph *g, enum plain_mode mode, struct code *out, struct err *e);

// ---- ahead.c ----
struct gpu_ahead;
struct gpu_ahead *gpu_ahead_open(struct gpu_forge *f, struct db *db, int arch, const struct graph *g, stop_flag stop); // NULL: it cannot
void gpu_ahead_close(struct gpu_ahead *a);                                                                             // waits for the thread

#endif

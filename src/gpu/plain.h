// plain: inside gpu, a program as code with one plain kernel in double for each operator: the float64 reference. Nothing of it comes from a
// scheme, and the text of an operator is that of its row of op.def.
#ifndef MICA_GPU_PLAIN_H
#define MICA_GPU_PLAIN_H

#include "gpu/gpu.h"

// Values as they are, rounded, or moved (reference64_from in rt.h): one code is made for each mode.
enum plain_mode { PLAIN_AS_IT_IS, PLAIN_ROUNDED, PLAIN_ROUNDED_FLUSHED, PLAIN_NUDGED_DOWN, PLAIN_NUDGED_EITHER, PLAIN_MODES };
enum plain_told {
  TOLD_RANGE,
  TOLD_MODE,
  TOLD_INDEX,
  TOLD_REST,
  PLAIN_TOLD
}; // ints of the last output: a value left its range, ..., an index its dimension

// ---- plain_text.c: the text of a kernel and how many blocks it has ----
struct plain_kernel {
  struct str text; // definitions, then plain.cuh
  int64_t blocks;
};
enum { PLAIN_THREADS = 256 };
void plain_mode_text(enum plain_mode m, struct plain_kernel *k);
void plain_input_text(const struct tensor *t, struct plain_kernel *k);
void plain_copy_text(const struct tensor *t, struct plain_kernel *k); // of doubles
// Launch number `part` of node n, until it answers false: its text, which result it writes (counted from n->out) and its operands.
struct plain_launch {
  int result, nin, in[3]; // in: tensors
};
bool plain_node_text(const struct graph *g, const struct node *n, int part, struct plain_kernel *k, struct plain_launch *l);
bool plain_takes(const struct node *n);                       // there is a plain kernel for the operator
void plain_without_includes(struct str *s, const char *text); // NVRTC has no headers

// ---- plain_code.c ----
// g without composites. Outputs are those of g as doubles, and PLAIN_TOLD ints behind them. NO: some operator has no plain kernel; e says which.
int plain_code(struct arena *mem, const struct graph *g, enum plain_mode mode, struct code *out, struct err *e);

#endif

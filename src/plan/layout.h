// layout: chooses for all tensors at once which dimension is innermost, in device memory and in shared memory, and which dimension of a tile is
// swizzled (choose.h). Costs are bytes moved, times a factor for the layouts of an operator's operands; layout_cost.c has the tables. Source: the
// transpiler of Mirage, "Layout Resolution", whose 0-1 program this solves by elimination instead of a solver.
#ifndef MICA_PLAN_LAYOUT_H
#define MICA_PLAN_LAYOUT_H

#include "ir/ir.h"

struct swizzle_plan { // for a tile that is read across its rows (a row is the innermost dimension)
  int bits, from;     // xor: the last `bits` bits of the number of a 16-byte chunk, shifted right by `from`
  int64_t shift;      // otherwise: bytes of padding for each row
};
struct tensor_layout {
  int inner;                // dimension with stride 1; -1: every extent is 1
  int swizzled;             // second dimension along which threads access the tile, or -1
  int64_t stride[MAX_DIMS]; // in elements, rows padded to 16 bytes; 0 for extents of 1
  int64_t elements;         // including padding
  struct swizzle_plan swizzle;
};
struct layouts {
  const struct graph *kernels;
  struct tensor_layout *device; // for each tensor of the kernel graph
  struct tensor_layout **tile;  // for each BLOCK node, for each tensor of its block graph; NULL for other nodes
  double cost;                  // weighted bytes
};
// g: a checked kernel graph without composites. Inputs and outputs of the program are row-major. `exhaustive`: tries all assignments, for tests; NO
// if there are too many.
int plan_layouts(struct arena *mem, const struct graph *g, bool exhaustive, struct layouts *out, struct err *e);
// Whether the tensor's layout is fixed: a view, an input, an output, or a reshaped tensor. And whether any is free.
bool layout_fixed(const struct graph *g, int tensor);
bool layouts_free(const struct graph *g);
// shared: for each node and tensor of its block graph: whether it has a layout in shared memory; NULL: all do.
void plan_layouts_text(const struct layouts *l, const bool *const *shared, struct str *out);

// Strides with dimension `inner` innermost, then the others from the last to the first.
void layout_strides(const struct shape *s, int inner, int64_t elem, struct tensor_layout *out);
// For rows of that many bytes, read 8 rows at a time in chunks of 16 bytes, as by ldmatrix.
struct swizzle_plan layout_swizzle(int64_t row_bytes);

#endif

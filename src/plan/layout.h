// layout: which dimension of every tensor is innermost, in device memory and in a block's shared memory, and which dimension of
// a tile is swizzled, chosen for all of them at once (choose.h). Costs are bytes moved, times what an operator takes a byte under
// the layouts of its operands; the tables are in layout_cost.c. Source: the transpiler of Mirage, "Layout Resolution", whose 0-1
// program it is, solved by elimination instead of by a solver.
#ifndef MICA_PLAN_LAYOUT_H
#define MICA_PLAN_LAYOUT_H

#include "ir/ir.h"

struct swizzle_plan { // of a tile whose rows are walked across (the innermost dimension is a row)
  int bits, from;     // xor: the number of a 16-byte chunk, shifted right by `from`, its last `bits` bits
  int64_t shift;      // or bytes added to every row
};
struct tensor_layout {
  int inner;                // dimension with stride 1; -1: every extent is 1
  int swizzled;             // dimension along which threads walk besides, or -1. For tiles
  int64_t stride[MAX_DIMS]; // elements, rows padded to 16 bytes; 0 for extents of 1
  int64_t elements;         // with padding
  struct swizzle_plan swizzle;
};
struct layouts {
  const struct graph *kernels;
  struct tensor_layout *device; // by tensor of the kernel graph
  struct tensor_layout **tile;  // by node, of BLOCK nodes; by tensor of the block graph. NULL elsewhere
  double cost;                  // bytes, weighted
};
// g: a checked kernel graph without composites. Inputs and outputs of the program are row-major. `exhaustive`: by trying all
// choices, for tests; NO where they are too many.
int plan_layouts(struct arena *mem, const struct graph *g, bool exhaustive, struct layouts *out, struct err *e);
// Is the tensor's layout no choice: a view's, an input's, an output's, or of what is reshaped? And is any a choice?
bool layout_fixed(const struct graph *g, int tensor);
bool layouts_free(const struct graph *g);
// shared: by node, by tensor of its block graph: those that have a layout in shared memory; NULL: all.
void plan_layouts_text(const struct layouts *l, const bool *const *shared, struct str *out);

// Strides where dimension `inner` is innermost, then the others from the last to the first.
void layout_strides(const struct shape *s, int inner, int64_t elem, struct tensor_layout *out);
// For rows of that many bytes, read 8 rows at a time in chunks of 16 bytes, as ldmatrix does.
struct swizzle_plan layout_swizzle(int64_t row_bytes);

#endif

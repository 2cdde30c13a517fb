// layout: chooses for all tensors at once which dimension is innermost, in device memory and in shared memory, and which dimension of a tile is
// swizzled. Costs are bytes moved, times a factor for the layouts of an operator's operands; layout_cost.c has the tables. Source: the transpiler of
// Mirage, "Layout Resolution". It solves the same 0-1 program by a solver, and this by elimination (choose.h).
#ifndef MICA_PLAN_LAYOUT_H
#define MICA_PLAN_LAYOUT_H

#include "ir/ir.h"

struct swizzle_plan { // for a tile that is read across its rows (a row is the innermost dimension)
  int bits, from;     // the last `bits` bits of a 16-byte chunk's number are xored with its bits from bit `from` on; bits 0: they are not
  int64_t shift;      // then: bytes of padding for each row
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
// Whether the tensor's layout is fixed: it is a view, an input, an output, an operand or result of a collective, reshaped, updated in place, or a
// library's product with one column.
bool layout_fixed(const struct graph *g, int tensor);
bool layouts_free(const struct graph *g); // whether any tensor with two or more dimensions above 1 has a layout that is not fixed
// shared: for each node, for each tensor of its block graph, whether it has a layout in shared memory; NULL: all do.
void plan_layouts_text(const struct layouts *l, const bool *const *shared, struct str *out);

// Strides with dimension `inner` innermost, then the others from the last to the first.
void layout_strides(const struct shape *s, int inner, int64_t elem, struct tensor_layout *out);
// The swizzle without bank conflicts for rows of that many bytes, if 8 rows are read at a time in chunks of 16 bytes, as by ldmatrix.
struct swizzle_plan layout_swizzle(int64_t row_bytes);

#endif

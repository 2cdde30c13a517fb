// norm: block graphs in normal form, which every pass over a kernel and every scheme that makes one starts from.
//
// Glossary
//   normal form  a block graph without views. Every dimension of every tile is a product of letters
//   letter       a factor of tile indices that nothing in the block graph cuts. Extents are those within a tile; two
//                tensors have the same letter where an operator walks them together
//   root         the tensor whose elements a view shows: an iterator's or an operator's
//
//   norm.c       the normal form; norm_facts.c: what it says
//   norm_text.c  the same as text, for people
//   letters.c    letters: splitting, unifying; views of a kernel graph (letters.h)
#ifndef MICA_PLAN_NORM_H
#define MICA_PLAN_NORM_H

#include "ir/ir.h"

enum { MAX_LETTERS = 32, MAX_FACTORS = 12 };

// How a tensor lies in device memory: which dimension has stride 1 (-1: the last), the others from the last to the first; whether rows
// begin at multiples of 16 bytes. NULL: row by row without gaps, as inputs and outputs of a program lie.
struct order {
  int inner;
  bool padded;
};
// Strides, 0 of extents of 1; returns the elements of the buffer.
int64_t order_strides(const struct order *o, const struct shape *s, int64_t stride[MAX_DIMS]);
// The place of element i, counted row by row.
int64_t order_place(const struct order *o, const struct shape *s, int64_t i);

struct norm_dim { // a dimension as a product of letters, slowest first; no letters: extent 1
  int n;
  int8_t letter[MAX_FACTORS];
};
struct norm_tensor {
  int root; // the tensor of the block graph whose elements these are; itself, where it is no view
  int ndims;
  struct norm_dim dim[MAX_DIMS];
  uint32_t has; // its letters, as bits
};
// The place that an iterator reads or a saver writes. The element at block b, iteration i and letters l of the tile is number
// offset + sum grid[x] b[x] + sum loop[k] i[k] + sum stride[l] l of the buffer.
struct plan_access {
  int tile;                                                              // tensor of the block graph
  int tensor;                                                            // of the kernel graph: the one that has the buffer, views resolved
  int64_t offset, grid[GRID_AXES], loop[MAX_LOOPS], stride[MAX_LETTERS]; // elements; 0 where it does not depend on it
};
struct norm {
  const struct graph *kernels, *block; // the kernel graph, and the block graph in its node
  const struct order *order;           // by tensor of the kernel graph; NULL
  int node;
  int nletters;
  int64_t extent[MAX_LETTERS];
  struct norm_tensor *t; // by tensor of block
  int niter, nsave;
  struct plan_access *iter, *save; // in the order of the block graph
  int *iter_of;                    // by tensor of block: index into iter of an iterator's tile, else -1
  int *uses;                       // by tensor of block: nodes that read it or a view of it, views not counted
  // Accumulators that join the parts of the iterations (`accum` with an fmap) have letters for loop axes: iteration number
  // sum step[k][l] l along axis k. Parts of a dimension are joined and split by a letter for their number, the slowest of the
  // dimension. Only schemes that say so take either.
  bool joins;
  bool chooses;   // data choose elements (gather, update, topk): only schemes that say so take it
  uint32_t units; // letters of extent 1, which a loop takes an element at a time of: a scheme may take more
  struct {        // the loop's last iteration has less of a letter: `all` is no multiple of its extent. 0: it has not
    int letter;
    int64_t all;
  } ragged;
  struct { // the same of blocks: the last one along the grid axis has fewer columns
    int letter, axis;
    int64_t all;
  } clipped;
  int64_t step[MAX_LOOPS][MAX_LETTERS];
  const struct passes *passes; // what is decided of it (passes.h)
};
// The same where tensors lie in these orders, by tensor of the kernel graph.
// NO with the reason in why where the block graph has no normal form (parts of different extents; views that cut what a grid or
// loop axis runs over).
int norm_make_in(struct arena *mem, const struct graph *kernels, const struct order *order, int node, struct norm *out, char why[160]);
int64_t norm_extent(const struct norm *n, uint32_t letters); // product of extents
bool norm_is_index(const struct norm *n, int tensor);        // has the tensor of the kernel graph no memory, being its own elements' numbers?
int64_t norm_elements(const struct norm *n, int tensor);     // of the buffer of a tensor of the kernel graph
uint32_t norm_dim_letters(const struct norm_dim *d);
// For a product (MATMUL): letters of rows, columns, what is summed, and what only goes along (batches).
struct norm_product {
  int out, a, b; // tensors (roots)
  uint32_t rows, cols, sum, batch;
};
struct norm_product norm_product(const struct norm *n, int node);
void norm_text(const struct norm *n, struct str *out); // norm_text.c; for people: --dump norm

#endif

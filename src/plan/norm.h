// norm: block graphs in normal form, the input of all passes over a kernel and of all schemes.
//
// Glossary
//   normal form  a block graph without views. Every dimension of every tile is a product of letters
//   letter       a factor of tile indices that nothing in the block graph divides, with its extent within a tile. Two tensors have the same letter if
//                an operator traverses them together along it
//   root         the tensor whose elements a view has: the result of an iterator or operator
//
//   norm.c       makes the normal form; norm_facts.c: queries of it
//   norm_text.c  the same as text, for people
//   letters.c    letters: splitting, unifying; views of a kernel graph (letters.h)
#ifndef MICA_PLAN_NORM_H
#define MICA_PLAN_NORM_H

#include "ir/ir.h"

enum { MAX_LETTERS = 32, MAX_FACTORS = 12 };

// The order of a tensor's elements in device memory. NULL: row-major without gaps, as inputs and outputs of a program are.
struct order {
  int inner;   // the dimension with stride 1, -1: the last; the others follow from the last to the first
  bool padded; // rows are aligned to 16 bytes
};
// Sets the strides in elements, 0 for extents of 1; returns the number of elements of the buffer.
int64_t order_strides(const struct order *o, const struct shape *s, int64_t stride[MAX_DIMS]);
// The offset in the buffer of element i, which is counted in row-major order.
int64_t order_place(const struct order *o, const struct shape *s, int64_t i);

struct norm_dim { // a dimension as a product of letters, slowest first; no letters: extent 1
  int n;
  int8_t letter[MAX_FACTORS];
};
struct norm_tensor {
  int root; // the tensor of the block graph that has these elements; itself if it is not a view
  int ndims;
  struct norm_dim dim[MAX_DIMS];
  uint32_t has; // its letters, as bits
};
// The memory that an iterator reads or a saver writes. The element at block b, iteration i and letters l of the tile is number offset + sum grid[x]
// b[x] + sum loop[k] i[k] + sum stride[l] l of the buffer.
struct plan_access {
  int tile;                                                              // tensor of the block graph
  int tensor;                                                            // tensor of the kernel graph that has the buffer, views resolved
  int64_t offset, grid[GRID_AXES], loop[MAX_LOOPS], stride[MAX_LETTERS]; // in elements; 0 if the position does not depend on it
};
struct norm {
  const struct graph *kernels, *block; // the kernel graph, and the block graph in its node
  const struct order *order;           // for each tensor of the kernel graph; may be NULL
  int node;
  int nletters;
  int64_t extent[MAX_LETTERS];
  struct norm_tensor *t; // for each tensor of block
  int niter, nsave;
  struct plan_access *iter, *save; // in the order of the block graph
  int *iter_of;                    // for each tensor of block: index into iter of an iterator's tile, else -1
  int *uses;                       // for each tensor of block: nodes that read it or a view of it, views not counted
  // Accumulators that join the parts of iterations (`accum` with an fmap) have letters for loop axes: along axis k, iteration number sum step[k][l]
  // l. A letter for the number of a part, the slowest of its dimension, expresses joining and splitting parts. Only schemes that declare it accept
  // either.
  bool joins;
  bool chooses;   // it has data-dependent indices (gather, update, topk): only schemes that declare it accept it
  uint32_t units; // letters of extent 1 that a loop takes one element at a time: a scheme may take more
  struct {        // the loop's last iteration has fewer elements of a letter: `all`, their number over all iterations, is no multiple of its extent
    int letter;
    int64_t all; // 0: all iterations are alike
  } ragged;
  struct { // the last block along a grid axis has fewer elements of a letter of columns
    int letter, axis;
    int64_t all;
  } clipped;
  uint32_t fast; // letters of rows that vary fastest in a piece of rows, whatever their strides in memory (retile.c)
  int64_t step[MAX_LOOPS][MAX_LETTERS];
  const struct passes *passes; // results of the passes (passes.h)
};
// Makes the normal form of the block graph in `node`, and runs the passes over it. order: for each tensor of the kernel graph; NULL: all are
// row-major. NO, with the reason in `why`, if the block graph has no normal form: it joins parts of different extents, or a view splits the dimension
// that a grid or loop axis divides.
int norm_make_in(struct arena *mem, const struct graph *kernels, const struct order *order, int node, struct norm *out, char why[160]);
int64_t norm_extent(const struct norm *n, uint32_t letters); // product of extents
bool norm_computes(const struct node *x); // whether the node computes a new value: it is no iterator, saver, input, output, constant, index or view
// Whether the tensor of the kernel graph has no memory, because its elements are their own indices.
bool norm_is_index(const struct norm *n, int tensor);
int64_t norm_elements(const struct norm *n, int tensor); // of the buffer of a tensor of the kernel graph
uint32_t norm_dim_letters(const struct norm_dim *d);
// A product (MATMUL): letters of rows, of columns, of the summed dimension, and of batches.
struct norm_product {
  int out, a, b; // tensors (roots)
  uint32_t rows, cols, sum, batch;
};
struct norm_product norm_product(const struct norm *n, int node);
void norm_text(const struct norm *n, struct str *out); // for people: --dump norm

#endif

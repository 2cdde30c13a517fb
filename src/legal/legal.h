// legal: transforms kernel graphs into kernel graphs that the schemes of GPUs accept (src/lower), by passes over the whole graph. A pass knows
// operators and block graphs, but no schemes. The plan of kernels decides whether the result of a pass is faster (lower/lower_plan.c).
//
// Files
//   rewrite.c    code that passes share (rewrite.h)
//   wrap.c       library operators as block graphs (wrap.h):
//     wrap_cut.c     how their results are divided
//     wrap_kernel.c  kernels of one operator
//     wrap_concat.c  kernels that join tensors
//     wrap_scan.c    kernels of running sums
//   merge.c      kernels that continue with the tiles of the kernel before; kernels that can be tails
//   gather_in.c  gathers within the kernels that read them
//   parts.c      products of f32 as products of bf16 parts
//   aligned.c    copies of operands with unaligned rows
//   spans.c      masks as a span of each row
//   once.c       iterators that load the same tile become one
//   steps.c      products of loop-invariant operands, in steps of the loop
//   store.c      dtypes of tensors between kernels
//   product.c    products for the vendor's library: strides of operands
#ifndef MICA_LEGAL_LEGAL_H
#define MICA_LEGAL_LEGAL_H

#include "cuda/cuda.h"
#include "ir/ir.h"
#include "plan/norm.h"

// ---- passes: OK: an equal checked graph in mem; NO: nothing to do ----

// Library operators as block graphs, except products (MATMUL).
int wrap_library(struct arena *mem, const struct graph *kernels, struct graph **out, struct err *e);
// Merges kernels with the same blocks. Accepts any checked graph. The other passes need the output of wrap_library().
int legal_merge(struct arena *mem, const struct graph *kernels, struct graph **out, struct err *e);
int legal_gathers(struct arena *mem, const struct graph *wrapped, struct graph **out, struct err *e); // with the operators that compute their indices
int legal_parts(struct arena *mem, const struct graph *wrapped, struct graph **out, struct err *e);   // NO: *out is the same graph
// Copies of unaligned inputs; `between`: of tensors between kernels too.
int legal_aligned(struct arena *mem, const struct graph *wrapped, bool between, struct graph **out, struct err *e);
int legal_spans(struct arena *mem, const struct graph *wrapped, struct graph **out, struct err *e);
int load_once(struct arena *mem, const struct graph *kernels, struct graph **out, struct err *e);
int step_products(struct arena *mem, const struct graph *kernels, struct graph **out, struct err *e); // never NO

// ---- queries of passes and of the plan ----

bool legal_topk(const struct graph *wrapped);                               // whether a kernel selects the largest elements
int legal_tail_of(const struct graph *kernels, int node);                   // the kernel that can be the tail of this node; -1: none
bool legal_copied(const struct graph *kernels, int tensor);                 // whether a kernel makes it as a copy
bool legal_divides(const struct graph *kernels, const struct node *kernel); // whether the kernel multiplies matrices of f32, or of their parts
int legal_part(const struct graph *kernels,
               int tensor); // the number, from 0, of the bf16 part of f32 that a kernel saves as this tensor; -1: it is no part
bool legal_mixed(const struct graph *kernels, const int *in); // whether the two operands of a product are floats of two dtypes
// The dtype in which each tensor of a kernel graph is stored; in mem. stored: NULL, or names of tensors between kernels that keep the graph's dtype,
// up to NULL.
const enum dtype *store_types(struct arena *mem, const struct graph *kernels, const char *const *stored);

struct library_product {
  struct blas_product p;
  int tensor[BLAS_OPERANDS]; // of the kernel graph, without views
};
// The matrix product in a node of a kernel graph as one strided product, without dtypes. False: the library does not take their strides.
bool product_of(const struct graph *kernels, const struct order *order, int node, struct library_product *out);

#endif

// legal: kernel graphs -> kernel graphs that the schemes of GPUs take (src/lower), by passes over the whole graph. A pass knows operators and block
// graphs, but no scheme; whether its result is faster is for the plan of kernels to say (lower/lower_plan.c).
//
// Files
//   rewrite.c    what passes have in common (rewrite.h)
//   wrap.c       library operators as block graphs
//   merge.c      kernels that go on with the tiles of the one before; which can be tails
//   gather_in.c  gathers within the kernels that read them
//   parts.c      products of f32 as products of bf16 parts
//   aligned.c    copies of operands whose rows begin anywhere
//   spans.c      masks whose rows say where they show anything
//   once.c       iterators that load the same tile as one
//   steps.c      products beside a loop, in steps of it
//   store.c      dtypes of tensors between kernels
//   product.c    products that stay the library's: strides of operands
#ifndef MICA_LEGAL_LEGAL_H
#define MICA_LEGAL_LEGAL_H

#include "cuda/cuda.h"
#include "ir/ir.h"
#include "plan/norm.h"

// ---- passes: OK with a checked graph in mem that computes the same; NO where there is nothing to do ----

// Library operators but products (MATMUL) as block graphs.
int wrap_library(struct arena *mem, const struct graph *kernels, struct graph **out, struct err *e);
// Kernels on the same tiles as one; of any checked graph. The others take what wrap_library() leaves.
int legal_merge(struct arena *mem, const struct graph *kernels, struct graph **out, struct err *e);
int legal_gathers(struct arena *mem, const struct graph *wrapped, struct graph **out, struct err *e); // with what their indices are computed of
int legal_parts(struct arena *mem, const struct graph *wrapped, struct graph **out, struct err *e);   // NO: *out is the same graph
int legal_aligned(struct arena *mem, const struct graph *wrapped, struct graph **out, struct err *e);
int legal_spans(struct arena *mem, const struct graph *wrapped, struct graph **out, struct err *e);
int load_once(struct arena *mem, const struct graph *kernels, struct graph **out, struct err *e);
int step_products(struct arena *mem, const struct graph *kernels, struct graph **out, struct err *e); // never NO

// ---- what they and the plan ask ----

bool legal_topk(const struct graph *wrapped);                               // has it a kernel that chooses the largest elements?
int legal_tail_of(const struct graph *kernels, int node);                   // the kernel that can be this node's tail, -1: none
bool legal_copied(const struct graph *kernels, int tensor);                 // is it a copy that a kernel makes?
bool legal_divides(const struct graph *kernels, const struct node *kernel); // does the kernel multiply matrices of f32, or parts of them?
int legal_part(const struct graph *kernels, int tensor); // the number of the bf16 part of f32 that a kernel saves so, from 0; -1: it is none
// By tensor of a kernel graph; lives in mem. stored: names of tensors between kernels that keep the graph's type, up to NULL; NULL: none.
const enum dtype *store_types(struct arena *mem, const struct graph *kernels, const char *const *stored);

struct library_product {
  struct blas_product p;
  int tensor[BLAS_OPERANDS]; // of the kernel graph, views resolved
};
// The matrix product in a node of a kernel graph as one strided product, but for types; false where its operands have no such
// strides.
bool product_of(const struct graph *kernels, const struct order *order, int node, struct library_product *out);

#endif

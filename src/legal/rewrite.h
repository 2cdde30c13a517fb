// rewrite: private header of legal, with code that passes over kernel graphs share. A pass builds the graph again, with some kernels changed.
#ifndef MICA_LEGAL_REWRITE_H
#define MICA_LEGAL_REWRITE_H

#include "legal/legal.h"

struct block_making { // a kernel's block graph under construction, for the kernel graph `to`
  struct graph *to, *sub;
  int nin, cap, *in; // tensors of `to`, by iterator
  int status;        // the first error; later calls do nothing
  struct err *e;
};
struct block_making block_begin(struct graph *to, const char *name, struct err *e);                              // without axes
int block_load(struct block_making *b, int tensor, const struct attrs *a, struct loc at);                        // the iterator's tile
int block_add(struct block_making *b, enum op op, int nin, const int *in, const struct attrs *a, struct loc at); // the operator's first result
int block_end(struct block_making *b, struct loc at, int *out); // the kernel; *out: the first of its tensors

// wrap_kernel.c: a kernel that loads tensor t of `to`, applies each operator, and saves the results, or a copy if there are no operators. *first: the
// first saved tensor. Blocks have tiles of some thousand elements.
int legal_elementwise(struct graph *to, int t, struct loc at, int nops, const enum op *ops, int *first, struct err *e);

struct rewriting {
  const struct graph *g;
  struct graph *to;
  int *map;     // tensors of g -> of `to`
  void *own;    // owned by the pass
  bool changed; // some kernel was changed
  struct err *e;
};
// Rebuilds kernel n in w->to; *out: its first tensor there. NO: the kernel is copied.
typedef int rewrite_kernel(struct rewriting *w, const struct node *n, int *out);
// The rebuilt graph, without unused kernels; NO if none has changed.
int legal_rewrite(struct arena *mem, const struct graph *g, rewrite_kernel *kernel, void *own, struct graph **out, struct err *e);

struct block_rewriting { // a kernel's block graph
  struct block_making b;
  struct rewriting *w;
  const struct node *n; // the kernel in w->g
  int *tile;            // tensors of n->sub -> of b.sub
  void *own;
};
// Rebuilds node x of n->sub; from: the tensor of w->to that an iterator loads, else -1.
typedef int rewrite_node(struct block_rewriting *r, const struct node *x, int from);
int rewrite_block(struct rewriting *w, const struct node *n, rewrite_node *node, void *own, int *out);
int rewrite_take(struct block_rewriting *r, const struct node *x, int from); // copies the node unchanged

#endif

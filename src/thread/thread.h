// thread: thread graphs by rules over a block graph (paper, section 4.2). Chains of elementwise operators, and the
// reductions that end them, become one THREAD node, so that intermediates stay in registers.
#ifndef MICA_THREAD_H
#define MICA_THREAD_H

#include "ir/ir.h"

// Rewrites every BLOCK node of kernel graph g; the result is a complete muGraph that computes the same.
int thread_graphs(struct arena *mem, const struct graph *g, struct graph **out, struct err *e);

// thread_again.c, before it on a CPU: cheap values of long rows are computed again instead of kept in tiles.
int thread_again(struct arena *mem, const struct graph *g, struct graph **out, struct err *e);

// The same of a graph whose thread graphs may be others: they are made flat first. *out is g where there is none.
int thread_canonical(struct arena *mem, const struct graph *g, const struct graph **out, struct err *e);

// thread_flat.c: the inverse, a graph without THREAD nodes that computes the same. *out is g if it has none. An error if a
// thread graph is not a partition of operators on whole tiles.
int thread_flat(struct arena *mem, const struct graph *g, const struct graph **out, struct err *e);
#endif

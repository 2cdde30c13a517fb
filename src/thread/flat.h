// Private to this component: thread graphs rewritten as operators on whole tiles.
//
//   thread_flat.c  walks over block graphs and thread graphs
//   thread_cut.c   the dimension of a result that each axis of the thread graph partitions, and operators on the parts of a dimension
#ifndef MICA_THREAD_FLAT_H
#define MICA_THREAD_FLAT_H

#include "thread/thread.h"

enum { AXES = MAX_GRID + MAX_LOOPS }; // the grid axes of a thread graph, then its loop axes

struct flat_tensor { // a tensor of a thread graph
  int whole;         // the tensor of the new block graph
  int8_t cut[AXES];  // the dimension that each axis partitions, or REPLICA. If several partition the same one, later axes are inside earlier ones
  unsigned partial;  // bit set of loop axes over which it is a partial sum; an accumulator adds them up
};

struct flattening {
  const struct graph *block;  // the old block graph
  const struct node *node;    // its THREAD node
  struct graph *to;           // the new block graph
  const int *moved;           // by tensor of `block`: the tensor of `to`
  struct flat_tensor *tensor; // by tensor of the thread graph
  struct err *e;
};

int flat_refuse(const struct flattening *f, const struct node *n, const char *why);
int64_t flat_extent(const struct flattening *f, int axis);
int flat_operator(struct flattening *f, const struct node *n);
int flat_accumulator(struct flattening *f, const struct node *n);

#endif

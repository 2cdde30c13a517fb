// Private to this component: thread graphs as operators on whole tiles.
//
//   thread_flat.c  walks over block graphs and thread graphs
//   thread_cut.c   which dimension of a result each axis of the thread graph cuts, and operators on the parts of a dimension
#ifndef MICA_THREAD_FLAT_H
#define MICA_THREAD_FLAT_H

#include "thread/thread.h"

enum { AXES = MAX_GRID + MAX_LOOPS }; // the grid axes of a thread graph, then its loop axes

struct flat_tensor { // of a thread graph
  int whole;         // the tensor of the new block graph
  int8_t cut[AXES];  // the dimension that each axis cuts, or REPLICA; of one dimension, parts of an axis hold those of later axes
  unsigned partial;  // loop axes over which it is a partial sum, a bit each; an accumulator adds them up
};

struct flattening {
  const struct graph *block;  // as it was
  const struct node *node;    // THREAD node of it
  struct graph *to;           // the new block graph
  const int *moved;           // tensors of `block` in `to`
  struct flat_tensor *tensor; // by tensor of the thread graph
  struct err *e;
};

int flat_refuse(const struct flattening *f, const struct node *n, const char *why);
int64_t flat_extent(const struct flattening *f, int axis);
int flat_operator(struct flattening *f, const struct node *n);
int flat_accumulator(struct flattening *f, const struct node *n);

#endif

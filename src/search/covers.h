// covers: the walk along a kernel graph that asks whether the space holds it.
//
//   covers.c        kernels, schedules, library operators
//   covers_block.c  one block graph under one schedule
#ifndef MICA_COVERS_H
#define MICA_COVERS_H

#include "search/space.h"

struct search_walk {
  const struct planner *pl;
  const struct graph *g;
  const int *program_input; // kernel tensor -> input tensor of the program that it is (a view of), or -1
  const bool *viewed;       // kernel tensor -> its dimensions are not those of that input
  int *device;              // kernel tensor -> device tensor
  int **owner;              // table -> value of each derivation
  int64_t steps;
  int64_t furthest; // kernel node * MANY + block node
  char *why;
  size_t room;
};
struct inside { // one block graph under one schedule
  struct search_walk *w;
  int node; // of the kernel graph
  const struct graph *b;
  int table;
  int axis[MAX_GRID]; // class of each axis
  bool loop;
  int *value; // block tensor -> value
};

// Keeps the reason of the furthest failure, and returns false.
bool cover_lost(struct search_walk *w, int kernel, int block, const char *what, const char *why);
bool cover_kernel(struct search_walk *w, int i); // from kernel node i on
bool cover_block(struct inside *x, int k);       // from block node k on, and then the kernels after it
bool cover_turnable(enum op op);                 // are derivations kept for one order of the operands only?
bool cover_same_constants(const struct table *t, const struct deriv *d, const struct node *n); // of d and of n
int cover_number(const struct graph *g, int k, enum op op);                                    // nodes with this operator before node k
#endif

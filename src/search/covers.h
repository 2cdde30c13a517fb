// covers: the traversal of a kernel graph that decides whether the space contains it.
//
//   covers.c        kernels, schedules, library operators
//   covers_block.c  one block graph under one schedule
#ifndef MICA_COVERS_H
#define MICA_COVERS_H

#include "search/space.h"

struct search_walk {
  const struct planner *pl;
  const struct graph *g;
  const int *program_input; // kernel tensor -> the program's input tensor that it is, or is a view of; or -1
  const bool *viewed;       // kernel tensor -> its dimensions differ from those of that input
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

// Records the reason of the furthest failure; returns false.
bool cover_lost(struct search_walk *w, int kernel, int block, const char *what, const char *why);
bool cover_kernel(struct search_walk *w, int i); // matches kernel nodes from i on
bool cover_block(struct inside *x, int k);       // matches block nodes from k on, then the later kernels
bool cover_turnable(enum op op);                 // whether derivations are kept for one order of the operands only
bool cover_same_constants(const struct table *t, const struct deriv *d, const struct node *n); // whether d and n have the same constants
int cover_number(const struct graph *g, int k, enum op op);                                    // number of nodes with this operator before node k
#endif

// rewrite: graphs that do the same as a given one and differ in what makes no difference to its structure.
#ifndef TESTS_SEARCH_REWRITE_H
#define TESTS_SEARCH_REWRITE_H

#include "ir/ir.h"

enum rewrite {
  ADD_IDLE_LOOP, // of two iterations, which nothing varies with
  ADD_ITERATION, // a loop of one iteration, with accumulators
  SWAP_AXES,     // the grid axes in the opposite order
  SPLIT_AXIS,    // two axes that cut what one did
  AXIS_TO_LOOP,  // the last grid axis becomes a loop that only joins parts
  UNROLL,        // loops have one iteration
  DROP_LOOP,     // and none at all
  SUM_TO_ACCUM,  // accum for accum_sum; its tiles have one element along the loop
  ACCUM_TO_SUM,  // and the other way round
  ADD_UNIT_SUMS, // sums over an extent of 1
  MAKE_TWICE,    // every value once for each use
  REWRITES,
};
extern const char *const rewrite_names[REWRITES];

// Each block graph of g so rewritten; NULL where that changes nothing or is no graph.
struct graph *rewritten(struct arena *mem, const struct graph *g, enum rewrite how);
#endif

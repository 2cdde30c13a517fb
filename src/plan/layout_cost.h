// The cost of an operator for given layouts of its operands. Private to layout*.c.
#ifndef MICA_PLAN_LAYOUT_COST_H
#define MICA_PLAN_LAYOUT_COST_H

#include "plan/layout.h"

struct placed { // a layout of a tensor, as a value of its variable
  int inner, swizzled;
};
// The cost of moving a tile of an iterator or saver once. elem: bytes of an element; unit: the dimension of the tile along which device memory is
// contiguous, or -1; p: the tile's layout in the block.
double cost_move(const struct shape *tile, int64_t elem, int unit, struct placed p);
// An operator of a block graph, with the layouts of its operands and of its result.
double cost_operator(const struct graph *b, const struct node *n, const struct placed *in, struct placed out);
// A library operator, with the layouts of device tensors.
double cost_library_layout(const struct graph *g, const struct node *n, const struct placed *in, struct placed out);
// The dimension of a view's result with stride 1, if dimension `inner` of its argument has stride 1; -1: none.
int view_inner(const struct graph *g, const struct node *n, int inner);

#endif

// Inside layout*.c: what an operator costs under the layouts of its operands.
#ifndef MICA_PLAN_LAYOUT_COST_H
#define MICA_PLAN_LAYOUT_COST_H

#include "plan/layout.h"

struct placed { // a value of a variable
  int inner, swizzled;
};
// Moving the tile of node n (ITER or SAVE), `tile` in the block and `unit` the dimension of the tile along which device memory is
// contiguous (-1: none).
double cost_move(const struct shape *tile, int64_t elem, int unit, struct placed p);
// An operator of a block graph: in[0..nin) and the output's layout.
double cost_operator(const struct graph *b, const struct node *n, const struct placed *in, struct placed out);
// A library operator, with the layouts of device tensors.
double cost_library_layout(const struct graph *g, const struct node *n, const struct placed *in, struct placed out);
// The dimension of a view's result that has stride 1 where dimension `inner` of its argument has; -1: there is none.
int view_inner(const struct graph *g, const struct node *n, int inner);

#endif

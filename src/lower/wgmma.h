// wgmma: inside wgmma*.c, the scheme of products by wgmma on sm_90a. It shares the plan and the nodes of mma (mma.h), because
// the accumulators of a warpgroup lie as those of four warps of mma.m16n8k16 above one another, 16 rows each: a plan with one
// tile of rows a warp and no split of columns. What differs is how tiles come (TMA, by a warp of their own, into a ring of
// mbarriers) and how products read them (by descriptors, where they lie).
//
//   wgmma_box.c   tiles as boxes of tensors in device memory
//   wgmma.c       the kernel around the nodes; the scheme
#ifndef MICA_LOWER_WGMMA_H
#define MICA_LOWER_WGMMA_H

#include "lower/mma.h"

enum { BOX_DIMS = 8, BOX_RANK = 5 };
struct box_dim {
  int64_t extent, stride, box; // of the buffer; of the tile along it
  bool inner;                  // the tile's contiguous dimension
  struct mma_walk grid, loop;  // which box: sums over axes, strides in boxes
};
struct box { // a tile of operands: where it is in device memory, in pieces of `chunk` columns
  int ndims;
  struct box_dim dim[BOX_DIMS]; // slowest first
  int64_t chunk, chunks;
};
// False with p->why set where TMA cannot bring the tile.
bool box_make(struct mma_plan *p, const struct mma_tile *t, struct box *out);
// "[extents : strides]" of the buffer, and ".tile([..])[..]" of the piece `chunk` at iteration `it`.
const char *box_type(const struct mma_plan *p, const struct box *b);
const char *box_view(const struct mma_plan *p, const struct box *b, const char *it, const char *chunk);

#endif

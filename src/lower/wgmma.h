// wgmma: inside wgmma*.c, the scheme of products by wgmma on sm_90a. It shares the plan and the nodes of mma (mma.h), because
// the accumulators of a warpgroup lie as those of four warps of mma.m16n8k16 above one another, 16 rows each: a plan with one
// tile of rows a warp and no split of columns. What differs is how tiles come (TMA, by a warp of their own, into a ring of
// mbarriers) and how products read them (by descriptors, where they lie).
//
//   wgmma_box.c      tiles as boxes of tensors in device memory
//   wgmma_plan.c     what the scheme takes; the plan at some knobs
//   wgmma_product.c  products, and two of them that run across iterations
//   wgmma.c          the kernel around the nodes; the scheme
#ifndef MICA_LOWER_WGMMA_H
#define MICA_LOWER_WGMMA_H

#include "lower/mma.h"

enum { BOX_DIMS = 8, BOX_RANK = 5 };
struct box_dim {
  int64_t extent, stride, box; // of the buffer; of the tile along it
  bool inner;                  // the tile's contiguous dimension
  bool rows;                   // all rows, of which a block has a piece
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

enum wg_knob { WG_GROUPS, WG_STAGES, WG_BLOCKS, WG_CHAIN, WG_ROWS, WG_STEP };
enum { WG_MOST = 4 };
struct wg_plan {
  struct mma_plan p;
  struct box box[MMA_TILES];
  int groups;
  int64_t blocks, items; // launched, and of the block graph
  bool walks;            // blocks walk over items, since there are more of these
  bool any_fixed, any_varying;
  int computing, bringing; // registers of a thread
  const struct mma_product *first, *second; // of a chain that runs across iterations, or NULL
};

// ---- wgmma_plan.c ----
// False with the reason in why.
bool wgmma_plan(struct wg_plan *w, const struct lower_job *j, struct mma_anew to, char why[160]);
bool wgmma_fit(struct wg_plan *w, const struct knobs *k);
int wgmma_copies(const struct wg_plan *w); // of a tile that does not change with the loop
bool wgmma_reads_tile(const struct mma_plan *p, const struct mma_tile *t); // do others than products?

// ---- wgmma_product.c ----
void wgmma_stage(struct mma_kernel *k, const struct wg_plan *w); // @n counts iterations of all items, @stage is the ring's
const char *wgmma_last_stage(struct mma_kernel *k); // of the last iteration of an item
void wgmma_release(struct mma_kernel *k, const char *who, const char *which); // of a stage, by the threads for which `who` holds
void wgmma_commit(struct mma_kernel *k);
void wgmma_wait(struct mma_kernel *k, int left); // until so many groups of products are under way
void wgmma_chain(struct mma_kernel *k, const struct wg_plan *w);

#endif

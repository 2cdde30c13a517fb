// wgmma: shared inside wgmma*.c, the scheme of products by wgmma on sm_90a. It shares the plan and the values of mma (mma.h). The accumulators of a
// warpgroup have the layout of four warps of mma.m16n8k16 with 16 rows each: a plan with one tile of rows for each warp and no split columns. The
// differences: one warp copies tiles by TMA into a ring of mbarriers, and products read them in shared memory by descriptors.
//
//   wgmma_box.c      tiles as boxes of tensors in device memory
//   wgmma_plan.c     what the scheme supports; the plan for given knobs
//   wgmma_store.c    results by TMA
//   wgmma_queue.c    without a loop: a queue of right operands, vectors in shared memory
//   wgmma_cost.c     counts work for the cost model
//   wgmma_order.c    the order of blocks
//   wgmma_pair.c     pairs of blocks that share tiles
//   wgmma_split.c    clusters of blocks that share the sum of an item: the plan
//   wgmma_join.c     the same: the text
//   wgmma_ahead.c    prefetches of data that the end of an item reads
//   wgmma_end.c      matrices that the end of an item reads, by TMA
//   wgmma_choice.c   settings of the knobs
//   wgmma_product.c  products, and the ring that they read
//   wgmma_chain.c    two products that overlap across iterations
//   wgmma_items.c    the items of a block
//   wgmma_turns.c    warpgroups that take items alternately
//   wgmma.c          the frame of the kernel; the scheme
#ifndef MICA_LOWER_WGMMA_H
#define MICA_LOWER_WGMMA_H

#include "lower/mma.h"

enum { BOX_DIMS = 8, BOX_RANK = 5 };
struct box_dim {
  int64_t extent, stride, box; // of the buffer; of the tile along it
  bool inner;                  // the tile's contiguous dimension
  bool apart;                  // the box is longer, what lies behind are zeros: nothing continues it
  bool rows;                   // all rows, of which a block has a piece
  bool ragged, clipped;        // the loop, or blocks go on along it, and the last has less of it
  int64_t parts;               // of a box, of which this is number `part`, as text; NULL: the whole box
  const char *part;
  int64_t shift;                // the number of the first box
  struct lower_walk grid, loop; // which box: that plus sums over axes, strides in boxes
};
struct box { // a tile of operands: where it is in device memory, in pieces of `chunk` columns
  int ndims;
  struct box_dim dim[BOX_DIMS]; // slowest first
  int64_t chunk, chunks;
};
// False with p->why set where TMA cannot bring the tile, or what an access has in these rows and columns.
bool box_of(struct mma_plan *p, const struct plan_access *a, const struct lower_space *rows, const struct lower_space *cols, struct box *out);
bool box_make(struct mma_plan *p, const struct mma_tile *t, struct box *out);
// "[extents : strides]" of the buffer, and ".tile([..])[..]" of the piece `chunk` at iteration `it`.
const char *box_type(const struct mma_plan *p, const struct box *b);
const char *box_view(const struct mma_plan *p, const struct box *b, const char *it, const char *chunk);
const char *box_shape(const struct mma_plan *p, const struct box *b); // ".reshape(..)" of a piece in shared memory to the box's dimensions

enum wg_knob {
  WG_GROUPS,
  WG_STAGES,
  WG_BLOCKS,
  WG_CHAIN,
  WG_STORE,
  WG_POLY,
  WG_LAST,
  WG_ROWS,
  WG_STEP,
  WG_PAIR,
  WG_WIDE,
  WG_BROUGHT,
  WG_COLS,
  WG_SPLIT,
  WG_ALTERNATE
};                                                 // WG_LAST: which way a tail is done
enum wg_chain { WG_SINGLE, WG_CHAINED, WG_TURNS }; // of products: none; two across iterations; by warpgroups in turns
// warpgroups; of exponentials, one out of so many by a polynomial; columns of a product; blocks that share an item
enum { WG_MOST = 4, WG_SHARE = 4, WG_COLUMNS = 256, WG_SPLIT_MOST = 4 };
struct wg_store { // of a saver
  bool sent;      // by TMA, where the plan has places
  struct box box; // all of it; along each dimension boxes of `piece` make up 64 rows, `pieces` of them within the tile
  int64_t piece[BOX_DIMS], pieces[BOX_DIMS], below[BOX_DIMS]; // below: pieces of faster dimensions
};
struct wg_plan {
  struct mma_plan p;
  struct box box[MMA_TILES];
  struct wg_store *store;    // by saver
  enum mma_section *section; // by value, before some are done by pieces
  int64_t store_chunk;       // columns of a piece of a result; 0: none goes by TMA
  int wide, along;           // warpgroups that share the columns of results that no product sums over; and the rows of an item
  int groups, places;    // groups: all that compute; places: for pieces of results in shared memory, a warpgroup; 0: fragments are stored as they are
  int64_t blocks, items; // launched, and of the block graph
  bool walks;            // blocks walk over items, since there are more of these
  bool any_fixed, any_varying, any_end;     // tiles: for all iterations, for one, for what follows the loop
  int end_copies;                           // of the last kind
  int computing, bringing;                  // registers of a thread
  bool divides, two;                        // warpgroups ask for these registers; for those of two blocks on a multiprocessor
  const struct mma_product *first, *second; // of a chain that runs across iterations, or NULL
  bool turns;                               // warpgroups begin products in turns
  bool alternate;                           // warpgroups take the block's items alternately; each computes all rows of its items
  int pair_axis;                            // along which two blocks are a pair that shares tiles; -1: none
  bool shared[MMA_TILES];                   // by tile: each block of a pair brings one half
  int split;                                // blocks of a cluster that share an item's iterations; 0: one block has all. Pairs of them share tiles
  int slices;                               // of columns, of which each of these blocks finishes one; 1: each finishes some warpgroups
  int rings;                                // 2: tiles of the second product have barriers of their own, behind those of the first
};

// ---- wgmma_plan.c ----
// brought: matrices that lanes read in the loop come by TMA, too. False with the reason in why.
bool wgmma_plan(struct wg_plan *w, const struct lower_job *j, int brought, char why[160]);
bool wgmma_may_bring(const struct wg_plan *w);                       // of a plan that brings none: whether there is a matrix to bring
bool wgmma_loads_matrix(const struct mma_plan *p, int v, int *cols); // by lanes from device memory; sets the list of its columns, or -1
bool wgmma_lanes_read(const struct mma_plan *p);                     // some tiles of the ring, not products alone
bool wgmma_fit(struct wg_plan *w, const struct knobs *k);
int wgmma_readers(const struct wg_plan *w);                                // warpgroups of a block that read a stage
int wgmma_copies(const struct wg_plan *w);                                 // of a tile that does not change with the loop
bool wgmma_reads_tile(const struct mma_plan *p, const struct mma_tile *t); // do others than products?
const char *wgmma_rows(const struct mma_plan *p);                          // which of the warpgroups along rows this is, as text
const char *wgmma_part(const struct mma_plan *p);                          // and of those along columns

// ---- wgmma_store.c ----
void wgmma_store_plan(struct wg_plan *w);
void wgmma_store_sections(struct wg_plan *w); // of operators that are done by pieces; of knobs
int64_t wgmma_store_bytes(const struct wg_plan *w);
bool wgmma_sends(const struct wg_plan *w, int save);
const char *wgmma_store_type(const struct wg_plan *w, int save); // of %to<tile>
void wgmma_store_declare(struct mma_kernel *k, const struct wg_plan *w);
void wgmma_store(struct mma_kernel *k, const struct wg_plan *w, int save);
void wgmma_store_finish(struct mma_kernel *k, const struct wg_plan *w); // before a warpgroup ends
// ---- wgmma_cost.c ----
void wgmma_count(const struct wg_plan *w, struct kernel_counts *out);

// ---- wgmma_queue.c ----
void wgmma_queue_declare(struct mma_kernel *k);
void wgmma_queue_init(struct mma_kernel *k, const struct wg_plan *w);
void wgmma_queue_bring(struct mma_kernel *k, const struct wg_plan *w);
void wgmma_queue_arrive(struct mma_kernel *k, const struct mma_tile *t); // before the products that read the tile
void wgmma_queue_leave(struct mma_kernel *k, const struct mma_tile *t);  // after them
int64_t wgmma_vector_bytes(const struct wg_plan *w);
void wgmma_vector_declare(struct mma_kernel *k, const struct wg_plan *w);
void wgmma_vector_load(struct mma_kernel *k);

// ---- wgmma.c ----
// Pairs of mbarriers, by these names: full of one arrival, empty when so many readers have left.
void wgmma_init(struct mma_kernel *k, int slots, const char *full, const char *empty, int readers);
enum wgmma_ring { WG_END = -2, WG_FIXED }; // tiles that are in no ring
void wgmma_bring(struct mma_kernel *k, const struct wg_plan *w, int ring, const char *stage, const char *it, const char *barrier);
void wgmma_bring_tile(struct mma_kernel *k, const struct wg_plan *w, const struct mma_tile *t, const char *stage, const char *it,
                      const char *barrier);
// ---- wgmma_ahead.c ----
void wgmma_fetch_late(struct mma_kernel *k, const struct wg_plan *w); // to L2, at the begin of an item
// ---- wgmma_end.c ----
bool wgmma_end_reads(const struct mma_plan *p, int v, int *cols); // whether only the end of an item reads the matrix; sets the list of its columns
bool wgmma_is_end(const struct mma_tile *t);                      // whether the tile is such a matrix
bool wgmma_end_fit(struct wg_plan *w);                            // after turns
void wgmma_end_declare(struct mma_kernel *k, const struct wg_plan *w);
void wgmma_end_init(struct mma_kernel *k, const struct wg_plan *w);
void wgmma_end_bring(struct mma_kernel *k, const struct wg_plan *w); // in an iteration of the loop that copies tiles
void wgmma_end_wait(struct mma_kernel *k, const struct wg_plan *w);  // of warpgroups that compute
void wgmma_end_leave(struct mma_kernel *k, const struct wg_plan *w); // after their last read

// ---- wgmma_pair.c ----
bool wgmma_pair_fit(struct wg_plan *w, int pair);
int wgmma_pair_size(const struct wg_plan *w); // blocks that share tiles: 2, or 1
// The number of a block in the cluster, from its share of the iterations and its half of a pair.
const char *wgmma_pair_peer(struct mma_kernel *k, const struct wg_plan *w, const char *rank, const char *half);
bool wgmma_shares(const struct wg_plan *w, int tile);
void wgmma_pair_names(struct mma_kernel *k, const struct wg_plan *w); // prints @half, and @both: the bits of the pair in a cluster of several
void wgmma_bring_half(struct mma_kernel *k, const struct wg_plan *w, const struct mma_tile *t, const char *stage, const char *it,
                      const char *barrier);
void wgmma_pair_meet(struct mma_kernel *k);
// ---- wgmma_split.c ----
bool wgmma_split_fit(struct wg_plan *w, int split);       // after all else is set
int wgmma_cluster(const struct wg_plan *w);               // its blocks; 1: none
int wgmma_own_groups(const struct wg_plan *w);            // warpgroups of which a block finishes some columns, at most
bool wgmma_is_sliced(const struct mma_plan *p, int cols); // whether accumulators have these columns
double wgmma_split_seconds(const struct wg_plan *w);      // until a block has the sums of the others
// ---- wgmma_join.c ----
const char *wgmma_split_bounds(struct mma_kernel *k, const struct wg_plan *w); // prints @rank, @from and @count; the number of the item
void wgmma_split_declare(struct mma_kernel *k, const struct wg_plan *w);
void wgmma_split_begin(struct mma_kernel *k, const struct wg_plan *w);
void wgmma_split_join(struct mma_kernel *k, const struct wg_plan *w);      // after the loop: adds up; may open what only some warpgroups finish
void wgmma_split_accompany(struct mma_kernel *k, const struct wg_plan *w); // of the warpgroup that copies tiles
// ---- wgmma_choice.c ----
int wgmma_choices(const struct lower_job *j, int most, struct knobs *out, char why[160]);
// ---- wgmma_order.c ----
void wgmma_item(struct mma_kernel *k, const struct wg_plan *w, const char *item); // @bid of so many-th item

// ---- wgmma_product.c ----
void wgmma_stage(struct mma_kernel *k, const struct wg_plan *w); // @n counts iterations of all items, @stage is the ring's
const char *wgmma_slot(struct mma_kernel *k, const struct wg_plan *w, int value, const char *stage);    // of its barriers
const char *wgmma_last_stage(struct mma_kernel *k, const struct wg_plan *w);                            // of the last iteration of an item
void wgmma_release(struct mma_kernel *k, const struct wg_plan *w, const char *when, const char *which); // of a stage, where `when` holds; ""
void wgmma_commit(struct mma_kernel *k);
void wgmma_wait(struct mma_kernel *k, int left);                           // until so many groups of products are under way
const char *wgmma_left(struct mma_kernel *k, const struct mma_product *x); // operands as text
const char *wgmma_right(struct mma_kernel *k, const struct mma_product *x, const char *stage);
void wgmma_multiply(struct mma_kernel *k, const struct mma_product *x, const char *left, const char *right, const char *into);

// ---- wgmma_items.c ----
bool wgmma_counts(const struct wg_plan *w);                           // whether items have different numbers of iterations, which a block counts
void wgmma_item_alone(struct mma_kernel *k, const struct wg_plan *w); // prints @bid of the only item
void wgmma_items_open(struct mma_kernel *k, const struct wg_plan *w, bool in_turns); // the loop over items; in_turns: those of a warpgroup
void wgmma_items_close(struct mma_kernel *k, const struct wg_plan *w);
const char *wgmma_iterations_before(struct mma_kernel *k, const struct wg_plan *w);

// ---- wgmma_turns.c ----
bool wgmma_turns_fit(struct wg_plan *w, int alternate);              // after blocks are counted
void wgmma_take_turn(struct mma_kernel *k, const struct wg_plan *w); // before the loop of an item
void wgmma_give_turn(struct mma_kernel *k, const struct wg_plan *w); // when all its stages have arrived

// ---- wgmma_chain.c ----
void wgmma_declare_turns(struct mma_kernel *k, const struct wg_plan *w);
void wgmma_begin_turns(struct mma_kernel *k, const struct wg_plan *w);
void wgmma_chain(struct mma_kernel *k, const struct wg_plan *w);

#endif

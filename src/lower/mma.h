// mma: shared inside mma*.c, the scheme of products by mma.sync. It accepts every block graph whose products agree on their rows.
//
// Glossary
//   rows, batch  letters of the rows of products. Batch letters occur in right operands too, so a tile of 16 rows must stay within one batch
//                index: the rows of each batch index are padded to a multiple of 16
//   columns      all other letters of a tensor, as an ordered list. The columns of a left operand are the letters that the product sums over
//   fragment     a tensor in registers, in the layout of accumulators of mma.m16n8k16: [MT, NT].[2, 1].[1, 2], with MT tiles of 16 rows and NT of
//                8 columns for each warp. Without rows or columns, that extent is 1. Rounded to the operands' type, it is a left operand
//   tile         the part of a tensor that an iterator has and a product reads, in shared memory: [out, in], `in` contiguous in device memory
//   queue        in a kernel without a loop: right operands of one shape that are read one after another, such as the weights of layers. They
//                share a few slots, and the next ones are copied while one is read
//   side         values computed from iterators alone for a right operand, such as the norm of keys. They have fragments of their own, whose
//                columns are the reduced letters. The result is written back to shared memory
//   split        columns that the warps along WN share. If a product or a reduction sums over them, each warp has a part of the result. Parts are
//                added through shared memory, those of accumulators after the loop
//   cut          the number of rows of a block after re-tiling (plan/retile.h). The last block may have fewer
//
//   mma_cut.c      re-tiled grid, loop or columns
//   mma_ragged.c   a last iteration, or a last block of columns, that is smaller than the others
//   mma_plan.c     facts of a block graph that do not depend on knobs: rows, columns, tiles, sections
//   mma_shape.c    which values the scheme supports; the columns of each
//   mma_section.c  values before, in and after the loop, and their order
//   mma_fit.c      the plan for given knobs: tiles of a warp, registers, shared memory; the cost
//   mma_live.c     registers                          mma_walk.c     addresses as text
//   mma_load.c     copies into shared memory          mma_product.c  operands, products
//   mma_anywhere.c copies of rows that begin anywhere
//   mma_value.c    fragments from device memory       mma_compute.c  elementwise operators, reductions, accumulators
//   mma_combine.c  adds parts of warps                mma_cost.c     counts work for the cost model
//   mma_side.c     computed right operands            mma_hidden.c   masked iterations
//   mma_save.c     savers                             mma_pad.c      sizes that fragments do not divide
//   mma_store.c    results whose rows begin anywhere  mma_store_rows.c  the same if rows are not adjacent
//   mma_parts.c    blocks that share a loop           mma_late.c     the order of blocks, longest first
//   mma.c          the frame of the kernel; the scheme
#ifndef MICA_LOWER_MMA_H
#define MICA_LOWER_MMA_H

#include "lower/lower_emit.h"
#include "lower/tail.h"
#include "plan/retile.h"
#include "plan/passes.h"

enum {
  MMA_RULES = KERN_BIT(RSQRT) | KERN_BIT(RECIPROCAL) | KERN_BIT(LIMIT) | KERN_BIT(EXP2) | KERN_BIT(DIFFERENCE) | KERN_BIT(CONSTANTS) |
              KERN_BIT(SCALED) | KERN_BIT(SUMS) | KERN_BIT(WEIGHTS) | KERN_BIT(SELECT)
};
enum { MMA_PIECE = 8 }; // elements of a piece of a row that begins anywhere
enum { MMA_LISTS = 48, MMA_TILES = 48, MMA_CUTS = 24 };
enum mma_knob { MMA_WM, MMA_WN, MMA_BY, MMA_STAGES, MMA_LAST, MMA_ROWS, MMA_STEP, MMA_AHEAD, MMA_HOLD, MMA_PARTS }; // MMA_LAST: way of a tail
enum { MMA_MOST_AHEAD = 8, MMA_MOST_PARTS = 64 }; // iterations that may be prefetched; blocks that share a loop
enum { MMA_BY_COLUMNS, MMA_BY_SUMS };             // how warps along WN divide work

struct mma_cols {
  struct lower_space list;
  uint32_t has;
  int64_t size, padded; // padded: to whole fragments (mma_pad.c)
  bool product, summed; // product: some product computes these columns; summed: some product sums over them
  // set for the knobs
  bool split;
  int nt;           // tiles of 8 columns for each warp
  bool split_after; // split after the loop, when parts of sums are combined
  const char *from; // first tile of a thread, as text, if results are computed in pieces; NULL: 0
};
struct mma_tile {
  int value, iter, tensor; // value: the load; iter: its iterator; tensor: the tensor whose name its memory has
  struct lower_space out, in;
  int64_t rows, cols;                  // of the tile: extents of out and in, including padding with zeros
  int64_t own_rows, own_cols, batches; // extents without padding; the share of own_rows of one batch index
  int64_t run, every;                  // rows of one batch index; distance between batch indices
  int64_t stride;                      // elements between rows
  int swizzle[3];                      // 0 bits: none
  int width;                           // elements copied at once
  bool anywhere;                       // rows begin at any element, and are copied in pieces through registers (mma_anywhere.c)
  bool varying;                        // it has a pipeline stage for each iteration
  bool turned;                         // a left operand with contiguous rows
  bool cut;                            // a left operand of which a block has `cut` rows
  int reads;                           // number of products with it as left operand
  bool lanes;                          // no product reads it (mma_lane_tile)
  int due;                             // order of the first reads of tiles
  // set for the knobs
  int slot;         // number in the queue; -1: it has separate memory
  int buffer;       // the tensor whose name the memory has
  const char *copy; // of a tile that does not change with the loop: which of several copies, as text; NULL: there is one
};
enum mma_section {
  MMA_PRE,
  MMA_LOOP,
  MMA_POST,
  MMA_SIDE,
  MMA_SENT, // computed with a result that is stored in pieces (wgmma_store.c)
  MMA_CONST
};                 // MMA_CONST: constants; their section is ignored
struct mma_shape { // the shape of a value in registers
  bool rows;
  int cols; // a list; -1: none
};
struct mma_product {
  int out, a, b; // values; oriented: swapped and transposed if the product's rows are columns of others
  uint32_t rows, cols, sum, batch;
  int sum_cols, out_cols; // lists
  int into;               // the accumulator that it adds to directly; -1: none
  int joins;              // the sum of products whose registers it adds to, by wgmma or for parts of f32; -1: none
  int leads;              // number of the first product of that sum; its own if there is none
  bool goes_on;           // a later product adds to that sum, too
  const struct chain_product *chain;
};
struct mma_side {
  int root, tile; // root: the value that products read; tile: the tile that it overwrites
  bool varying;
  bool *member;          // for each value: whether it belongs to the side computation
  struct mma_plan *plan; // its fragments: all warps divide the rows
};
struct mma_plan {
  const struct lower_job *job;
  const struct norm *n;
  struct kern k; // its axes are the letters, then axes of the grid and the loop
  char *why;
  struct tail *tails[TAIL_WAYS], *tail; // for each implementation, NULL: not possible; tail: that of the knobs, NULL: no tail
  uint32_t row_letters, batch_letters;
  struct lower_space batch, rows;
  int64_t nbatch, nrows, padded; // nrows: rows of one batch index; padded: to a multiple of 16
  int64_t cut;                   // 0: as in the block graph; otherwise the first axis counts pieces of `cut` rows
  int ncols, ntiles, nproducts;
  struct mma_cols cols[MMA_LISTS];
  struct mma_tile tile[MMA_TILES];
  struct mma_product *product;
  int *product_of;           // for each value; -1
  int *tile_of;              // for each value; -1
  struct mma_shape *shape;   // for each value
  enum mma_section *section; // for each value
  bool *folded;              // for each value: a sum of products that are added to an accumulator one after another
  bool may_hide, hides;      // a condition on indices masks iterations, which are skipped (mma_hidden.c)
  struct kern_hidden hidden;
  bool *own, *added;    // for each value: computed only if the condition masks something; and of these, only if rows add something to unmasked scores
  double share, partly; // modelled shares: of the iterations that remain, and of these the ones with masked elements
  bool backwards;       // the last blocks have the most iterations, and come first
  int late;             // the only axis along which blocks have more and more iterations; -1: none (mma_late.c)
  int norder, *order;   // computed values in their order
  enum dtype type;      // of the operands
  bool wg, wg_async;    // wg: products by wgmma (wgmma.h); wg_async: those of one iteration run while the next one's are issued
  int poly;             // one tile of exponentials in this many is computed by multiplications; 0: none
  const char *wg_copy;  // the copy of loop-invariant tiles, as text
  int64_t iterations;
  int nsides;
  struct mma_side side[MMA_TILES];
  const struct mma_tile *source; // in the plan of a side computation: its tile
  // set for the knobs
  int wm, wn, mt, stages, threads;
  int ahead;                 // iterations whose tiles are prefetched to L2 before the previous kernel has ended
  bool hold;                 // the next kernel may begin only after the wait (rows_ahead.c explains)
  int queued;                // tiles in the queue; 0: none. It has `stages` slots
  int parts;                 // blocks that share the iterations of the loop; 0: each has all
  bool *factor;              // for each value: factors of rescaled sums depend on it; NULL without parts
  bool runs;                 // results whose rows begin anywhere are stored by runs (mma_store.c)
  int64_t shared, registers; // shared: bytes of a block; registers: estimate for a thread
};

// ---- mma_cut.c ----
const struct lower_job *mma_retile(const struct lower_job *j, struct norm_retile to, char why[160]); // NULL: impossible; why has the reason
void mma_cut_rows(struct mma_plan *p);                                                               // the order of rows in a re-tiled grid
int64_t mma_block_rows(const struct mma_plan *p);                                                    // including padding
const char *mma_cut_row(const struct mma_plan *p, const char *row, bool within); // index among all rows, as text; within: clamped to existing rows
bool mma_cut_ragged(const struct mma_plan *p);                                   // whether the last block has fewer rows
struct norm *mma_block_norm(const struct mma_plan *p);                           // the norm with as many rows as a block has
int mma_cuts(const struct lower_job *j, int64_t least, struct norm_retile out[MMA_CUTS], char why[160]); // re-tilings worth trying
// ---- mma_ragged.c ----
bool mma_clipped(const struct mma_plan *p, int cols);           // whether the last block has fewer of these columns
const char *mma_clip_count(const struct mma_plan *p, int unit); // whether the block has at least that many units
bool mma_ragged(const struct mma_plan *p, int cols);            // whether the last iteration has fewer of these columns
bool mma_ragged_rows(const struct mma_plan *p);                 // the same of rows, which only a computed operand has
bool mma_ragged_fits(struct mma_plan *p);                       // whether the scheme masks everything that depends on them
const char *mma_ragged_index(const struct mma_plan *p, const char *at, int unit, const char *it); // clamped to those of iteration `it`
const char *mma_ragged_count(const struct mma_plan *p, int unit, const char *it); // whether the iteration has at least that many units
int64_t mma_ragged_last(const struct mma_plan *p);                                // the number of elements in the last iteration
// ---- mma_plan.c, mma_shape.c, mma_section.c, mma_fit.c ----
int mma_plan(struct mma_plan *p, const struct lower_job *j, char why[160]); // 0: impossible, with the reason in why, or in j's if why is NULL
bool mma_refuse(struct mma_plan *p, const char *fmt, ...) PRINTF(2, 3);     // sets the reason; returns false
bool mma_lane_tile(struct mma_plan *p, int value, int cols);                // makes a tile of a matrix that only elementwise operators read
int mma_cols_of(struct mma_plan *p, int value, uint32_t letters);           // the number of the list, which is added if it is missing; -1: no room
int mma_cols_with(const struct mma_plan *p, uint32_t letters);              // the number of the list; -1: there is none
bool mma_shapes(struct mma_plan *p, const bool *only);                      // only: for these values; NULL: for all but side computations
bool mma_sums_parts(const struct mma_plan *p, int fold);
void mma_sections(struct mma_plan *p); // assigns values to sections and orders them
static inline const struct kern_value *mma_at(const struct mma_plan *p, int v) { return &p->k.v[v]; }
static inline bool mma_loads(const struct mma_plan *p, int v) { return p->k.v[v].kind == KERN_LOAD; }
// The iterator that a load reads by, and its access.
static inline int mma_iter(const struct mma_plan *p, int load) { return p->n->iter_of[p->n->block->nodes[p->k.v[load].about - 1].out]; }
static inline const struct plan_access *mma_access(const struct mma_plan *p, int load) { return &p->n->iter[mma_iter(p, load)]; }
static inline uint32_t mma_letters(const struct mma_plan *p, axis_set s) { return (uint32_t)(s & p->k.letters); }
static inline uint32_t mma_has(const struct mma_plan *p, int v) { return mma_letters(p, p->k.v[v].axes); }
static inline uint32_t mma_gone(const struct mma_plan *p, int v) { return mma_letters(p, p->k.v[v].folded); } // letters that a reduction removes
static inline bool mma_varies(const struct mma_plan *p, int v) { return p->k.v[v].axes & p->k.loops; }
// The product that computes the value, and the tile that it is loaded into; NULL: none.
static inline const struct mma_product *mma_product_at(const struct mma_plan *p, int v)
{
  return p->product_of[v] < 0 ? NULL : &p->product[p->product_of[v]];
}
static inline const struct mma_tile *mma_tile_at(const struct mma_plan *p, int v) { return p->tile_of[v] < 0 ? NULL : &p->tile[p->tile_of[v]]; }
bool mma_reduces(const struct kern_value *v);          // a sum or a maximum, over iterations or letters
bool mma_accumulates(const struct mma_plan *p, int v); // whether it is an accumulation over iterations
bool mma_reads(const struct mma_plan *p, int v, int operand);
bool mma_read_in(const struct mma_plan *p, int value, unsigned sections); // whether only values of these sections read it; sections as bits
int mma_running(const struct mma_plan *p, int like, enum kern_kind kind); // the same running maximum; -1: there is none
int mma_last_of(const struct mma_plan *p, int v);             // the running maximum whose last value this maximum over all iterations is; -1: none
bool mma_side_add(struct mma_plan *p, int root, int *source); // source: the iterator that has all of the operand's elements
bool mma_side_plan(struct mma_plan *p, struct mma_side *s);
void mma_side_fit(struct mma_plan *p);
void mma_join_sums(struct mma_plan *p); // merges sums of products that use the same registers
bool mma_adds_products(const struct mma_plan *p, int accumulator);
bool mma_partial(const struct mma_plan *p, int accumulator);   // whether warps have parts of its sum
static inline bool mma_joined(const struct mma_plan *p, int v) // whether it is a sum of products that was merged
{
  for (int i = 0; i < p->nproducts; i++)
    if (p->product[i].joins == v) return true;
  return false;
}
// Whether each warp has a part of the product's sum. Never with wgmma, which reads operands in shared memory.
static inline bool mma_sums_part(const struct mma_plan *p, const struct mma_product *x) { return !p->wg && p->cols[x->sum_cols].split; }
int64_t mma_combine_bytes(const struct mma_plan *p, struct mma_shape s);
bool mma_fit(struct mma_plan *p, const struct knobs *k);
bool mma_tail_fit(struct mma_plan *p, int way, int threads); // for that many threads; adds shared memory
// ---- mma_pad.c ----
int64_t mma_pad(int64_t size);                                                // `size` columns or terms of a sum, rounded up to whole fragments
int64_t mma_padded(const struct mma_plan *p, uint32_t letters, int64_t size); // the padded size of letters that are not columns
bool mma_pads(const struct mma_plan *p, int cols);                            // whether the list is padded
void mma_pad_tile(const struct mma_plan *p, struct mma_tile *t, bool left);   // sets the tile's padding from its lists of columns
const char *mma_tile_row(const struct mma_plan *p, const struct mma_tile *t, const char *row);
const char *mma_column(const struct mma_plan *p, int cols, int unit, int e);
const char *mma_column_exists(const struct mma_plan *p, int cols, int unit, int e);
// ---- mma_hidden.c ----
struct mma_kernel;
void mma_hidden_plan(struct mma_plan *p);
// The share of iterations that persistent blocks execute, which take items as wgmma_items.c does. The longest block counts.
double mma_hidden_walk(const struct mma_plan *p, int64_t items, int64_t blocks);
void mma_hidden_bounds(struct mma_kernel *k, bool waited);           // prints @from and @count
const char *mma_iteration(const struct mma_plan *p, const char *it); // iteration of the graph for the loop's iteration `it`
const char *mma_iterations(const struct mma_kernel *k);              // number of the loop's iterations, as text
bool mma_read_hidden(const struct mma_plan *p, int load);            // whether the load is only used to compute the masked score
const char *mma_partly_hidden(struct mma_kernel *k);                 // the condition that the iteration has masked elements
// ---- mma_late.c ----
bool mma_changes(const struct mma_plan *p, const struct mma_tile *t, int axis); // whether blocks along the axis have other tiles
// Prints a block's number, as terms, from its place in the order: shorter blocks first in each section. Extents and strides of grid axes are in blocks.
void mma_late_text(struct mma_kernel *k, const int64_t *extent, const int64_t *stride, const char *place, struct str *out);
// ---- mma_cost.c ----
void mma_count(const struct mma_plan *p, const bool *sent, struct kernel_counts *out); // sent: savers by TMA, or NULL
// ---- mma_parts.c ----
bool mma_parts_fit(struct mma_plan *p, int parts);       // sets p->parts
int mma_parts_near(const struct mma_plan *p, int parts); // at most that many, all of which have iterations; 0: none
int64_t mma_parts_each(const struct mma_plan *p);        // iterations of a block, at most
int64_t mma_parts_words(const struct mma_plan *p);       // f32 words that a thread of a block leaves
double mma_parts_cost(const struct mma_plan *p);         // s: from the first load of the last block of a group on
int64_t mma_blocks(const struct mma_plan *p);            // of the kernel, without limit
void mma_parts_arguments(const struct mma_plan *p, struct text *t, struct lower_out *out, struct str *writes);
void mma_parts_bounds(struct mma_kernel *k); // prints @bid, @part, @from and @count
// After the loop: combines the accumulators of all parts in the last block, and opens the text that only this block executes.
void mma_parts_meet(struct mma_kernel *k);
// ---- mma_live.c ----
int64_t mma_live(const struct mma_plan *p); // registers of a thread, without addresses
int64_t mma_fragment_registers(const struct mma_plan *p, struct mma_shape s);

// ---- mma_walk.c ----
void mma_walk_text(const struct lower_walk *w, const char *index, struct str *out); // for any index
// Strides of the list's letters, given for each letter, in units of `unit` elements; the index counts index_unit elements of the fastest letter at
// once.
void mma_walk_list(const struct mma_plan *p, const struct lower_space *l, const int64_t *stride, int unit, int index_unit, const char *index,
                   struct str *out);
// Prints offset, grid and loop terms of an access at iteration `it`.
void mma_walk_base(const struct mma_plan *p, const struct plan_access *a, int unit, const char *it, struct str *out);
// The largest number of elements, at most `most`, that are contiguous along the list's fastest letter for every position of the access.
int mma_width(const struct mma_plan *p, const struct plan_access *a, const struct lower_space *l, int most);
bool mma_lies_along(const struct mma_plan *p, const struct plan_access *a, const struct lower_space *l); // whether the fastest letter has stride 1
void mma_list_strides(const struct norm *n, const struct lower_space *l, int64_t stride[MAX_LETTERS]);   // for a dense layout
bool mma_list_same(const struct lower_space *a, const struct lower_space *b);
static inline uint32_t mma_list_has(const struct lower_space *l) { return (uint32_t)space_axes(l); }
void mma_list_add(const struct norm *n, struct lower_space *l, int count, const int8_t *letter,
                  uint32_t wanted); // adds the wanted letters that it lacks
void mma_list_add_of(const struct norm *n, struct lower_space *l, const struct norm_tensor *t, uint32_t wanted); // in the order of its dimensions

// ---- state while the kernel is written ----
struct mma_kernel {
  const struct mma_plan *p; // another plan after the loop, if more columns are split then
  struct arena *mem;
  struct text *t;
  const char **global;    // for each tensor of the kernel graph
  const char **reg;       // for each value: its registers; NULL: none yet
  struct mma_shape *have; // for each value: their shape
  const char **left;      // for each value: the same, rounded to a left operand
  enum mma_section section;
  int committed, arrived; // copy groups so far, and how many were waited for, without a pipeline (mma_arrive)
  bool ring;              // copies are those of the loop: late tiles are only loaded (mma_anywhere.c)
  uint32_t parts;         // letters that @p counts while an iterator is loaded in parts
};
// ---- mma.c ----
void mma_head(const struct mma_plan *p, struct text *t, int64_t blocks, struct str *reads, struct str *writes); // emit_head() for the plan
void mma_warps(struct text *t, int rows, int cols); // declares groups of threads: warps along rows and columns, quads of lanes
void mma_quads(struct text *t, int threads);
struct mma_kernel mma_kernel_new(const struct mma_plan *p, struct text *t);
void mma_section(struct mma_kernel *k, enum mma_section s); // computes its values
void mma_hoist(struct mma_kernel *k);                       // loads loop-invariant values into registers before the loop
struct mma_known {                                          // registers that are declared within a block are invalid after it
  const char **reg, **left;
  struct mma_shape *have;
};
struct mma_known mma_remember(const struct mma_kernel *k);
void mma_forget(struct mma_kernel *k, const struct mma_known *known);
void wgmma_product(struct mma_kernel *k, const struct mma_product *x, const char *into); // wgmma_product.c
// The vector's memory in shared memory; NULL: it has none. In wgmma_queue.c
const char *wgmma_vector_value(struct mma_kernel *k, const struct plan_access *a, struct mma_shape s);

const char *mma_it(const struct mma_kernel *k);                                      // the iteration, as text
const char *mma_declare(struct mma_kernel *k, struct mma_shape s, const char *type); // declares new registers
// Loops over this thread's rows, m and h, with @pr, @b and @r (clamped to bounds); no loops if not `rows`.
const char *mma_address(struct mma_kernel *k, const struct plan_access *a, struct mma_shape s, int unit, int e);
const char *mma_row_tile(const struct mma_plan *p);
void mma_rows_open(struct mma_kernel *k, bool rows);
void mma_cols_open(struct mma_kernel *k, int cols); // loops over this thread's tiles of columns, n, if there are any
const char *mma_element(struct mma_kernel *k, const char *reg, struct mma_shape s, bool pair, int e); // a register of the value within these loops
// Moves one element or a pair of columns from memory to fp32 registers, or back, through registers of this name in the type of the memory.
void mma_move(struct mma_kernel *k, enum dtype t, const char *by, bool pair, const char *reg, const char *memory, const char *how, bool back);
void mma_row_names(struct mma_kernel *k, const char *padded);                                  // prints @pr = padded, and @b and @r
void mma_row_walk(const struct mma_plan *p, const int64_t *stride, int unit, struct str *out); // for @b and @r
const char *mma_cols_index(const struct mma_plan *p, int cols, int unit);                      // index of this thread's first column of tile n
struct mma_shape mma_wanted(const struct mma_plan *p, int value, int i);                       // the shape in which it reads its operand i

void mma_zero(struct mma_kernel *k);
// ---- mma_anywhere.c ----
enum mma_copy_part { MMA_COPY_ALL, MMA_COPY_LOADS, MMA_COPY_STORES };
struct mma_copy { // text of a copy: the row among all rows, the address in device memory, row and piece of the tile, the stage
  const char *row, *at, *outer, *inner, *stage;
  enum mma_copy_part part;
};
bool mma_anywhere(const struct mma_plan *p, const struct mma_tile *t);                               // whether it is copied so
static inline int mma_piece(const struct mma_tile *t) { return t->anywhere ? MMA_PIECE : t->width; } // elements of a piece
int64_t mma_row_pieces(const struct mma_tile *t);                                                    // the last one may have fewer elements
int64_t mma_anywhere_batches(const struct mma_plan *p, const struct mma_tile *t);                    // loads of a batch are in flight together
int64_t mma_anywhere_registers(const struct mma_plan *p, const struct mma_tile *t);                  // of a thread, for a batch
bool mma_anywhere_late(const struct mma_plan *p, const struct mma_tile *t);                          // in the loop, it is stored after products
void mma_anywhere_declare(struct mma_kernel *k);                                                     // before the loop: registers of late tiles
void mma_anywhere_copy(struct mma_kernel *k, const struct mma_tile *t, const struct mma_copy *c);
int64_t mma_copy_rounds(const struct mma_plan *p, const struct mma_tile *t);  // mma_load.c: pieces that a thread copies
int64_t mma_copy_batches(const struct mma_plan *p, const struct mma_tile *t); // its batches, which wait one after another; 0: it is asynchronous
void mma_store_late(struct mma_kernel *k, const char *stage, const char *it); // mma_load.c: the stores of late tiles
void mma_mask(struct mma_kernel *k, const char *reg, struct mma_shape s, const char *value);
void mma_load_declare(struct mma_kernel *k);
void mma_load(struct mma_kernel *k, bool varying, const char *stage, const char *it);
// Work before the wait for the previous kernel: prefetches the first iterations' tiles to the L2 cache.
void mma_ahead(struct mma_kernel *k);
int mma_ahead_best(const struct mma_plan *p); // number of iterations, for the plan's knobs
// Without a pipeline: all tiles in the order of their reads, each a copy group; waits for those up to this one.
const char *mma_stage(const struct mma_plan *p, const struct mma_tile *t); // stage of its buffer, as text
int mma_stages(const struct mma_plan *p, const struct mma_tile *t);        // number of stages of its buffer
void mma_load_once(struct mma_kernel *k);
void mma_arrive(struct mma_kernel *k, const struct mma_tile *t);
void mma_wait(struct mma_kernel *k, int left); // waits until that many groups are left, in all threads
void mma_meet(struct mma_kernel *k);           // a barrier of the warps that compute
// The sum (maximum) of the values that the warps along WN have in these registers; in all of them, or in new registers if columns are split then.
const char *mma_combine(struct mma_kernel *k, const char *reg, struct mma_shape s, const char *op, bool share);
void mma_sides(struct mma_kernel *k, bool varying);
const char *mma_side_value(struct mma_kernel *k, struct mma_shape s);
void mma_product_emit(struct mma_kernel *k, const struct mma_product *x, const char *into);
bool mma_keeps_left(const struct mma_plan *p, const struct mma_product *x); // keeps all its fragments at once
void mma_cast_left(struct mma_kernel *k, const char *left, const char *from, int cols, bool back);
const char *mma_left(struct mma_kernel *k, int value, int cols);               // fragments of a left operand
const char *mma_value(struct mma_kernel *k, int value, struct mma_shape want); // registers of an operand
const char *mma_load_parts(struct mma_kernel *k, int fold);                    // sum or maximum over the parts of an iterator
void mma_compute(struct mma_kernel *k, int value);
void mma_declare_accumulators(struct mma_kernel *k);
void mma_finish_accumulators(struct mma_kernel *k);
void mma_save(struct mma_kernel *k, int save);
const char *mma_once(struct mma_kernel *k, struct mma_shape s); // the condition on warp and lane under which a thread stores
// The condition that row @pr exists, and that it is the first of those without the letters that `has` lacks; empty: it always holds.
const char *mma_row_exists(struct mma_kernel *k, uint32_t has);
// ---- mma_store.c, mma_store_rows.c ----
enum { MMA_VECTOR = 16 }; // bytes of a vector
struct mma_runs {         // how a tile of 16 rows is stored; all 0: not by runs
  int vector;             // elements of a vector
  bool adjacent;          // the tile is one run; otherwise each row of a warp is one
  int64_t most;           // elements of a run
  int64_t pitch;          // vectors between runs in shared memory
  int tiles;              // tiles of 8 columns that a warp writes at once
  int ring;               // vectors of the ring of a row
};
struct mma_runs mma_runs_of(const struct mma_plan *p, int save);
// Sets p->runs, and adds shared memory, if results are faster that way. seconds: the modelled time of the scheme's plan.
void mma_runs_choose(struct mma_plan *p, double (*seconds)(const void *plan), const void *plan);
void mma_store_runs(struct mma_kernel *k, int save, const struct mma_runs *r);
void mma_store_rows(struct mma_kernel *k, int save, const struct mma_runs *r, const struct hole *holes);
const struct hole *mma_run_holes(struct mma_kernel *k, int save, const struct mma_runs *r);
// Prints @start, the element `first` of row @r in device memory, and @shift, its distance from an aligned vector.
void mma_run_start(struct mma_kernel *k, int save, const char *first, const struct hole *holes);
// Writes the existing columns of this thread's rows m and h to shared memory. tile: the fragment of n; to: the place in the stage, by @col.
void mma_run_write(struct mma_kernel *k, int save, const char *tile, const char *to, const struct hole *holes);

#endif

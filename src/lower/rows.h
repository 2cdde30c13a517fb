// rows: shared inside the scheme of that name, for kernels without products. A kernel is a list of values over axes (kern/kern.h), some of which are
// folded. The loops of the block graph disappear. Data that fit into registers are read once. Otherwise a new loop runs over chunks of a folded axis,
// once for each pass that needs the data.
//
// Glossary
//   fold     a reduction over axes, such as a sum or maximum
//   free     an axis that nothing folds; different blocks compute its parts
//   place    an axis is cut into chunks (blocks of a free axis, rounds of a folded one), registers, threads and a vector, slowest first:
//            element ((chunk * regs + reg) * threads + thread) * vector + v
//   scanned  an axis of a scan. Each warp has adjacent elements, so that all earlier elements belong to earlier warps:
//            element (((chunk * blocks + block) * warps + warp) * regs + reg) * lanes + lane, with the blocks of a cluster
//   varying  a value that depends on an axis of several rounds
//   pass     the number of folds of varying values that precede a value
//   stage    within a pass, the number of folds that precede a value
//   left     what the head left in shared memory or device memory, if the kernel is a tail (tail.h)
//   moved    rows that begin at any element: places are counted from the aligned vector before the row (rows_anywhere.c)
//   key      a number and its index as one 64-bit integer, in the order of topk (base/order.h)
//   share    the blocks of a cluster share a folded axis: together they are more threads of it than one block has
//
//   rows_life.c      facts that do not depend on knobs: roles of axes, stages, lifetimes of values
//   rows_plan.c      knobs -> places, passes, widths of accesses
//   rows_cost.c      counts work for the cost model
//   rows_choice.c    lists plans worth trying
//   rows_text.c      the kernel, coordinates, passes
//   rows_move.c      loads and stores
//   rows_anywhere.c  loads and stores of rows that begin at any element
//   rows_weave.c     loads and stores of parts that alternate in memory
//   rows_ahead.c     work before the previous kernel has ended
//   rows_fold.c      folds over registers, lanes and warps
//   rows_share.c     folds over the blocks of a cluster
//   rows_scan.c      scans over registers, lanes, warps, blocks of a cluster and rounds
//   rows_top.c       topk, as one fold for each selected element
#ifndef MICA_LOWER_ROWS_H
#define MICA_LOWER_ROWS_H

#include "kern/kern.h"
#include "lower/lower_emit.h"
#include "plan/passes.h"

enum { ROW_LANES = 32, ROW_LINE = 128 };

struct row_life {        // of a value
  bool through;          // only a reduction reads it: it is computed during the reduction, and never stored as a whole
  int stage;             // number of reductions before it
  int made, first, last; // positions in the order of stages: when it is computed, first read and last read
};
enum { ROW_WOVEN = 4 };
struct row_weave { // accesses of a run of n adjacent elements, in order; n 0: none
  int n, member[ROW_WOVEN];
};
struct row_roles { // the axes that knobs refer to; -1: none
  int across;      // the axis along which most of the memory is contiguous
  int down;        // the largest other reduced axis
  int join;        // the largest other free axis
};
struct rows {
  const struct lower_job *j;
  struct kern k; // axes are joined
  // set by rows_ready
  struct row_life *life; // for each value
  struct row_roles role;
  struct row_weave *woven, *woven_save; // woven: for each load; woven_save: for each save
  int nstages, norder, *order;          // live values by stages, reductions first within a stage
  axis_set scanned;                     // axes of scans
  bool alone;                           // no tail: rows may begin anywhere
};

// NO with the reason in why.
int rows_make(const struct lower_job *j, struct rows *out, char why[160]);
int rows_values(const struct lower_job *j, struct kern *out, char why[160]); // before axes are joined
void rows_ready(const struct lower_job *j, struct rows *r);                  // rows_life.c: everything that does not depend on knobs

// ---- rows_plan.c ----

enum { KNOB_VEC, KNOB_ACROSS, KNOB_DOWN, KNOB_JOIN, KNOB_REGS, KNOB_DEEP, KNOB_STREAM, KNOB_LATE, KNOB_AHEAD, KNOB_HOLD, KNOB_CLUSTER, KNOB_STACK };
struct row_plan {
  const struct rows *r;
  struct row_roles role;
  int vec, stream;
  bool anywhere, moved; // anywhere: the vector does not divide rows; moved: and not all rows begin at multiples of it
  int64_t *first;       // of such a plan, modulo the vector: the stride of a row's begin along each axis, and along `across` its offset
  // rounds whose lines are prefetched before the previous kernel has ended; without rounds, 1: all
  int ahead;
  int hold;                                                // 1: the next kernel may begin only when the previous one has ended
  bool *late;                                              // for each value: a load that is issued where it is used; NULL: none
  int regs[KERN_AXES], lanes[KERN_AXES], warps[KERN_AXES]; // lanes * warps = threads
  int64_t chunks[KERN_AXES];
  int share, cluster; // the axis that the blocks of a cluster share, and their number; 1: no cluster
  int threads;        // of a block
  int64_t blocks;
  axis_set rounds; // reduced axes with several chunks
  axis_set grid;   // other axes with several chunks, along which blocks differ
  int *pass;       // for each value
  int *held;       // for each value: number of its register elements
  int passes;
};
bool rows_plan(struct arena *mem, const struct rows *r, const struct knobs *k, struct row_plan *p);
bool rows_before(struct row_plan *p, int ahead, int hold);            // sets them; false: they have no effect
int row_width(const struct row_plan *p, const struct kern_access *a); // elements of one access
bool row_overhangs(const struct row_plan *p, int axis);               // positions exceed its extent
int row_regs(const struct row_plan *p, axis_set axes);                // register elements of a value with these axes
static inline int row_blocks(const struct row_plan *p, int a) { return a == p->share ? p->cluster : 1; } // blocks of a cluster along the axis
// axes of which a block has only a part
static inline axis_set row_apart(const struct row_plan *p) { return p->grid | (p->share < 0 ? 0 : AXIS(p->share)); }
static inline int row_own(const struct row_plan *p, int a) { return p->lanes[a] * p->warps[a]; } // threads of one block
static inline int row_threads(const struct row_plan *p, int a) { return row_own(p, a) * row_blocks(p, a); }
static inline int row_vec(const struct row_plan *p, int a) { return a == p->role.across ? p->vec : 1; }
static inline bool row_scanned(const struct row_plan *p, int a) { return p->r->scanned >> a & 1; }
// axes of the values that a reduction's threads exchange
static inline axis_set row_result(const struct kern_value *v) { return v->axes & ~v->folded; }

// ---- rows_anywhere.c ----

enum row_way { ROW_ALIGNED, ROW_SHIFTED, ROW_SINGLE }; // of rows: aligned vectors; two of them, shifted; element by element
enum { ROW_EDGES = 5 };
bool rows_anywhere(struct row_plan *p);                                      // finds where rows begin; false: the kernel has other accesses
enum row_way row_way(const struct row_plan *p, const struct kern_access *a); // of an access that depends on `across`
// Registers along `across` that may have an edge of a row, or one of the `before` vectors before the last one. Returns their number.
int row_edges(const struct row_plan *p, int before, int edge[ROW_EDGES]);
int row_reaching(
    const struct row_plan *p); // the first register that may have an end of a row; earlier ones have only elements of the row and its begin

// ---- rows_cost.c, rows_choice.c ----

bool rows_count(const struct row_plan *p, struct kernel_counts *out); // false: registers do not suffice
int rows_choices(const struct rows *r, int most, struct knobs *out);

// ---- rows_ahead.c ----

double rows_soon(const struct row_plan *p); // bytes that a block prefetches
void rows_before_best(struct row_plan *p, const struct kernel_counts *c);

// ---- rows_weave.c ----

void rows_weave(struct arena *mem, struct rows *r);
struct row_weave row_save_weave(const struct row_plan *p, int save);
struct kern_access row_seen(const struct row_plan *p, const struct kern_access *a, struct row_weave w); // as part of its run

// Parts of a reduction in shared memory, of a block's warps or a cluster's blocks: `kept` results are adjacent, each of `parts` parts.
struct row_exchange {
  int value, shared; // shared: number of the shared tensor
  bool blocks;
  int kept, parts;               // parts 1: nothing is exchanged
  const char *at, *part, *first; // of the executing thread; first: the condition of being the one lane that has it
};
// ---- rows_text.c, rows_move.c, rows_fold.c, rows_ahead.c ----

struct row_text {
  struct text t;
  struct arena *mem;
  const struct row_plan *p;
  const char **buffer;                      // for each tensor of the kernel graph; NULL: not an argument
  const char *team;                         // group of the threads, "t"
  const char *threads, *coordinate, *block; // extents and names of coordinates
  bool *have;                               // for each value: computed at the current position
  bool *wide;                               // for each value: loads with existing fp32 registers
  bool *masked;                             // for each value: -inf beyond extents, for a maximum
  bool *carried;                            // for each value: scans with a declared carry
  int from, to;                             // registers along `across` in the next loops; to 0: all
  int *low;                                 // for each value: 1 + the stage of the maximum that has set it to -inf beyond extents; 0: none
  int fresh;                                // number of shared tensors so far
  int *shared;                              // for each value: the one that the blocks of a cluster write to
  bool met;                                 // all blocks of the cluster have begun
};
void rows_text(const struct row_plan *p, struct text t, struct lower_out *out);
struct row_text row_text_new(const struct row_plan *p, struct text t);
const char *row_coordinates(struct row_text *x);                         // sets threads, coordinate, block; returns the extents of the blocks
void row_begin(struct row_text *x);                                      // prints groups of lanes, and positions
void row_passes(struct row_text *x);                                     // prints everything else
const char *row_dims(const struct row_text *x, axis_set regs, bool vec); // extents of a register tensor, "4,1,8"
bool row_has_vec(const struct row_text *x, axis_set axes);
const char *row_name(struct row_text *x, int value);                                              // "v3", computed and in fp32
const char *row_term(const struct row_text *x, const char *sum, const char *what, int64_t scale); // sum + what * scale
const char *row_place(const struct row_text *x, int axis);                                        // position of the executing thread, in vectors
const char *row_inside(const struct row_text *x, axis_set axes); // condition of being within all extents; "" if it always holds
// Loops over the registers of axes, and where it is not empty a condition.
void row_each_open(struct row_text *x, axis_set axes, const char *condition);
void row_rounds_open(struct row_text *x, axis_set over, int64_t most, const char *unroll); // loops over the first rounds, their places
const char *row_at(const struct row_text *x, axis_set axes, int width, const char *piece); // a register within these loops
const char *row_declare(struct row_text *x, int value, bool filled); // declares the registers of a load, filled with 0; returns their name
void row_load(struct row_text *x, int value);
void row_load_chosen(struct row_text *x, int value); // its indices must be computed
void row_store(struct row_text *x, int save);
const char *row_stored(struct row_text *x, int save); // the name of its value in the type of its tensor
void row_load_woven(struct row_text *x, int value);   // loads it and all of its run
void row_store_woven(struct row_text *x, struct row_weave w, const char *condition);
void row_fetch(struct row_text *x, int value);                      // prefetches its lines to the L2 cache
void row_wait(struct row_text *x);                                  // waits for the previous kernel, after earlier work; the next kernel may begin
void row_store_top(struct row_text *x, int save, const char *from); // the selected elements of this round, in the type of its tensor
// index of the access in the buffer, in accesses of `width` elements
const char *row_number(const struct row_text *x, const struct kern_access *a, int width);
bool row_exponential(const struct kern_value *v);                                        // of a base above 1
void row_fold_threads(struct row_text *x, int value, const char *out, bool keep_vector); // within a thread
void row_fold_across(struct row_text *x, int n, const int *values, bool again);          // over lanes and warps; again: in a loop
const char *row_zeros(const struct row_text *x);                                         // indices of the first register

// ---- rows_anywhere.c: all for `anywhere` ----

void row_anywhere_begin(struct row_text *x);
const char *row_anywhere_reached(const struct row_text *x); // condition: the vector has an element of the row, or one before it
const char *row_anywhere_number(const struct row_text *x, const struct kern_access *a, const char *at); // the index of element `at` of the vector
void row_anywhere_mask(struct row_text *x, axis_set axes, const char *in, const char *neutral);         // sets elements beyond rows
void row_anywhere_load(struct row_text *x, const struct kern_value *v, const char *name, bool stream);
void row_anywhere_store(struct row_text *x, const struct kern_save *s, const char *name, const char *first, bool stream); // first: condition
const char *row_anywhere_line(const struct row_text *x, const struct kern_access *a); // an element of the vector's line; NULL: not contiguous

// ---- rows_top.c ----

int row_top_first(const struct kern *k, int value);         // the first value that selects the same elements; it does the work for all
void row_top(struct row_text *x, int value);                // of row_top_first; stores the selected elements
void row_tops(struct row_text *x, axis_set over, int pass); // those of a pass that select from values which vary with these axes
void row_inputs(struct row_text *x, int value);             // rows_text.c: computes the values that it reads
bool row_inputs_fold(const struct row_text *x, int value);  // within rounds: whether one of them is a reduction
// Two rounds alternate in shared memory.
void row_top_turns(const struct row_text *x, int value, struct row_exchange *e);

// ---- rows_scan.c ----

void row_scan(struct row_text *x, int value, bool again);    // again: in a loop over rounds
void row_scan_carries(struct row_text *x, const bool *want); // before such a loop: the results of earlier rounds

// ---- rows_share.c ----

void row_share_meet(struct row_text *x, int value); // before the first exchange, if the value has one
void row_share_begin(struct row_text *x);           // waits until all blocks of the cluster have begun and may be written to
// Over the warps of a block, or the blocks of a cluster; all their threads have the results. again: in a loop.
void row_fold_parts(struct row_text *x, int n, const int *values, bool blocks, bool again);
void row_hand_over(struct row_text *x, int n, struct row_exchange *e); // writes the parts, and waits until they can be read
const struct hole *row_part_holes(const struct row_text *x, const struct row_exchange *e);
bool row_is_shared(const struct row_plan *p, int value);
struct row_exchange row_exchange_of(const struct row_text *x, int value, bool blocks); // over the blocks of a cluster, else the warps of a block
const char *row_thread_term(const struct row_text *x, const char *sum, char what, int axis, int scale);

#endif

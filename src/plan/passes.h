// passes: decisions on a kernel before a scheme makes it. Each pass is a function of the normal form (norm.h) and of earlier passes, changes neither,
// and has a dump (`mica lower --dump NAME`). Schemes read the results; a scheme that deviates declares it (struct scheme, `apart`).
//
//   chains.c     which operators follow each other in registers, and how every operand reaches its reader
//   schedule.c   before, in and after the loop; the order of operators: fewest barriers, then the fewest bytes that are live at once
//   meta.c       copies: in chunks or one by one, in a ring or once; where accumulators are
//   threads.c    warps over the rows and columns of products, by the volume that they copy
//   passes.c     all passes over a kernel
//   passes_text.c  the dumps
//
// Source: the transpiler of Mirage ("Threadblock Level Data Reuse", "TB Graph Scheduling", "How to Decide thr_layout", "How to Check
// Whether or Not We Can Use Chunked Copy").
#ifndef MICA_PLAN_PASSES_H
#define MICA_PLAN_PASSES_H

#include "plan/norm.h"

// ---- chains.c --------------------------------------------------------------------------------------

enum operand_source { // how an operand reaches the operator that reads it
  SOURCE_CONSTANT,    // a constant
  SOURCE_DEVICE,      // from device memory into registers
  SOURCE_TILE,        // from device memory into shared memory, because a product reads it there
  SOURCE_REGISTERS,   // computed in the registers in which it is read
  SOURCE_FOLD,        // computed in registers, and reduced over values of several threads
  SOURCE_SHARED,      // computed in registers, and read from shared memory
};
struct chain_product { // oriented: a and b are swapped and transposed if the product's rows are columns of others
  int node, out, a, b; // tensors, roots
  uint32_t rows, cols, sum, batch;
  int into; // node of the accumulator that it adds to directly; -1: none
};
struct chain {            // a leading operator, with elementwise operators and accumulators on its result in registers
  int lead, last, length; // nodes
};
struct chains {
  int nproducts;
  struct chain_product *product;
  bool oriented; // all products have the same letters for rows
  uint32_t rows; // the common rows, and batches of all of them
  int nchains;
  struct chain *chain;
  int *of;      // for each node: its chain; -1 for iterators, savers, constants and views
  bool *folded; // for each node: a sum whose summands, products, are added to an accumulator one after another, so it is not computed
  bool *side;   // for each node: computed from iterators alone, for a right operand
  bool *tile;   // for each tensor: an iterator's tile in shared memory
  enum operand_source (*source)[2]; // for each node and operand; further operands share the second entry
};
void plan_chains(struct arena *mem, const struct norm *n, struct chains *out);
// Whether reduction x sums some but not all letters of an iterator that are no rows. Such parts are summed while they are loaded.
bool chain_sums_parts(const struct norm *n, uint32_t rows, const struct node *x);

// ---- schedule.c ------------------------------------------------------------------------------------

enum section { SECTION_BEFORE, SECTION_LOOP, SECTION_AFTER };
struct schedule {
  enum section *section; // for each node
  int *depth;            // for each node: largest number of barriers of its section before it
  int n, *order;         // computing nodes in order: by section, then depth
  int64_t *at;           // for each position in order: live bytes of a block's registers, all in fp32
  int barriers[3];       // upper bound for each section
  int64_t held;          // largest number of live bytes
};
void plan_schedule(struct arena *mem, const struct norm *n, const struct chains *c, struct schedule *out);

struct plan_step { // the unit of scheduling: an operator of a block graph, or any other computation
  bool load;       // not ordered itself: live from its first reader to its last
  int nin, *in;    // steps that it needs
  uint32_t waits;  // bits: which of these are computed by other threads
  int group;       // steps of a smaller group come first
  int pin;         // a group during all of which the result is live; -1: none
  int64_t bytes;   // of the result
  bool reuses;     // the result may reuse an operand's memory
};
enum { SCHEDULE_EXACT = 8 };                                        // most steps of one group and depth for which the best order is found
void schedule_depths(int n, const struct plan_step *s, int *depth); // places steps after their operands
// Orders by group, by depth, then by least live bytes: exactly if a group and depth has at most `exact` steps, else greedily. order: the steps except
// loads; returns their number; at[i]: live bytes at order[i].
int schedule_order(struct arena *mem, int n, const struct plan_step *s, const int *depth, int exact, int *order, int64_t *at);

// ---- meta.c ----------------------------------------------------------------------------------------

// Elements that are contiguous for every strided access, at most `most`, a power of two: along axis `along`, the one of stride 1. Axes of extent 1
// are ignored. `elements`: of the buffer, which accesses divide evenly.
int plan_chunk(int n, const int64_t *extent, const int64_t *stride, int along, int64_t offset, int64_t elements, int most);

struct copy_meta { // of an iterator or a saver
  int along;       // the letter of stride 1; -1: none
  int chunk;       // elements moved at once, at most 8; 1: single elements
  bool ring;       // varies with the loop: the next ones are loaded while one is used
  bool shared;     // into shared memory
};
enum accumulator_place { ACCUMULATOR_NONE, ACCUMULATOR_PRODUCT, ACCUMULATOR_REGISTERS };
struct meta {
  struct copy_meta *iter, *save;       // in the order of the normal form
  enum accumulator_place *accumulator; // for each node: none; the target of products; separate registers
};
void plan_meta(struct arena *mem, const struct norm *n, const struct chains *c, struct meta *out);

// ---- threads.c -------------------------------------------------------------------------------------

enum { WARPS_MOST = 16, WARP_COLUMNS = 8, WARP_LAYOUTS = 64 };
struct warp_layout {
  int rows, cols; // number of warps along them
  bool sums;      // warps along columns divide the sum instead, and add their parts
  int64_t calls;  // mma.m16n8k16 instructions of the busiest warp
  int64_t volume; // bytes that warps copy from shared memory, and parts of sums written and read there
};
// For products with `rows` rows in all, 16 a tile: all layouts of a power of two of warps, at most WARPS_MOST. First the best for each number of
// warps (fewest calls, then least volume), then their neighbours, then the others.
int plan_threads(const struct norm *n, const struct chains *c, struct warp_layout out[WARP_LAYOUTS]);
struct warp_layout warp_cost(const struct norm *n, const struct chains *c, int rows, int cols, bool sums);

// ---- passes.c, passes_text.c -----------------------------------------------------------------------

struct passes {
  struct chains chains;
  struct schedule schedule;
  struct meta meta;
};
const struct passes *plan_passes(struct arena *mem, const struct norm *n);
void chains_text(const struct norm *n, const struct passes *p, struct str *out);
void schedule_text(const struct norm *n, const struct passes *p, struct str *out);
void meta_text(const struct norm *n, const struct passes *p, const enum dtype *store, struct str *out);
void threads_text(const struct norm *n, const struct passes *p, struct str *out);

#endif

// passes: what is decided of a kernel before a scheme makes it. Each pass is a function of the normal form (norm.h) and of the
// passes before it, changes neither, and has a dump (`mica lower --dump NAME`). Schemes read the results; what a scheme does in
// another way it says itself (struct scheme, `apart`).
//
//   chains.c     which operators follow each other in registers, and how every operand reaches its reader
//   schedule.c   before, in and after the loop; the order of operators: fewest barriers, then the least that is held at once
//   meta.c       copies: in chunks or one by one, in a ring or once; where accumulators are
//   threads.c    warps over the rows and columns of products, by the volume that they copy
//   passes.c     all of a kernel
//   passes_text.c  the dumps
//
// Source: the transpiler of Mirage ("Threadblock Level Data Reuse", "TB Graph Scheduling", "How to Decide thr_layout", "How to Check
// Whether or Not We Can Use Chunked Copy").
#ifndef MICA_PLAN_PASSES_H
#define MICA_PLAN_PASSES_H

#include "plan/norm.h"

// ---- chains.c --------------------------------------------------------------------------------------

enum hand {       // how an operand reaches the operator that reads it
  HAND_NUMBER,    // a constant
  HAND_DEVICE,    // from device memory into registers
  HAND_TILE,      // from device memory into shared memory, since a product reads it there
  HAND_REGISTERS, // made in the registers in which it is read
  HAND_FOLD,      // made in registers, and folded over what several threads have
  HAND_SHARED,    // made in registers, and read from shared memory
};
struct chain_product { // oriented: a and b are turned where the product's rows are columns of others
  int node, out, a, b; // tensors, roots
  uint32_t rows, cols, sum, batch;
  int into; // node of the accumulator that it adds to directly, -1: none
};
struct chain {            // a leading operator, and elementwise ones and accumulators on what it leaves in registers
  int lead, last, length; // nodes
};
struct chains {
  int nproducts;
  struct chain_product *product;
  bool oriented; // all products have the same letters for rows
  uint32_t rows; // these: rows and batches of all of them
  int nchains;
  struct chain *chain;
  int *of;              // by node: its chain, -1 of iterators, savers, constants and views
  bool *folded;         // by node: a sum of products that add to an accumulator one after another, and is never made
  bool *side;           // by node: computed of iterators alone, for a right operand
  bool *tile;           // by tensor: an iterator's, in shared memory
  enum hand (*hand)[2]; // by node, by operand; of more operands that of the second
};
void plan_chains(struct arena *mem, const struct norm *n, struct chains *out);
// Indices of an iterator that stay in no operand: parts that are summed while they are loaded.
bool chain_sums_parts(const struct norm *n, uint32_t rows, const struct node *x);

// ---- schedule.c ------------------------------------------------------------------------------------

enum section { SECTION_BEFORE, SECTION_LOOP, SECTION_AFTER };
struct schedule {
  enum section *section; // by node
  int *depth;            // by node: so many barriers of its section come before it at most
  int n, *order;         // nodes that compute, in their order: by section, by depth
  int64_t *at;           // by position in order: bytes of a block's registers in use, all in fp32
  int barriers[3];       // of each section, at most
  int64_t held;          // the most in use at once
};
void plan_schedule(struct arena *mem, const struct norm *n, const struct chains *c, struct schedule *out);

struct plan_step { // what schedules are made of: an operator of a block graph, or anything else that computes
  bool load;       // nothing that is ordered: held from its first reader to its last
  int nin, *in;    // steps that it needs
  uint32_t waits;  // of these, by bits: for other threads
  int group;       // steps of a smaller group come first
  int pin;         // a group through all of which the result is held; -1: none
  int64_t bytes;   // of the result
  bool reuses;     // the result may lie where an operand was
};
enum { SCHEDULE_EXACT = 8 };                                        // so many steps of one group and depth get the best of all orders
void schedule_depths(int n, const struct plan_step *s, int *depth); // steps after what they need
// By group, by depth, then the least in use at once: the best of all where one group and depth has at most `exact` steps, else the
// step that leaves least first. order: the steps but loads; returns how many; at[i]: bytes in use at order[i].
int schedule_order(struct arena *mem, int n, const struct plan_step *s, const int *depth, int exact, int *order, int64_t *at);

// ---- meta.c ----------------------------------------------------------------------------------------

// Elements that lie together wherever a strided access goes, at most `most`, a power of two: along axis `along`, the one of stride 1.
// Axes of extent 1 are not looked at. `elements`: of the buffer, of which accesses are whole parts.
int plan_chunk(int n, const int64_t *extent, const int64_t *stride, int along, int64_t offset, int64_t elements, int most);

struct copy_meta { // of an iterator or a saver
  int along;       // the letter of stride 1; -1: there is none
  int chunk;       // elements moved at once, at most 8; 1: one by one
  bool ring;       // changes with the loop: the next ones come while one is used
  bool shared;     // into shared memory
};
enum accumulator_place { ACCUMULATOR_NONE, ACCUMULATOR_PRODUCT, ACCUMULATOR_REGISTERS };
struct meta {
  struct copy_meta *iter, *save;       // in the order of the normal form
  enum accumulator_place *accumulator; // by node: none; what products add to; in registers of its own
};
void plan_meta(struct arena *mem, const struct norm *n, const struct chains *c, struct meta *out);

// ---- threads.c -------------------------------------------------------------------------------------

enum { WARPS_MOST = 16, WARP_COLUMNS = 8, WARP_LAYOUTS = 64 };
struct warp_layout {
  int rows, cols; // warps along them
  bool sums;      // warps along columns share the sum instead, and add up what they have
  int64_t calls;  // of mma.m16n8k16 by the busiest warp
  int64_t volume; // bytes that warps copy from shared memory, and parts of sums there and back
};
// For products whose rows are together `rows`, 16 a tile: all layouts of a power of two of warps, at most WARPS_MOST. First the best
// of each number of warps (fewest calls, then the least volume), then what is next to these, then the others.
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

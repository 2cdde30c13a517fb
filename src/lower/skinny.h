// skinny: shared inside skinny*.c. The time of products of few rows is that of reading the weights. So weights go from global memory directly into
// tensor-core fragments: no shared memory, no barrier in the loop, and many 16-byte loads in flight.
//
//   D^T = W^T X^T by mma.m16n8k16: 16 columns of W are the rows of the instruction, 8 rows of X its columns. The order of k within a fragment
//   is free, if both operands agree. Lane (g, q) of a warp has k = KV q .. KV q + KV - 1 of a step of 4 KV. It takes them of X's row g with one
//   load. From W it takes V adjacent columns V g .. of each k, if W is contiguous along columns; byte permutations then make pairs along k. If W is
//   contiguous along k, it takes KV values of column g. Warps of a block and blocks of a cluster take turns along k. Their sums are added through
//   shared memory.
//
// Glossary
//   space    axes counted by one index, slowest first: rows, columns, or summed axes
//   product  of X by weights, over all of k. `wide`: its columns are those of the savers, and a block computes `cols` of them. Otherwise each
//            block needs all columns (the product X A of X A B)
//   statistic  a sum over k of elements of X
//   second   a product after the loop, whose left operand has few columns
//   item     some columns of one row, finished by one thread
//   part     the part of a sum that one block computes, if the grid of the block graph splits k and a tail adds the parts
//
//   skinny_walk.c    addresses                         skinny_terms.c   finds products, statistics and second products
//   skinny_plan.c    the roles of axes                 skinny_shape.c   the plan for given knobs
//   skinny_cost.c    counts work for the cost model    skinny_ahead.c   text before the wait for the previous kernel
//   skinny_loop.c    text of the loop
//   skinny_reduce.c  text of sums over warps           skinny_value.c   text of values
//   skinny.c         the scheme
#ifndef MICA_LOWER_SKINNY_H
#define MICA_LOWER_SKINNY_H

#include "kern/kern.h"
#include "lower/lower_emit.h"

enum {
  SK_RULES = KERN_BIT(RSQRT) | KERN_BIT(RECIPROCAL) | KERN_BIT(EXP2) | KERN_BIT(CONSTANTS) | KERN_BIT(PUSH) | KERN_BIT(LIFT) | KERN_BIT(DOT) |
             KERN_BIT(ASSOCIATE) | KERN_BIT(SELECT)
};
enum { SK_VALUES = 128, SK_PRODUCTS = 6, SK_STATS = 4, SK_SECONDS = 4, SK_ROWS = 32, SK_SAVES = 4 };
enum { SK_PIECE = 8 }; // columns of a lane if rows of weights begin anywhere

enum { SK_LOOP, SK_WIDE, SK_INNER }; // what needs a value: the loop; the savers; second product i is SK_INNER + i
struct sk_role {                     // the role of a value
  int number;                        // number of a product, statistic or second product; -1: none of these
  bool second;
  unsigned reached; // bits of SK_LOOP, ...: what needs it
};
struct sk_product {
  int value, x, w; // value: the product; x, w: its operands, w the weights
  struct lower_space cols;
  bool wide;
};
struct sk_plan {
  const struct lower_job *j;
  char *why;
  struct kern kern; // including the tail's values
  int nhead;        // axes of the head
  struct sk_role role[SK_VALUES];
  int nproducts, nstats, nseconds;
  struct sk_product product[SK_PRODUCTS];
  int stat[SK_STATS]; // values
  struct {
    int value;               // the product
    int x;                   // the left operand
    struct lower_space cols; // its columns, which the second product sums over
  } second[SK_SECONDS];
  struct lower_space rows, cols, k, blocks;
  axis_set letters_k; // axes that products sum over
  axis_set batch;     // batch axes, which number blocks
};

// Knobs of the scheme.
enum { KNOB_WARPS, KNOB_COLS, KNOB_DEPTH, KNOB_SPLIT, KNOB_AHEAD, KNOB_ALONE };
struct sk_shape {
  int ahead; // rounds that are prefetched to the L2 cache before the previous kernel has ended
  int warps, cols, depth, split;
  int threads, tiles;    // tiles of 8 rows
  int kv;                // values of k of a lane in a step
  bool ragged;           // the last step has fewer values of k: loads repeat the last one, and registers beyond it are set to zero
  int unit;              // values of k that one load of X has
  int64_t steps, rounds; // steps: in all; rounds: of each warp
  int64_t subs;          // blocks that share the columns of one block of the graph
  bool clipped;          // the last of these has fewer columns: it loads the last column again, and does not save it
  int item;              // columns of an item
  bool early;            // a thread has at most one item, and loads its operands before the loop
  bool by_columns;       // the blocks of a cluster finish different columns; otherwise different rows
  int64_t items, share;  // items: of a block's columns; share: of these, finished by each block of the cluster
  struct sk_take {       // for each product
    bool along;          // contiguous along k
    bool single;         // its rows begin anywhere: elements are loaded one by one
    bool anywhere;       // the same, but two aligned vectors are loaded for 8 columns of a lane, and shifted in the round
    int vector;          // columns of a lane; 1 if `along`
    int unit;            // elements of a load
    int chunks;          // fragments of a warp along its columns
    int width;           // number of columns, which may exceed those of the weights
  } take[SK_PRODUCTS];
  int64_t shared; // bytes
  int64_t unused; // of these, bytes that only keep a second block away from the multiprocessor (`alone`)
  int registers;  // estimate for a thread
};

// ---- skinny_walk.c ----
struct sk_coord {
  const struct lower_space *space;
  const char *index; // text, without operators that bind less tightly than *; NULL: only test the access
  bool along;        // vectors lie along this space, and its index counts them
};
// Prints the index of a vector of `unit` elements in the access's buffer, including the block's coordinates. False if there is none: a stride is not
// a multiple of the vector, vectors are not contiguous, or no coordinate gives an axis.
bool sk_address(const struct sk_plan *p, const struct kern_access *a, int unit, int n, const struct sk_coord *at, struct str *out);

// ---- skinny_plan.c ----
int sk_plan_make(const struct lower_job *j, struct sk_plan *out, char why[160]);
// ---- skinny_terms.c: products, statistics and spaces of the values; NO with the reason in why ----
int sk_terms(struct sk_plan *p);
struct lower_space sk_walked(const struct sk_plan *p, axis_set s, const struct kern_access *a); // in the order of the access's strides
int sk_no(struct sk_plan *p, const char *what);                                                 // returns -1; keeps the first reason
static inline int sk_weights(const struct kern_value *second) { return second->in[1]; }
static inline const struct kern_access *sk_access(const struct sk_plan *p, int v) // of a load, or of a second product's weights
{
  return &p->kern.v[p->role[v].second ? sk_weights(&p->kern.v[v]) : v].at;
}

// ---- skinny_shape.c ----
bool sk_shape_make(const struct sk_plan *p, const struct knobs *k, struct sk_shape *out); // false: does not fit
int sk_staged(const struct sk_plan *p, const struct sk_shape *s, int value); // columns of a second product's staged weights; 0: none staged

// ---- skinny_cost.c ----
int64_t sk_round_bytes(const struct sk_plan *p, const struct sk_shape *s); // bytes that a block loads in a round
double sk_room(const struct sk_plan *p, const struct sk_shape *s);         // blocks of a multiprocessor
void sk_count(const struct sk_plan *p, const struct sk_shape *s, struct kernel_counts *out);

// ---- skinny_loop.c, skinny_reduce.c, skinny_value.c ----
struct sk_emit {
  struct text t;
  bool dependent;
  const struct sk_plan *p;
  const struct sk_shape *s;
  const char **name;      // names of buffers, by tensor of the kernel graph
  const struct hole *all; // holes for facts of the whole kernel
};
// Prints text that gives the executing thread value v as %vN: `width` columns of row @row from column group @col on. done: for each value, whether
// its text is already printed.
struct sk_place {
  int from; // SK_WIDE or SK_INNER + i
  int width;
  bool done[SK_VALUES];
};
void sk_fill(struct sk_emit *e, int about, const char *template, const struct hole *holes);
const struct hole *sk_product_holes(const struct sk_emit *e, int product);
const char *sk_element(const struct sk_emit *e, const struct kern_access *a, int unit, int n, const struct sk_coord *at); // "%g_W.tile([8])[...]"
const char *sk_column(const struct sk_emit *e, const struct sk_place *at);
const char *sk_weights_column(const struct sk_emit *e, int product, const char *index); // clamped to the columns of the weights, in loads
const char *sk_clamped(const struct sk_emit *e, const char *index, int unit); // an index along k, in units: clamped to k, if steps exceed it
bool sk_streams(const struct sk_plan *p, int value);                          // whether it is loaded in every round
void sk_emit_ahead(struct sk_emit *e);                                        // before the wait for the previous kernel
void sk_emit_loop(struct sk_emit *e);
void sk_emit_stage(struct sk_emit *e);  // before the loop: starts copying weights of second products to shared memory
void sk_emit_early(struct sk_emit *e);  // before the loop: other loads for the results
void sk_emit_inbox(struct sk_emit *e);  // declares where other blocks of the cluster write, perhaps while this one is still in its loop
void sk_emit_reduce(struct sk_emit *e); // everything after the loop

enum sk_load { SK_DECLARE, SK_MOVE, SK_VALUE }; // declare its registers; load it; compute the value
void sk_emit_load(struct sk_emit *e, const struct sk_place *at, int v, enum sk_load how);
void sk_emit_value(struct sk_emit *e, struct sk_place *at, int v);
// %out = the sum of a product or statistic over the warps, or over the blocks of the cluster.
void sk_emit_parts(struct sk_emit *e, const char *out, const char *of, int number, int parts, int width, const char *element);

#endif

// skinny: inside skinny*.c. Products of few rows are bound by the memory of their weights, so these go from global memory
// straight into tensor-core fragments: no shared memory, no barrier in the loop, many loads of 16 bytes in flight.
//
//   D^T = W^T X^T by mma.m16n8k16: 16 columns of W are the rows of the instruction, 8 rows of X its columns. The positions
//   in a fragment are free as long as both operands agree: lane (g, q) of a warp takes k = KV q .. KV q + KV - 1 of a step
//   of 4 KV, of X's row g with one load, and of W either V neighbouring columns V g .. of each k (W is contiguous along its
//   columns; pairs along k are made by byte permutations), or its KV values of column g (contiguous along k). The warps of a
//   block, and the blocks of a cluster, take turns along k; what each has summed meets in shared memory.
//
// Glossary
//   space    axes counted together by one index, slowest first: rows, columns, what is summed
//   product  of X by weights over the whole of k; `wide` where its columns are those of the savers, of which a block takes
//            `cols`; else it is needed whole (the A of X A B)
//   statistic  a sum over k of elements of X
//   second   a product after the loop, of a value of few columns
//   item     some columns of one row, finished by one thread
//   part     what one block of the block graph sums of k, where its grid cuts k and a tail adds up
//
//   skinny_walk.c    addresses                         skinny_terms.c   products, statistics and second products among the values
//   skinny_plan.c    what the axes are                 skinny_shape.c   what knobs come to
//   skinny_cost.c    what is counted                   skinny_ahead.c   text of what comes before a wait
//   skinny_loop.c    text of the loop
//   skinny_reduce.c  text of what sums over warps      skinny_value.c   text of values
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

enum { SK_LOOP, SK_WIDE, SK_INNER }; // who needs a value: the loop, the savers, the second product SK_INNER + i
struct sk_role {                     // of a value
  int number;                        // of a product, a statistic, a second product; -1: it is none
  bool second;
  unsigned reached; // bits: what needs it
};
struct sk_product {
  int value, x, w; // the product; its operands, of which w is the weights
  struct lower_space cols;
  bool wide;
};
struct sk_plan {
  const struct lower_job *j;
  char *why;
  struct kern kern; // with the tail's values
  int nhead;        // axes of the head
  struct sk_role role[SK_VALUES];
  int nproducts, nstats, nseconds;
  struct sk_product product[SK_PRODUCTS];
  int stat[SK_STATS]; // values
  struct {
    int value;               // the product
    int x;                   // the left operand
    struct lower_space cols; // its columns, which are summed
  } second[SK_SECONDS];
  struct lower_space rows, cols, k, blocks;
  axis_set letters_k; // all that products sum
  axis_set batch;     // axes that only go along: they number blocks
};

// Knobs of the scheme.
enum { KNOB_WARPS, KNOB_COLS, KNOB_DEPTH, KNOB_SPLIT, KNOB_AHEAD };
struct sk_shape {
  int ahead; // rounds that are on their way to the L2 cache before the kernel ahead has ended
  int warps, cols, depth, split;
  int threads, tiles;    // tiles of 8 rows
  int kv;                // values of k a lane has of a step
  int64_t steps, rounds; // steps in all; of each warp
  int64_t subs;          // blocks that share the columns of a block of the graph
  bool clipped;          // the last of these has fewer columns: it loads the last column again, and does not save it
  int item;              // columns of an item
  bool early;            // a thread has one item at most, and what it loads for that comes before the loop
  bool by_columns;       // the blocks of a cluster finish different columns; else different rows
  int64_t items, share;  // of a block's columns; of those, finished by each block of the cluster
  struct sk_take {       // by product
    bool along;          // contiguous along k
    bool single;         // its rows begin anywhere: elements are loaded one by one
    int vector;          // columns of a lane; 1 where along
    int unit;            // elements of a load
    int chunks;          // a warp's fragments along its columns
    int width;           // columns in all
  } take[SK_PRODUCTS];
  int64_t shared; // bytes
  int registers;  // of a thread, roughly
};

// ---- skinny_walk.c ----
struct sk_coord {
  const struct lower_space *space;
  const char *index; // text, without operators that bind less than *; NULL: only looking
  bool along;        // vectors lie along this space, and the index counts them
};
// Number of a vector of `unit` elements of the access's buffer; the block's place is added. False where elements do not lie
// so: a stride that is not one of vectors, vectors that are not contiguous, an axis that no coordinate gives.
bool sk_address(const struct sk_plan *p, const struct kern_access *a, int unit, int n, const struct sk_coord *at, struct str *out);

// ---- skinny_plan.c ----
int sk_plan_make(const struct lower_job *j, struct sk_plan *out, char why[160]);
// ---- skinny_terms.c: products, statistics and spaces of the values; NO with the reason in why ----
int sk_terms(struct sk_plan *p);
struct lower_space sk_walked(const struct sk_plan *p, axis_set s, const struct kern_access *a); // in the order in which the access walks them
int sk_no(struct sk_plan *p, const char *what);                                                 // -1; the first reason stays
static inline int sk_weights(const struct kern_value *second) { return second->in[1]; }
static inline const struct kern_access *sk_access(const struct sk_plan *p, int v) // of a load, or of the weights of a second product
{
  return &p->kern.v[p->role[v].second ? sk_weights(&p->kern.v[v]) : v].at;
}

// ---- skinny_shape.c ----
bool sk_shape_make(const struct sk_plan *p, const struct knobs *k, struct sk_shape *out); // false: does not fit
int sk_staged(const struct sk_plan *p, const struct sk_shape *s, int value); // columns of a second product's weights in shared memory; 0: none

// ---- skinny_cost.c ----
int64_t sk_round_bytes(const struct sk_plan *p, const struct sk_shape *s); // that a block loads in a round
double sk_room(const struct sk_plan *p, const struct sk_shape *s);         // blocks on a multiprocessor
void sk_count(const struct sk_plan *p, const struct sk_shape *s, struct kernel_counts *out);

// ---- skinny_loop.c, skinny_reduce.c, skinny_value.c ----
struct sk_emit {
  struct text t;
  bool dependent;
  const struct sk_plan *p;
  const struct sk_shape *s;
  const char **name;      // of buffers, by tensor of the kernel graph
  const struct hole *all; // holes of what the whole kernel has
};
// Text that gives the executing thread value v as %vN, `width` columns of row @row from column group @col on. `done`: by
// value, whether its text stands already.
struct sk_place {
  int from; // SK_WIDE, SK_INNER + i
  int width;
  bool done[SK_VALUES];
};
void sk_fill(struct sk_emit *e, int about, const char *template, const struct hole *holes);
const struct hole *sk_product_holes(const struct sk_emit *e, int product);
const char *sk_element(const struct sk_emit *e, const struct kern_access *a, int unit, int n, const struct sk_coord *at); // "%g_W.tile([8])[...]"
const char *sk_column(const struct sk_emit *e, const struct sk_place *at);
const char *sk_weights_column(const struct sk_emit *e, int product, const char *index); // that exists, of weights, in their loads
bool sk_streams(const struct sk_plan *p, int value);                                    // it is loaded in every round
void sk_emit_ahead(struct sk_emit *e);                                                  // before the wait for the kernel ahead
void sk_emit_loop(struct sk_emit *e);
void sk_emit_stage(struct sk_emit *e);  // before the loop: weights of second products on their way to shared memory
void sk_emit_early(struct sk_emit *e);  // and what else is loaded for the results
void sk_emit_inbox(struct sk_emit *e);  // where other blocks of the cluster write; they may while this one still is in its loop
void sk_emit_reduce(struct sk_emit *e); // after it: everything

enum sk_load { SK_DECLARE, SK_MOVE, SK_VALUE }; // registers for it, the load, the value
void sk_emit_load(struct sk_emit *e, const struct sk_place *at, int v, enum sk_load how);
void sk_emit_value(struct sk_emit *e, struct sk_place *at, int v);
// %out = the sum of what the warps, or the blocks of the cluster, have of a product or a statistic.
void sk_emit_parts(struct sk_emit *e, const char *out, const char *of, int number, int parts, int width, const char *element);

#endif

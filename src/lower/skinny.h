// skinny: inside skinny*.c. Products of few rows are bound by the memory of their weights, so these go from global memory
// straight into tensor-core fragments: no shared memory, no barrier in the loop, many loads of 16 bytes in flight.
//
//   D^T = W^T X^T by mma.m16n8k16: 16 columns of W are the rows of the instruction, 8 rows of X its columns. What a fragment
//   has where is free as long as both operands agree: lane (g, q) of a warp takes k = KV q .. KV q + KV - 1 of a step of
//   4 KV, of X's row g with one load, and of W either V neighbouring columns V g .. of each k (W is contiguous along its
//   columns; pairs along k are made by byte permutations), or its KV values of column g (contiguous along k).
//   The warps of a block, and the blocks of a cluster, take turns along k; what each has summed meets in shared memory.
//
// Glossary
//   space    axes counted together by one index, slowest first: rows, columns, what is summed
//   value    what a tensor of the block graph becomes: loads, operators, products and statistics, second products
//   product  of X by weights over the whole of k; `wide` where its columns are those of the savers, of which a block takes
//            `cols`; else it is needed whole (the A of X A B)
//   statistic  a sum over k of elements of X
//   second   a product after the loop, of a value of few columns
//   item     some columns of one row, finished by one thread
//   part     what one block of the block graph sums of k, where its grid cuts k and a tail adds up
//
//   about    the node of the block graph or of its tail that text computes, for people who read both (text_about)
//
//   skinny_walk.c    spaces, addresses                 skinny_axes.c    axes of a block graph and its tail, accesses
//   skinny_term.c    products, statistics -> values    skinny_sums.c    what sums are pushed through
//   skinny_plan.c    what the axes are                 skinny_shape.c   what knobs come to
//   skinny_cost.c    what is counted                   skinny_ahead.c   text of what comes before a wait
//   skinny_loop.c    text of the loop
//   skinny_reduce.c  text of what sums over warps      skinny_value.c   text of values
//   skinny_about.c   which nodes text is about         skinny.c         the scheme
#ifndef MICA_LOWER_SKINNY_H
#define MICA_LOWER_SKINNY_H

#include "lower/emit.h"

enum { SK_VALUES = 128, SK_PRODUCTS = 6, SK_STATS = 4, SK_SECONDS = 4, SK_AXES = 64, SK_ROWS = 32, SK_SAVES = 4 };

// An axis is a letter, a loop or a grid axis of the block graph, or one of those of its tail that the tail has for itself.
// Sets of axes are bits.
struct sk_access { // as struct access, by axis
  int tensor;
  int64_t offset, stride[SK_AXES];
};
struct sk_space {
  int n;
  int64_t size;
  int axis[SK_AXES];
};

struct sk_about {
  int node; // -1: none
  bool tail;
};

enum { SK_LOOP, SK_WIDE, SK_INNER }; // who needs a value: the loop, the savers, the second product SK_INNER + i
enum sk_kind { SK_CONST, SK_LOAD, SK_OP, SK_PRODUCT, SK_STAT, SK_SECOND };
struct sk_value {
  enum sk_kind kind;
  enum op op; // SK_OP
  struct attrs a;
  int x, y;              // values; -1: none. SK_SECOND: x by the iterator `index`
  int index;             // iterator, product, statistic
  int number;            // SK_SECOND: which
  uint64_t has;          // axes
  unsigned reached;      // bits: what needs it
  struct sk_about about; // of products and statistics, what takes the sums of the loop
};
struct sk_product {
  int x;    // value
  int iter; // the weights
  struct sk_space cols;
  bool wide;
  struct sk_about about; // in the loop
};
struct sk_side { // the block graph, or its tail
  const struct norm *n;
  bool tail;
  int letters, loops, grid; // their first axes
  int iters;                // their first iterator
};
struct sk_plan {
  const struct lower_job *j;
  char *why;
  struct sk_side head, tail;
  int naxes;
  int64_t extent[SK_AXES];
  int niter, nsave;
  struct sk_access *iter, *save; // iterators of both, savers of the last
  int64_t at[SK_AXES];           // of head's savers: strides in what they save; of the tail's axes: in what it reads of that
  int nvalues;
  struct sk_value v[SK_VALUES];
  int nproducts, nstats, nseconds;
  struct sk_product product[SK_PRODUCTS];
  int stat[SK_STATS];                   // values that are summed
  struct sk_about stat_about[SK_STATS]; // in the loop
  struct {
    int value;            // the left operand
    struct sk_space cols; // its columns, which are summed
  } second[SK_SECONDS];
  int saved[SK_SAVES]; // values, by saver
  struct sk_space rows, cols, k, blocks;
  uint64_t letters_k;             // letters that products sum
  uint64_t batch;                 // letters that only go along: they number blocks
  uint64_t parts;                 // grid axes whose parts the tail sums
  bool unsummed;                  // the tail reads parts without summing them
  struct sk_about making, taking; // what values are made of at the moment, and the accumulator of which they are summed
};

// What the knobs come to.
enum { KNOB_WARPS, KNOB_COLS, KNOB_DEPTH, KNOB_SPLIT, KNOB_RING, KNOB_AHEAD };
struct sk_shape {
  bool ring; // stages lie in shared memory, not in registers
  int ahead; // rounds that are on their way to the L2 cache before the kernel ahead has ended
  int warps, cols, depth, split;
  int threads, tiles;    // tiles of 8 rows
  int kv;                // values of k a lane has of a step
  int64_t steps, rounds; // steps in all; of each warp
  int64_t subs;          // blocks that share the columns of a block of the graph
  int item;              // columns of an item
  bool early;            // a thread has one item at most, and what it loads for that comes before the loop
  bool by_columns;       // the blocks of a cluster finish different columns; else different rows
  int64_t items, share;  // of a block's columns; of those, finished by each block of the cluster
  struct sk_take {       // by product
    bool along;          // contiguous along k
    int vector;          // columns of a lane; 1 where along
    int chunk, chunks;   // columns of a warp's fragments, how many of them
    int width;           // columns in all
  } take[SK_PRODUCTS];
  int64_t shared; // bytes
  int registers;  // of a thread, roughly
};

// ---- skinny_walk.c ----
void sk_space_push(const struct sk_plan *p, struct sk_space *s, int axis);
uint64_t sk_space_axes(const struct sk_space *s);
struct sk_coord {
  const struct sk_space *space;
  const char *index; // text, without operators that bind less than *; NULL: only looking
  bool along;        // vectors lie along this space, and the index counts them
};
// Number of a vector of `unit` elements of the access's buffer; the block's place is added. False where elements do not lie
// so: a stride that is not one of vectors, vectors that are not contiguous, an axis that no coordinate gives.
bool sk_address(const struct sk_plan *p, const struct sk_access *a, int unit, int n, const struct sk_coord *at, struct str *out);

// ---- skinny_about.c ----
// make() by the node that makes the tensor.
int sk_making(struct sk_plan *p, const struct sk_side *s, int tensor, int (*make)(struct sk_plan *p, const struct sk_side *s, int tensor));
struct sk_about sk_about_node(const struct sk_side *s, const struct node *n);
struct sk_about sk_about_iter(const struct sk_plan *p, int iter);                    // its node
struct sk_about sk_about_sum(const struct sk_plan *p, enum sk_kind kind, int index); // of the value of a product or statistic

// ---- skinny_axes.c ----
bool sk_sides(struct sk_plan *p); // axes, accesses of both sides
struct sk_space sk_space_of(const struct sk_plan *p, const struct sk_side *s, const struct norm_dim *d);
uint64_t sk_axes_of(const struct sk_plan *p, const struct sk_access *a); // on which it depends
bool sk_tail_sums(struct sk_plan *p, const struct norm_dim *d);          // the tail sums parts; sets p->parts
bool sk_same_columns(struct sk_plan *p);                                 // columns of wide products that nothing joins are counted together

// ---- skinny_term.c ----
int sk_no(struct sk_plan *p, const char *what);                   // -1; the first reason stays
const struct node *sk_maker(const struct sk_side *s, int tensor); // of its root
const struct norm_tensor *sk_tile(const struct sk_side *s, int tensor);
int sk_iterator(const struct sk_side *s, int tensor);    // its number; -1: no iterator's
bool sk_is_element(const struct sk_side *s, int tensor); // made element by element of what is loaded
// Values; -1 with a reason.
int sk_operate(struct sk_plan *p, enum op op, const struct attrs *a, int x, int y);
int sk_scaled(struct sk_plan *p, int x, double by);
int sk_load(struct sk_plan *p, int iter);
int sk_constant(struct sk_plan *p, const struct node *n);
int sk_matmul(struct sk_plan *p, int a, int b);                                                         // by weights, over all of k
int sk_second(struct sk_plan *p, const struct sk_side *s, int x, int b);                                // of value x
int sk_statistic(struct sk_plan *p, int tensor, const struct norm_dim *d, unsigned flags, bool square); // or a product of one row
// Of x * w, which is summed over d: the tensor w, whose columns are not summed, and x, which is of d only; -1: it is not that.
int sk_weights(const struct sk_side *s, int tensor, const struct norm_dim *d, int *x);

// ---- skinny_sums.c ----
int sk_after(struct sk_plan *p, const struct sk_side *s, int tensor); // the value of a tensor after the loop; -1 with a reason

// ---- skinny_plan.c ----
int sk_plan_make(const struct lower_job *j, struct sk_plan *out, char why[160]);

// ---- skinny_shape.c ----
bool sk_shape_make(const struct sk_plan *p, const struct knobs *k, struct sk_shape *out); // false: does not fit
int sk_staged(const struct sk_plan *p, const struct sk_shape *s, int value); // columns of a second product's weights in shared memory; 0: none

// ---- skinny_cost.c ----
int64_t sk_round_bytes(const struct sk_plan *p, const struct sk_shape *s); // that a block loads in a round: a stage of a ring
double sk_room(const struct sk_plan *p, const struct sk_shape *s);         // blocks on a multiprocessor
void sk_count(const struct sk_plan *p, const struct sk_shape *s, struct kernel_counts *out);

// ---- skinny_loop.c, skinny_reduce.c, skinny_value.c ----
struct sk_emit {
  struct text t;
  bool dependent;
  const struct sk_plan *p;
  const struct sk_shape *s;
  const char **name; // of buffers, by tensor of the kernel graph
};
struct sk_about sk_text_about(struct sk_emit *e, struct sk_about a); // of what follows; returns what it was before (skinny_about.c)
const char *sk_element(const struct sk_emit *e, const struct sk_access *a, int unit, int n, const struct sk_coord *at); // "%g_W.tile([8])[...]"
bool sk_streams(const struct sk_plan *p, int value);                                                                    // it is loaded in every round
void sk_emit_ahead(struct sk_emit *e); // before the wait for the kernel ahead
void sk_emit_loop(struct sk_emit *e);
void sk_emit_stage(struct sk_emit *e);  // before the loop: weights of second products on their way to shared memory
void sk_emit_early(struct sk_emit *e);  // and what else is loaded for the results
void sk_emit_inbox(struct sk_emit *e);  // where other blocks of the cluster write; they may while this one still is in its loop
void sk_emit_reduce(struct sk_emit *e); // after it: everything

// Text that gives the executing thread value v as %vN, `width` columns of row @row from column group @col on. `done`: by
// value, whether its text stands already.
struct sk_place {
  int from; // SK_WIDE, SK_INNER + i
  int width;
  bool done[SK_VALUES];
};
enum sk_load { SK_DECLARE, SK_MOVE, SK_VALUE }; // registers for it, the load, the value
void sk_emit_load(struct sk_emit *e, const struct sk_place *at, int v, enum sk_load how);
void sk_emit_value(struct sk_emit *e, struct sk_place *at, int v);
// %out = the sum of what the warps, or the blocks of the cluster, have of a product or a statistic.
void sk_emit_parts(struct sk_emit *e, const char *out, const char *of, int number, int parts, int width, const char *element);

#endif

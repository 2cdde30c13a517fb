// kern: the value IR of GPU kernels. A kernel is a list of values over axes, made from the normal form of a block graph (plan/norm.h). Rewrite rules
// improve the values. Schemes (src/lower) then only decide where values are stored and how data move.
//
// Glossary
//   axis        an index with an extent: a letter, grid axis or loop axis of the block graph or of its tail
//   value       one number for each index of its axes: a load, a constant, an elementwise operator, a reduction or a product
//   reduction   a sum, maximum or product over the axes in `folded`; the result lacks these axes
//   scan        the prefix sums along an axis; the result keeps that axis
//   product     a matrix product, summed over `folded`; rows are axes of the left operand alone, columns of the right one
//   running     has a value in each loop iteration: KERN_RUN_MAX, the maximum so far; KERN_RUN_MOVE, the previous maximum minus that
//   rule        a row of rule.def: a rewrite that does not change saved values over the reals
//
// Files
//   kern_value.c    builds values; merges equal ones
//   kern_make.c     normal form -> values              kern_parts.c    concatenated and split tensors
//   kern_chosen.c   data-dependent indices
//   kern_axes.c     joins axes                         kern_tail.c     appends a tail to its kernel
//   rule.def, kern_rule.c   the table of rules and its driver; rule_*.c the rules
//   kern_hidden.c   finds masked loop iterations      kern_bound.c    upper bounds of magnitudes
//   kern_condition.c  conditions on indices as linear inequalities
//   kern_check.c    checks that a kernel is well formed
//   kern_print.c    kernel -> text                     kern_parse.c    text -> kernel
#ifndef MICA_KERN_KERN_H
#define MICA_KERN_KERN_H

#include "plan/norm.h"

enum { KERN_AXES = 64, KERN_BASES = 8, KERN_CHOSEN_BY = 2 };
typedef uint64_t axis_set;
#define AXIS(a) ((axis_set)1 << (a))
// Loops over the axes of a set, in order.
#define EACH_AXIS(a, set) for (int a = axis_from(set, 0); a < KERN_AXES; a = axis_from(set, a + 1))
static inline int axis_from(axis_set s, int a) { return a < KERN_AXES && s >> a ? a + __builtin_ctzll(s >> a) : KERN_AXES; }
static inline axis_set axis_renamed(axis_set s, int from, int to) { return s >> from & 1 ? (s & ~AXIS(from)) | AXIS(to) : s; }

struct kern_access { // element offset + sum over axes a of stride[a] * a of a tensor's buffer
  int tensor;        // in the kernel graph
  enum dtype type;
  int64_t elements; // elements of the buffer
  int64_t offset, stride[KERN_AXES];
  // For tails. base: strides of the coordinates @base0, ... of the tile text. rank: the sum over a of rank[a] * a is the cluster rank of the block
  // that has the element in shared memory.
  int64_t base[KERN_BASES], rank[KERN_AXES];
  // KERN_CHOSEN and KERN_PLACED have an entry for each index operand. Its value, from 0 to limit - 1, is multiplied by stride. limit 0: no entry.
  // A save of KERN_TOP or KERN_TOP_AT uses the first entry for the position among the selected elements.
  struct {
    int64_t stride, limit;
  } by[KERN_CHOSEN_BY];
  bool left;  // in shared memory, stored there by the head of this tail
  bool index; // no memory: the element is offset + sum of stride * axis itself
  bool truth; // a boolean tensor: each element is 0 or 1, in any stored type
};

enum kern_kind {
#define KERN_KIND(id, ...) KERN_##id,
#include "kern/kern_kind.def"
  KERN_KINDS
};
#define KERN_FLAGS(X) X(LOADS) X(OVER) X(FOLDS) X(TOPS) X(RUNS) X(KEEPS) X(LARGEST) // of kinds; described in kern_kind.def
enum {
#define X(id) KERN_##id##_BIT,
  KERN_FLAGS(X)
#undef X
#define X(id) KERN_##id = 1 << KERN_##id##_BIT,
      KERN_FLAGS(X)
#undef X
};
extern const struct kern_kind_row { // kern_kind.def
  const char *name;
  int nin;
  unsigned flags;
} kern_kinds[KERN_KINDS];

// Elementwise operators that only kernels have, numbered after those of ir/op.def.
enum kern_op {
  KERN_FIRST_OP = OPS - 1,
#define KERN_OP(id, ...) KERN_##id,
#include "kern/kern_op.def"
#undef KERN_OP
  KERN_OPS
};
struct kern_op_row {
  const char *name, *tile; // name: in text; tile: its operator in the tile language; NULL: several operators
  int nin;
  unsigned attrs, flags; // of ir/op.def
  double cost;
};
struct kern_op_row kern_op(int op);
double kern_apply(int op, const struct attrs *a, double x, double y);
double kern_guard_limit(double c); // guard(c) x is c if |x| is below this limit
double kern_guard_power(double c); // its value for other x: a power of 2

struct kern_value {
  enum kern_kind kind;
  int op;         // for KERN_MAP: enum op or enum kern_op
  struct attrs a; // constants of op; the scalar of KERN_CONST
  int nin, in[2];
  axis_set axes, folded;
  axis_set batch;        // for KERN_PRODUCT: batch axes
  struct kern_access at; // of loads (kern_loads). KERN_PLACED: only `by`. KERN_TOP, KERN_TOP_AT: the position of an element along `folded`
  int about, within;     // about: the graph node that the value computes; within: for sums, the node that computes the terms.
                         // node + 1 of the block graph, -(node + 1) of the tail's; 0: none
  int uses;              // set by kern_live: live values and saves that read it
  bool live;             // set by kern_live
};
struct kern_save {
  int value;
  axis_set axes; // axes that its position in memory depends on
  struct kern_access at;
  int about;
};
struct kern {
  struct arena *mem;
  int naxes;
  int64_t extent[KERN_AXES]; // 1: the axis does not exist
  axis_set letters, loops;   // letters: letters of tiles; loops: loop axes, and letters that replace them
  axis_set folded;           // reduced by any live value
  int nvalues, cap, nsaves;
  struct kern_value *v; // each after its operands
  struct kern_save *save;
};
static inline bool kern_has(const struct kern_value *v, unsigned flags) { return kern_kinds[v->kind].flags & flags; } // any of these flags
static inline bool kern_loads(const struct kern_value *v) { return kern_has(v, KERN_LOADS); }
static inline bool kern_tops(const struct kern_value *v) { return kern_has(v, KERN_TOPS); }
static inline bool kern_folds(const struct kern_value *v) { return kern_has(v, KERN_FOLDS); }
static inline bool kern_scans(const struct kern_value *v) { return v->kind == KERN_SCAN; }

// ---- kern_make.c ----
// Makes the values of n's block graph. store: the stored types of the kernel graph's tensors; NULL: their own types. The first axis gets number
// `first`. tail: n is a tail, so `about` is negative. Returns OK, or NO with the reason in why.
int kern_make(struct arena *mem, const struct norm *n, const enum dtype *store, int first, bool tail, struct kern *out, char why[160]);

// ---- kern_value.c: functions return the number of a value, which may already exist ----
// Sets the axes of the value, except for spreads. A sum over an axis that its operand lacks becomes a multiplication by the extent.
int kern_add(struct kern *k, struct kern_value v);
int kern_spread(struct kern *k, int v, axis_set axes, int about); // broadcasts v along these axes
int kern_operands(const struct kern_value *v);
axis_set kern_axes_of(const struct kern *k, const struct kern_value *v); // the axes given by operands, memory and `folded`
int kern_load(struct kern *k, const struct kern_access *at, int about);
int kern_const(struct kern *k, double c, int about);
int kern_map(struct kern *k, int op, const struct attrs *a, int x, int y, int about); // y: -1 for one operand; a: may be NULL
int kern_scaled(struct kern *k, int x, double by, int about);
int kern_fold(struct kern *k, enum kern_kind kind, int x, axis_set over, int about);
axis_set kern_present(const struct kern *k, axis_set s); // axes of s with extents above 1
axis_set kern_strided(const struct kern *k, const struct kern_access *a);
int64_t kern_extent(const struct kern *k, axis_set s);
bool kern_same_access(const struct kern_access *a, const struct kern_access *b);
void kern_live(struct kern *k); // sets `live`, `uses` and the set of reduced axes

bool kern_is_element(const struct kern *k, int v); // whether v is computed element by element from loads

// ---- kern_bound.c ----
// Upper bound of the magnitude of finite elements of v, ignoring rounding of sums; INFINITY: no bound is known.
double kern_bound(const struct kern *k, int v);

// ---- kern_hidden.c, kern_condition.c ----
enum { KERN_BOUNDS = 8 };
struct kern_sum { // constant + sum over axes a of stride[a] * a + by * the value of a load
  int64_t constant, stride[KERN_AXES], by;
  int load; // a loop-invariant load, if `by` is not 0
};
struct kern_keep { // x where the condition is 1, `scalar` where it is 0
  int x, condition;
  double scalar;
};
bool kern_is_keep(const struct kern *k, const struct kern_value *v, struct kern_keep *out); // as kern_make builds it, or KERN_SELECT
struct kern_hidden { // root: a masked score. It is `shown` if all of bound[] are at least 0, else a low constant. -1: there is none
  int root, shown, nbounds;
  bool loads;    // some bound contains a load: the mask is known only at run time
  int more;      // -1, or a load: where it is not positive, `added` has no effect
  int added;     // a second mask, which only some rows read
  int condition; // the condition of one mask, as a value
  axis_set axes; // axes of all conditions
  struct kern_sum bound[KERN_BOUNDS];
};
// Whether results do not depend on iterations in which a bound is negative for all elements of a block, and what the bounds are. The loops have exactly
// one masked score, or else masked results or operands.
bool kern_hides(const struct kern *k, struct kern_hidden *h);
// Adds all bounds of the condition, or none if it is not a conjunction of bounds.
bool kern_add_bounds(const struct kern *k, int condition, struct kern_hidden *h);
void kern_sum_add(struct kern_sum *to, int64_t by, const struct kern_sum *x); // to += by * x
bool kern_is_fixed_load(const struct kern *k, int v);                         // a load that does not change with the loop, and no index

// ---- kern_tail.c ----
// Appends the values of a tail to k. The tail's axes must be numbered after those of k. head: the normal form of k. False: axes do not match.
bool kern_join_tail(struct kern *k, const struct kern *tail, const struct norm *head);

// ---- kern_axes.c ----
bool kern_rename(struct kern *k, int from, int to); // false if an access has different strides along both
void kern_forget(struct kern *k, int axis);         // removes the axis
void kern_join_axes(struct kern *k);                // joins axes and renumbers them without gaps

// ---- kern_rule.c ----
enum kern_rule {
#define RULE(id, ...) KERN_RULE_##id,
#include "kern/rule.def"
#undef RULE
  KERN_RULES
};
#define KERN_BIT(id) (1u << KERN_RULE_##id)
const char *kern_rule_name(enum kern_rule r);
const char *kern_rule_doc(enum kern_rule r);
bool kern_rule_find(const char *name, enum kern_rule *out);
// Applies the rules of the set until none changes anything; returns the number of changes.
int kern_rewrite(struct kern *k, unsigned rules);

// ---- kern_check.c, kern_print.c, kern_parse.c ----
bool kern_check(const struct kern *k, char why[160]); // false: not well formed; why says the reason
void kern_print(const struct kern *k, struct str *out);
int kern_parse(struct arena *mem, const char *text, struct kern *out, struct err *e);

#endif

// kern: the value IR of kernels for GPUs. A kernel is a list of values over axes, made from the normal form of a block graph (plan/norm.h);
// rewrite rules improve it, and schemes (src/lower) only decide where values are and how data move.
//
// Glossary
//   axis        a letter, a grid axis or a loop axis of the block graph, or one of its tail; it has an extent
//   value       one number for each index of its axes: a load, a constant, an elementwise operator, a reduction or a product
//   reduction   a sum, maximum or product over the axes in `folded`, which the result does not have
//   scan        the sums of the elements so far along an axis, which the result has too
//   product     the sum over `folded` of its left operand times its right one; each has axes of its own (rows, columns)
//   running     a value of each iteration of the loops: the maximum so far (KERN_RUN_MAX), the maximum before less that (KERN_RUN_MOVE)
//   rule        a rewrite that leaves what is saved the same over the reals; a row of rule.def
//
// Files
//   kern_value.c    building values; equal values are one
//   kern_make.c     normal form -> values              kern_parts.c    parts that are joined and split
//   kern_chosen.c   data-dependent indices
//   kern_axes.c     axes that go together become one; axes that never meet too      kern_tail.c  a kernel and its tail as one
//   rule.def, kern_rule.c   the rules and what applies them; rule_*.c the rules
//   kern_hidden.c   iterations that a condition on indices hides                    kern_bound.c  how large values can be
//   kern_check.c    what a well-formed kernel is
//   kern_print.c    kernel -> text                     kern_parse.c    the same back
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

struct kern_access { // element offset + sum stride[a] a of a tensor's buffer
  int tensor;        // in the kernel graph
  enum dtype type;
  int64_t elements; // elements of the buffer
  int64_t offset, stride[KERN_AXES];
  // For tails: strides along coordinates @base0, ... that all axes share; in shared memory, of block sum rank[a] a of the cluster.
  int64_t base[KERN_BASES], rank[KERN_AXES];
  // KERN_CHOSEN and KERN_PLACED have an entry for each index: stride times a value from 0 to limit - 1; limit 0: none. A save of KERN_TOP or
  // KERN_TOP_AT uses the first entry for the number of the selected element.
  struct {
    int64_t stride, limit;
  } by[KERN_CHOSEN_BY];
  bool left;  // the head of a tail left it in shared memory
  bool index; // no memory: the element is its own index
  bool truth; // of booleans, which may be stored as numbers: each is 0 or 1
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
  const char *name, *tile; // name: in text; tile: the elementwise operator of the tile language, NULL: a sequence of them
  int nin;
  unsigned attrs, flags; // of ir/op.def
  double cost;
};
struct kern_op_row kern_op(int op);
double kern_apply(int op, const struct attrs *a, double x, double y);
double kern_guard_limit(double c); // guard(c) is c for numbers below this limit, else the power of 2
double kern_guard_power(double c);

struct kern_value {
  enum kern_kind kind;
  int op;         // for KERN_MAP: enum op or enum kern_op
  struct attrs a; // constants of op; the scalar of KERN_CONST
  int nin, in[2];
  axis_set axes, folded;
  axis_set batch;        // for KERN_PRODUCT: batch axes
  struct kern_access at; // for loads (kern_loads); for KERN_PLACED only `by`; for KERN_TOP and KERN_TOP_AT the number of an element along `folded`
  int about, within;     // about: the node that it belongs to; within: for sums, the node that computes their terms: node + 1 of the block graph,
                         // -(node + 1) of the tail's; 0: none
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
  axis_set letters, loops;   // which axes are letters of tiles, and which are loop axes (or letters for them)
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
// Makes the values of n's block graph. store: the stored types of tensors of the kernel graph (NULL: their own). Axes begin at number `first`; tail:
// it is a tail, for `about`. NO with the reason in why.
int kern_make(struct arena *mem, const struct norm *n, const enum dtype *store, int first, bool tail, struct kern *out, char why[160]);

// ---- kern_value.c: functions return the number of a value, which may already exist ----
// sets axes of all values except spreads; a sum over axes that its operand lacks becomes a product
int kern_add(struct kern *k, struct kern_value v);
int kern_spread(struct kern *k, int v, axis_set axes, int about); // broadcasts v along these axes
int kern_operands(const struct kern_value *v);
axis_set kern_axes_of(const struct kern *k, const struct kern_value *v); // the axes given by operands, memory and `folded`
int kern_load(struct kern *k, const struct kern_access *at, int about);
int kern_const(struct kern *k, double c, int about);
int kern_map(struct kern *k, int op, const struct attrs *a, int x, int y, int about); // y: -1 for one operand; a: may be NULL
int kern_scaled(struct kern *k, int x, double by, int about);
int kern_fold(struct kern *k, enum kern_kind kind, int x, axis_set over, int about);
axis_set kern_present(const struct kern *k, axis_set s); // those of extents above 1
axis_set kern_strided(const struct kern *k, const struct kern_access *a);
int64_t kern_extent(const struct kern *k, axis_set s);
bool kern_same_access(const struct kern_access *a, const struct kern_access *b);
void kern_live(struct kern *k); // sets `live` and the set of reduced axes

bool kern_is_element(const struct kern *k, int v); // whether v is computed element by element from loads

// ---- kern_bound.c ----
// Upper bound of the magnitude of finite values of v, without the rounding of sums; INFINITY: none.
double kern_bound(const struct kern *k, int v);

// ---- kern_hidden.c ----
enum { KERN_BOUNDS = 8 };
struct kern_sum { // constant + sum stride[a] a + by times the value of a load
  int64_t constant, stride[KERN_AXES], by;
  int load; // a loop-invariant load, if `by` is not 0
};
struct kern_keep { // x where the condition is 1, `scalar` where it is 0
  int x, condition;
  double scalar;
};
bool kern_is_keep(const struct kern *k, const struct kern_value *v, struct kern_keep *out); // in the form of the graph, or after the rule `select`
struct kern_hidden { // root is an unmasked score if all of bound[] are at least 0, else a low constant
  int root, shown, nbounds;
  bool loads; // some bound loads a number, or `more` exists: the mask of a row is known only at run time
  int more;   // -1, or a load: in rows where it is not above 0, `added` of the mask changes nothing and may be replaced by 0
  int added;
  int condition; // of one step
  axis_set axes; // axes of the conditions
  struct kern_sum bound[KERN_BOUNDS];
};
// Whether the loops of k have exactly one such value, and their results do not depend on iterations that it masks completely.
bool kern_hides(const struct kern *k, struct kern_hidden *h);

// ---- kern_tail.c ----
// Appends a tail to k; the tail's axes are numbered after those of k, whose normal form is `head`. False if their axes do not match.
bool kern_join_tail(struct kern *k, const struct kern *tail, const struct norm *head);

// ---- kern_axes.c ----
bool kern_rename(struct kern *k, int from, int to); // false if an access has both
void kern_forget(struct kern *k, int axis);         // removes the axis
void kern_join_axes(struct kern *k);                // joins axes, and numbers them without gaps

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
bool kern_check(const struct kern *k, char why[160]); // false with the reason
void kern_print(const struct kern *k, struct str *out);
int kern_parse(struct arena *mem, const char *text, struct kern *out, struct err *e);

#endif

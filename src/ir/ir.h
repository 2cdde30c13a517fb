// ir: muGraphs. One struct holds a graph at each of the three levels, so that one builder, one checker, one
// interpreter and one printer serve all of them.
//
// Glossary
//   kernel graph   tensors in device memory; nodes are library operators or BLOCK nodes
//   block graph    what one thread block does: iterators load tiles, operators work on tiles in shared
//                  memory (per-thread scratch on a CPU), accumulators end the for-loop, savers store
//   thread graph   the same inside a block, over registers; grid = the threads of the block
//   program        a kernel graph without BLOCK nodes
//   grid           up to three axes x, y, z of blocks; loop axes i, j, k, l, iterated row-major
//   imap, fmap     for an iterator: the dimension that each grid (loop) axis partitions, or REPLICA
//   omap           for a saver: the dimension along which the parts of each grid axis are joined
//   extent         in full run-time extent: of a dimension, known when the program runs; the shape has its bound, and a scalar input the value
//   padding        elements along such a dimension from the value on; what they are does not matter
//   world, rank    devices that all run one program, each on what is its own; one of them, from 0
//   shard          a rank's part of an input, along one dimension
//   phase          where in a block graph a tensor lives relative to the loop, see enum phase
//
// Files
//   op.def, attr.def   the tables; op.c gives access to them
//   graph.c    building: graph_add infers shapes, checks, appends; graph_copy
//   rebuild.c  the same graph once more with something changed; graph_cast
//   infer.c    shapes and phases, one function an index rule
//   check.c    explains what is wrong with a whole graph
//   ir_schedule.c which axis runs over what, for people
//   print.c    graph -> text (the language of docs/language.md)
//   json_read.c, json_write.c   graph <-> JSON (docs/mugraph.md has the schema)
//   expand.c   composites -> primitives
//   index.c    conditions on indices
//   integer.c    ranges of whole numbers
//   integer_check.c  elements against their range
//   extents.c  run-time extents of results
//   extent_pack.c   their values, and arrays of these
//   at.c       shapes of operators that choose elements by data
//   state.c    states, which are written in place: versions, and the order of reads and writes
//   graph_key.c  a name that other builds give to the same graph
//   unread.c   removes dead nodes
//   world.c    programs of several devices: shards, and one graph with the operators of every rank
#ifndef MICA_IR_H
#define MICA_IR_H

#include "base/base.h"
#include "base/num.h"

enum { MAX_DIMS = 8, MAX_GRID = 3, GRID_AXES = 6, MAX_LOOPS = 4, MANY = 1 << 20, REPLICA = -1 };

// ---- dtypes (enum dtype: base/num.h) ----------------------------------------------------------------------------------------
const char *dtype_name(enum dtype t);
int dtype_bytes(enum dtype t);
bool dtype_parse(const char *s, enum dtype *t);
int dtype_read(const char *s, enum dtype *t, struct err *e); // with a message and the names that there are
double dtype_largest(enum dtype t);                          // finite number
double dtype_low(enum dtype t);                              // a score: exp(low - s) is 0 of any usual s, and 2 low is finite
double dtype_underflow(enum dtype t);                        // by which a number too small for the dtype may be off
enum dtype dtype_join(enum dtype a, enum dtype b); // of an operator's result: equal ones stay, whole numbers take the other's, others give f32

// ---- shapes ----------------------------------------------------------------------------------------
struct shape {
  int n; // number of dimensions; 0 is a scalar
  int64_t d[MAX_DIMS];
};
int64_t shape_size(const struct shape *s); // number of elements
bool shape_eq(const struct shape *a, const struct shape *b);
void shape_text(char out[128], const struct shape *s); // "[2, 256, 64]"
// Right-aligned broadcast of extents that agree or are 1; false when they do not.
bool shape_broadcast(const struct shape *a, const struct shape *b, struct shape *out);

// ---- the operator table ------------------------------------------------------------------------------
enum level { KERNEL, BLOCK, THREAD, LEVELS };
const char *level_name(enum level l); // "kernel", "block", "thread"

enum op {
#define OP(id, ...) OP_##id,
#include "ir/op.def"
#undef OP
  OPS
};

// Index rules: how the indices of the output read the inputs.
enum rule {
  RULE_IO,        // input, output, iterator, saver
  RULE_CONST,     // no input
  RULE_INDEX,     // no input; an element is its row-major number
  RULE_MAP,       // elementwise, right-aligned broadcast
  RULE_CONTRACT,  // matrix product
  RULE_REDUCE,    // along one dimension
  RULE_VIEW,      // each output element is one input element
  RULE_AT,        // elements chosen by data: gather, update, topk (at.c)
  RULE_CONCAT,    // joins along a dimension
  RULE_SPLIT,     // parts along a dimension
  RULE_WORLD,     // of all ranks (world.c)
  RULE_COMPOSITE, // expand.c rewrites it
  RULE_ACCUM,     // over loop iterations
  RULE_GRAPH,     // defined by a sub-graph
};

// How the abstract expression of the result is built (search/abstract.c).
enum abstract {
  AE_NONE,
  AE_ID,
  AE_CONST,
  AE_ADD,
  AE_SUB,
  AE_NEG,
  AE_MUL,
  AE_DIV,
  AE_EXP,
  AE_SQRT,
  AE_RSQRT,
  AE_SQUARE,
  AE_DEFINED,
  AE_OPAQUE,
  AE_SCALE,
  AE_SHIFT,
  AE_EWMAX,
  AE_EWMIN,
  AE_MATMUL,
  AE_CONCAT_MATMUL,
  AE_SUM,
  AE_MEAN,
  AE_MAX,
  AE_PROD,
  AE_CONCAT,
  AE_ACCUM,
  AE_ACCUM_MAX,
  AE_GRAPH,
};

enum {
  IS_K = 1 << KERNEL,
  IS_B = 1 << BLOCK,
  IS_T = 1 << THREAD,
  // flags of a row
  COMMUTES = 1 << 0,       // op(x, y) = op(y, x)
  OPAQUE = 1 << 1,         // has no laws: inside a Lax subprogram it is an unknown function
  MEAN = 1 << 2,           // divides by the number of elements folded
  RMS = 1 << 3,            // folds squares, takes the root of the mean at the end
  REDUCES = 1 << 4,        // an accumulator that also reduces along dim, or a composite that does
  RESCALES = 1 << 5,       // an accumulator that multiplies the old value by its second argument first
  RUNNING = 1 << 6,        // an accumulator whose value may be used inside the loop
  KEEPS_ZERO = 1 << 7,     // elementwise, and 0 of zeros
  KEEPS_SIGN = 1 << 8,     // of one argument, positive where that is positive only
  SCALES = 1 << 9,         // its argument times a constant
  RISES = 1 << 10,         // of one argument, strictly increasing where it is defined
  BRACKET = 1 << 11,       // of a comparison: 1 or 0, exact in every dtype
  CHOOSES = 1 << 12,       // a composite of a condition and two values, which broadcast and may be numbers
  INDEXES = 1 << 13,       // a composite whose result is an index
  ENCODES = 1 << 14,       // a composite whose result has a dimension more, and is a condition
  WHOLES = 1 << 15,        // a composite of whole numbers
  ADDITIVE = 1 << 16,      // f(x + y) = f(x) + f(y); so does what SCALES
  STAYS_APART = 1 << 17,   // of all ranks, which exchange nothing: the result stays divided
  JOINS_RANKS = 1 << 18,   // of all ranks: their tensors are joined along dim; without this flag they are added up
  SCATTERS = 1 << 19,      // of all ranks: each rank has its part of the result along dim
  TAKES_PART = 1 << 20,    // a result is a part of the argument along dim
  READS_SLICES = 1 << 21,  // slices along dim of the first argument, by indices in the second
  WRITES_SLICES = 1 << 22, // the same, written
  SELECTS = 1 << 23,       // elements by their values; the second result has their indices
  CONVERTS = 1 << 24,      // of any number a whole one
  NARROW = 1 << 25,        // its result is exact in bf16
  HIDES = 1 << 26,         // a composite whose second argument hides elements along dim; they are 0 in the result
  CORNERS = 1 << 27,       // elementwise; |f(x, y)| of |x| <= a, |y| <= b is the largest where both are at their bounds; so is what RISES
  BY_INDEX = READS_SLICES | WRITES_SLICES,
};

enum {
#define ATTR(id, ...) ATTR_##id,
#include "ir/attr.def"
#undef ATTR
  ATTRS
};
enum {
#define ATTR(id, ...) A_##id = 1 << ATTR_##id,
#include "ir/attr.def"
#undef ATTR
};
enum attr_kind { ATTR_DIM_KIND, ATTR_INT_KIND, ATTR_REAL_KIND, ATTR_LIST_KIND, ATTR_GRID_KIND, ATTR_LOOP_KIND };

struct attrs {
#define ATTR_DIM_FIELD(field) int field;
#define ATTR_INT_FIELD(field) int64_t field;
#define ATTR_REAL_FIELD(field) double field;
#define ATTR_LIST_FIELD(field) struct shape field;
#define ATTR_GRID_FIELD(field) int8_t field[MAX_GRID]; // dimension or REPLICA
#define ATTR_LOOP_FIELD(field) int8_t field[MAX_LOOPS];
#define ATTR(id, field, kind, presence, doc) ATTR_##kind##_FIELD(field)
#include "ir/attr.def"
#undef ATTR
};
struct attrs attrs_default(enum op op); // replica maps, zeros, the row's defaults (layer_norm's eps)

bool attrs_same(const struct attrs *a, const struct attrs *b);
bool attrs_reals_same(const struct attrs *a, const struct attrs *b); // the numbers
struct attrs attrs_reals(const struct attrs *a);                     // nothing but the numbers
double attr_real(const struct attrs *a, int attr);                   // that one, a number
int64_t attr_whole(const struct attrs *a, int attr);                 // that one, a dimension or a count; 0 of others

// The input dimension that is dimension i of a transpose of so many.
static inline int perm_of(const struct attrs *a, int rank, int i) { return a->perm.n ? (int)a->perm.d[i] : i < rank - 2 ? i : 2 * rank - 3 - i; }

// Locals named after attributes that are numbers, for LAW and FLOAT texts of op.def.
#define ATTR_LOCALS(a)                                                               \
  const double scalar = (a)->scalar, lo = (a)->lo, hi = (a)->hi, slope = (a)->slope; \
  (void)scalar, (void)lo, (void)hi, (void)slope

struct attr_row {
  const char *name, *doc;
  enum attr_kind kind;
  bool needed;
  size_t offset; // of the field in struct attrs
};
struct op_row {
  const char *name, *doc;
  const char *code; // text of FLOAT, for code generation
  int least, most;
  enum rule rule;
  unsigned levels, attrs, flags;
  enum abstract abstract;
  double cost;
};
extern const struct op_row op_rows[OPS];
extern const struct attr_row attr_rows[ATTRS];
typedef unsigned __int128 op_set;
#define OP_BIT(op) ((op_set)1 << (op))
bool op_find(const char *name, enum op *op);
int attr_named(const char *name); // the attribute of that name that is a number, or -1
op_set op_parts(enum op op);      // the other operators of which its law is made, a bit each

int64_t common_divisor(int64_t a, int64_t b);              // the greatest
int64_t slice_unit(const struct attrs *a, int64_t extent); // of a slice: the largest number of which start, end and the extent are multiples

// ---- graphs --------------------------------------------------------------------------------------------

// The place of a tensor of a block or thread graph. In a graph without loop axes everything is FIXED.
enum phase {
  FIXED,   // the same in every iteration (fmap = replica); usable inside and after the loop
  VARYING, // changes with the iteration; must pass an accumulator before it is saved
  RUN,     // result of a RUNNING accumulator: its current value inside the loop, the last one after it
  AFTER,   // exists after the loop
};
const char *phase_name(enum phase p);

// The known range of a tensor of whole numbers.
struct whole_range {
  int64_t least, most;
  bool distinct; // no two elements are equal
};
enum { WHOLE_MOST = 1 << 24 };    // kernels compute in fp32, which is exact up to here
enum { WHOLE_DIVIDED = 1 << 21 }; // of //: where a quotient in fp32, rounded down, is right on every target

struct tensor {
  const char *name; // or NULL: the printer invents one
  enum dtype dtype;
  struct shape shape; // of the whole tensor in a kernel graph (of a rank's part, where it has one), of one tile below it
  bool weak;          // made of constants and indices alone: takes the dtype of what it meets
  bool whole;         // holds whole numbers, of that range
  bool state;         // an input that is written in place
  int extent;         // of a scalar input: the number, from 1, of the run-time extent that it holds; 0: none
  int shard;          // of an input: 1 + the dimension along which each rank has its part; 0: all ranks have all of it
  struct whole_range range;
  uint8_t runs[MAX_DIMS]; // by dimension: the number of its run-time extent; 0: it is what the shape says
  enum phase phase;
  int node; // producer
};

struct node {
  enum op op;
  int nin, nout;
  int *in; // tensors, by index. A BLOCK (THREAD) node has one entry an iterator of sub, in order
  int out; // first output; the others follow
  struct attrs a;
  struct graph *sub; // of BLOCK and THREAD nodes
  struct loc at;     // where it was written
};

struct graph {
  enum level level;
  const char *name;
  struct arena *mem;
  struct node *nodes;
  int nnodes, nodes_cap;
  struct tensor *tensors;
  int ntensors, tensors_cap;
  int world;               // ranks that run a kernel graph; 1 or more
  bool rank;               // graph_rank made it: results may be the rank's parts
  int ngrid, nloop;        // of block and thread graphs
  int64_t grid[GRID_AXES]; // blocks (threads) along x, y, z; those who make kernels may cut a grid into more
  int64_t loop[MAX_LOOPS]; // iterations along i, j, k, l
};

static inline bool node_has(const struct node *n, unsigned flags) { return op_rows[n->op].flags & flags; } // one of them
// The number of the part that this result of an operator of RULE_SPLIT is.
static inline int64_t node_part(const struct node *n, int result) { return op_rows[n->op].attrs & A_INDEX ? n->a.index : result; }

void tensor_words(char out[256], const struct tensor *t); // "`X`, f32[2, 64]"
// Room for t's elements, of so many bytes each, zeroed. If there is no memory the error names t.
void *tensor_room(struct arena *mem, const struct tensor *t, size_t each);

struct graph *graph_new(struct arena *mem, enum level level, const char *name);
struct graph *graph_new_as(struct arena *mem, const struct graph *g); // of g's level, name and ranks
// Sets grid and loop extents of an empty block or thread graph.
void graph_axes(struct graph *g, int ngrid, const int64_t *grid, int nloop, const int64_t *loop);

// Appends a node; its outputs' shapes, dtypes and phases are inferred and everything that can be checked
// locally is. Returns OK with the first output's tensor index in *out (outputs are consecutive; *out is
// unspecified where the operator has none), or an error at `at` that names the operator and the shapes.
// For ITER of a sub-graph use graph_iter, whose tile is cut from a tensor of the graph above.
int graph_add(struct graph *g, enum op op, int nin, const int *in, const struct attrs *a, struct loc at, int *out, struct err *e);
int graph_input(struct graph *g, const char *name, enum dtype t, const struct shape *s, struct loc at, int *out, struct err *e);
// The same with the shape of another tensor and what is known of it.
int graph_input_as(struct graph *g, const char *name, enum dtype t, const struct tensor *as, struct loc at, int *out, struct err *e);
// Declares an input that was just made: its range and whether it is a state.
int graph_declare(struct graph *g, int t, const struct whole_range *range, bool state, struct loc at, struct err *e);
// An iterator over tensor `from` of graph `above`. The BLOCK node's in[] must list the same tensors in order.
int graph_iter(struct graph *sub, const struct graph *above, int from, const struct attrs *a, struct loc at, int *out, struct err *e);
// Appends a BLOCK or THREAD node: outputs are the sub-graph's savers in order.
int graph_nest(struct graph *g, struct graph *sub, int nin, const int *in, struct loc at, int *out, struct err *e);
// Names tensor t (printers keep it); a name already taken in g is an error.
int graph_name(struct graph *g, int t, const char *name, struct loc at, struct err *e);

int graph_inputs(const struct graph *g, int *tensors);         // INPUT (ITER) tensors in order; returns how many; may be NULL
int graph_outputs(const struct graph *g, int *tensors);        // tensors given to OUTPUT (SAVE) nodes in order
int graph_ops(const struct graph *g);                          // operators, accumulators and nested graphs: no iterators, savers, views, constants
int64_t graph_blocks(const struct graph *g);                   // product of grid
int64_t graph_iterations(const struct graph *g);               // product of loop
int64_t graph_tile_bytes(const struct graph *g, int elem);     // sum over tile tensors, elem bytes an element
bool graph_same(const struct graph *a, const struct graph *b); // same structure, attributes and shapes; names ignored
uint64_t graph_hash(const struct graph *g);                    // of what graph_same compares
// graph_key.c: a name in hexadecimal that every build gives to the graph, whatever its tensors are called and in whatever order its operators are.
enum { GRAPH_KEY = 33 };
void graph_key(const struct graph *g, char out[GRAPH_KEY]);
struct graph *graph_copy(struct arena *mem, const struct graph *g);
// A copy in which input i takes the place of input order[i]; both have the same shape and dtype.
struct graph *graph_reorder(struct arena *mem, const struct graph *g, const int *order);

// rebuild.c: a copy made node by node through graph_add, with what the hooks change; NULL: nothing.
struct axes { // extents of the axes of a block or thread graph
  int64_t grid[MAX_GRID], loop[MAX_LOOPS];
};
struct rebuilding {
  const void *arg;
  enum dtype (*dtype)(const void *arg, enum dtype was);                           // of an input
  void (*axes)(const void *arg, const struct graph *g, int node, struct axes *a); // of the graph in that node of g
  // Attributes of n, whose first input had shape `was` and now has `now`, and whose output was `made`; false: impossible.
  bool (*attrs)(const struct node *n, const struct shape *was, const struct shape *now, const struct shape *made, struct attrs *a);
};
int graph_rebuild(struct arena *mem, const struct graph *g, const struct rebuilding *how, struct graph **out, struct err *e);
// Adds a node of g to another graph as it is. map: by tensor of g, the tensor of `to` in its place, which is set for the node's outputs.
// above, from: of ITER, the graph above `to` and its tensor that is cut.
int graph_take(struct graph *to, const struct graph *above, int from, const struct graph *g, const struct node *n, int *map, struct err *e);
// unread.c: the graph without what nothing reads, g itself where that is nothing; weak: only without such tensors of constants and indices.
int graph_without_unread(struct arena *mem, const struct graph *g, bool weak, struct graph **out, struct err *e);
int graph_root(const struct graph *g, int t); // the tensor that t is a view of; t itself where it is no view
// The tensor from which an iterator of the block graph of n loads this tile; -1 if another operator makes the tile.
int node_iterated(const struct node *n, int tile);
void graph_keep_names(struct graph *to, const struct graph *g, const struct node *n, const int *map); // of the node's outputs, where they have none
// A copy with every input of the given dtype (interior dtypes follow).
int graph_cast(struct arena *mem, const struct graph *g, enum dtype t, struct graph **out, struct err *e);

// index.c: a condition on indices as inequalities, where it is a product of comparisons of sums of indices; false where it is none.
enum { INDEX_BOUNDS = 16 };
struct index_sum { // constant + sum step[d] (index along dimension d), of whole numbers
  double constant, step[MAX_DIMS];
};
struct index_bounds { // all of sum[] are at least 0
  int n;
  struct index_sum sum[INDEX_BOUNDS];
};
bool index_bounds_of(const struct graph *g, int c, struct index_bounds *b);
// Is the condition c, of a kernel graph, 1 somewhere along dim for all other indices (everywhere, where dim is -1)? False where
// that is not known.
bool index_reaches(const struct graph *g, int c, int dim);

// integer.c: ranges. Sets dtype and range of the outputs of a node from those of its operands, or says which operand may be too large.
int infer_whole(const struct graph *g, const struct node *n, struct tensor *out, int nout, struct err *e);
struct whole_range range_default(enum dtype t);        // of an input that declares none
bool range_is_default(const struct tensor *t);         // nothing was declared of it
void range_text(char out[96], const struct tensor *t); // "", " < 128256", " >= -1 < 8, distinct"

// integer_check.c: are these elements in t's range, and distinct where it says so? Other tensors always pass.
int range_check(const struct tensor *t, const void *elements, struct err *e); // in t's dtype
int range_check_doubles(const struct tensor *t, const double *x, struct err *e);

// at.c: gather, update, topk.
int infer_at(const struct graph *g, const struct node *n, struct tensor *out, int *nout, struct err *e);
bool graph_chooses(const struct graph *g); // some element is chosen by data

// triangle.c: scans, which are products with a triangle of ones.
struct scan {                  // the sums so far of an operand along a dimension, which the result has too
  const struct node *triangle; // a condition; NULL: the product is no scan
  int x, along;                // number of the operand; dimension
};
// n: a product of g, or of the block graph of `block`, a node of g. It does not read the elements of its triangle.
struct scan graph_scan(const struct graph *g, const struct node *block, const struct node *n);
bool graph_scans(const struct graph *g, const struct node *block, int node); // is the node such a condition, which nothing else reads?

// state.c
// The tensor of which n writes slices, in its place where that is a state: of an update, or of a kernel that is one. -1: none.
int node_updated(const struct node *n);
int graph_state(const struct graph *g, int t);                  // the state input that t is a version of, or -1
int state_number(const struct graph *g, int t);                 // its number among the inputs, or -1
bool state_output(const struct graph *g, const struct node *n); // an OUTPUT that leaves a state's last version in its place
int output_state(const struct graph *g, const struct node *n);  // the number of that state among the inputs, or -1
int state_outputs(struct graph *g, struct err *e);              // an OUTPUT for the last version of each state that has none
// Updates behind everything that reads the version before; an error where something else reads it later.
int state_check(const struct graph *g, struct err *e);
int state_order(struct arena *mem, const struct graph *g, struct graph **out, struct err *e);

// world.c. A kernel graph of a world says what one rank computes: of an input with a shard it sees its own part.
int graph_world(struct graph *g, int64_t ranks, struct loc at, struct err *e);                 // of a graph without nodes
int graph_shard(struct graph *g, int t, int64_t dim, struct loc at, struct err *e);            // of a whole input that was just made
struct shape graph_whole(const struct graph *g, int t);                                        // shape of all ranks' parts of an input
void graph_varying(const struct graph *g, bool *varies);                                       // by tensor: may ranks have different ones?
int world_check(const struct graph *g, struct err *e);                                         // part of graph_check
int world_refuse(const struct graph *g, const char *who, struct err *e);                       // an error where there is more than one rank
bool graph_collects(const struct graph *g);                                                    // some operator is one of all ranks
bool node_meets(const struct node *n);                                                         // an operator in which ranks exchange data
int graph_unfold(struct arena *mem, const struct graph *g, struct graph **out, struct err *e); // all ranks as one graph of whole inputs
// The graph of one rank: the same one, whose divided results are the rank's parts.
int graph_rank(struct arena *mem, const struct graph *g, struct graph **out, struct err *e);
int input_shard(const struct graph *g, int t);                          // the dimension along which an input is divided, or -1
int output_shard(const struct graph *g, const struct node *n);          // the same of what an OUTPUT returns
struct shape output_whole(const struct graph *g, const struct node *n); // shape of all ranks' parts of what an OUTPUT returns

// extents.c
enum { MOST_RUNTIME = 16 };
int graph_extents(const struct graph *g);                     // run-time extents of a program
int extent_input(const struct graph *g, int extent);          // the scalar input that holds this one, or -1
const char *extent_name(const struct graph *g, int extent);   // of that input, or NULL
const char *extent_called(const struct graph *g, int extent); // the same in messages
bool extent_told(enum op op);                                 // graphs in files say which extents its result has
bool extent_tells(const struct tensor *t);                    // some dimension has a run-time extent
int extent_along(const struct tensor *t, int extent);         // the dimension that has this one; -1: none, or several
void infer_extents(const struct graph *g, const struct node *n, struct tensor *out, int nout); // of results, from those of the operands
void extent_text(char out[512], const struct graph *g, const struct tensor *t);                // the shape, with names of run-time extents
// Declares a scalar input that was just made: a run-time extent, from `least` to `most`.
int graph_declare_extent(struct graph *g, int t, int64_t least, int64_t most, struct loc at, struct err *e);
// Extents of a result, by dimension; numbers of extents that are not declared, or that have another bound, are errors.
int graph_declare_runs(struct graph *g, int t, int n, const int64_t *runs, struct loc at, struct err *e);
// Inputs and outputs of g get the extents of those of `as`, which has as many.
void graph_extents_as(struct graph *g, const struct graph *as);

// extent_pack.c: arrays that have the values of extents as their shape, and arrays of the bounds.
struct extent_values { // by number, from 1
  int n;
  int64_t value[MOST_RUNTIME + 1];    // 0: not known
  const char *from[MOST_RUNTIME + 1]; // the tensor that said it
};
// An array of this shape stands for t: the extents that it says, which must be those that others said. ERR_EXTENT_BOUND, ERR_SHAPE.
int extents_take(struct extent_values *x, const struct graph *g, const struct tensor *t, const struct shape *s, struct err *e);
int extents_set(struct extent_values *x, const struct tensor *holder, int64_t value, const char *from, struct err *e); // the same of a number
struct shape extents_shape(const struct extent_values *x, const struct tensor *t); // of an array of t; bounds where the values are not known
void extents_spread(const struct shape *whole, const struct shape *part, size_t bytes, void *to, const void *from); // into the first elements
void extents_gather(const struct shape *whole, const struct shape *part, size_t bytes, void *to, const void *from); // of these

// infer.c: shape, dtype and phase of the outputs of a node about to be added, into out[0..nout).
int infer_node(const struct graph *g, const struct node *n, struct tensor *out, int *nout, struct err *e);
// Extents of the tile that an iterator cuts from a tensor of shape s, or an error.
int infer_tile(const struct graph *sub, const struct attrs *a, const struct shape *s, struct loc at, struct shape *tile, struct err *e);

// check.c: rules of a well-formed graph at every level (docs/mugraph.md); explains the first violation.
int graph_check(const struct graph *g, struct err *e);

// print.c: text that the parser reads back to the same graph; tree: a drawing for people, indented by level.
void graph_print(const struct graph *g, struct str *out);
void graph_draw(const struct graph *g, struct str *out);
// The same with what each line is about; what is said of a node lives in mem.
struct draw_line {
  int node[LEVELS];                // from the kernel graph down, -1 below; all -1: the title
  const char *mark, *text, *shape; // of a node: "load", "k = K[x, :, i]", "f16[1, 64, 32]"; of a nested graph the text has its results
  size_t end;                      // of the line, in the text
};
struct draw_lines {
  int n, cap;
  struct draw_line *line;
};
void graph_draw_lines(struct arena *mem, const struct graph *g, struct str *out, struct draw_lines *lines);
// A schedule ("grid x=Q.1 loop i=K.2 | exp") with the extents that the kernels of g have: "grid x=Q.1:4 loop i=K.2:32 | exp".
void graph_schedule(const struct graph *g, const char *schedule, struct str *out);

// json_read.c, json_write.c
void graph_to_json(const struct graph *g, struct str *out);
int graph_from_json(struct arena *mem, const char *text, size_t n, const char *file, struct graph **out, struct err *e);

// expand.c: rewrites composites; every other node is copied. The plain form is what is searched and proved
// (softmax = exp(x) / sum exp(x)); the stable one subtracts the row maximum and is what floats evaluate.
int graph_expand(struct arena *mem, const struct graph *g, bool stable, struct graph **out, struct err *e);
// One composite in its plain form, appended to g by `add` in place of graph_add.
typedef int node_adder(struct graph *g, enum op op, int nin, const int *in, const struct attrs *a, struct loc at, int *out, struct err *e);
int graph_expand_node(struct graph *g, const struct node *n, node_adder *add, int *out, struct err *e);
// For a mask of numbers that is added to scores of a softmax, in a sum of dtype `sum`: where it shows them, and what it adds there;
// appended to g by `add`.
int graph_mask_bias(struct graph *g, int mask, enum dtype sum, node_adder *add, struct loc at, int *shows, int *bias, struct err *e);

#endif

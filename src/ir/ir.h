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
//   extent         short for run-time extent: a dimension's size that is known only at run time. The shape holds its
//                  upper bound; a scalar input holds its value
//   padding        elements of such a dimension at indices >= the run-time extent; their values are unspecified
//   world, rank    the set of devices that run one program, each on its own data; the number of a device, from 0
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
//   print.c    graph -> text (the language of docs/language.md); draw.c: graph -> drawing
//   constants.c  checks of constants
//   json_read.c, json_write.c   graph <-> JSON (docs/mugraph.md has the schema)
//   expand.c   composites -> primitives
//   index.c    conditions on indices
//   integer.c    ranges of whole numbers
//   integer_check.c  elements against their range
//   extents.c  run-time extents of results
//   extent_pack.c   their values, and arrays of these
//   at.c       shapes of operators with data-dependent indices (gather, update, topk)
//   state.c    states, which are written in place: versions, and the order of reads and writes
//   triangle.c   scans as products with a triangle of ones
//   graph_key.c  a key of a graph that is the same in every build of mica
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
int dtype_read(const char *s, enum dtype *t, struct err *e); // as dtype_parse; the error lists the valid names
double dtype_largest(enum dtype t);                          // the largest finite number
double dtype_low(enum dtype t);                              // the score of a masked element: exp(low - s) is 0 for any usual s, and 2 low is finite
double dtype_underflow(enum dtype t);                        // largest absolute error of a result that underflows
enum dtype dtype_join(enum dtype a,
                      enum dtype b); // dtype of an operator's result: equal dtypes stay; an integer takes the other dtype; all other pairs give f32

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
  RULE_AT,        // data-dependent indices: gather, update, topk (at.c)
  RULE_CONCAT,    // joins along a dimension
  RULE_SPLIT,     // parts along a dimension
  RULE_WORLD,     // collective: over all ranks (world.c)
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
  COMMUTES = 1 << 0,        // op(x, y) = op(y, x)
  OPAQUE = 1 << 1,          // has no algebraic laws: the verifier treats it as an unknown function
  MEAN = 1 << 2,            // divides by the number of elements folded
  RMS = 1 << 3,             // folds squares, takes the root of the mean at the end
  REDUCES = 1 << 4,         // an accumulator that also reduces along dim, or a composite that does
  RESCALES = 1 << 5,        // an accumulator that multiplies the old value by its second argument first
  RUNNING = 1 << 6,         // an accumulator whose value may be used inside the loop
  KEEPS_ZERO = 1 << 7,      // elementwise; the result is 0 where all arguments are 0
  KEEPS_SIGN = 1 << 8,      // the result is positive where all arguments are
  SCALES = 1 << 9,          // multiplies its argument by a constant
  RISES = 1 << 10,          // one argument; strictly increasing on its domain
  BRACKET = 1 << 11,        // a comparison: the result is 1 or 0, exact in every dtype
  CHOOSES = 1 << 12,        // a composite that selects one of two values by a condition; the values broadcast and may be constants
  INDEXES = 1 << 13,        // a composite whose result is an index
  ENCODES = 1 << 14,        // a composite whose result is a condition with one more dimension
  WHOLES = 1 << 15,         // a composite on whole numbers
  ADDITIVE = 1 << 16,       // f(x + y) = f(x) + f(y); SCALES implies it
  STAYS_APART = 1 << 17,    // collective without communication: the result stays divided between the ranks
  JOINS_RANKS = 1 << 18,    // collective that concatenates the ranks' tensors along dim; a collective without this flag adds them
  SCATTERS = 1 << 19,       // collective that leaves each rank its part of the result along dim
  TAKES_PART = 1 << 20,     // each result is a part of the argument along dim
  READS_SLICES = 1 << 21,   // reads slices of the first argument along dim; the second argument holds the indices
  WRITES_SLICES = 1 << 22,  // writes slices of the first argument along dim; the second argument holds the indices
  SELECTS = 1 << 23,        // selects elements by value; the second result holds their indices
  CONVERTS = 1 << 24,       // converts a number to a whole number
  NARROW = 1 << 25,         // its result is exact in bf16
  HIDES = 1 << 26,          // a composite whose second argument masks elements along dim; masked elements are 0 in the result
  CORNERS = 1 << 27,        // elementwise; for |x| <= a and |y| <= b, |f(x, y)| is largest at |x| = a, |y| = b; RISES implies it
  CASTS = 1 << 28,          // elementwise, one argument; the dtype of the result has the name of the operator
  NEVER_NEGATIVE = 1 << 29, // the result is at least 0 where it is defined
  STANDS_IN = 1 << 30,      // elementwise, one argument, no laws; a search may use it in place of a function that a program writes out
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
struct attrs attrs_reals(const struct attrs *a);                     // only the attributes that are numbers
double attr_real(const struct attrs *a, int attr);                   // the value of attribute `attr`, which is a number
int64_t attr_whole(const struct attrs *a, int attr);                 // the value of attribute `attr`, a dimension or a count; 0 for other kinds

// The input dimension that becomes dimension i of a transpose of `rank` dimensions.
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
int attr_named(const char *name); // the numeric attribute of this name, or -1
op_set op_parts(enum op op);      // the set of other operators that appear in its law

int64_t common_divisor(int64_t a, int64_t b);              // the greatest
int64_t slice_unit(const struct attrs *a, int64_t extent); // greatest common divisor of a slice's start and end and of the extent

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
enum { WHOLE_DIVIDED = 1 << 21 }; // limit for the operands of //: up to here the fp32 quotient, rounded down, is exact on every target

struct tensor {
  const char *name; // or NULL: the printer invents one
  enum dtype dtype;
  struct shape shape; // of the whole tensor in a kernel graph (of a rank's part, where it has one), of one tile below it
  bool weak;          // made of constants and indices only
  bool adapts;        // weak, or chosen from weak tensors: takes the dtype of the other operand
  bool whole;         // holds whole numbers within `range`
  bool state;         // an input that is written in place
  bool frozen;        // an input whose elements do not change between calls
  int extent;         // for a scalar input: the number (from 1) of the run-time extent that it holds; 0: none
  int shard;          // for an input: 1 + the dimension that is divided between the ranks; 0: every rank has the whole input
  struct whole_range range;
  uint8_t runs[MAX_DIMS]; // by dimension: the number of its run-time extent; 0: the extent is static
  enum phase phase;
  int node; // producer
};

struct node {
  enum op op;
  int nin, nout;
  int *in; // tensor indices. A BLOCK (THREAD) node has one entry for each iterator of sub, in order
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
  bool rank;               // made by graph_rank: results may be the rank's parts
  int ngrid, nloop;        // of block and thread graphs
  int64_t grid[GRID_AXES]; // blocks (threads) along x, y, z; code generation may split a grid into more axes
  int64_t loop[MAX_LOOPS]; // iterations along i, j, k, l
};

static inline bool node_has(const struct node *n, unsigned flags) { return op_rows[n->op].flags & flags; } // has any of the flags
// The part number of a result of a RULE_SPLIT operator.
static inline int64_t node_part(const struct node *n, int result) { return op_rows[n->op].attrs & A_INDEX ? n->a.index : result; }

void tensor_words(char out[256], const struct tensor *t); // "`X`, f32[2, 64]"
// Allocates zeroed memory for t's elements of `each` bytes; never NULL. If memory is exhausted, the error message names t.
void *tensor_room(struct arena *mem, const struct tensor *t, size_t each);

struct graph *graph_new(struct arena *mem, enum level level, const char *name);
struct graph *graph_new_as(struct arena *mem, const struct graph *g); // of g's level, name and ranks
// Sets grid and loop extents of an empty block or thread graph.
void graph_axes(struct graph *g, int ngrid, const int64_t *grid, int nloop, const int64_t *loop);

// Appends a node; its outputs' shapes, dtypes and phases are inferred and everything that can be checked
// locally is. Returns OK with the first output's tensor index in *out (outputs are consecutive; *out is
// unspecified if the operator has none), or an error at `at` that names the operator and the shapes.
// For ITER of a sub-graph use graph_iter, whose tile is cut from a tensor of the graph above.
int graph_add(struct graph *g, enum op op, int nin, const int *in, const struct attrs *a, struct loc at, int *out, struct err *e);
int graph_input(struct graph *g, const char *name, enum dtype t, const struct shape *s, struct loc at, int *out, struct err *e);
// As graph_input, with the shape, range and run-time extents of tensor `as`.
int graph_input_as(struct graph *g, const char *name, enum dtype t, const struct tensor *as, struct loc at, int *out, struct err *e);
// Sets the range of the input that was added last, and whether it is a state.
int graph_declare(struct graph *g, int t, const struct whole_range *range, bool state, struct loc at, struct err *e);
// Declares an input frozen: its elements do not change between calls, so what is computed of frozen inputs alone may be kept. An error for a state.
int graph_freeze(struct graph *g, int t, struct loc at, struct err *e);
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
uint64_t graph_hash(const struct graph *g);                    // hash of the fields that graph_same compares
// graph_key.c: a hexadecimal key of the graph, the same in every build. It does not depend on tensor names or on the order of operators.
enum { GRAPH_KEY = 33 };
void graph_key(const struct graph *g, char out[GRAPH_KEY]);
struct graph *graph_copy(struct arena *mem, const struct graph *g);
// A copy in which input i takes the place of input order[i]; both have the same shape and dtype.
struct graph *graph_reorder(struct arena *mem, const struct graph *g, const int *order);

// rebuild.c: a copy made node by node through graph_add. Each hook changes one property; a NULL hook changes nothing.
struct axes { // extents of the axes of a block or thread graph
  int64_t grid[MAX_GRID], loop[MAX_LOOPS];
};
struct rebuilding {
  const void *arg;
  enum dtype (*dtype)(const void *arg, enum dtype was);                           // dtype of an input in the copy
  void (*axes)(const void *arg, const struct graph *g, int node, struct axes *a); // axes of the nested graph of node `node` of g
  // Sets the attributes of n in the copy. Its first input had shape `was` and now has `now`; its output had shape `made`. False: impossible.
  bool (*attrs)(const struct node *n, const struct shape *was, const struct shape *now, const struct shape *made, struct attrs *a);
};
int graph_rebuild(struct arena *mem, const struct graph *g, const struct rebuilding *how, struct graph **out, struct err *e);
// Appends an unchanged copy of node n of g to graph `to`. map[t] is the tensor of `to` for tensor t of g; it is set for the node's outputs.
// above, from: for ITER only, the graph above `to` and the tensor of it that the iterator loads from.
int graph_take(struct graph *to, const struct graph *above, int from, const struct graph *g, const struct node *n, int *map, struct err *e);
// unread.c: the graph without dead nodes; g itself if it has none and is allocated in mem. weak: remove only dead tensors made of constants and indices.
int graph_without_unread(struct arena *mem, const struct graph *g, bool weak, struct graph **out, struct err *e);
// Adds tensor t of p to `to`, as a function of tensor x alone; map[x] is set, other entries are -1. False: t depends on something else, or on more than
// *left operators.
bool unary_take(struct graph *to, const struct graph *p, int t, int x, int *map, int *left);
// t, and tensors that it is computed from by operators on elements, at most `most` of them. Returns their number.
int unary_sources(const struct graph *p, int t, int most, int *out);
int graph_root(const struct graph *g, int t); // the tensor that t is a view of; t itself if it is no view
// The tensor from which an iterator of the block graph of n loads this tile; -1 if another operator makes the tile.
int node_iterated(const struct node *n, int tile);
void graph_keep_names(struct graph *to, const struct graph *g, const struct node *n,
                      const int *map); // copies names of the node's outputs to outputs without a name
// A copy with every input of the given dtype (interior dtypes follow).
int graph_cast(struct arena *mem, const struct graph *g, enum dtype t, struct graph **out, struct err *e);

// index.c: writes a condition on indices as inequalities. False if the condition is not a product of comparisons of linear index sums.
enum { INDEX_BOUNDS = 16 };
struct index_sum { // constant + sum over d of step[d] * (index along dimension d); all are whole numbers
  double constant, step[MAX_DIMS];
};
struct index_bounds { // the condition holds if each of sum[] is >= 0
  int n;
  struct index_sum sum[INDEX_BOUNDS];
};
bool index_bounds_of(const struct graph *g, int c, struct index_bounds *b);
// True if condition c of a kernel graph is 1 somewhere along dim, for all indices of the other dimensions. With dim -1: if it is
// 1 everywhere. False if this is not known.
bool index_reaches(const struct graph *g, int c, int dim);

// integer.c: sets dtype and range of a node's outputs from those of its operands. The error names an operand that may be too large.
int infer_whole(const struct graph *g, const struct node *n, struct tensor *out, int nout, struct err *e);
struct whole_range range_default(enum dtype t);        // range of an input that declares none
bool range_is_default(const struct tensor *t);         // true if no range was declared for t
void range_text(char out[96], const struct tensor *t); // "", " < 128256", " >= -1 < 8, distinct"

// integer_check.c: an error if elements are outside t's range, or equal where the range says distinct. Tensors without a range pass.
int range_check(const struct tensor *t, const void *elements, struct err *e); // in t's dtype
int range_check_doubles(const struct tensor *t, const double *x, struct err *e);

// at.c: gather, update, topk.
int infer_at(const struct graph *g, const struct node *n, struct tensor *out, int *nout, struct err *e);
bool graph_chooses(const struct graph *g); // true if the graph has data-dependent indices

// triangle.c: scans (prefix sums), which are products with a triangle of ones.
struct scan {                  // a prefix sum of an operand along a dimension; the result has this dimension too
  const struct node *triangle; // the node of the triangle, a condition; NULL: the product is no scan
  int x, along;                // number of the operand; dimension
};
// n: a product in g, or in the block graph of node `block` of g. The elements of the triangle are not read.
struct scan graph_scan(const struct graph *g, const struct node *block, const struct node *n);
bool graph_scans(const struct graph *g, const struct node *block, int node); // true if the node is a scan's triangle that nothing else reads

// state.c
// The tensor that n updates: n is an update, or a kernel that consists of one. A state is written in place. -1: none.
int node_updated(const struct node *n);
int graph_state(const struct graph *g, int t);                  // the state input that t is a version of, or -1
int state_number(const struct graph *g, int t);                 // its number among the inputs, or -1
bool state_output(const struct graph *g, const struct node *n); // an OUTPUT that leaves a state's last version in its place
int output_state(const struct graph *g, const struct node *n);  // the number of that state among the inputs, or -1
int state_outputs(struct graph *g, struct err *e);              // an OUTPUT for the last version of each state that has none
// state_order moves each update after all reads of the previous version. state_check returns an error if that version is read later.
int state_check(const struct graph *g, struct err *e);
int state_order(struct arena *mem, const struct graph *g, struct graph **out, struct err *e);

// world.c. A kernel graph of a world describes what one rank computes. The rank sees only its part of an input with a shard.
int graph_world(struct graph *g, int64_t ranks, struct loc at, struct err *e);                 // sets the number of ranks of an empty graph
int graph_shard(struct graph *g, int t, int64_t dim, struct loc at, struct err *e);            // divides the input that was added last along dim
struct shape graph_whole(const struct graph *g, int t);                                        // shape of an input with all ranks' parts together
void graph_varying(const struct graph *g, bool *varies);                                       // varies[t]: tensor t may differ between ranks
int world_check(const struct graph *g, struct err *e);                                         // part of graph_check
int world_refuse(const struct graph *g, const char *who, struct err *e);                       // an error if the graph has more than one rank
bool graph_collects(const struct graph *g);                                                    // true if the graph has a collective operator
bool node_meets(const struct node *n);                                                         // true for an operator in which ranks exchange data
int graph_unfold(struct arena *mem, const struct graph *g, struct graph **out, struct err *e); // all ranks as one graph of whole inputs
// The graph of one rank: an equal graph in which divided results are the rank's parts.
int graph_rank(struct arena *mem, const struct graph *g, struct graph **out, struct err *e);
int input_shard(const struct graph *g, int t);                          // the dimension along which an input is divided, or -1
int output_shard(const struct graph *g, const struct node *n);          // the dimension along which the tensor of an OUTPUT is divided, or -1
struct shape output_whole(const struct graph *g, const struct node *n); // shape of the tensor of an OUTPUT with all ranks' parts together

// extents.c
enum { MOST_RUNTIME = 16 };
int graph_extents(const struct graph *g);                     // number of run-time extents of a program
int extent_input(const struct graph *g, int extent);          // the scalar input that holds this extent, or -1
const char *extent_name(const struct graph *g, int extent);   // name of that input, or NULL
const char *extent_called(const struct graph *g, int extent); // the same in messages
bool extent_told(enum op op);                                 // true if graph files state the run-time extents of its result
bool extent_tells(const struct tensor *t);                    // true if a dimension has a run-time extent
int extent_along(const struct tensor *t, int extent);         // the dimension that has this extent; -1: none, or several
void infer_extents(const struct graph *g, const struct node *n, struct tensor *out, int nout); // extents of results, from those of the operands
void extent_text(char out[512], const struct graph *g, const struct tensor *t);                // the shape, with names of run-time extents
// Makes the scalar input that was added last a run-time extent between `least` and `most`.
int graph_declare_extent(struct graph *g, int t, int64_t least, int64_t most, struct loc at, struct err *e);
// Sets the run-time extents of a result, by dimension. An undeclared extent, or one with another bound, is an error.
int graph_declare_runs(struct graph *g, int t, int n, const int64_t *runs, struct loc at, struct err *e);
// Copies the run-time extents of the inputs and outputs of `as` to those of g. Both have equal numbers of inputs and outputs.
void graph_extents_as(struct graph *g, const struct graph *as);

// extent_pack.c: copies between arrays whose shape has the values of run-time extents and arrays whose shape has the bounds.
struct extent_values { // by number, from 1
  int n;
  int64_t value[MOST_RUNTIME + 1];    // 0: not known
  const char *from[MOST_RUNTIME + 1]; // the tensor that gave the value
};
// Reads the values of t's run-time extents from the shape s of the array given for t. Values must be within their bounds and equal
// to those that earlier arrays gave. Errors: ERR_EXTENT_BOUND, ERR_SHAPE.
int extents_take(struct extent_values *x, const struct graph *g, const struct tensor *t, const struct shape *s, struct err *e);
int extents_set(struct extent_values *x, const struct tensor *holder, int64_t value, const char *from,
                struct err *e);                                                    // the same for a value in a scalar
struct shape extents_shape(const struct extent_values *x, const struct tensor *t); // shape of an array for t; the bound where a value is not known
void extents_spread(const struct shape *whole, const struct shape *part, size_t bytes, void *to,
                    const void *from); // copies an array of shape `part` to the first elements along each dimension of one of shape `whole`
void extents_gather(const struct shape *whole, const struct shape *part, size_t bytes, void *to, const void *from); // copies back

// infer.c: shape, dtype and phase of the outputs of a node about to be added, into out[0..nout).
int infer_node(const struct graph *g, const struct node *n, struct tensor *out, int *nout, struct err *e);
// Extents of the tile that an iterator cuts from a tensor of shape s, or an error.
int infer_tile(const struct graph *sub, const struct attrs *a, const struct shape *s, struct loc at, struct shape *tile, struct err *e);

// check.c: rules of a well-formed graph at every level (docs/mugraph.md); explains the first violation.
int graph_check(const struct graph *g, struct err *e);

// print.c: text that the parser reads back to the same graph. draw.c: a drawing, indented by level.
void graph_print(const struct graph *g, struct str *out);
void graph_draw(const struct graph *g, struct str *out);
// As graph_draw, with the node of each line. The texts are allocated in mem.
struct draw_line {
  int node[LEVELS];                // by level, from the kernel graph down; -1 for deeper levels; all -1: the title
  const char *mark, *text, *shape; // for a node: "load", "k = K[x, :, i]", "f16[1, 64, 32]"; for a nested graph, text lists its results
  size_t end;                      // offset of the line's end in the text
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

// expand.c: rewrites composites; every other node is copied. The plain form, softmax = exp(x) / sum exp(x), is for search and
// proof. The stable form subtracts the row maximum and is for evaluation in floats.
int graph_expand(struct arena *mem, const struct graph *g, bool stable, struct graph **out, struct err *e);
// Appends the plain form of one composite to g, with `add` in place of graph_add.
typedef int node_adder(struct graph *g, enum op op, int nin, const int *in, const struct attrs *a, struct loc at, int *out, struct err *e);
int graph_expand_node(struct graph *g, const struct node *n, node_adder *add, int *out, struct err *e);
// For an additive mask of softmax scores, in a sum of dtype `sum`: appends to g, by `add`, the condition that an element is not
// masked (*shows) and the number that is added to its score (*bias).
int graph_mask_bias(struct graph *g, int mask, enum dtype sum, node_adder *add, struct loc at, int *shows, int *bias, struct err *e);

#endif

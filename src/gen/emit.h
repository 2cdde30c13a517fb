// emit: shared declarations of the generator. All operators but matrix products are loop nests over an iteration space, with operands as strided
// views. So elementwise operators, reductions, accumulators, copies, concat, repeat and dtype conversion have one printer.
//
// Glossary
//   view     access to a tensor: a pointer expression, a dtype, strides in elements
//   nest     an iteration space, operands, values computed at each point, sinks that consume values
//   sink     a store, or a fold (sum, max) over some dimensions of the space
//   place    the location of the value of a tensor of a block graph: none yet, a constant, a view
//   stage    before the for-loop (hoisted), inside it, after it
//
//   gen.c      the driver: kernels in order (gen_driver.h); gen_file.c: header, entry points; gen_frozen.c: what calls need not
//              repeat; gen_ranks.c: one rank of a world
//   gen_names.c  identifiers and comments made of arbitrary user names
//   view.c     strided views: slices, transposes, reshapes
//   nest.c     building and simplifying a nest;  nest_print.c prints it, in the words of nest_words.c
//   space.c    offsets of buffers whose lifetimes overlap
//   kernel.c   a BLOCK node as a function
//   gen_stages.c  its statements: before, inside and after the for-loop; views and savers
//   gen_hidden.c  iterations that a condition on indices masks
//   tile.c     places of tensors, tiles, copies
//   gen_group.c  operators as loop nests;  fusion.c thread graphs;  accum.c accumulators
//   matmul.c   products of tiles;  packed.c: frozen operands of theirs, packed
//   gen_library.c  kernel-level operators;  gen_product.c: products
#ifndef MICA_GEN_EMIT_H
#define MICA_GEN_EMIT_H

#include "gen/gen.h"

enum { NEST_DIMS = 2 * MAX_DIMS };

static inline bool is_half(enum dtype t) { return num_rows[t].bits == 16; } // f16, bf16

// ---- gen_names.c ------------------------------------------------------------------------------------------

// Appends one line of text: indentation, the text, a newline.
void line(struct str *s, int depth, const char *fmt, ...) PRINTF(3, 4);
// "prefix" + index + the tensor's own name reduced to letters, digits and _: unique in a function, safe in C.
const char *name_of(struct arena *mem, const char *prefix, int index, const char *own);
// The node as text for a comment: "E = exp(S)". Nothing in it can end the comment.
const char *node_text(struct arena *mem, const struct graph *g, const struct node *n);
const char *c_type(enum dtype t);                // "float", "uint16_t"
const char *number(struct arena *mem, double x); // a C constant of type float

// ---- gen_small.c ----
void small_print(const struct graph *g, struct str *source); // the dtypes of g that mica_cpu.h lacks

// ---- view.c ----------------------------------------------------------------------------------------------

struct view {
  const char *ptr; // C expression of the address of the first element; only "+ offset" is ever appended
  int buf;         // its buffer of struct gen_space, or -1
  enum dtype dtype;
  struct shape shape;
  int64_t stride[MAX_DIMS];
  const char *past; // C flag: use non-temporal stores if the address permits; or NULL
  bool fetches;     // prefetch lines ahead of the stores to them
};
struct view view_dense(const char *ptr, int buf, enum dtype t, const struct shape *s);
bool view_is_dense(const struct view *v);
struct view view_cut(struct arena *mem, const struct view *v, int dim, int64_t from, int64_t extent);
struct view view_permuted(const struct view *v, const struct shape *perm);         // perm.n == 0: the last two swap
bool view_reshaped(const struct view *v, const struct shape *s, struct view *out); // false: needs a copy
struct view view_broadcast(const struct view *v, const struct shape *to);          // right-aligned, stride 0

// ---- space.c ---------------------------------------------------------------------------------------------

struct gen_space {
  struct arena *mem;
  int n, cap;
  struct buffer {
    int64_t bytes, offset;
    int first, last; // times of first and last use
  } * buffers;
  int64_t total; // valid after space_place
};
int space_add(struct gen_space *s, int64_t bytes, int first);
void space_touch(struct gen_space *s, int buf, int time); // buf -1: nothing
void space_place(struct gen_space *s);

// ---- frozen second operands of products, packed --------------------------------------------------------------------

// Orders, by the functions that pack an operand and multiply it: m_pack_blocks and m_gemm_blocks; m_pack_words, and m_gemm_words or m_gemm_pairs.
enum pack_order { PACK_NONE, PACK_F32, PACK_WORDS };
struct cut_axis { // divides a tensor
  char letter;    // 'x': of the grid, 'l': of the loop, 'm': a leading dimension, which has a matrix for each index
  int index;
  int64_t parts, step; // number of tiles; elements from one to the next
};
struct packed_operand {
  int input; // of the kernel
  enum pack_order order;
  int64_t rows, cols, row, col; // extents of a matrix; strides in elements
  int naxes;
  struct cut_axis axes[MAX_GRID + MAX_LOOPS + MAX_DIMS]; // matrices are packed one after the other, along the last axis first
};
struct packing {      // of a kernel
  const bool *frozen; // by input
  bool pairs;         // products of words of two bf16 numbers are faster than those of f32
  int n, cap;
  struct packed_operand *operands; // what the body reads, each from its parameter `packed0`, `packed1`, ...
};
// Whether the order suits the operand: not for few rows that read it where it is.
enum pack_order pack_order(const struct packing *p, const struct view *second, int64_t rows);
int pack_add(struct arena *mem, struct packing *p, const struct packed_operand *x); // the index of its parameter
int64_t pack_bytes(const struct packed_operand *x);                                 // of all matrices
int64_t pack_words(const struct packed_operand *x);                                 // of a matrix, of 4 bytes
// The address of the tile that the indices of the grid and the loop select.
const char *pack_tile(struct arena *mem, const struct packed_operand *x, const char *base);
// The statement by which thread i packs its share of all matrices of the tensor `from`, at the address `to`.
const char *pack_text(struct arena *mem, const struct packed_operand *x, const struct view *from);

// ---- nest.c ------------------------------------------------------------------------------------------------

enum fold { FOLD_NONE, FOLD_SUM, FOLD_MAX, FOLD_PROD };
enum fold fold_by(enum op reduction);

struct operand {
  const char *ptr;
  enum dtype dtype;
  int64_t s[NEST_DIMS];
  int repeated;     // dimension whose slices are read several times in a row, or -1
  bool local;       // a buffer of one piece of a row
  int64_t ahead;    // elements to the next tile, which is prefetched; or 0
  const char *past; // as in struct view
  bool fetches;     // as in struct view
};
struct gen_value {
  const char *code;      // text over x and y, or NULL: the operand
  const struct attrs *a; // for scalar, lo, hi
  int x, y;              // values, or -1
  int operand;
  bool inner; // changes along the innermost dimension
};
struct sink {
  struct operand to;
  int value;
  enum fold fold;
  int dim;       // folded dimension of the space
  int64_t group; // elements folded together
  bool red[NEST_DIMS];
  bool add;     // adds to the stored value
  double scale; // factor of the folded value
};
struct nest {
  struct arena *mem;
  struct shape space;
  int64_t group[MAX_DIMS]; // a dimension is split into (extent / group, group); 0: it is not
  int n;                   // after nest_finish: number of remaining dimensions; the last one is vectorized
  int64_t d[NEST_DIMS];
  struct operand *operands;
  int noperands, operands_cap;
  struct gen_value *values;
  int nvalues, values_cap;
  struct sink *sinks;
  int nsinks, sinks_cap;
};
struct nest nest_new(struct arena *mem, const struct shape *space);
int nest_load(struct nest *f, const struct view *v); // returns a value
int nest_load_repeated(struct nest *f, const struct view *v, int dim, int64_t times);
int nest_const(struct nest *f, double c);
int nest_value(struct nest *f, const char *code, const struct attrs *a, int x, int y);
int nest_op(struct nest *f, enum op op, const struct attrs *a, int x, int y);
void nest_store(struct nest *f, int value, const struct view *to, bool add);
// `to` has the space's shape with `dim` divided to extent / group. False: the space is already split differently.
bool nest_can_fold(const struct nest *f, int dim, int64_t group);
bool nest_fold(struct nest *f, int value, const struct view *to, enum fold fold, int dim, int64_t group, bool add, double scale);
void nest_move(struct nest *f, int from, int to); // moves dimension `from` to position `to`
void nest_finish(struct nest *f);                 // splits, drops extents of 1, merges contiguous dimensions

// nest_print.c. threads > 0: the nest is a whole kernel, and its loops are divided over threads.
void nest_print(struct str *s, int depth, struct nest *f, int threads);
// A statement of a block. threads > 0: they may share its rows if these are few and long.
void nest_print_shared(struct str *s, int depth, struct nest *f, int threads);

// A kernel while it is printed: a function whose parameters are the node's tensors and temporary buffers.
struct kernel {
  struct arena *mem;
  const struct graph *g;
  const struct node *n;
  struct place *in; // constants, or views of parameters
  struct view *out;
  struct gen_space *space; // the workspace
  int temps[4], ntemps;    // buffers of the workspace that only this kernel uses: parameters w0, w1, ...
  int now, threads;
  int64_t scratch; // bytes for each thread, if it is a BLOCK
  struct packing packing;
  bool blas;
};

// ---- gen_stages.c ----------------------------------------------------------------------------------------------

struct place {
  enum { PLACE_NONE, PLACE_CONST, PLACE_VIEW } kind;
  bool packed; // a matmul operand in the order of m_pack_b
  double c;
  struct view v;
};
enum stage { BEFORE, INSIDE, BEHIND, STAGES };

struct block {
  struct arena *mem;
  const struct graph *above; // the kernel graph
  const struct node *kernel; // the node whose block graph this is
  const struct graph *g;
  const struct place *from; // sources of the iterators, in order: device memory or constants
  const struct view *to;    // targets of the savers, in order
  struct packing *packing;  // of the kernel
  struct place *place;      // of every tensor
  struct place *operand;    // copies of a tensor for matmul: dense, converted, transposed or packed
  int *loads;               // nests that read each tensor so far
  bool *done;               // nodes that are already printed in another node's loop nest
  bool *root;               // accumulators whose square root is not taken yet
  int *order;               // node -> index among iterators or savers
  struct str text[STAGES];
  struct str tiles; // declarations, printed once offsets are known
  struct gen_space space;
  const char **names; // of the tiles in space, by buffer
  int names_cap;
  int depth, now; // of the block's statements; index of the node being emitted
  int64_t iterations;
  int threads;      // number of threads that share the rows of its statements; 0: one thread computes a block
  bool wants_first; // a statement tests whether this is the first iteration
  struct err *e;
};

// Prints the statements of one block; x0, x1, x2 are the grid indices, l0 .. l3 become the loop's.
int block_print(struct kernel *k, int depth, int threads, struct str *s, struct err *e);

// ---- gen_hidden.c ----
int hidden_condition(const struct graph *g);                 // the condition that may mask whole iterations, which then change nothing; -1: none
void hidden_print(struct block *b, int node, int condition); // after that node: ends masked iterations, once both operands are computed

// ---- tile.c: places of the tensors of a block --------------------------------------------------------------
enum stage stage_of(const struct block *b, int tensor);
int depth_of(const struct block *b, enum stage st);
const char *block_name(const struct block *b, const char *prefix, int tensor);
// A dense tile in scratch, live from now on. whole_loop: its value is live across iterations.
struct view tile_new(struct block *b, const char *name, const struct shape *s, enum stage st, bool whole_loop);
struct view tile_like(struct block *b, const char *name, const struct view *v,
                      enum stage st);                                                           // keeps the order of its dimensions
void tile_use(struct block *b, const struct view *v, enum stage st);                            // extends the lifetime of its memory to now
void tile_copy(struct block *b, const struct view *from, const struct view *to, enum stage st); // converts, transposes
void tile_fill(struct block *b, const struct view *v, double c, enum stage st);
struct view tile_iterator(struct block *b, int node);                                       // the part of a device tensor that this iteration reads
int tile_axes(const struct block *b, int node, struct cut_axis axes[MAX_GRID + MAX_LOOPS]); // the axes that divide this tensor of an iterator
struct view tile_saved(const struct block *b, int node);                                    // the part of a device tensor that a saver writes
int tile_load(struct block *b, struct nest *f, int tensor, enum stage st);                  // loads its value in a nest
void tile_print(struct block *b, struct nest *f, enum stage st);
void block_comment(struct block *b, int node, enum stage st); // the node's text

// ---- gen_group.c, fusion.c: elementwise operators, reductions, thread graphs ----
int group_node(struct block *b, int node);   // one operator
int group_thread(struct block *b, int node); // a THREAD node
// Destination of a nest's value: savers and accumulators that can receive it directly, or a tile if other nodes read it.
struct folded {
  enum fold fold;
  int dim;
  int64_t group;
  double scale;
};
void group_sinks(struct block *b, struct nest *f, int tensor, int value, const struct folded *how, enum stage st);
void group_finish(struct block *b, struct nest *f, enum stage st); // prints it, and the statements of accumulators after the loop

// ---- accum.c ---------------------------------------------------------------------------------------------------
bool accum_is(enum op op);
bool accum_takes(const struct block *b, const struct nest *f, int node, int tensor, const struct folded *how);
void accum_sink(struct block *b, struct nest *f, int node, int value, const struct folded *how);
void accum_end(struct block *b, int node); // after the loop: roots
int accum_node(struct block *b, int node); // an accumulator whose value no nest stores
// The accumulator as the target of a product: its view, and whether to add to it. False: it cannot be one.
bool accum_target(struct block *b, int tensor, struct view *v, bool *add);

// ---- matmul.c --------------------------------------------------------------------------------------------------
int matmul_node(struct block *b, int node);

// ---- gen_scan.c ------------------------------------------------------------------------------------------------
// Prints the prefix sums of x along a dimension. Both are fp32.
void scan_print(struct arena *mem, struct str *s, int depth, const struct view *x, const struct view *out, int along);
int scan_node(struct block *b, int node, const struct scan *scan);

// ---- gen_library.c -----------------------------------------------------------------------------------------------

int library_print(struct kernel *k, struct str *s, struct err *e); // the body of any node but BLOCK
void library_copy(struct kernel *k, struct str *s, const struct view *from, const struct view *to);
int at_print(struct kernel *k, struct str *s, struct err *e);               // gen_at.c: RULE_AT
int kernel_print(struct kernel *k, struct str *s, struct err *e);           // kernel.c: the body of a BLOCK node
void product_kernel(struct kernel *k, struct str *s);                       // gen_product.c
void scan_kernel(struct kernel *k, struct str *s, const struct scan *scan); // gen_product.c: a product with a triangle of ones

#endif

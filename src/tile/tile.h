// tile: kernels in Graphene's notation, the level between block graphs and CUDA text. Data and threads are tensors with hierarchical layouts (lay.h).
// A computation is a spec, `%out <- Move<<<#blocks, #threads>>>(%in)`. It is either decomposed by a body in braces, or atomic, that is, a row of
// instr.def for the target. docs/tile.md has the language and a tutorial.
//
// Glossary
//   buffer   memory that a declaration makes: global (a parameter of the kernel), shared, or registers
//   view     a tensor: a buffer, an offset, and levels of layouts, outermost tiles first. `[2,2].[8,8].fp16.SH` has two
//            levels. A scalar has no levels. Views share the coordinates of their buffer: see `coord`
//   group    a tensor of threads or blocks; a spec names the threads that do it together
//   atom     an undecomposed spec after lowering: an instruction row, and the loops ("modes") that repeat it
//   piece    one execution of the row within those loops
//
//   tile_names.c  symbols and scopes                     tile_lex.c, tile_parse.c  text -> builder calls, errors with line and column
//   tile_build.c  the builder: buffers, views            tile_print.c    program -> text that reads back
//   tile_group.c  threads and blocks                     stmt.c          statements, scopes, specs
//   instr.c    the rows of instr.def, parsed          tile_lower.c    specs without a body -> atoms
//                                                   registers.c     registers that warpgroups ask for
//   match*.c   a spec against a row (match.h)         axes.c          operands side by side: the loops around a row
//   shared.c   offsets in shared memory                c_source.c, c_place.c  lines, names and indices in C and C++ (c_source.h)
#ifndef MICA_TILE_TILE_H
#define MICA_TILE_TILE_H

#include "base/num.h"
#include "target/target.h"
#include "tile/lay.h"

// The rows of base/dtype.def.
enum tile_type {
#define DTYPE(id, ...) TT_##id,
#define WIDE DTYPE
#define WORD DTYPE
#include "base/dtype.def"
  TT_COUNT
};
#define tile_types num_rows
static inline enum tile_type tile_type_of(enum dtype t) { return (enum tile_type)t; } // they are the first rows

enum tile_mem { MEM_GL, MEM_SH, MEM_RF };
extern const char *const tile_mem_name[3]; // "GL", "SH", "RF"

enum spec_kind {
#define SPEC(id, ...) SPEC_##id,
#include "tile/spec.def"
#undef SPEC
  SPEC_COUNT
};
struct spec_row {
  const char *name;
  int least, most, outs;
  const char *what;
};
extern const struct spec_row tile_specs[SPEC_COUNT];

enum unary_op {
#define UNARY_OP(id, ...) UN_##id,
#define BINARY_OP(id, ...)
#include "tile/pointwise.def"
#undef UNARY_OP
#undef BINARY_OP
  UN_COUNT
};
enum binary_op {
#define UNARY_OP(id, ...)
#define BINARY_OP(id, ...) BI_##id,
#include "tile/pointwise.def"
#undef UNARY_OP
#undef BINARY_OP
  BI_COUNT
};
extern const char *const unary_name[UN_COUNT], *const binary_name[BI_COUNT];

enum {
  TILE_LEVELS = 4,   // levels of a tensor
  TILE_DIMS = 5,     // dimensions of a buffer in global memory (TMA's limit)
  TILE_OPERANDS = 4, // of an atom
  TILE_MODES = 8,    // loops around an instruction
  TILE_ARGS = 4,     // <op, args...>
  TILE_NESTING = 64, // blocks within blocks
  TILE_THREADS = 1024,
  TILE_REGISTERS = 65536,             // of a multiprocessor with setmaxnreg
  TILE_SIZE_MOST = INT32_MAX - 65535, // largest size parameter: an int that steps past it by a tile does not overflow
};

// ---- what a kernel is made of ---------------------------------------------------------------------------

struct tile_buffer {
  const char *name; // without the %
  struct loc at;
  enum tile_type type;
  enum tile_mem mem;
  int view;               // its root view
  struct swizzle swizzle; // of element offsets; bits 0: none. Shared memory only
  ex elements;            // cosize
  bool written;           // global: a spec writes it, so the kernel argument is not const
  // after lowering
  int64_t offset; // shared memory: bytes from the start
  int64_t bytes;  // shared memory and registers (a thread)
};

// The coordinate along one dimension of the buffer in global memory, as a second layout with the same tiles. It gives predicates (coordinate < limit
// for partial tiles) and the coordinates of TMA.
struct tile_coord {
  ex origin, limit;              // limit: the extent of the dimension
  struct lay level[TILE_LEVELS]; // congruent to the view's levels
  bool partial;                  // a tile may exceed the limit: accesses need the predicate
};

enum view_op { VIEW_ROOT, VIEW_TILE, VIEW_INDEX, VIEW_RESHAPE, VIEW_PEER };
struct tile_view {
  const char *name; // name in the statement that defines it; NULL for a part of an expression
  struct loc at;
  int buf;
  enum view_op op; // the operation that made it, and its operand
  int source;
  // arguments of op, for the printer: the tiler or the new shape, the depth, the coordinates, the rank of the peer
  struct lay arg;
  int depth, nindex;
  const ex *index;
  int nlevels;
  struct lay level[TILE_LEVELS]; // strides in elements
  ex offset;                     // elements
  int ncoord;                    // dimensions of the buffer in global memory, else 0
  struct tile_coord coord[TILE_DIMS];
  ex peer; // rank in the cluster of the block whose shared memory it is; -1: the executing block
};

enum group_kind { GROUP_THREAD, GROUP_BLOCK };
struct tile_group {
  const char *name; // without the #
  struct loc at;
  enum group_kind kind;
  enum view_op op;
  int source;
  struct lay arg;
  int depth, nindex;
  const ex *index;
  int nlevels;
  struct lay level[TILE_LEVELS]; // strides in thread or block numbers
  ex offset;
  ex size; // number of members: product over all levels
};

enum stmt_kind {
  STMT_LET,   // @a, (@b, @c) = #g.indices(), @x = expression, @x = value(%v): new scalars
  STMT_VIEW,  // %v = ...
  STMT_GROUP, // #g = ...
  STMT_ALLOC, // %v:[..].fp16.SH
  STMT_FOR,
  STMT_IF,
  STMT_SPEC
};
// Unrolling of a loop: chosen by the compiler; full; none, so that loads for later iterations stay early.
enum tile_unroll { UNROLL_ANY, UNROLL_ALL, UNROLL_NONE };
struct tile_stmt {
  enum stmt_kind kind;
  struct loc at;
  int next;        // the next statement of the block, -1 at its end
  int body, other; // first statement of for, if, decomposed spec; of else. -1: none
  // STMT_LET
  int nvars;
  const ex *vars, *values; // each variable and its definition; value(%v): values[0] unused, `view` is read
  int group;               // of indices(), else -1
  int view;                // STMT_VIEW, STMT_ALLOC, value(); else -1
  // STMT_FOR, STMT_IF
  ex var, from, to, step, cond;
  enum tile_unroll unroll;
  int spec; // STMT_SPEC
};

struct tile_spec {
  enum spec_kind kind;
  const char *name; // name of a generic spec: "Spec" or another word
  const char *op;   // first argument: "exp", "+", "cp.async"; "" for none
  int nargs;        // number of further arguments
  ex arg[TILE_ARGS];
  double value; // of Init, if is_number
  bool is_number, decomposed;
  int nout, nin, out[16], in[64]; // views
  int blocks, threads;            // groups
  const struct tile_atom *atom;   // set by lowering for a spec without a body
};

struct tile_kernel {
  const char *name;
  struct loc at;
  int arch; // compute capability of the directive `target`
  int nparams;
  ex *params;  // variables: sizes given at launch
  int cluster; // blocks of a cluster, 1: none
  int nbuffers, nviews, ngroups, nstmts, nspecs;
  struct tile_buffer *buffers;
  struct tile_view *views;
  struct tile_group *groups;
  struct tile_stmt *stmts;
  struct tile_spec *specs;
  int cap[5];
  int body;          // first statement
  int grid, threads; // root groups of blocks and threads
  ex tid, bid;       // variables: threadIdx.x, blockIdx.x
  // after lowering
  bool lowered;
  int64_t shared_bytes;
  int nmaps; // tensor maps, in the order of the kernel's arguments
  struct tile_map *maps;
};

struct tile_program {
  struct arena *mem;
  struct ex_pool *ex;
  struct lay_ctx lay;
  const char *file;
  bool row; // row-major order for omitted strides
  int nkernels;
  struct tile_kernel **kernels;
};

// ---- tile_build.c, tile_group.c, stmt.c: what the parser and the transpiler call -------------------------------------
// The functions check their arguments; a wrong one is an error of the user at `at`. Results are indices into the kernel.

struct builder {
  struct tile_program *p;
  struct tile_kernel *k;
  struct err *e;
  struct loc at; // source position of the next object
  int nopen;     // number of open blocks: of specs, loops, conditions
  struct {
    int stmt, last;         // stmt: the statement that owns the block; last: its last statement, -1: none
    bool other;             // in the else branch
  } open[TILE_NESTING + 1]; // open[0] is the kernel
};

struct tile_program *tile_program_new(struct arena *mem, const char *file, bool row);
// Zeroes b. The functions return the status of b->e.
int build_kernel(struct builder *b, struct tile_program *p, const char *name, struct err *e);
int build_param(struct builder *b, const char *name, int64_t lo, int64_t hi, int64_t multiple, ex *out);
int build_group(struct builder *b, const char *name, enum group_kind kind, int nlevels, const struct lay *levels, int *out);
int build_group_tile(struct builder *b, const char *name, int group, struct lay tiler, int *out);
int build_group_reshape(struct builder *b, const char *name, int group, int depth, struct lay shape, int *out);
int build_group_index(struct builder *b, const char *name, int group, int n, const ex *index, int *out);
int build_group_scalar(struct builder *b, const char *name, int group, int *out);
// New variables for the coordinates of the executing thread or block: one for each mode of each level, outermost first.
int build_indices(struct builder *b, int group, int nvars, const char *const *names, ex *vars);
// A parameter of the kernel (MEM_GL) or, in a body, an allocation.
int build_tensor(struct builder *b, const char *name, int nlevels, const struct lay *levels, enum tile_type t, enum tile_mem m, struct swizzle s,
                 int *view);
int build_tile(struct builder *b, const char *name, int view, struct lay tiler, int *out); // tiles the innermost level
// Selects one index of each dimension of the outermost level. EX_ALL keeps the whole dimension; the others then have extent 1.
#define EX_ALL EX_C(INT64_MIN / 2)
int build_index(struct builder *b, const char *name, int view, int n, const ex *index, int *out);
int build_reshape(struct builder *b, const char *name, int view, int depth, struct lay shape, int *out);
int build_peer(struct builder *b, const char *name, int view, ex rank, int *out);
int build_let(struct builder *b, const char *name, ex value, ex *var);
int build_value(struct builder *b, const char *name, int view, ex *var); // reads an i32
int build_for(struct builder *b, const char *name, ex from, ex to, ex step, enum tile_unroll unroll, ex *var);
int build_if(struct builder *b, ex cond);
int build_else(struct builder *b);
int build_spec(struct builder *b, const struct tile_spec *s, bool body); // body: leaves it open, and build_end closes it
int build_end(struct builder *b);
int build_finish(struct builder *b); // checks that every block is closed and completes the kernel

// ---- tile_parse.c, tile_print.c ------------------------------------------------------------------------------------------

struct tile_setting { // value for `const NAME = ...` in the text; `used`: a constant or a parameter has that name
  const char *name;
  int64_t value;
  bool used;
};
int tile_parse(struct arena *mem, const char *file, const char *text, struct tile_program **out, struct err *e);
// Parses with other values for constants. A setting whose name does not occur is an error.
int tile_parse_set(struct arena *mem, const char *file, const char *text, int nset, struct tile_setting *set, struct tile_program **out,
                   struct err *e);
void tile_text(const struct tile_program *p, struct str *out);
void tile_view_text(const struct tile_program *p, const struct tile_kernel *k, int view, struct str *out); // "[2,2].[8,8].fp16.SH"
void tile_group_text(const struct tile_program *p, const struct tile_kernel *k, int group, struct str *out);
void tile_spec_text(const struct tile_program *p, const struct tile_kernel *k, int spec, struct str *out); // one line, no body

// ---- instr.c: instructions ----------------------------------------------------------------------------------------

// Semantics of an instruction. The interpreter has one function for each, which takes layouts and numbers from the row.
enum sem {
  SEM_MOVE,     // `width` contiguous elements for each thread
  SEM_SHIFT,    // `width` elements from number `arg` on of two vectors, one after the other
  SEM_CP_ASYNC, // asynchronous copy from global to shared; zeros where the predicate is false
  SEM_LDMATRIX,
  SEM_STMATRIX, // n = matrices (1, 2, 4); trans
  SEM_FMA,      // out += a * b elementwise over `width`
  SEM_MMA,      // collective, thread-value layouts of the row
  SEM_WGMMA,    // asynchronous; A from registers or shared, B from shared
  SEM_UNARY,
  SEM_BINARY,
  SEM_INIT,  // over `width`
  SEM_INDEX, // an integer as a number
  SEM_SHFL,
  SEM_REDUCE_WARP, // n unused; op of the spec. Every thread of the group gets the result
  SEM_REDUCE,      // one thread: out = op(out, in); out starts as the atom's `value`, see nreduce
  SEM_RED,
  SEM_ATOM, // atomic: add, min, max on memory; ATOM returns the old value
  SEM_TMA_LOAD,
  SEM_TMA_STORE,
  SEM_TMA_RED,
  SEM_TMA_MULTICAST, // into several blocks of the cluster, by a mask
  SEM_MBAR_INIT,
  SEM_MBAR_ARRIVE,
  SEM_MBAR_LEAVE, // arrives at another block's barrier; orders reads, not writes
  SEM_MBAR_EXPECT,
  SEM_MBAR_WAIT,
  SEM_CP_MBAR_ARRIVE,
  SEM_BARRIER,
  SEM_SYNCWARP,
  SEM_CLUSTER_ARRIVE,
  SEM_CLUSTER_ARRIVE_RELAXED,
  SEM_CLUSTER_WAIT, // of the threads of the group
  SEM_CP_COMMIT,
  SEM_CP_WAIT,
  SEM_BULK_COMMIT,
  SEM_BULK_WAIT,
  SEM_WGMMA_FENCE,
  SEM_WGMMA_COMMIT,
  SEM_WGMMA_WAIT,
  SEM_FENCE_ASYNC,
  SEM_FENCE_BLOCK,
  SEM_FENCE_GPU,
  SEM_FENCE_MBAR_INIT,
  SEM_PREFETCH, // prefetches the line of the first element into the L2 cache; reads nothing
  SEM_SETMAXNREG,
  SEM_GRID_WAIT,
  SEM_GRID_TRIGGER, // programmatic dependent launch
};

enum operand_kind { // requirements on an operand, for each thread
  OPND_VECTOR,      // `width` contiguous elements, aligned to their bytes up to 16
  OPND_FRAGMENT,    // a register fragment: levels and order as in the row
  OPND_MATS,        // a register fragment of ldmatrix, stmatrix: extent[0][0] matrices, two elements of each
  OPND_ROW,         // ldmatrix, stmatrix: 8 contiguous elements in shared memory, one row a lane
  OPND_MATRIX,      // wgmma: a tile in shared memory, by descriptor
  OPND_BOX,         // TMA: a tile of a tensor in global or shared memory
  OPND_BARRIER,     // an mbarrier
};
struct instr_operand {
  enum operand_kind kind;
  enum tile_type type;
  bool any_type; // any type with `bytes` bytes in all, or any type if bytes is 0; any 2-byte type for OPND_ROW, OPND_MATS
  bool any_mem;  // global, shared or registers
  bool peer;     // shared memory of another block of the cluster (MEM_SH)
  enum tile_mem mem;
  int bytes;         // OPND_VECTOR of any type: of the vector
  int count;         // OPND_VECTOR: elements, 0 where any_type; OPND_FRAGMENT, OPND_MATS: elements a thread
  int nlevels, rank; // OPND_FRAGMENT: e.g. [2,2].[1,2], outermost level first; OPND_MATRIX: rows and columns in extent[0][0..1]
  int64_t extent[3][2];
  struct lay order; // maps coordinates, innermost level first, to the register's element number
  struct lay tv;    // collective: ((thread), (value)) -> index in the tile, first letter fastest
};
struct instr {
  const char *name; // "mma.m16n8k16.fp32.fp16", unique; <...> may name it, or a part that ends before a '.'
  const char *op;   // operator that it computes, such as "exp", "+", "bfly"; NULL: none
  enum spec_kind spec;
  enum sem sem;
  int threads;             // threads that execute it together: 1, 8 (quad pair), 32, 128; 0: the whole group
  uint32_t needs;          // capabilities (target/capability.def)
  int width;               // elements for each piece and thread; 0 if operands determine it (see tile_atom)
  int bytes;               // of a vector access, else 0
  int m, n, k;             // of a product; n of ldmatrix, stmatrix: matrices; of TMA: dimensions
  bool trans, chosen, sum; // chosen: used only when <...> names it; sum: also reads its output
  bool constant;           // promises that no thread writes the memory that it reads
  int nout, nin;
  struct instr_operand out[1], in[3];
  const char *text; // PTX or a CUDA expression with $0, $1 ... (see instr.def)
  double cost;      // issue cycles of a warp
};
const struct instr *instr_rows(int *n); // parsed once

// ---- tile_lower.c ---------------------------------------------------------------------------------------------------------

struct tile_guard { // a condition for a piece, equal for all lanes of a vector: value + sum of stride[i] * mode[i] < limit
  ex value, limit;
  ex stride[TILE_MODES];
};
struct tile_desc {    // descriptor of a tile in shared memory, for wgmma
  int64_t lead, step; // leading and stride byte offset
  int swizzle_bytes;  // 0, 32, 64, 128
  bool trans;         // m or n is contiguous instead of k
};
struct tile_operand {
  int view, buf;
  ex offset;             // elements, of the first piece, before the swizzle
  ex stride[TILE_MODES]; // for each mode
  int nguards;
  struct tile_guard guard[TILE_DIMS];
  struct lay inner;                       // OPND_MATRIX, OPND_BOX: the tile in memory. OPND_FRAGMENT, OPND_MATS: offset of register element i
  int map;                                // OPND_BOX in global memory: number of the tensor map, else -1
  ex coord[TILE_DIMS];                    // OPND_BOX: coordinate of the first element, outermost dimension of the tensor map last
  ex coord_stride[TILE_DIMS][TILE_MODES]; // step of the coordinate for each mode
  struct tile_desc desc;                  // OPND_MATRIX
};
struct tile_atom {
  const struct instr *row;
  int op;     // unary_op, binary_op (of UNARY; BINARY, REDUCTION, atomics); -1
  int width;  // vectors: elements for each piece and thread
  int nmodes; // loops around the row, first fastest
  int64_t extent[TILE_MODES];
  int nreduce;         // SEM_REDUCE: the number of leading modes that do not move the output
  int nsteps, step[5]; // SEM_REDUCE_WARP: lane distances (xor)
  int lanes;           // threads of the group
  int nout, nin;
  struct tile_operand operand[TILE_OPERANDS]; // outputs first
  ex arg;                                     // the number in <..., n>
  double value;                               // of Init; for SEM_REDUCE the initial value of the output
  ex barrier;                                 // for a barrier of part of the block: its number, from 1; 0 for the whole block
  int barrier_threads;
};
struct tile_map { // a CUtensorMap, which the host encodes from the kernel's argument
  int buf, rank;
  ex size[TILE_DIMS], stride[TILE_DIMS]; // elements; fastest first; stride[0] = 1
  int64_t box[TILE_DIMS];
  int swizzle_bytes; // 0, 32, 64, 128
};

// Chooses an instruction for every spec without a body, offsets in shared memory, and tensor maps. `arch`: of a row of target/gpu.def.
int tile_lower(struct tile_program *p, struct tile_kernel *k, int arch, struct err *e);
// ---- registers.c ----
// Blocks of a multiprocessor whose warpgroups can have the registers that they ask for (setmaxnreg); 0: none asks. The kernel is lowered.
int tile_blocks_by_registers(const struct tile_kernel *k);

#endif

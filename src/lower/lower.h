// lower: kernel graphs -> tile programs for GPUs. A scheme turns a kernel of the graph into the text of a tile kernel (docs/tile.md). Some products
// are left to the vendor's library. All launches together are a device program.
//
// Glossary
//   scheme       a row of scheme.def: a method to make a kernel of a block graph
//   knobs        the parameters of a scheme: warps, stages of a ring, ...
//   work tile    the work of one block of the grid. With a budget (gpu_budget), blocks are persistent and do several work tiles each
//   tail         a second kernel in the same launch, which combines the parts that blocks of the first one leave: for example, it adds and divides
//                them. A cluster computes it, or the last block to arrive
//   store        the dtype of a tensor of the kernel graph in device memory. Inputs and outputs of the program keep their dtypes. A tensor between
//                kernels is fp32 if only elementwise operators and sums read it
//
// Files
//   lower_values.c  values of a kernel, rewritten by rules (src/kern)
//   text.c       tile text: names, indentation, declarations
//   fill.c       templates of tile text
//   about.c      the graph node of each line of text
//   pointwise.c  elementwise operators as specs
//   budget.c     budgets of kernels of persistent blocks
//   scheme.c     the table of schemes; choices among all of them
//   order.c      layouts of tensors between kernels
//   count.c, kernel_time.c, *_cost.c  the cost model (count.h)
//   meeting.c    collective operators
//   epilogue.c   operators after a product that the library computes in the same launch
//   memo.c       remembers the first choice for each kernel
//   lower_plan.c plans a kernel graph: all choices for each kernel
//   program.c    makes a program from one choice for each kernel
//   workspace.c  memory for tensors between launches
//   rows*.c      scheme: no products, rows in registers
//   mma*.c       scheme: products by mma.sync, whose results stay in registers for the next one
//   skinny*.c    scheme: products of few rows, weights from global memory directly to fragments
//   wgmma*.c     scheme: products by wgmma with TMA, for sm_90a
#ifndef MICA_LOWER_LOWER_H
#define MICA_LOWER_LOWER_H

#include "cuda/cuda.h"
#include "ir/ir.h"
#include "legal/legal.h"
#include "plan/norm.h"
#include "target/target.h"
#include "tile/tile.h"

// ---- scheme.c --------------------------------------------------------------------------------------

enum { KNOBS = 15, CHOICES = 64 };
struct knobs {
  int v[KNOBS];
};
// The target with a budget for persistent blocks: their number, and the shared memory of each (0: all). No clusters, no early launch.
struct target gpu_budget(const struct target *gpu, int workers, int64_t shared);
int64_t gpu_blocks(const struct target *gpu, int64_t tiles); // blocks of a kernel with `tiles` work tiles
int gpu_runs_on(const struct target *gpu);
struct kernel_counts;
struct text_marks;
struct text { // a tile program while it is written (lower_emit.h)
  struct str *out;
  int indent;
  int fresh;                // number of temporaries so far
  struct text_marks *marks; // or NULL
  bool tail;                // all of it is about the tail
  int about;                // what is written now, as of values (kern_value)
};
struct lower_job {
  struct arena *mem;
  const struct norm *n;    // the kernel
  const struct norm *tail; // or NULL; n saves what it loads
  const enum dtype *store; // for each tensor of the kernel graph
  const struct target *gpu;
  const char *name;             // of the tile kernel
  bool dependent;               // launched before the previous kernel has ended, so it waits before it reads results
  bool retiled;                 // `n` is the result of mma_retile (mma_cut.c)
  int64_t cut;                  // with a re-tiled grid: rows of a block, if the last one has fewer; else 0
  bool exact;                   // tensor cores accumulate the products of one iteration only: for parts of f32 (parts.c)
  struct kernel_counts *counts; // memory for `most`: choices() stores the counts of each setting, as count() would compute them; or NULL
  struct text_marks *marks;     // emit() stores the node of each part of the text (lower_emit.h); or NULL
  unsigned off;                 // rules that are switched off (kern/rule.def), as bits
  struct tail_memo *tails;      // settings of tails that are known (tail_plan.c); or NULL
};
bool lower_exact(const struct lower_job *j); // whether the kernel multiplies bf16 parts of f32
struct lower_out {
  struct str text;  // the tile program
  int nargs, *arg;  // tensors of the kernel graph, in the order in which the text declares global buffers;
                    // ARG_COUNTERS: separate memory that is zero before and after; ARG_PARTS: memory of this launch alone
  int64_t counters; // bytes of the counters
  int64_t parts;    // f32 elements of the parts
};
enum { ARG_COUNTERS = -1, ARG_PARTS = -2 }; // arguments that are no tensors
struct scheme {
  const char *name, *doc;
  const char *apart;       // passes of the plan that it ignores, and why; NULL: none
  const char *knob[KNOBS]; // NULL-terminated names
  int named;               // number of knobs that are always printed (0: all); the others only if they are not 0
  unsigned rules;          // rules by which it rewrites values (kern/rule.def), as bits
  bool tails;              // it supports tails
  bool joins;              // it supports graphs that join or split parts
  bool chooses;            // it supports data-dependent indices
  bool by_rows;            // rows of its tiles do not depend on each other, and it takes join * regs of them at a time
  // Lists settings of the knobs that may work, likely best first, at most `most`. 0 with the reason in why if the scheme does not accept the graph.
  int (*choices)(const struct lower_job *j, int most, struct knobs *out, char why[160]);
  // The scheme's plan of the kernel with these knobs, in the job's arena. NULL: they do not fit; why may have the reason.
  const void *(*plan)(const struct lower_job *j, const struct knobs *k, char why[160]);
  // Counts the kernel's work (count.h), from which the model computes its time. False: registers do not suffice.
  bool (*count)(const void *plan, struct kernel_counts *out);
  void (*emit)(const void *plan, struct text t, struct lower_out *out);
  void (*settle)(const struct lower_job *j, struct knobs *k); // sets knobs without effect to 0; may be NULL
};
int scheme_count(void);
const struct scheme *scheme_at(int i);
uint32_t scheme_needs(int i); // bits of the required capabilities
// Whether the GPU has the capabilities that the scheme needs. False: why names the missing ones.
bool scheme_runs(int scheme, const struct target *gpu, char why[160]);
// The same, and whether the scheme supports kernels with the job's operators.
bool scheme_takes(int scheme, const struct lower_job *j, char why[160]);

enum op lower_epilogue_act(enum epilogue e); // its activation; OP_SAVE: none
// A product by the vendor's library. Its only knob is the epilogue: 0, or a row of epilogue.def + 1. A collective has no knobs.
enum { SCHEME_LIBRARY = -1, SCHEME_MEETING = -2 };
struct choice {
  int scheme;
  struct knobs k;
  bool tail;   // includes the kernel's tail
  double cost; // modelled seconds, including the tail
};
// Lists choices of all schemes: the cheapest first, then the schemes in turn, each with its cheapest first. 0: no scheme supports the kernel, with
// the reasons in why.
int scheme_choices(const struct lower_job *j, int most, struct choice *out, char why[256]);
int64_t scheme_knob(const struct choice *c, const char *name); // its value; 0: the scheme has no such knob
int *scheme_knob_at(struct choice *c, const char *name);       // NULL: the scheme has no such knob
// Modelled seconds; infinite if the settings do not fit.
double scheme_cost(const struct scheme *s, const struct lower_job *j, const struct knobs *k);
bool scheme_counts(const struct scheme *s, const struct lower_job *j, const struct knobs *k, struct kernel_counts *out); // false: they do not fit
int scheme_emit(const struct scheme *s, const struct lower_job *j, const struct knobs *k, struct lower_out *out, struct err *e);
// Lists all settings of the scheme for the kernel, in the scheme's order; at most `most`.
int scheme_settings(const struct lower_job *j, int scheme, int most, struct choice *out);
void scheme_text(const struct choice *c, struct str *out); // "mma warps=4 stages=3", "... tail", "cublaslt epilogue=relu"
bool scheme_parse(const char *text, struct choice *out);   // parses this text; cost is 0; "algorithm 3" of a product is skipped

// ---- memo.c ----------------------------------------------------------------------------------------

// For one GPU; thread-safe. A key is a hash of everything that choices depend on. A plan looks up each key once (lower_plan.c).
struct lower_memo *lower_memo_new(struct arena *mem);
uint64_t lower_memo_key(const struct lower_job *j);
bool lower_memo_get(struct lower_memo *m, uint64_t key, int *n, struct choice *out); // n: 0 if no scheme supports it, else 1
void lower_memo_put(struct lower_memo *m, uint64_t key, int n, const struct choice *first);

// ---- lower_plan.c, program.c -----------------------------------------------------------------------

enum place_kind { PLACE_INPUT, PLACE_OUTPUT, PLACE_WORK };
struct lower_place {
  enum place_kind kind;
  int index;      // number among the program's inputs or outputs
  int64_t offset; // offset in the workspace, in bytes
};
struct launch_arg {
  struct lower_place at;
  int tensor; // tensor of the kernel graph, views resolved; or ARG_COUNTERS, ARG_PARTS
  enum tile_type type;
  int64_t elements;
  bool written;
  bool kept; // only slices of it are written: its other elements must be preserved
};
// Its name: the tensor's (NULL if it has none), or the name of the other memory.
const char *lower_arg_name(const struct graph *kernels, const struct launch_arg *a);
struct line_about { // the graph node of a line of a tile program
  int kernel, node; // kernel: node of the kernel graph; node: of its block graph, which the line computes, loads or saves; -1: none
};
struct launch {
  const char *name; // "m_rms_1"
  const char *how;  // scheme and knobs; "cublaslt", "cublaslt epilogue=relu", "ranks"
  int unit;         // of the plan
  int first, last;  // nodes of the kernel graph; last differs from first if there is a tail
  double cost;      // modelled seconds
  int nargs;
  struct launch_arg *arg; // for a kernel: its global buffers in order; for a product: its operands; for a collective: operand, result
  bool product, dependent;
  struct blas_product mul;
  struct meeting meet; // a collective; .ranks 0: none
  int algorithm;       // for a product: one of the library's algorithms (gpu.h); -1: the fastest
  // for a kernel
  const char *text; // NULL: not a kernel
  struct tile_program *p;
  struct tile_kernel *k; // lowered for gpu->arch
  int nabout;
  const struct line_about *about; // for each line
};
struct device_program {
  const struct graph *g;     // the kernel graph, with library operators wrapped
  const struct order *order; // for each tensor of g, or NULL
  const struct target *gpu;
  int nlaunch;
  struct launch *launch;
  int64_t workspace; // bytes
  int64_t zeroed;    // bytes at the start that must be zero before the first run; each run leaves them zero
  double cost;       // modelled seconds of all launches
};
struct lower_meeting {
  struct meeting m;
  int tensor[2]; // operand and result, of the kernel graph, views resolved
};
// A kernel, product or collective with its choices. A kernel may also be the tail of another unit's launch.
struct lower_unit {
  const char *name;
  int first, last; // nodes of the kernel graph; last differs if the kernel there can be this one's tail
  int head;        // the unit whose tail this can be; -1: none
  bool product;
  struct library_product mul, ends; // of a product; ends: with its tail as epilogue, if last differs
  struct lower_meeting meet;        // for a collective; .m.ranks 0: none
  struct norm n, tail;              // unless it is a product; the tail if last differs
  int nchoices;                     // 0: no scheme supports it, with the reasons in why. Choices with and without a tail are mixed
  struct choice *choice;
  const char *why;
};
struct lower_plan {
  const struct graph *g; // library operators wrapped
  const enum dtype *store;
  const struct order *order; // layouts in device memory, for each tensor of g; or NULL
  const char *ordered;       // reason for the order, as text
  const struct target *gpu;
  bool dependent, tails;
  unsigned off;              // as in lower_opts
  const char *const *stored; // as in lower_opts
  int nunits;
  struct lower_unit *unit;
};
struct lower_opts {
  bool tails;                // allow a kernel and the only reader of its results to be one launch
  bool dependent;            // kernels are launched before the previous one has ended
  const struct order *order; // for lower_plan_of: the layouts of tensors; NULL: row-major
  unsigned off;              // rules that are switched off (kern/rule.def), as bits
  const char *const *stored; // NULL-terminated names of tensors between kernels that keep the graph's dtype in memory; NULL: none
  struct lower_memo *memo;   // to compute costs only: the first choice of each kernel, memoized; NULL: all choices
};
// Tensors between kernels get the layouts of plan/layout.h if the schemes' models predict that this is faster (order.c).
int lower_plan(struct arena *mem, const struct graph *g, const struct target *gpu, const struct lower_opts *o, struct lower_plan *out, struct err *e);
// For a wrapped graph, with these stored types.
int lower_plan_of(struct arena *mem, const struct graph *wrapped, const enum dtype *store, const struct target *gpu, const struct lower_opts *o,
                  struct lower_plan *out, struct err *e);
// Whether the unit is the tail of another launch, for these picks.
bool lower_inside(const struct lower_plan *p, const struct choice *pick, int unit);
// The job of a unit that is a kernel.
struct lower_job lower_unit_job(struct arena *mem, const struct lower_plan *p, const struct lower_unit *u, bool tail);
// pick: a choice for each unit. Choices of units within other launches are ignored. Only `tail` matters in a product's choice.
int lower_make(struct arena *mem, const struct lower_plan *p, const struct choice *pick, struct device_program *out, struct err *e);

// ---- workspace.c -----------------------------------------------------------------------------------

// Offsets of tensors between launches, and of counters: for all arguments whose kind is PLACE_WORK.
int workspace_plan(struct arena *mem, struct device_program *d, struct err *e);

// ---- order.c ---------------------------------------------------------------------------------------

// Alternatives to row-major layouts of the tensors between kernels: at most ORDERS, each for all tensors.
enum { ORDERS = 3 };
// Row-major, with rows of copies aligned to 16 bytes; NULL: there are no copies.
const struct order *order_least(struct arena *mem, const struct graph *wrapped);
int order_candidates(struct arena *mem, const struct graph *wrapped, const struct order *out[ORDERS], const char *what[ORDERS]);

// ---- count.c ---------------------------------------------------------------------------------------

// The library's product as a choice, with or without the epilogue of its tail, and its modelled cost.
struct choice product_choice(const struct lower_plan *p, const struct library_product *x, bool tail);

// ---- meeting.c -------------------------------------------------------------------------------------

const char *meeting_name(enum meeting_how how); // "all_reduce"
bool meeting_find(const char *name, enum meeting_how *out);
// The collective in a node of a kernel graph; false if ranks cannot exchange such tensors.
bool meeting_of(const struct graph *kernels, const enum dtype *store, int node, struct lower_meeting *out);
struct choice meeting_choice(const struct target *gpu, const struct meeting *m);

// ---- epilogue.c ------------------------------------------------------------------------------------

// The product with the operations of kernel n on its result as epilogue. False: the library does not support them; why has the reason.
bool product_ends(const struct library_product *x, const struct norm *n, const enum dtype *store, struct library_product *out, char why[160]);
// such as "0.5 (A B) + C + bias, relu"; nothing for a plain product
void product_text(const struct blas_product *p, struct str *out);
void launch_body_text(const struct launch *l, struct str *out); // prints its tile program, or a comment that describes the product

#endif

// lower: kernel graphs -> tile programs for GPUs. Each kernel of a kernel graph becomes the text of a tile kernel
// (docs/tile.md) by one of several schemes, or a product by the vendor's library; together they are a device program.
//
// Glossary
//   scheme       a way to make a block graph a kernel; a row of scheme.def
//   knobs        what a scheme leaves open: warps, stages of a ring, ...
//   work tile    what one block of a grid does. With a budget (gpu_budget) a block does several in turns
//   tail         a second kernel, which only finishes what the blocks of the first left in parts (sums them, divides), done in
//                the same launch: by a cluster, or by the last block to arrive
//   store        the dtype in which a tensor of the kernel graph is kept in device memory. Inputs and outputs of the program
//                keep theirs; of those between kernels, what only elementwise operators and sums read is fp32
//
// Files
//   lower_values.c  values of a kernel, rewritten by rules (src/kern)
//   text.c       tile text: names, indentation, the frame of a kernel
//   fill.c       templates of tile text
//   about.c      which nodes lines of the text are about
//   pointwise.c  elementwise operators as specs
//   budget.c     budgets of kernels of persistent blocks
//   scheme.c     the table of schemes; choices over all of them
//   order.c      how tensors between kernels lie in device memory
//   count.c, kernel_time.c, *_cost.c  the cost model (count.h)
//   meeting.c    operators of all ranks
//   epilogue.c   what follows products, done by the library in the same launch
//   memo.c       first choices of kernels that were asked about before
//   lower_plan.c a whole kernel graph: its kernels and their choices
//   program.c    a choice of each: launches and their arguments
//   workspace.c  room for what launches leave to later ones
//   rows*.c      scheme: rows in registers, no products
//   mma*.c       scheme: products by mma.sync, chained in registers
//   skinny*.c    scheme: products of few rows, weights straight from global memory to fragments
//   wgmma*.c     scheme: sm_90a, TMA and wgmma
#ifndef MICA_LOWER_LOWER_H
#define MICA_LOWER_LOWER_H

#include "cuda/cuda.h"
#include "ir/ir.h"
#include "legal/legal.h"
#include "plan/norm.h"
#include "target/target.h"
#include "tile/tile.h"

// ---- scheme.c --------------------------------------------------------------------------------------

enum { KNOBS = 14, CHOICES = 64 };
struct knobs {
  int v[KNOBS];
};
// Budget of a kernel of persistent blocks: their number, and the shared memory of each (0: all). No cluster, no early launch.
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
  bool dependent;               // it is launched before the previous kernel has ended: it waits before reading that kernel's results
  bool anew;                    // a scheme has re-tiled the grid or the loop (mma_cut.c)
  int64_t cut;                  // rows of a block then, if the last one has fewer; else 0
  bool exact;                   // tensor cores accumulate the products of one iteration only: for parts of f32 (parts.c)
  struct kernel_counts *counts; // memory for `most`: choices() stores the counts of each setting, as count() would compute them; or NULL
  struct text_marks *marks;     // emit() stores the node of each part of the text (lower_emit.h); or NULL
  unsigned off;                 // rules that are switched off (kern/rule.def), as bits
};
bool lower_exact(const struct lower_job *j); // does the kernel multiply bf16 parts of f32?
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
  const char *apart;       // the passes of the plan that it does not follow, and why; NULL: it follows all
  const char *knob[KNOBS]; // NULL-terminated names
  int named;               // number of knobs that are always printed; the others only if they are not 0. 0: all are
  unsigned rules;          // rules by which it rewrites values (kern/rule.def), as bits
  bool tails;              // it accepts a tail
  bool joins;              // it accepts graphs that join or split parts
  bool chooses;            // it accepts graphs with data-dependent indices
  // Lists settings of the knobs that may work, likely best first, at most `most`. 0 with the reason in why if the scheme does not accept the graph.
  int (*choices)(const struct lower_job *j, int most, struct knobs *out, char why[160]);
  // The scheme's plan of the kernel at these settings, in the job's arena. NULL, maybe with the reason in why: they do not fit.
  const void *(*plan)(const struct lower_job *j, const struct knobs *k, char why[160]);
  // Counts the kernel's work (count.h), from which the model computes its time. False: registers do not suffice.
  bool (*count)(const void *plan, struct kernel_counts *out);
  void (*emit)(const void *plan, struct text t, struct lower_out *out);
  void (*settle)(const struct lower_job *j, struct knobs *k); // sets knobs without effect to 0; may be NULL
};
int scheme_count(void);
const struct scheme *scheme_at(int i);
uint32_t scheme_needs(int i); // bits of the required capabilities
// Whether the GPU has what the scheme needs; else why names what is missing.
bool scheme_runs(int scheme, const struct target *gpu, char why[160]);
// The same, and whether the scheme accepts kernels like the job's at all.
bool scheme_takes(int scheme, const struct lower_job *j, char why[160]);

enum op lower_epilogue_act(enum epilogue e); // the operator of the epilogue's last step; SAVE: none
// A product by the vendor's library. Its only knob is the epilogue: 0, or a row of epilogue.def + 1. A collective has no knobs.
enum { SCHEME_LIBRARY = -1, SCHEME_MEETING = -2 };
struct choice {
  int scheme;
  struct knobs k;
  bool tail;   // includes the kernel's tail
  double cost; // of both, then
};
// Choices over all schemes: the cheapest, then the schemes in turn, each cheapest first. 0: none accepts it; why has the reason of each.
int scheme_choices(const struct lower_job *j, int most, struct choice *out, char why[256]);
// Modelled seconds; infinite if the settings do not fit.
int64_t scheme_knob(const struct choice *c, const char *name); // its value; 0: the scheme has no such knob
int *scheme_knob_at(struct choice *c, const char *name);       // NULL: the scheme has no such knob
double scheme_cost(const struct scheme *s, const struct lower_job *j, const struct knobs *k);
bool scheme_counts(const struct scheme *s, const struct lower_job *j, const struct knobs *k, struct kernel_counts *out); // false: they do not fit
int scheme_emit(const struct scheme *s, const struct lower_job *j, const struct knobs *k, struct lower_out *out, struct err *e);
// Lists all settings of the scheme for the kernel, in the scheme's order; at most `most`.
int scheme_settings(const struct lower_job *j, int scheme, int most, struct choice *out);
void scheme_text(const struct choice *c, struct str *out); // "mma warps=4 stages=3", "... tail", "cublaslt epilogue=relu"
bool scheme_parse(const char *text, struct choice *out);   // parses this text; cost is 0; "algorithm 3" of a product is skipped

// ---- memo.c ----------------------------------------------------------------------------------------

// For one GPU; thread-safe. A key is a hash of everything that choices depend on; a plan asks for kernels of the same key once (lower_plan.c).
struct lower_memo *lower_memo_new(struct arena *mem);
uint64_t lower_memo_key(const struct lower_job *j);
bool lower_memo_get(struct lower_memo *m, uint64_t key, int *n, struct choice *out); // n: 0 if no scheme accepts it, or 1
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
  bool kept; // its other elements must be preserved: only slices of it are written
};
// Its name: the tensor's, NULL if it has none, or what other memory it is.
const char *lower_arg_name(const struct graph *kernels, const struct launch_arg *a);
struct line_about { // a line of a tile program
  int kernel, node; // the node that it computes, loads or saves: of the block graph in that node of the kernel graph; -1: none
};
struct launch {
  const char *name; // "m_rms_1"
  const char *how;  // scheme and knobs; "cublaslt", "cublaslt epilogue=relu", "ranks"
  int unit;         // of the plan
  int first, last;  // nodes of the kernel graph; last differs if there is a tail
  double cost;      // modelled seconds
  int nargs;
  struct launch_arg *arg; // for a kernel: its global buffers in order; for a product: its operands; for a collective: operand, result
  bool product, dependent;
  struct blas_product mul;
  struct meeting meet; // a collective; .ranks 0: none
  int algorithm;       // for a product: one of the library's proposals (gpu.h); -1: the fastest
  // for a kernel
  const char *text; // NULL: not a kernel
  struct tile_program *p;
  struct tile_kernel *k; // lowered for gpu->arch
  int nabout;
  const struct line_about *about; // for each line
};
struct device_program {
  const struct graph *g;     // the kernel graph that it computes, with library operators wrapped
  const struct order *order; // for each tensor of g, or NULL
  const struct target *gpu;
  int nlaunch;
  struct launch *launch;
  int64_t workspace; // bytes
  int64_t zeroed;    // bytes at the start that are zero at first, and zero again after each run
  double cost;       // modelled seconds of all launches
};
struct lower_meeting {
  struct meeting m;
  int tensor[2]; // operand and result, of the kernel graph, views resolved
};
// A launch with its choices; or the tail of another unit's launch.
struct lower_unit {
  const char *name;
  int first, last; // nodes of the kernel graph; last differs if the kernel that ends there can be this one's tail
  int head;        // the unit whose tail this can be; -1: none
  bool product;
  struct library_product mul, ends; // of a product; with what its tail does, where last differs
  struct lower_meeting meet;        // for a collective; .m.ranks 0: none
  struct norm n, tail;              // unless it is a product; the tail if last differs
  int nchoices;                     // 0: no scheme accepts it, for the reasons in why. Choices with and without a tail alternate
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
  bool tails;                // also choices in which a kernel and the only reader of its results are one launch
  bool dependent;            // kernels are launched before the previous one has ended
  const struct order *order; // for lower_plan_of: the layouts of tensors; NULL: row-major
  unsigned off;              // rules that are switched off (kern/rule.def), as bits
  const char *const *stored; // names of tensors between kernels that are stored in the type that the graph gives, NULL-terminated; NULL: none
  struct lower_memo *memo;   // for prices: only the first choice of each kernel, memoized; NULL: all choices
};
// Tensors between kernels are laid out as plan/layout.h says if the schemes' models predict that this is faster (order.c).
int lower_plan(struct arena *mem, const struct graph *g, const struct target *gpu, const struct lower_opts *o, struct lower_plan *out, struct err *e);
// For a graph that is already wrapped, with these types between its kernels.
int lower_plan_of(struct arena *mem, const struct graph *wrapped, const enum dtype *store, const struct target *gpu, const struct lower_opts *o,
                  struct lower_plan *out, struct err *e);
// Whether the unit is part of another launch, for these picks.
bool lower_inside(const struct lower_plan *p, const struct choice *pick, int unit);
// For a unit that is not a product.
struct lower_job lower_unit_job(struct arena *mem, const struct lower_plan *p, const struct lower_unit *u, bool tail);
// pick: for each unit. Entries of units within others are ignored, and for products only the tail matters.
int lower_make(struct arena *mem, const struct lower_plan *p, const struct choice *pick, struct device_program *out, struct err *e);

// ---- workspace.c -----------------------------------------------------------------------------------

// Offsets of tensors between launches, and of counters: for all arguments whose kind is PLACE_WORK.
int workspace_plan(struct arena *mem, struct device_program *d, struct err *e);

// ---- order.c ---------------------------------------------------------------------------------------

// Possible layouts of the tensors between kernels other than row-major: at most ORDERS, each for all tensors.
enum { ORDERS = 3 };
// row-major, copies with rows aligned to 16 bytes; NULL: there are no copies
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

// The product with the operations of the kernel in n on its result; false if the library cannot do them, for the reason in why.
bool product_ends(const struct library_product *x, const struct norm *n, const enum dtype *store, struct library_product *out, char why[160]);
// such as "0.5 (A B) + C + bias, relu"; nothing for a plain product
void product_text(const struct blas_product *p, struct str *out);
void launch_body_text(const struct launch *l, struct str *out); // prints its tile program, or a comment that describes the product

#endif

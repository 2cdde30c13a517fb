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
// Budget of a kernel of persistent blocks: so many of them, this much shared memory in each (0: all), no cluster, no early launch.
struct target gpu_budget(const struct target *gpu, int workers, int64_t shared);
int64_t gpu_blocks(const struct target *gpu, int64_t tiles); // blocks of a kernel with `tiles` work tiles
int gpu_runs_on(const struct target *gpu);
struct kernel_counts;
struct text_marks;
struct lower_job {
  struct arena *mem;
  const struct norm *n;    // the kernel
  const struct norm *tail; // or NULL; what it loads, n saves
  const enum dtype *store; // by tensor of the kernel graph
  const struct target *gpu;
  const char *name;             // of the tile kernel
  bool dependent;               // launched before the kernel ahead of it has ended: wait before reading what that wrote
  bool anew;                    // a scheme has cut the grid or the loop anew (mma_cut.c)
  int64_t cut;                  // rows of a block then, where the last one has fewer; else 0
  bool exact;                   // tensor cores add up the products of an iteration alone: of parts of f32 (parts.c)
  struct kernel_counts *counts; // room for `most`: choices() leaves what each does, which count() would say again; or NULL
  struct text_marks *marks;     // emit() leaves what the text is about (emit.h); NULL
  unsigned off;                 // rules that are left out (kern/rule.def), as bits
};
bool lower_exact(const struct lower_job *j); // does the kernel multiply bf16 parts of f32?
struct lower_out {
  struct str text;  // of the tile program
  int nargs, *arg;  // tensors of the kernel graph, in the order in which the text declares global buffers;
                    // ARG_COUNTERS: memory of its own that is zero before and is left zero
  int64_t counters; // bytes of it
};
enum { ARG_COUNTERS = -1 };
struct scheme {
  const char *name, *doc;
  const char *apart;       // which of the plan's passes it does not follow, and why; NULL: it follows all
  const char *knob[KNOBS]; // names; NULL at the end
  int named;               // so many are always named; the others where they are not 0. 0: all are
  unsigned rules;          // by which it rewrites values (kern/rule.def), as bits
  bool tails;              // takes a tail
  bool joins;              // takes graphs that join or split parts
  bool chooses;            // takes graphs in which data choose elements
  // Settings of the knobs that may work, likely best first, at most `most`; 0 with the reason in why where the scheme does
  // not do such graphs.
  int (*choices)(const struct lower_job *j, int most, struct knobs *out, char why[160]);
  // The kernel's counts (count.h), from which the model computes its time. False: these settings do not fit.
  bool (*count)(const struct lower_job *j, const struct knobs *k, struct kernel_counts *out);
  int (*emit)(const struct lower_job *j, const struct knobs *k, struct lower_out *out, struct err *e);
  void (*settle)(const struct lower_job *j, struct knobs *k); // sets knobs to 0 that change nothing there; NULL: there are none
};
int scheme_count(void);
const struct scheme *scheme_at(int i);
uint32_t scheme_needs(int i); // capabilities
// The GPU has what the scheme needs; else why says what is missing.
bool scheme_runs(int scheme, const struct target *gpu, char why[160]);
// It does, and the scheme takes kernels like the job's at all.
bool scheme_takes(int scheme, const struct lower_job *j, char why[160]);

enum op lower_epilogue_act(enum epilogue e); // the operator that it does last, SAVE: none
// A product by the vendor's library; its one knob is the epilogue: 0, or a row of epilogue.def + 1. An operator of all ranks has no knobs.
enum { SCHEME_LIBRARY = -1, SCHEME_MEETING = -2 };
struct choice {
  int scheme;
  struct knobs k;
  bool tail;   // with the tail that the kernel may have
  double cost; // of both, then
};
// Over all schemes: the cheapest, then the schemes in turns, each cheapest first. 0: none takes it; why has the reason of each.
int scheme_choices(const struct lower_job *j, int most, struct choice *out, char why[256]);
// Seconds, modelled; infinite where the settings do not fit.
int64_t scheme_knob(const struct choice *c, const char *name); // its value; 0: the scheme has no such knob
double scheme_cost(const struct scheme *s, const struct lower_job *j, const struct knobs *k);
// Lists all settings of the scheme for the kernel, in the scheme's order; at most `most`.
int scheme_settings(const struct lower_job *j, int scheme, int most, struct choice *out);
void scheme_text(const struct choice *c, struct str *out); // "mma warps=4 stages=3", "... tail", "cublaslt epilogue=relu"
bool scheme_parse(const char *text, struct choice *out);   // the same back; cost is 0; "algorithm 3" of a product is skipped

// ---- memo.c ----------------------------------------------------------------------------------------

// For one GPU. Several threads may use one memo at a time. A key is a hash of all that choices depend on. Two kernels with the same
// key would have the price of one, never its text.
struct lower_memo *lower_memo_new(struct arena *mem);
uint64_t lower_memo_key(const struct lower_job *j);
bool lower_memo_get(struct lower_memo *m, uint64_t key, int *n, struct choice *out); // n: 0 where no scheme takes it, or 1
void lower_memo_put(struct lower_memo *m, uint64_t key, int n, const struct choice *first);

// ---- lower_plan.c, program.c -----------------------------------------------------------------------

enum place_kind { PLACE_INPUT, PLACE_OUTPUT, PLACE_WORK };
struct lower_place {
  enum place_kind kind;
  int index;      // of the program's inputs or outputs
  int64_t offset; // bytes in the workspace
};
struct launch_arg {
  struct lower_place at;
  int tensor; // of the kernel graph, views resolved; or ARG_COUNTERS
  enum tile_type type;
  int64_t elements;
  bool written;
  bool kept; // and what is not written stays: slices of it are
};
struct line_about { // a line of a tile program
  int kernel, node; // it computes, loads or saves this node of the block graph in that node of the kernel graph; -1: of none
};
struct launch {
  const char *name; // "m_rms_1"
  const char *how;  // scheme and knobs; "cublaslt", "cublaslt epilogue=relu", "ranks"
  int unit;         // of the plan
  int first, last;  // nodes of the kernel graph; last differs where there is a tail
  double cost;      // modelled seconds
  int nargs;
  struct launch_arg *arg; // of a kernel: its global buffers in order; of a product: its operands; of a meeting: operand, result
  bool product, dependent;
  struct blas_product mul;
  struct meeting meet; // an operator of all ranks; .ranks 0: it is none
  int algorithm;       // of the product: of those that the library proposes (gpu.h); -1: what is fastest
  // of a kernel
  const char *text; // NULL: it is none
  struct tile_program *p;
  struct tile_kernel *k; // lowered for gpu->arch
  int nabout;
  const struct line_about *about; // by line
};
struct device_program {
  const struct graph *g;     // what it computes: the kernel graph, library operators wrapped
  const struct order *order; // by tensor of g, or NULL
  const struct target *gpu;
  int nlaunch;
  struct launch *launch;
  int64_t workspace; // bytes
  int64_t zeroed;    // so many at its beginning are zero at first, and zero again after each run
  double cost;       // modelled seconds of all launches
};
struct lower_meeting {
  struct meeting m;
  int tensor[2]; // operand, result: of the kernel graph, views resolved
};
// A launch with the ways to make it; or a part of the launch of another unit, whose tail it is.
struct lower_unit {
  const char *name;
  int first, last; // nodes of the kernel graph; last differs where the kernel that ends with it can be a tail of this one
  int head;        // the unit whose tail this can be, -1: none
  bool product;
  struct library_product mul, ends; // of a product; with what its tail does, where last differs
  struct lower_meeting meet;        // of an operator of all ranks; .m.ranks 0: it is none
  struct norm n, tail;              // of what is no product; the tail where last differs
  int nchoices;                     // 0: no scheme takes it, for the reasons in why; with and without tail in turns
  struct choice *choice;
  const char *why;
};
struct lower_plan {
  const struct graph *g; // library operators wrapped
  const enum dtype *store;
  const struct order *order; // by tensor of g, or NULL: how tensors lie in device memory
  const char *ordered;       // why so, for people
  const struct target *gpu;
  bool dependent, tails;
  unsigned off;              // of lower_opts
  const char *const *stored; // of lower_opts
  int nunits;
  struct lower_unit *unit;
};
struct lower_opts {
  bool tails;                // choices where a kernel whose results only the next one reads becomes one launch with it
  bool dependent;            // kernels are launched before the one ahead has ended
  const struct order *order; // of lower_plan_of: how tensors lie, by tensor; NULL: row by row
  unsigned off;              // rules of values that are left out (kern/rule.def), as bits
  const char *const *stored; // names of tensors between kernels that lie in the type that the graph says, up to NULL; NULL: none
  struct lower_memo *memo;   // for prices: each kernel has its first choice alone, remembered; NULL: all choices
};
// Tensors between kernels lie as plan/layout.h says where the schemes' models say that this is faster (order.c).
int lower_plan(struct arena *mem, const struct graph *g, const struct target *gpu, const struct lower_opts *o, struct lower_plan *out, struct err *e);
// For a graph that is wrapped already, with these types between its kernels.
int lower_plan_of(struct arena *mem, const struct graph *wrapped, const enum dtype *store, const struct target *gpu, const struct lower_opts *o,
                  struct lower_plan *out, struct err *e);
// Is the unit a part of another one's launch, with these picks?
bool lower_inside(const struct lower_plan *p, const struct choice *pick, int unit);
// For a unit that is no product.
struct lower_job lower_unit_job(struct arena *mem, const struct lower_plan *p, const struct lower_unit *u, bool tail);
// pick: by unit; what it says for units inside others is not looked at, and of products only whether there is a tail.
int lower_make(struct arena *mem, const struct lower_plan *p, const struct choice *pick, struct device_program *out, struct err *e);

// ---- workspace.c -----------------------------------------------------------------------------------

// Offsets of what launches leave to later ones, and of counters: of all arguments whose kind is PLACE_WORK.
int workspace_plan(struct arena *mem, struct device_program *d, struct err *e);

// ---- order.c ---------------------------------------------------------------------------------------

// Ways in which the tensors between the kernels may lie, other than row by row: at most ORDERS, each by tensor.
enum { ORDERS = 3 };
const struct order *order_least(struct arena *mem, const struct graph *wrapped); // row by row, copies with rows at 16 bytes; NULL: there are none
int order_candidates(struct arena *mem, const struct graph *wrapped, const struct order *out[ORDERS], const char *what[ORDERS]);

// ---- count.c ---------------------------------------------------------------------------------------

// The library's product as a choice, with the epilogue of its tail or without one; with its modelled cost.
struct choice product_choice(const struct lower_plan *p, const struct library_product *x, bool tail);

// ---- meeting.c -------------------------------------------------------------------------------------

const char *meeting_name(enum meeting_how how); // "all_reduce"
bool meeting_find(const char *name, enum meeting_how *out);
// The operator of all ranks in a node of a kernel graph; false where ranks do not exchange such tensors.
bool meeting_of(const struct graph *kernels, const enum dtype *store, int node, struct lower_meeting *out);
struct choice meeting_choice(const struct target *gpu, const struct meeting *m);

// ---- epilogue.c ------------------------------------------------------------------------------------

// The product with what the kernel in n does to its result; false where the library does not do that, for the reason in why.
bool product_ends(const struct library_product *x, const struct norm *n, const enum dtype *store, struct library_product *out, char why[160]);
// "0.5 (A B) + C + bias, relu"; nothing of a plain product
void product_text(const struct blas_product *p, struct str *out);
void launch_body_text(const struct launch *l, struct str *out); // its tile program, or a comment that describes the product

#endif

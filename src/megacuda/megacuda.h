// megacuda: prints a plan of mega as CUDA C++. The text has one persistent kernel, and a host program that draws weights from a seed, runs steps and
// checks them. docs/mega.md describes it to users.
//
// Glossary
//   row of a table   the kernel's data on a node, a wait or a publication; the host makes a worker's rows from the plan's tables
//   unit             the data that one thread writes: a word of a tagged tensor, or as many elements of another one
//   panels           the layout [k / 32][row][32] of an input with many rows, which products copy in pieces
//   shim             machine primitives of the kernel for a CPU: threads of a block are fibers, all other text is unchanged
//
// Files
//   cuda_op.c        operators and accesses as constants and functions of a tile
//   cuda_table.c     nodes, shares, events, waits as tables; fault.def  faults that the watchdog records
//   cuda_fit.c       stages of the pipeline and pieces of inputs that fit a block's shared memory
//   cuda_emit.c      the whole text
//   mega_prims.cuh, mega_shim.h    machine primitives, and the same for a CPU, by fibers (fiber.h)
//   mega_device.cuh                waits, words, regions
//   mega_product.cuh, mega_matrix.cuh, mega_panel.cuh, mega_merge.cuh, mega_experts.cuh   bodies of products
//   mega_attend.cuh, mega_cache.cuh, mega_scores.cuh   attention, rows of the cache, attention by tensor cores;  mega_heads.cuh  merges its parts
//   mega_serve.cuh, mega_token.cuh   requests that share a cache, and sampling; tokens and other small bodies
//   mega_kernel.cuh                the kernel;  mega_pack.cuh  weights in its order, functions for a library
//   mega_peer.cuh                  slots of several ranks;  mega_world.cuh, mega_nccl.cuh  the host program of several, and its graphs with NCCL
//   mega_host.cuh, mega_plain.cuh  the host program, and the plain model that is its reference;  mega_machine.cuh  its machine primitives
//   mega_time.cuh, mega_graph.cuh  times and traces, and the same bodies as a CUDA graph;  mega_options.cuh, mega_main.cuh  its options and main
#ifndef MICA_MEGACUDA_H
#define MICA_MEGACUDA_H

#include "mega/mega.h"

// Settings of a text besides the plan.
struct megacuda_given {
  uint64_t seed;
  int warps; // consumer warps of a block
  int steps; // number of steps for which the cache has room
};
enum { MEGACUDA_FLIGHT = 4, MEGACUDA_CALM = 2 };       // most copies of a block in flight; the same for pieces that are not needed yet
enum { MEGACUDA_WARPS = 8, MEGACUDA_OTHER_WARPS = 2 }; // consumer warps; the warps of the producer and of the publisher
enum { MEGACUDA_SUMS = 256 };                          // floats for each row, for the sums of a batch of tiles
enum { MEGACUDA_CHOICES = 32 };                        // most experts of a row: each lane handles one
enum { MEGACUDA_EXACT_ROWS = 8 }; // most rows of a product whose input values are two bf16 each, nearly fp32; with more rows they are one bf16
enum { MEGACUDA_PANELS = 64 << 10, MEGACUDA_TWO_PANELS = 73 << 10 }; // usual shared memory for pieces of an input; most for two pieces; bytes
enum { MEGACUDA_WIDE_ROWS = 32 };                                    // with more rows, and a multiple of eight, products use wgmma
enum { MEGACUDA_PANEL_SLOTS = 8 };                                   // most pieces of an input in memory
enum { MEGACUDA_PANEL_SUMS = 64 };                                   // registers of a thread for the sums of a product with many rows
enum { MEGACUDA_SHARED = 227 << 10 };                                // bytes of shared memory of a block of sm_90
enum { MEGACUDA_NODE_ROW = 16, MEGACUDA_WAIT_ROW = 8, MEGACUDA_PUBLISH_ROW = 4 }; // bytes of rows of a worker's tables

// Distance in floats between the sums of adjacent columns: 9 or 25 more than a multiple of 32, so that a warp's stores have few bank conflicts.
int megacuda_panel_pitch(int rows);
bool megacuda_wide(int rows); // whether products of so many rows use wgmma, if they can

// How a block's shared memory is divided: stages of the pipeline, and bytes for pieces of inputs with many rows.
struct megacuda_fit {
  int stages, input_bytes;
};
// Sets *out to the fastest division by the modelled time, with at most the plan's stages. If the model has input_bytes, these are kept. NO if fewer
// than two stages fit.
int megacuda_fit(struct arena *mem, const struct mega_plan *p, const struct megacuda_given *g, struct megacuda_fit *out, struct err *e);
// Appends the source as one file. NO and a hint if a layer or a shape has no CUDA body.
int megacuda_emit(struct arena *mem, const struct mega_plan *p, const struct megacuda_given *g, struct str *out, struct err *e);
// The header with which the source compiles for a CPU.
const char *megacuda_shim(void);

// ---- cuda_op.c ----
// Sets *tensor to the tensor of the weights that an operator streams, or -1, and *bytes to their size when packed.
int megacuda_packed(struct arena *mem, const struct mega_plan *p, int op, int threads, int *tensor, int64_t *bytes, struct err *e);
int64_t megacuda_tensor_bytes(struct arena *mem, const struct mega_plan *p, int tensor, int threads); // of all versions, in memory
bool megacuda_panels(struct arena *mem, const struct mega_plan *p, int threads); // whether any tensor is stored in panels (mega_panel.cuh)
int megacuda_block(struct arena *mem, const struct mega_plan *p, int warps);     // threads of a block with `warps` consumer warps
// Sets *f to the pieces of an operator's input that a block copies. Returns the bytes of a piece, or 0 and slots 0 if the input is not in panels.
int64_t megacuda_feed(struct arena *mem, const struct mega_plan *p, int op, int threads, struct mega_feed *f);
// Append a tensor, an operator, and the rows of the producer as C++. An error names a shape or type that CUDA bodies do not support.
int megacuda_tensor(struct arena *mem, const struct mega_plan *p, int tensor, int threads, struct str *out, struct err *e);
int megacuda_op(struct arena *mem, const struct mega_plan *p, int op, int threads, struct str *out, struct err *e);
int megacuda_weights(struct arena *mem, const struct mega_plan *p, int threads, struct str *out, struct err *e); // rows of the producer
// The largest sizes that a plan's operators need in a block's shared memory (block_memory in mega_device.cuh).
struct megacuda_most {
  int64_t stage_room, panel;                                        // bytes of a stage, and of pieces of an input
  int64_t x, x_rows, one, query, head, heads, part, merge, choices; // floats of a row, rows, and numbers of the member of that name
  int waits, publishes;                                             // rows of a worker
};
int megacuda_most_of(struct arena *mem, const struct mega_plan *p, int threads, struct megacuda_most *m, struct err *e);

// ---- cuda_table.c ----
#define MEGACUDA_SUBJECTS(X) X(NOTHING) X(EVENT) X(TENSOR) X(RANK) // kinds of a record's `which`
enum megacuda_of {
#define X(id) MEGACUDA_OF_##id,
  MEGACUDA_SUBJECTS(X)
#undef X
};
enum megacuda_fault {
  MEGACUDA_NO_FAULT,
#define FAULT_KIND(id, ...) MEGACUDA_##id,
#include "megacuda/fault.def"
  MEGACUDA_FAULTS
};
struct megacuda_fault_row { // fault.def
  const char *id, *words;
  bool hung;
  enum megacuda_of of;
};
extern const struct megacuda_fault_row megacuda_faults[MEGACUDA_FAULTS];
void megacuda_fault_kinds(struct str *out); // appends the faults as the kernel's enum
int megacuda_tables(struct arena *mem, const struct mega_plan *p, int threads, struct str *out, struct err *e);
// Appends a function `static DEV u32 write(int layer)`. It returns the number of the write that an access of an operator reads or makes in a layer.
int megacuda_write(const struct mega_plan *p, int op, int access, struct str *out, struct err *e);
void megacuda_count_rows(const struct mega_plan *p, struct megacuda_most *m);

#endif

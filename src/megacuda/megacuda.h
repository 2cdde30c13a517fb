// megacuda: a plan of mega as CUDA C++: one persistent kernel, and a host program that fills weights by a seed, runs steps and checks them.
// docs/mega.md describes it to users.
//
// Glossary
//   row of a table   what the kernel knows of a node, a wait or a publication; the host makes a worker's rows from the plan's tables
//   unit             what one thread writes: a word of a tagged tensor, or as many elements
//   shim             the machine's part of the kernel for a CPU: threads of a block are fibers, everything else is the same text
//
// Files
//   cuda_op.c        operators and accesses as constants and functions of a tile
//   cuda_table.c     nodes, shares, events, waits as tables; fault.def  what the watchdog records
//   cuda_emit.c      the whole text
//   mega_prims.cuh, mega_shim.h    the machine's part, and the same for a CPU, by fibers (fiber.h)
//   mega_device.cuh                waits, words, regions;  mega_product.cuh, mega_matrix.cuh, mega_panel.cuh, mega_attend.cuh, mega_merge.cuh, mega_experts.cuh, mega_token.cuh, mega_serve.cuh  bodies
//   mega_kernel.cuh                the kernel;  mega_pack.cuh  weights in its order, what a library calls
//   mega_peer.cuh                  slots of several ranks;  mega_world.cuh, mega_nccl.cuh  the host program of several, and its graphs with NCCL
//   mega_host.cuh, mega_plain.cuh  the host program, and a model computed plainly that it is held against
//   mega_time.cuh, mega_graph.cuh  times and traces, and the same bodies as a CUDA graph;  mega_options.cuh, mega_main.cuh  its options and main
#ifndef MICA_MEGACUDA_H
#define MICA_MEGACUDA_H

#include "mega/mega.h"

// Numbers that a text needs besides the plan.
struct megacuda_given {
  uint64_t seed;
  int warps; // that consume, of a block
  int steps; // that the cache has room for
};
enum { MEGACUDA_FLIGHT = 4, MEGACUDA_CALM = 2 };       // copies of a block at once; of pieces that are not taken yet
enum { MEGACUDA_WARPS = 8, MEGACUDA_OTHER_WARPS = 2 }; // that consume; the producer's and the publisher's
enum { MEGACUDA_SUMS = 256 };                          // floats a row for the sums of a batch of tiles
enum { MEGACUDA_CHOICES = 32 };                        // experts that a row chooses, at most: a lane has one
enum { MEGACUDA_EXACT_ROWS = 8 };                      // of products whose input is two bf16, and so nearly a float; of more rows it is one
enum { MEGACUDA_PANELS = 64 << 10, MEGACUDA_TWO_PANELS = 73 << 10 };              // bytes of a block for pieces of an input; most for two of them
enum { MEGACUDA_PANEL_SLOTS = 8 };                                                // most pieces of an input at once
enum { MEGACUDA_PANEL_SUMS = 64 };                                                // registers of a thread for the sums of a product of many rows
enum { MEGACUDA_SHARED = 227 << 10 };                                             // bytes of shared memory of a block of sm_90
enum { MEGACUDA_NODE_ROW = 16, MEGACUDA_WAIT_ROW = 8, MEGACUDA_PUBLISH_ROW = 4 }; // bytes of rows of a worker's tables

// Floats from the sums of a column, of all rows, to those of the next. A multiple of 32 and 9 or 25: a warp's stores meet few banks twice.
int megacuda_panel_pitch(int rows);

// Stages of the pipeline that fit beside the rest of a block's memory, at most those of the plan. NO where not two do.
int megacuda_stages(struct arena *mem, const struct mega_plan *p, const struct megacuda_given *g, int *stages, struct err *e);
// The source as one file. NO and a hint where a layer or a shape has no CUDA body.
int megacuda_emit(struct arena *mem, const struct mega_plan *p, const struct megacuda_given *g, struct str *out, struct err *e);
// The header with which the source compiles for a CPU.
const char *megacuda_shim(void);

// ---- cuda_op.c ----
// The weights that an operator streams, and bytes of them as they are packed; -1: none.
int megacuda_packed(struct arena *mem, const struct mega_plan *p, int op, int threads, int *tensor, int64_t *bytes, struct err *e);
// Is the tensor kept in panels: [k / 32][row][32] as bf16, and behind it what rounding left. Products of many rows copy it piece by piece.
bool megacuda_panel(struct arena *mem, const struct mega_plan *p, int tensor, int threads);
bool megacuda_panels(struct arena *mem, const struct mega_plan *p, int threads); // of any tensor
int megacuda_block(struct arena *mem, const struct mega_plan *p, int warps);     // threads of a block, of which `warps` warps consume
int megacuda_tensor(struct arena *mem, const struct mega_plan *p, int tensor, int threads, struct str *out, struct err *e);
int megacuda_op(struct arena *mem, const struct mega_plan *p, int op, int threads, struct str *out, struct err *e);
int megacuda_weights(struct arena *mem, const struct mega_plan *p, int threads, struct str *out, struct err *e); // rows of the producer
// The largest needs of a plan's operators.
struct megacuda_most {
  int64_t stage_room, x, x_rows, one, query, head, heads, part, merge, choices, panel;
  int waits, publishes; // of a worker
};
int megacuda_most_of(struct arena *mem, const struct mega_plan *p, int threads, struct megacuda_most *m, struct err *e);

// ---- cuda_table.c ----
#define MEGACUDA_SUBJECTS(X) X(NOTHING) X(EVENT) X(TENSOR) X(RANK) // that a record names
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
void megacuda_fault_kinds(struct str *out); // as the kernel's text has them
int megacuda_tables(struct arena *mem, const struct mega_plan *p, struct str *out, struct err *e);
// The write that an access of an operator reads or makes, as a function of its layer: `static DEV u32 write(int layer)`.
int megacuda_write(const struct mega_plan *p, int op, int access, struct str *out, struct err *e);
void megacuda_count_rows(const struct mega_plan *p, struct megacuda_most *m);

#endif

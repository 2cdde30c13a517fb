// cprint: tile kernels as C for the CPU. A lowered kernel (tile/tile.h) becomes a self-contained C17 source: a prelude,
// then one function of the kernel's buffers and sizes that runs all blocks of the grid in parallel with OpenMP. It
// computes the results of the interpreter (src/sim) at the speed of compiled code. Moves, sums and products have the same
// bits. Functions such as exp have the same bits if the C library is the same.
//
// Threads become loops. All threads do a statement before the next one begins, if they have to:
//
//   reach    the level at which threads must do a statement together: a lane alone (moves, pointwise), a warp (shuffles,
//            ldmatrix, mma), the block (barriers). Statements of a block that need at most a warp are in one loop over
//            warps; statements of a warp that need only a lane are in loops over its 32 lanes
//   varies   the level at which an expression may differ: never in the block, between warps, between lanes. A condition
//            that does not vary at its level is a condition in C; others become guards inside the loops over threads
//
// Registers that several loops use are rows of 32 lanes, `float sum[4][32]`: compilers can vectorize a loop over lanes.
// Registers that only one loop over lanes uses are local to it: `float sum[4]`.
//
// Copies by cp.async are synchronous here, which their definition permits. Code that waits for another part of the same
// block cannot run in this way and is refused: mbarriers, TMA, wgmma, clusters.
//
//   cp_kernel.c   the function, its memory          cp_flow.c    statements of a block, of a warp, of a lane
//   cp_reach.c    levels of statements              cp_scope.c   variables: their scopes, how they vary
//   cp_ex.c       integer expressions               cp_atom.c    specs by lane: loops around instructions
//   cp_op.c       operators and conversions         cp_warp.c    specs by warp: shuffles, ldmatrix, mma
//   cp_stmt.c     statements common to all levels
//   prelude.h     functions that generated code calls; prelude_warp.h: ldmatrix, stmatrix and mma
#ifndef MICA_CPRINT_H
#define MICA_CPRINT_H

#include "tile/tile.h"

// Appends the whole source of a lowered kernel, which defines
//     int NAME(T *buffer, ..., int64_t size, ...)
// Its parameters are the buffers of k in global memory, const if they are not written, then the sizes in the order of
// k->params. It returns 0, 1 if it runs out of memory, or 2 if a size is not one that the kernel was made for.
int cprint_kernel(const struct tile_program *p, const struct tile_kernel *k, struct str *out, struct err *e);
// The same, followed by the entry point run_NAME that rt/rt.h loads. It takes the addresses of the buffers, then those of
// the sizes.
int cprint_module(const struct tile_program *p, const struct tile_kernel *k, struct str *out, struct err *e);
// NAME, allocated in mem.
const char *cprint_name(struct arena *mem, const struct tile_kernel *k);
// Compiler flags that the source needs.
const char *cprint_flags(void);

#endif

// cprint: tile kernels as C for the CPU. A lowered kernel (tile/tile.h) becomes a C17 source that stands alone: a
// prelude, then one function of the kernel's buffers and sizes that runs all blocks of the grid, in parallel with
// OpenMP. It computes at the speed of compiled code what the interpreter of src/sim computes in steps: moves, sums and
// products have the same bits, and so have exp and its like where the C library is the same.
//
// How threads become loops. A statement is done by all threads before the next one begins, as far as it has to be:
//
//   reach    what must be together when a statement is executed: a lane alone (moves, pointwise), a warp (shuffles,
//            ldmatrix, mma), the block (barriers). Statements of a block that need no more than a warp are one loop
//            over warps; those of a warp that need no more than a lane are loops over its 32 lanes
//   varies   among whom an expression differs: nobody in the block, warps, lanes. Conditions that do not vary at the
//   level
//            where they stand are conditions in C; others guard the loops over threads inside (guards)
//
// Registers that live on are rows of 32 lanes, so that a loop over lanes is a loop over neighbours that compilers
// vectorize: `float sum[4][32]`. Registers that only one loop over lanes knows are local to it: `float sum[4]`.
//
// Copies by cp.async are done at once, as they may be: nothing has to see them late. Code that waits for another part
// of the same block that runs at the same time cannot run like this and is refused: mbarriers, TMA, wgmma, clusters.
//
//   cp_kernel.c   the function, its memory          cp_flow.c    statements of a block, of a warp, of a lane
//   cp_reach.c    what a statement needs            cp_scope.c   variables: where they are known, how they vary
//   cp_ex.c       integer expressions               cp_atom.c    specs by lane: loops around instructions
//   cp_op.c       operators and conversions         cp_warp.c    specs by warp: shuffles, ldmatrix, mma
//   cp_stmt.c    what they have in common
//   prelude.h    what generated code is made of; prelude_warp.h  and what ldmatrix and mma are
#ifndef MICA_CPRINT_H
#define MICA_CPRINT_H

#include "tile/tile.h"

// The whole source of a lowered kernel:
//     int NAME(T *buffer, ..., int64_t size, ...)
// Buffers are those of k in global memory, const where they are not written, then sizes in the order of k->params. It
// returns 0; 1 where memory is short; 2 where a size is not one that the kernel was made for.
int cprint_kernel(const struct tile_program *p, const struct tile_kernel *k, struct str *out, struct err *e);
// The same, and behind it what rt/rt.h loads as run_NAME: it takes the addresses of the buffers and
// of the sizes, in this order.
int cprint_module(const struct tile_program *p, const struct tile_kernel *k, struct str *out, struct err *e);
// NAME; lives in mem.
const char *cprint_name(struct arena *mem, const struct tile_kernel *k);
// Compiler flags that the source needs.
const char *cprint_flags(void);

#endif

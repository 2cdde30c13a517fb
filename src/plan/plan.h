// plan: decisions on a verified muGraph that do not change what it computes.
//
//   stable.c   softmax without overflow: running maximum and rescaled accumulators
//   memory.c   offsets of a block graph's tiles in scratch, of intermediate tensors in the workspace
#ifndef MICA_PLAN_H
#define MICA_PLAN_H

#include "ir/ir.h"
#include "target/target.h"

// Rewrites exponentials whose scale cancels in a quotient (e = exp(s); ... e v ... / ... sum e) so that the
// largest exponent is 0: a maximum along the summed dimension, a running maximum over the for-loop with
// rescaled accumulators, and maxima that travel with partial sums to the kernel that finishes them. The result
// is an ordinary muGraph and must still verify against the program. *changed says whether anything matched;
// what cannot be stabilized is left as written and named in note.
int plan_stable(struct arena *mem, const struct graph *g, struct graph **out, bool *changed, char note[256], struct err *e);

// Offsets in bytes (64-aligned) of the tile tensors of a block graph, lifetimes overlapped; -1 for tensors that
// need none. *total is the scratch of one thread. elem: bytes of a tile element (4).
int plan_scratch(struct arena *mem, const struct graph *block, int elem, int64_t *offset, int64_t *total);
#endif

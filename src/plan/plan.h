// plan: decisions on a verified muGraph that do not change its function.
//
//   stable.c       softmax without overflow: which exponentials, which maxima;  stable.h has the glossary
//   stable_rule.c  how each operator treats tensors from which a factor was taken
//   shifted.c      which exponentials are of differences to a maximum
//   factor.c       the factors: views of them, saving and loading them, bringing parts to a common maximum
//   sweep.c        removes dead nodes after a rewrite
//   resize.c       other sizes for a kernel of a finished graph
//   pack.c         offsets of memory blocks with lifetimes, so that the total is small
//   layout.c       innermost and swizzled dimensions of all tensors (layout.h); layout_cost.c: the costs of operators
//   choose.c       the exact 0-1 optimization that layout.c uses (choose.h)
//   norm*.c, letters.c  block graphs in normal form (norm.h)
//   retile*.c           other tiles and another loop step for a normal form (retile.h)
//   chains.c, schedule.c, meta.c, threads.c   passes over normal forms (passes.h)
#ifndef MICA_PLAN_H
#define MICA_PLAN_H

#include "ir/ir.h"
#include "target/target.h"

// Rewrites exponentials whose factor cancels in a quotient, as in sum(e v) / sum(e) with e = exp(s), so that the largest exponent is 0. It subtracts
// a maximum along the summed dimension, or a running maximum over the for-loop with rescaled accumulators. Maxima of parts are passed with partial
// sums to the kernel that finishes them. The result must be verified against the program. *changed: whether anything was rewritten. Exponentials that
// cannot be rewritten stay, and note has the reasons.
int plan_stable(struct arena *mem, const struct graph *g, struct graph **out, bool *changed, char note[256], struct err *e);
// Whether each exponential of the graph, and of nested graphs, is of a difference to a maximum.
bool plan_is_stable(const struct graph *g);

// The same kernel graph with other extents of the axes of one BLOCK node; shapes are inferred again. An error if they do not divide what they
// partition, or a reshape cannot follow. The result must be verified like any candidate.
int plan_resize(struct arena *mem, const struct graph *g, int node, const struct axes *to, struct graph **out, struct err *e);

struct plan_piece { // a block of memory that is live from time `from` to time `to`, both included
  int64_t bytes;
  int from, to;
  int64_t offset; // the result
};
// Chooses offsets in bytes so that blocks with overlapping lifetimes are disjoint, and returns the total size in bytes. The total is the least for up
// to 8 blocks, else that of the best of several heuristics. Offsets are aligned if all sizes are multiples of the alignment.
int64_t plan_pack(struct arena *mem, int n, struct plan_piece *p);

#endif

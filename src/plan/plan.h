// plan: decisions on a verified muGraph that do not change what it computes.
//
//   stable.c       softmax without overflow: which exponentials, which maxima;  stable.h has the glossary
//   stable_rule.c  what each operator does to tensors that lack a factor
//   shifted.c      which exponentials are of differences to a maximum
//   factor.c       the factors: views of them, saving and loading them, bringing parts to a common maximum
//   sweep.c        drops what a rewrite left unused
//   resize.c       other sizes for a kernel of a finished graph
//   pack.c         pieces of memory with lives, as tight as may be
//   layout.c       innermost and swizzled dimensions of all tensors (layout.h); layout_cost.c has what operators ask
//   choose.c       the exact 0-1 optimization under it (choose.h)
//   norm.c, letters.c   block graphs in normal form (norm.h)
//   chains.c, schedule.c, meta.c, threads.c   passes over them (passes.h)
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
// Whether each exponential of the graph, and of those inside it, is of a difference to a maximum.
bool plan_is_stable(const struct graph *g);

// The same kernel graph with other extents of the axes of one BLOCK node, shapes inferred anew; an error where they do
// not divide what they partition, or a reshape cannot follow. The result is to be verified like any candidate.
int plan_resize(struct arena *mem, const struct graph *g, int node, const struct axes *to, struct graph **out, struct err *e);

// A piece of memory that is in use at the times from .. to. Offsets are chosen so that pieces whose times meet are disjoint, and
// the total is returned; bytes are multiples of what offsets must be multiples of.
struct plan_piece {
  int64_t bytes;
  int from, to;
  int64_t offset;
};
int64_t plan_pack(struct arena *mem, int n, struct plan_piece *p); // exact up to 8 pieces, else the best of several ways
#endif

// lax: splits a program into subprograms that one search can handle: at most one exponential on a path,
// nothing data-dependent, not too large. Elementwise operators without laws stay inside as opaque functions.
#ifndef MICA_LAX_H
#define MICA_LAX_H

#include "ir/ir.h"

enum { LAX_MAX_OPS = 24, LAX_EASY = 5 };

struct part {
  struct graph *g; // an expanded program: the subprogram
  bool searchable; // false: only library operators (concat, split)
  bool row_chain;  // a rule makes one kernel of it: split and concat with what is around them, or a chain that is local to its rows
  char why[160];   // why it was cut off from the part before it, or is larger than others; "" for most firsts
  int nin, nout;
  int *in, *out; // tensors of the whole program that its inputs and outputs are, in the order of g's
};
struct lax_split {
  int n;
  struct part *parts; // in topological order
  int nmeetings;
  int *meetings; // nodes of the whole program that are in no part: collective operators, and the views that these read
};
// Decides whether subprograms are too large for one search. It is not asked about fewer than LAX_EASY operators.
enum { LAX_AHEAD = 2 };
struct lax_probe {
  // Sets hard[0]. The others are needed only if all before them are true, and asking early lets threads work on them. n <= LAX_AHEAD.
  void (*hard)(void *arg, int n, const struct graph *const *part, bool *hard);
  // NULL, or called before each probe: for how many segments of a piece the answer is known, of how many.
  void (*told)(void *arg, int decided, int all);
  void *arg;
  double intensity; // operations a byte above which a product is bound by operations, and not by memory; 0: none is
};
// The program with concatenations of neighbouring parts as slices (joined_parts.c); NO where there are none.
int lax_parts(struct arena *mem, const struct graph *p, struct graph **out, struct err *e);
// The program with products of concatenations as sums of products (joined_products.c); NO where there are none.
int lax_products(struct arena *mem, const struct graph *p, struct graph **out, struct err *e);
// p: expanded plain program. max_ops: largest number of operators of a part (0 means LAX_MAX_OPS). probe may be NULL. A program that
// is larger or too hard is cut where the fewest bytes are read and written. Parts are programs of one device, on the data of one rank, without
// collective operators. A program that needs no cut is one part with
// the program's own inputs and outputs. Otherwise inputs are listed once each, in the order of their first use, and outputs
// in the program's order; outputs of the program that no operator computes (an input, a view of one) belong to no part:
// lax_join supplies them.
int lax_partition(struct arena *mem, const struct graph *p, int max_ops, const struct lax_probe *probe, struct lax_split *s, struct err *e);
// Puts optimized parts (same signatures) back together as one kernel graph with the signature of p.
int lax_join(struct arena *mem, const struct graph *p, const struct lax_split *s, struct graph *const *optimized, struct graph **out, struct err *e);
#endif

// lax: splits a program into subprograms that one search can handle: at most one exponential on a path,
// nothing data-dependent, not too large. Elementwise operators without laws stay inside as opaque functions.
#ifndef MICA_LAX_H
#define MICA_LAX_H

#include "ir/ir.h"

enum { LAX_MAX_OPS = 24, LAX_EASY = 5 };

struct part {
  struct graph *g; // an expanded program: the subprogram
  bool searchable; // false: only library operators (concat, split)
  bool row_chain;  // a rule makes one kernel of it: split and concat with the operators around them, or a chain of row-local operators
  char why[160];   // reason for the cut before it, or for a part above the size limit; "" if there is none
  int nin, nout;
  int *in, *out; // the tensors of the whole program for the inputs and outputs of g, in the order of g
};
struct lax_split {
  int n;
  struct part *parts; // in topological order
  int nmeetings;
  int *meetings; // nodes of the whole program that are in no part: collective operators, and the views that these read
};
enum { LAX_AHEAD = 2 };
// Decides whether subprograms are too large for one search. It is not asked about fewer than LAX_EASY operators.
struct lax_probe {
  // Sets hard[i] for part[i]. hard[i] is read only if hard[0 .. i) are true; several are asked for at once so that threads can work on them.
  // n <= LAX_AHEAD.
  void (*hard)(void *arg, int n, const struct graph *const *part, bool *hard);
  // Progress, called before each probe: `decided` of `all` segments of a piece have a known answer. May be NULL.
  void (*told)(void *arg, int decided, int all);
  void *arg;
  double intensity; // operations per byte from which on a product is compute-bound; 0: no product is
};
// Evidence that two graphs with the same inputs are equal.
struct lax_proof {
  bool (*equal)(void *arg, const struct graph *was, const struct graph *is);
  void *arg;
};
// A rewrite law. It adds a replacement for node n of p to `to` and stores the resulting tensor in *made. map[t] is the tensor of `to` that is equal to
// tensor t of p, for all tensors before n. Returns NO if the law does not apply to n.
typedef int lax_law(void *own, struct graph *to, const struct graph *p, const struct node *n, const int *map, int *made, struct err *e);
// Applies a law to all nodes of p (laws.c). A replacement is kept only if `proof` accepts it. proof NULL: the caller compares the programs. Returns NO if
// nothing was replaced.
int lax_by_law(struct arena *mem, const struct graph *p, lax_law *law, void *own, const struct lax_proof *proof, struct graph **out, struct err *e);
// Replaces functions of elements that are written out, such as gelu by tanh, by the operators that they are (written.c).
int lax_written(struct arena *mem, const struct graph *p, const struct lax_proof *proof, struct graph **out, struct err *e);
// Replaces concatenations of consecutive parts by slices (joined_parts.c).
int lax_parts(struct arena *mem, const struct graph *p, const struct lax_proof *proof, struct graph **out, struct err *e);
// Replaces products of concatenations by sums of products (joined_products.c).
int lax_products(struct arena *mem, const struct graph *p, const struct lax_proof *proof, struct graph **out, struct err *e);
// p: an expanded program without block graphs. max_ops: largest number of operators of a part (0: LAX_MAX_OPS). probe may be NULL. A program that is
// larger or too hard is cut where the fewest bytes are read and written. Parts are programs of one device, on the data of one rank, without
// collective operators. A program that needs no cut is one part with the program's own inputs and outputs. Otherwise a part lists each input once, in
// the order of first use, and its outputs in the program's order. Outputs of the program that no operator computes (an input, a view of one)
// belong to no part; lax_join adds them.
int lax_partition(struct arena *mem, const struct graph *p, int max_ops, const struct lax_probe *probe, struct lax_split *s, struct err *e);
// p: one part. Splits it as lax_partition does. It also cuts before the first products if at least LAX_OPERANDS operators compute their operands. A norm
// of the keys of an attention then becomes a separate part.
enum { LAX_OPERANDS = 2 };
int lax_operands(struct arena *mem, const struct graph *p, struct lax_split *s, struct err *e);
// Puts optimized parts (same signatures) back together as one kernel graph with the signature of p.
int lax_join(struct arena *mem, const struct graph *p, const struct lax_split *s, struct graph *const *optimized, struct graph **out, struct err *e);
#endif

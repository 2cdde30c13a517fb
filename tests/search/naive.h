// naive: the paper's Algorithm 1 for one block graph, with none of what makes the search fast: grid and loop axes,
// every imap and fmap of every iterator, operators one after the other in increasing rank, every omap. There are no
// index classes, no expressions and no shared values; a prefix is given up only where the IR refuses it or where more
// tensors are left than the remaining operators can consume. A graph with the program's output on random field elements
// goes to the verifier.
//
//   naive.c    the enumeration
//   tiles.c    what every tensor of a block graph holds, tile by tile; the structure of a graph as a number
//   expression.c   the abstract expression of a graph
//   tables.c   the search's own values and graphs, for comparison
//   rules.c    those graphs with a rule off
//   guarantee.c   those graphs, and the enumeration's
//
// Glossary
//   prefix     a block graph under construction
//   complete   one in which all tensors but one are used, and that one may be saved as the output
//   key        of a graph: its operators by the values that they read and make, whatever the order of operators, of
//              operands that commute, of grid axes, and whatever the layout of tiles
#ifndef TESTS_SEARCH_NAIVE_H
#define TESTS_SEARCH_NAIVE_H

#include "eval/eval.h"

enum { MOST_TENSORS = 24, NAIVE_EXTENT = 2 }; // of every grid and loop axis

// ---- tiles.c -------------------------------------------------------------------------------------------------------

struct whole { // the elements of a tensor in device memory
  struct shape s;
  struct ffv *v;
};
struct tiles {  // one tensor of a block graph, in every block and, where it varies, in every iteration
  int64_t size; // elements of one tile
  int64_t each; // tiles of one block
  struct ffv *v;
};
// Fills t[..] of node i's result. whole: of an iterator, the tensor that it cuts.
void tiles_make(struct arena *mem, struct field *F, const struct graph *b, int i, const struct whole *whole, struct tiles *t);
// Joins the tiles of tensor x as a saver with these attributes does.
struct whole tiles_save(struct arena *mem, const struct graph *b, int x, const struct attrs *a, const struct tiles *t);
uint64_t tiles_key(const struct graph *b, const struct tiles *t);
// The key of a kernel graph with one block graph; in[i]: the elements of its inputs.
uint64_t structure_key(const struct graph *g, struct field *F, void *const *in);

struct bill { // what one block graph takes
  int ops;
  int64_t blocks;
  double moved, work; // elements through iterators and savers; operations, and elements that they read and write
};
struct bill bill_of(const struct graph *g);
// Nothing in x is dearer than in y.
bool bill_within(const struct bill *x, const struct bill *y);

// ---- expression.c --------------------------------------------------------------------------------------------------

// Do the axioms prove that two graphs with one output are equal? (paper, Table 2; squares of sums are opaque)
bool same_expression(const struct graph *x, const struct graph *y);

// ---- naive.c -------------------------------------------------------------------------------------------------------

struct naive_limits {
  const char *ops; // names of the operators that are tried; "mul_scalar=0.25" with an attribute
  int max_ops, max_axes;
  int copies; // iterators more than inputs
  int views;  // reshapes and the like in a graph
};
struct naive_graph {
  struct graph *g;
  uint64_t key;
  double cost; // of the search's graphs: seconds by its model
};
struct naive {
  int n, cap;
  struct naive_graph *found;                 // verified, each key once
  uint64_t prefixes, complete, equal, wrong; // wrong: equal on field elements, and refused by the verifier
};
struct trial_inputs { // the same for everything that is compared
  struct field F;
  void **in;
};
struct trial_inputs trial_open(struct arena *mem, const struct graph *p);
void naive_run(struct arena *mem, const struct graph *p, const struct naive_limits *l, struct trial_inputs *x, struct naive *out);

// ---- tables.c ------------------------------------------------------------------------------------------------------

struct planner;
// Values of all schedules of p over its inputs (and its own tensors, where `cuts`), as search.c makes them.
struct tables;
struct tables *tables_open(struct arena *mem, const struct graph *p, unsigned off, int max_ops, bool cuts);
void tables_close(struct tables *t);
const struct planner *tables_planner(const struct tables *t);
bool tables_root(const struct tables *t, int table, int v); // is value v of that table the output?
// All graphs of the search with at most max_ops operators whose axes have extents 2, 4, .., 2^powers, as far as those
// divide. powers 1: what naive_run tries.
void tables_graphs(struct arena *mem, struct tables *t, int max_ops, int max_axes, int powers, struct trial_inputs *x, struct naive *out);

bool naive_has(const struct naive *x, uint64_t key);

// ---- rules.c -------------------------------------------------------------------------------------------------------

// Every graph of small programs with each rule but `expr` off, and with it on.
void rules_check(void);
// The same with rule `expr` off, to fewer operators or (deep) more.
void blind_check(bool deep);

// ---- guarantee.c ---------------------------------------------------------------------------------------------------

// Algorithm 1 against the search on every row that is (not) deep.
void guarantee_check(bool deep);
#endif

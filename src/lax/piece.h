// piece: the inner map of lax.
//
// Glossary
//   light      an input, an output, a constant, what is computed of indices alone, or a view (reshape, transpose, repeat): it belongs to no piece; every
//              piece that reads one gets a copy
//   searched   an operator with index classes (elementwise, contraction, reduction)
//   meeting    an operator of all ranks: it belongs to no piece. Its readers are in a later piece than its operands
//   library    any other operator: it runs as it is
//   root       of a tensor: the tensor that it is a view of, itself where it is no view. Only roots cross pieces, so
//              that a repeat is never written to memory for another piece to read
//   piece      a set of searched and library nodes on its way to become a part. Pieces are convex
//   raw        of a tensor: it holds the factor of an exponential that nothing has divided out yet (a softmax's
//              numerator). It overflows unless a maximum is subtracted first, which is possible only while it stays
//              inside a part: so it crosses only where nothing else can
//   kept       a tensor that the program returns: it is written anyway, so it costs half as much to cut there
//   stored     a tensor that kernels write and read even if one part makes and reads it
//
//   partition.c  the line: program -> pieces -> parts
//   facts.c      what of a program the cuts are decided on
//   stored.c     which tensors lie in memory wherever the cuts are
//   divide.c     where a piece must be cut in two
//   glue.c       what goes into one kernel with split and concat
//   segment.c    what is too large to search whole, cut into segments
//   lax_line.c   another order of a piece
//   mincut.c     the cheapest place to cut between two sets of nodes
//   lax_rows.c   is a piece local to its rows?
//   carve.c      piece -> part
//   join.c       optimized parts -> kernel graph
#ifndef MICA_PIECE_H
#define MICA_PIECE_H

#include "lax/lax.h"

enum kind { LIGHT, SEARCHED, LIBRARY, MEETING };

struct facts {
  struct arena *tmp;
  const struct graph *p;
  int max_ops;
  const struct lax_probe *probe; // or NULL
  enum kind *kind;               // by node
  bool *live;                    // nodes that an output needs
  int *owner;                    // piece of a searched or library node, -1 for others and dead ones
  int *root;                     // by tensor
  bool *part;                    // by tensor: a part of its root
  bool *raw;                     // by tensor
  bool *kept;                    // by tensor
  bool *stored;                  // by root
  bool *bound;                   // by node: a product by an input that is bound by its operations
  bool *behind;                  // by root: the result of one, or of elementwise operators of one and of no sum
  int *first_user;               // users of root t: user[first_user[t]] up to user[first_user[t + 1]]
  int *user;                     // searched and library nodes and meetings, live ones only
};

struct piece {
  int id; // owner of its nodes
  int n;
  int *node; // ascending, which is a topological order
  int stage; // meetings on the way to it, at most
  bool whole, searchable, row_chain, glued;
  char why[160];
};

// ---- facts.c ----
struct facts *facts_of(struct arena *tmp, const struct graph *p, int max_ops, const struct lax_probe *probe);
// The node that makes the root of tensor t where it is in piece id, else -1.
int facts_maker(const struct facts *f, int id, int t);
double facts_price(const struct facts *f, int t);                // of cutting at root t: bytes to write and read, more where it is raw
void facts_place(const struct facts *f, int node, char out[96]); // "exp `E` at line 7"

// ---- stored.c ----
void find_stored(struct facts *f);

// ---- divide.c ----
// Must r be cut in two? Then first[node] tells what comes before the cut, and `why` the reason. Sets r->searchable where
// it need not.
bool divide(const struct facts *f, struct piece *r, bool *first, char why[160]);
// Numbers the groups of nodes of r that share no tensor: group[i] of r->node[i]. Returns how many.
int divide_groups(const struct facts *f, const struct piece *r, int *group);

// ---- glue.c ----
// Marks the nodes of r that go with its splits and concats, of the groups that come first, and which of them come before all splits and
// concats: these may also stay with what makes their operands. False: there are none.
bool glue_first(const struct facts *f, const struct piece *r, bool *glued, bool *loose);

// ---- segment.c ----
bool segment_hard(const struct facts *f, const struct piece *r); // what the probe says of all of r; false without one
// Into how many segments must r be cut? group[i]: that of r->node[i]; (*why)[k]: why segment k was cut off. Sets
// r->row_chain where a piece of any size need not be cut.
int segment(const struct facts *f, struct piece *r, int *group, char (**why)[160]);

// ---- lax_line.c ----
// The nodes of r in an order in which operands follow each other; false: it is the order that they have.
bool line_by_need(const struct facts *f, const struct piece *r, int *out);
// The same with bound products of one operand together, and what is elementwise of them behind them.
bool line_by_operand(const struct facts *f, const struct piece *r, int *out);

// ---- mincut.c ----
// first[node]: the smallest set that holds the sources and all they need, none of the sinks, and whose results
// cost least to store for the others. No sink may be needed by a source.
void mincut(const struct facts *f, const struct piece *r, const bool *source, const bool *sink, bool *first);

// ---- lax_rows.c ----
bool rows_local(const struct facts *f, const struct piece *r);

// ---- carve.c ----
int carve(struct arena *mem, const struct facts *f, const struct piece *r, struct part *part, struct err *e);
// Appends a copy of node n of `from` to `to`; map: tensors of `from` in `to`. Names already taken are dropped.
int carve_node(struct graph *to, const struct graph *from, const struct node *n, int *map, struct err *e);

#endif

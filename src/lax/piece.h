// piece: private declarations of lax.
//
// Glossary
//   light      an input, an output, a constant, a value computed from indices alone, or a view (reshape, transpose, repeat). It belongs to no piece;
//              every piece that reads one gets a copy
//   searched   an operator with index classes (elementwise, contraction, reduction)
//   meeting    a collective operator. It belongs to no piece. Its readers are in a later piece than its operands
//   library    any other operator: it runs as it is
//   root       the tensor that a view shows; a tensor that is no view is its own root. Pieces pass only roots to each other,
//              so a repeat is never written to memory for another piece
//   piece      a set of searched and library nodes that will become a part. Pieces are convex
//   raw        a tensor that has the scale of an exponential not yet divided out (a softmax's numerator). It overflows
//              unless a maximum is subtracted first, which is possible only within a part. So a cut there is the last resort
//   kept       a tensor that the program returns. It is written anyway, so a cut there costs half as much
//   stored     a tensor that kernels write and read even if one part computes and reads it
//
//   partition.c  work list: program -> pieces -> parts
//   facts.c      facts on which the cuts are decided
//   stored.c     which tensors are in memory wherever the cuts are
//   divide.c     cuts a piece in two where it must be
//   glue.c       operators in one kernel with split and concat
//   segment.c    cuts a piece that is too large to search into segments
//   lax_line.c   other orders of a piece
//   mincut.c     the cheapest place to cut between two sets of nodes
//   lax_rows.c   is a piece row-local?
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
  bool *bound;                   // by node: a compute-bound product by an input
  bool *behind;                  // by root: its result, or elementwise operators on one that involve no sum
  int *first_user;               // users of root t: user[first_user[t]] .. user[first_user[t + 1] - 1]
  int *user;                     // searched and library nodes and meetings, live ones only
};

struct piece {
  int id; // value in `owner` of its nodes
  int n;
  int *node; // ascending, which is a topological order
  int stage; // largest number of meetings on a path to it
  bool whole, searchable, row_chain, glued;
  char why[160];
};

// ---- facts.c ----
struct facts *facts_of(struct arena *tmp, const struct graph *p, int max_ops, const struct lax_probe *probe);
// The node that computes the root of tensor t if it is in piece id, else -1.
int facts_maker(const struct facts *f, int id, int t);
double facts_price(const struct facts *f, int t);                // cost of a cut at root t: bytes to write and read, more if it is raw
void facts_place(const struct facts *f, int node, char out[96]); // "exp `E` at line 7"

// ---- stored.c ----
void find_stored(struct facts *f);

// ---- divide.c ----
// Must r be cut in two? Then first[node] marks the nodes before the cut, and `why` is the reason. Otherwise sets
// r->searchable.
bool divide(const struct facts *f, struct piece *r, bool *first, char why[160]);
// Numbers the groups of nodes of r that share no tensor; group[i] is the group of r->node[i]. Returns the number of groups.
int divide_groups(const struct facts *f, const struct piece *r, int *group);

// ---- glue.c ----
// Marks in `glued` the nodes of the first groups around splits and concats. `loose` marks those of them that depend on no split or concat of
// their group: they may also stay with the nodes that compute their operands. False: there are no such groups.
bool glue_first(const struct facts *f, const struct piece *r, bool *glued, bool *loose);

// ---- segment.c ----
bool segment_hard(const struct facts *f, const struct piece *r); // the probe's answer for all of r; false without a probe
// Returns the number of segments that r must be cut into. group[i]: the segment of r->node[i]. (*why)[k]: the reason for the cut
// before segment k. Sets r->row_chain if r need not be cut whatever its size.
int segment(const struct facts *f, struct piece *r, int *group, char (**why)[160]);

// ---- lax_line.c ----
// Orders the nodes of r so that operands are computed one after the other. False: the order is unchanged.
bool line_by_need(const struct facts *f, const struct piece *r, int *out);
// Orders the nodes of r so that bound products of the same left operand follow each other, with elementwise operators after them. False: the
// order is unchanged.
bool line_by_operand(const struct facts *f, const struct piece *r, int *out);

// ---- mincut.c ----
// first[node]: the smallest set of least cost that contains the sources and everything they depend on, and no sink. The cost is
// that of storing its results for the other nodes. No source may depend on a sink.
void mincut(const struct facts *f, const struct piece *r, const bool *source, const bool *sink, bool *first);

// ---- lax_rows.c ----
bool rows_local(const struct facts *f, const struct piece *r);

// ---- carve.c ----
int carve(struct arena *mem, const struct facts *f, const struct piece *r, struct part *part, struct err *e);
// Appends a copy of node n of `from` to `to`; map: tensors of `from` in `to`. Names already taken are dropped.
int carve_node(struct graph *to, const struct graph *from, const struct node *n, int *map, struct err *e);

#endif

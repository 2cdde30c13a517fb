// ranks: moves collective operators by the laws of ranks_law.def. This changes the bytes sent between devices and the work of each rank. The
// cheapest program by the model, among those that the verifier accepts, replaces the program as written.
//
// Glossary
//   meeting    a collective operator: all_reduce, all_gather, reduce_scatter
//   side       one side of a law, as a term over variables
//   class      a set of operators with a name in laws: linear, scale, point, pair, fold
//   state      a program derived from the one as written by laws
//
// Files
//   ranks_law.def  the laws
//   ranks_term.c   parses their sides
//   ranks_match.c  matches a side, and builds the program with the other side in its place
//   ranks_cost.c   modelled time of a rank's work and of its collective operators, by the rates of a target
//   ranks_move.c   the search over states, and the proof of its result
#ifndef MICA_RANKS_H
#define MICA_RANKS_H

#include "target/target.h"
#include "verify/verify.h"

// ---- ranks_term.c ----
enum {
  RANKS_LAWS = 0
#define LAW(...) +1
#include "ranks/ranks_law.def"
#undef LAW
};
enum ranks_group { RANKS_SUMS, RANKS_PARTS, RANKS_JOINS, RANKS_OTHERS, RANKS_GROUPS };
enum ranks_class { RANKS_NONE, RANKS_LINEAR, RANKS_SCALE, RANKS_POINT, RANKS_PAIR, RANKS_FOLD, RANKS_CLASSES };
enum { RANKS_VARIABLES = 4, RANKS_ARGS = 2 }; // x, y, X, Y

struct ranks_term {
  int variable;           // its number, or -1
  bool same;              // the variable stands for a tensor that is the same on all ranks
  enum ranks_class class; // class of the operator, if the law does not name one
  enum op op;             // the operator, if the law names one
  bool dim, count;        // dim: its attribute is the dimension d. count: its constant is the number of ranks
  int n;
  struct ranks_term *arg[RANKS_ARGS];
};
struct ranks_law_row {
  const char *name, *left, *right, *doc;
  enum ranks_group group;
};
extern const struct ranks_law_row ranks_laws[RANKS_LAWS];
struct ranks_term *ranks_side(struct arena *mem, const char *text);
bool ranks_is(enum ranks_class class, const struct node *n);

// ---- ranks_match.c ----
struct ranks_rewriting {
  const struct graph *g;
  const bool *varies;                 // by tensor (graph_varying)
  const struct ranks_term *from, *to; // sides of a law
};
// The program with `to` in place of node i, if `from` matches there. d: the dimension, if only `to` has one; 0 otherwise. Unread tensors are
// dropped, and equal operators are computed once. NULL: no match, or the result would have another shape or dtype.
struct graph *ranks_rewrite(struct arena *mem, const struct ranks_rewriting *w, int i, int d);

// ---- ranks_cost.c ----
// Modelled seconds: of one rank; on a CPU, of all ranks.
double ranks_cost(const struct graph *g, const struct target *t);
int ranks_meetings(const struct graph *g);

// ---- ranks_move.c ----
struct ranks_moved {
  const struct graph *g;   // the result; the program itself if no cheaper one was accepted
  double before, after;    // ranks_cost of the program and of g
  int states, proved;      // number of programs derived, and of those given to the verifier
  const char *laws;        // laws that lead to g, separated by ", "; "" for the program itself
  struct certificate cert; // certificate that g equals the program
};
// p: an expanded program. Evidence weaker than `accept` is not enough. An error only if the verifier was stopped.
int ranks_move(struct arena *mem, const struct graph *p, const struct target *t, const struct verify_opts *o, enum evidence accept,
               struct ranks_moved *out, struct err *e);

#endif

// mutate: graphs that differ from a given one in a single place. A verifier that accepts one of them as equal has
// to say why it is.
#ifndef MICA_TEST_MUTATE_H
#define MICA_TEST_MUTATE_H

#include "eval/eval.h"

enum change {
  CHANGE_IMAP,
  CHANGE_OMAP,
  CHANGE_FMAP,    // one entry of a map
  CHANGE_SWAP,    // two operands
  CHANGE_OPERAND, // another tensor of the same shape
  CHANGE_OP,      // another operator of the same arity, rule and attributes; accumulators too
  CHANGE_DROP,    // the operator is left out
  CHANGE_AXIS,    // extent of a grid or loop axis
  CHANGE_SCALAR,  // a constant
  CHANGE_DIM,     // the dimension of a reduction, concatenation, repetition, part
  CHANGE_ORDER,   // two entries of a permutation or of a new shape
  CHANGE_COUNT,   // index of a part, group, times, extent
  CHANGES
};
struct mutation {
  enum change change;
  enum op op, op_before; // of the changed node
  enum level level;
  const struct graph *in; // the original's graph that holds it
  int node, x, y;         // there; what is changed, to what
  char text[160];
};
extern const char *const change_names[CHANGES];

// Calls found(arg, mutant, what) for every single change of g that can be built, passes graph_check and keeps the
// shapes of inputs and outputs. Unused nodes are left out. Mutants live for the call only.
typedef void (*mutant_found)(void *arg, const struct graph *mutant, const struct mutation *what);
int mutants(const struct graph *g, mutant_found found, void *arg); // how many

// Runs g over float64, composites as mathematics writes them.
void real_run(struct arena *mem, const struct graph *g, void *const *in, void **out);

#endif

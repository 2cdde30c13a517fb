// stable: one attempt to make one exponential safe from overflow. Private to stable*.c and factor.c.
//
// Glossary
//   target     the exponential e = exp(s) that the attempt replaces by exp(s - m)
//   factor     a tensor F of the graph under construction; a tensor x of the old graph is exp(degree * F) times
//              the tensor that stands for it now. F is m, or a view or part of m, or a maximum of maxima.
//   runs       F's extent along a dimension divides x's. Each of its elements belongs to a run of neighbours of x; if F's extent is 1, to all of them
//              (broadcasting). Shapes are compared right-aligned
//   running    F is the value of an accum_max: it changes from iteration to iteration, and accumulators over
//              the loop must rescale what they hold
//   clamped    m is at least the lowest finite number. A part of a row may be -inf everywhere. Then m would be -inf, and exp(s - m) NaN, but it must
//              be 0. A maximum of a whole row is not clamped: the softmax of a row of -inf is NaN
//   bounded    m is finite, so that log(exp(m) x) can be m + log(x)
//   stored     F was loaded from what an earlier kernel saved, so parts with different maxima may meet here
//   sharing    another kernel may compute the target again. If it reads a rescaled tensor, the target takes the factor of that tensor there
#ifndef MICA_PLAN_STABLE_H
#define MICA_PLAN_STABLE_H

#include "plan/plan.h"

struct scaled {
  int t;      // tensor of the new graph
  int degree; // 0: no factor
  int F;
  bool stored;
};

struct attempt {
  struct arena *mem;
  const struct graph *target_graph;
  int target_node;
  unsigned dims;    // dimensions of s along which m is the maximum
  bool running;     // m is a running maximum over the for-loop
  bool clamped;     // m is at least the lowest finite number
  bool bounded;     // m is finite
  bool wants_bound; // a logarithm needs a finite m
  bool joined;      // parts with separate maxima were combined
  bool sharing;     // kernels that compute the target again use the factor of a tensor that they read
  bool may_share;   // there is such a kernel
  int cancelled;    // quotients in which the factor cancelled
  int done;         // number of nodes processed, to find the failure that went furthest
  char why[160];    // reason of the failure
};

// A graph being rebuilt.
struct site {
  struct attempt *a;
  const struct graph *old;
  struct graph *g;
  struct scaled *v;           // for every tensor of old
  struct loc at;              // of the current node
  struct site *above;         // of the enclosing graph
  const int *holds;           // the BLOCK node's arguments in above->old
  int iter;                   // number of iterators of old processed
  int *from, nfrom, from_cap; // tensors of above->g that the iterators of g read
  struct saved *saves;        // one for each saver of old
  int nsaves, saves_cap;
  struct saver { // savers of factors, appended to the others
    int F;
    int8_t omap[MAX_GRID];
  } * extra;
  int nextra, extra_cap;
};
struct saved {
  int degree, extra;
};

int give_up(struct site *s, const char *fmt, ...) PRINTF(2, 3); // returns NO

// factor.c: all return OK, or NO with a->why set.
int site_add(struct site *s, enum op op, int nin, const int *in, const struct attrs *a, int *t);
int site_once(struct site *s, enum op op, int x, int y, const struct attrs *a,
              int *t);                                                        // reuses an equal node; y < 0: one argument
int64_t factor_extent(const struct site *s, const struct scaled *x, int dim); // along dim of x.t
bool factor_same(const struct site *s, int F, int G); // whether both are the same maxima, up to reshapes and leading extents of 1
bool factor_running(const struct site *s, int F);     // whether F is a running maximum
int factor_reshape(struct site *s, struct scaled *x, const struct shape *from, const struct shape *to);
int factor_view(struct site *s, struct scaled *x, enum op op,
                const struct attrs *a);                     // dims of *a count from F's own rank
int factor_pad(struct site *s, struct scaled *x, int rank); // adds leading extents of 1 until F has that rank
// The factor of a tensor that an iterator loads, and of one that a saver stores; *extra: number of the saver that stores the factor.
int factor_iter(struct site *s, const struct scaled *above, const struct attrs *a, struct scaled *x);
int factor_save(struct site *s, struct scaled *x, const int8_t *omap, int *extra);
// Makes x's factor equal along dim: parts that differ are rescaled to the maximum of their maxima.
int factor_settle(struct site *s, struct scaled *x, int dim);
// The same over the iterations of the loop; *f is the rescaling factor of the accumulator.
int factor_settle_loop(struct site *s, struct scaled *x, int *f);

// stable_rule.c: rebuilds node i of s->old.
int stable_node(struct site *s, int i);

// shifted.c
struct within { // a graph and its enclosing graph
  const struct graph *g;
  const struct within *above;
  const struct node *node; // its node in that graph
};
bool exp_shifted(const struct within *w, const struct node *exp); // whether its argument is already a difference to a maximum

// Removes unused nodes and savers; inputs stay.
int plan_sweep(struct arena *mem, const struct graph *g, struct graph **out, struct err *e);

#endif

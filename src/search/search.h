// search: finds verified kernel graphs with new block graphs that are equal to a subprogram.
#ifndef MICA_SEARCH_H
#define MICA_SEARCH_H

#include "expr/expr.h"
#include "ir/ir.h"
#include "target/target.h"

enum prune {
#define PRUNE(id, ...) PRUNE_##id,
#include "search/prune.def"
#undef PRUNE
  PRUNES
};
struct prune_row {
  const char *name;
  bool switchable;
  const char *doc;
};
extern const struct prune_row prune_rows[PRUNES];

struct search_stats {
  uint64_t states;         // operators tried in some context
  uint64_t pruned[PRUNES]; // by rule
  uint64_t values;         // distinct values kept
  uint64_t schedules;      // assignments of index classes to grid and loop axes
  uint64_t graphs;         // structures found (before sizes)
  uint64_t verified;       // kernel graphs that passed the verifier's filter
  double seconds;
  double first;     // seconds until a verified graph was there that the model likes better than op-by-op; 0: none
  uint64_t resumed; // units of work that an earlier run had left
};

// Store of finished units of work, so that a search that was killed goes on from there (work.c). One thread at a
// time calls these.
struct search_store {
  void *arg;
  bool (*get)(void *arg, uint64_t unit, struct arena *mem, void **bytes, size_t *n);
  void (*put)(void *arg, uint64_t unit, const void *bytes, size_t n);
};

// Processes that share one search. All of them call search_run with the same program, target and options, except for
// threads, progress and the store, which only the first one may have.
struct crew {
  int rank, size;
  void *arg;
  // The bytes of every process, by rank, into mem; n[rank] says how many. All processes call it together.
  void (*gather)(void *arg, const void *mine, size_t bytes, struct arena *mem, void **all, size_t *n);
};

// Time of a kernel graph as it is lowered, from a better model than that of the search: a function of the graph alone. Several
// threads may call it at the same time.
struct pricer {
  void *arg;
  double (*price)(void *arg, const struct graph *kernels); // seconds; infinite: it cannot be made
};

struct search_opts {
  int max_block_ops;  // operators and accumulators of one block graph; 0 means 11, and 16 for the kernels of a program
                      // with two norms that read its inputs only
  int max_kernel_ops; // kernels of a kernel graph; 0 means 5
  int max_values;     // values of one schedule; 0 means 1500
  int threads;
  uint64_t seed;
  unsigned off;   // pruning rules switched off, bits 1 << PRUNE_x
  int most;       // graphs to keep, best first; 0 means 64
  double explain; // seconds that search_covers may look for what excludes graphs; 0: no limit
  stop_flag stop;
  void (*progress)(void *arg, const struct search_stats *s, double best_us, double done);
  void *progress_arg;
  const struct search_store *store;                                   // or NULL
  const struct crew *crew;                                            // or NULL
  int fuse;                                                           // multiprocessors whose kernels may be made by rule (fuse_rows_can); 0: none
  const struct pricer *pricer;                                        // ranks what is found; NULL: the search's own model does
  void (*timed)(void *arg, int batch, uint64_t unit, double seconds); // NULL, or called with the seconds of each unit; by one thread at a time
  void *timed_arg;
};

struct found {
  struct graph *g;    // a checked kernel graph at full size: BLOCK nodes and library operators
  double cost;        // seconds by the pricer, or by the cost model
  int kernels;        // kernels in it
  int block_ops;      // operators of its largest block graph
  int structure;      // graphs that differ in sizes only share it
  char schedule[256]; // what the axes of its kernels run over: "grid x=Q.1 y=Q.0 loop i=K.2 | exp"
};

struct search_result {
  int n;
  struct found *found; // best first by the cost model
  struct search_stats stats;
  bool complete; // false when stopped or a limit cut the space
  char why[512]; // which rule or limit removed most, and what to raise
};

// p: an expanded program of one Lax subprogram (lax.h). Results live in mem.
int search_run(struct arena *mem, const struct graph *p, const struct target *t, const struct search_opts *o, struct search_result *r, struct err *e);

// Would a search of p take minutes? Estimated from the values and structures of a sample of its schedules; true also if p is not
// searchable.
bool search_is_hard(const struct graph *p, const struct search_opts *o);
// The limits under which a search of p does not take minutes: its own, 0, or where the user has set none a lower one on operators in a
// block graph. -1: it takes minutes in any case.
int search_easy_ops(const struct graph *p, const struct search_opts *o);

// Is each of n kernel graphs of that program in the space that search_run would search under these options? Structure
// counts, not sizes; docs/search.md lists what else makes no difference.
enum alike_as { // what is there
  ALIKE_SELF,   // the graph itself
  ALIKE_AXES,   // it with one axis for two that cut the same
  ALIKE_JOINS,  // it with loops that only join parts unrolled, or made axes of the grid
};
struct cover {
  bool held;
  enum alike_as as; // where it is
  unsigned rules;   // bits of pruning rules: off, they let it in, and fewer do not; 0: none, or not looked for
  char why[320];    // where not: these, or a limit, and the place; or that it is not equal to the program
};
int search_covers(struct arena *mem, const struct graph *p, const struct target *t, const struct search_opts *o, int n, struct graph *const *g,
                  struct cover *out, struct err *e);
#endif

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
  uint64_t pruned[PRUNES]; // for each rule
  uint64_t values;         // distinct values kept
  uint64_t schedules;      // assignments of index classes to grid and loop axes
  uint64_t graphs;         // structures found (before sizes)
  uint64_t verified;       // kernel graphs that passed the verifier's filter
  double seconds;
  double first;     // seconds until a verified graph was found that the model ranks above op-by-op; 0: none
  uint64_t resumed; // units of work that an earlier run had finished
};

// A store of finished units of work, by which an interrupted search continues (units.c). One thread at a time calls it.
struct search_store {
  void *arg;
  bool (*get)(void *arg, uint64_t unit, struct arena *mem, void **bytes, size_t *n);
  void (*put)(void *arg, uint64_t unit, const void *bytes, size_t n);
};

// Processes that share one search. All call search_run with the same program, target and options. Only the first may differ in threads, progress and
// the store.
struct crew {
  int rank, size;
  void *arg;
  // Gathers the bytes of every process, by rank, into mem; n[rank] is their number. All processes call it together.
  void (*gather)(void *arg, const void *mine, size_t bytes, struct arena *mem, void **all, size_t *n);
};

// Computes the time of a lowered kernel graph. The result depends only on the graph and on the time of the search's model. Calls are thread-safe.
struct pricer {
  void *arg;
  bool ranks;                                                            // a more accurate model than the search's: more graphs are priced
  double (*price)(void *arg, const struct graph *kernels, double model); // seconds; infinite: it cannot be lowered
  // Sets refused[i] if no kernel can be made of the i-th operator of the graph that is no view, constant, index, input or output. May be NULL.
  void (*refuse)(void *arg, const struct graph *kernels, bool *refused);
};

struct search_opts {
  int max_block_ops;  // most operators and accumulators of one block graph; 0 means 11. For kernels that read the inputs only, 0 means
                      // 11, or 16 in a program with two norms, and up to 4 more for operators on indices and comparisons
  int max_kernel_ops; // kernels of a kernel graph; 0 means 5
  int max_values;     // values of one schedule; 0 means 1500
  int threads;
  uint64_t seed;
  unsigned off;   // pruning rules switched off: bits 1 << PRUNE_x
  int most;       // number of graphs to keep, best first; 0 means 64
  double explain; // seconds that search_covers may spend on finding what excludes graphs; 0: no limit
  stop_flag stop;
  void (*progress)(void *arg, const struct search_stats *s, double best_us, double done);
  void *progress_arg;
  const struct search_store *store; // or NULL
  const struct crew *crew;          // or NULL
  int fuse;                         // least number of blocks of kernels made by rule (fuse_rows_can); 0: none are made
  double enough;                    // seconds: if a kernel made by rule takes no longer, nothing is searched; 0: always
  const struct pricer *pricer;      // ranks the results; NULL: the search's own model does
  void (*timed)(void *arg, int batch, uint64_t unit, double seconds); // NULL, or called with the seconds of each unit, by one thread at a time
  void *timed_arg;
};

struct found {
  struct graph *g;    // a checked kernel graph at full size: BLOCK nodes and library operators
  double cost;        // seconds, by the pricer or by the cost model
  int kernels;        // kernels in it
  int block_ops;      // operators of its largest block graph
  int structure;      // graphs that differ only in sizes have the same
  char schedule[256]; // the classes of its kernels' axes: "grid x=Q.1 y=Q.0 loop i=K.2 | exp"
};

int found_order(const void *a, const void *b); // for qsort of struct found: by cost, then by structure

struct search_result {
  int n;
  struct found *found; // best first by `cost`
  struct search_stats stats;
  bool complete; // false after a stop, or if a limit cut the space
  char why[512]; // the rule or limit that removed most, and which option raises it
};

// p: an expanded program of one Lax subprogram (lax.h). Results are allocated in mem.
int search_run(struct arena *mem, const struct graph *p, const struct target *t, const struct search_opts *o, struct search_result *r, struct err *e);

// Seconds of the library operators of a program or kernel graph, by the model.
double search_library_seconds(const struct target *t, const struct graph *p);

// Whether a search of p would take minutes, estimated from the values and structures of a sample of its schedules. Also true if p cannot be searched.
bool search_is_hard(const struct graph *p, const struct search_opts *o);
// The operators of a block graph within which a search of p is not hard. 0: the default limits. Positive: a lower limit than the default. -1: the
// search takes minutes in any case.
int search_easy_ops(const struct graph *p, const struct search_opts *o);

// Decides for each of n kernel graphs of that program whether search_run under these options would find its structure. Sizes do not count;
// docs/search.md lists other differences that do not count.
enum alike_as { // the form that was found
  ALIKE_SELF,   // the graph itself
  ALIKE_AXES,   // with one axis for two that partition alike
  ALIKE_JOINS,  // with loops that only join parts unrolled, or turned into grid axes
};
struct cover {
  bool held;
  enum alike_as as; // the form in which it was found
  unsigned rules;   // bits of a minimal set of pruning rules that must be off to admit it; 0: none, or not determined
  char why[320];    // if it is not found: these rules, or a limit, and where the match ended; or that it is not equal to the program
};
int search_covers(struct arena *mem, const struct graph *p, const struct target *t, const struct search_opts *o, int n, struct graph *const *g,
                  struct cover *out, struct err *e);
#endif

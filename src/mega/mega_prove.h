// Private header: data that the checks of a proof share. A check adds faults. The next check runs only if there are none.
#ifndef MICA_MEGA_PROVE_H
#define MICA_MEGA_PROVE_H

#include "mega/mega.h"

struct mega_paint { // for each element of a tensor: the tile of a node that writes it, from 1; 0: none
  uint16_t *tile;
};
struct mega_stream { // of a worker: pieces are numbered in the order in which the pipeline copies them
  int64_t *start;    // [i-th task in the order of the pipeline]: its first piece; and the end
  int *instance;     // the instance of the i-th task
};
struct mega_proving {
  struct arena *mem;
  const struct mega_plan *p;
  struct mega_proof *out;
  struct mega_paint *paint[MEGA_MOST_TENSORS]; // by write of the tensor; NULL for state
  struct mega_stream *stream;                  // by worker
  struct mega_stream *least;                   // the same without pieces of a cache that requests share, which may be empty
  struct mega_clocks clocks;
  bool *ahead; // NULL, or by node: its pipeline may copy state too early. Set by the check of fences
};

int mega_prove_schedule(struct mega_proving *v, struct err *e);
int mega_prove_regions(struct mega_proving *v, struct err *e);
int mega_prove_words(struct mega_proving *v, struct err *e);
int mega_prove_loads(struct mega_proving *v, struct err *e);
int mega_prove_world(struct mega_proving *v, struct err *e);
int mega_prove_counts(struct mega_proving *v, struct err *e);
int mega_prove_epochs(struct mega_proving *v, struct err *e);
int mega_prove_deadlock(struct mega_proving *v, struct err *e);
int mega_prove_order(struct mega_proving *v, struct err *e);
int mega_prove_reuse(struct mega_proving *v, struct err *e);
int mega_prove_fence(struct mega_proving *v, struct err *e);

// ---- prove_reuse.c: for the choice of versions ----
bool mega_reuse_fits(struct mega_proving *v, int tensor); // whether its current number of versions suffices
struct mega_overwritten {
  int writer, other; // nodes; the other must end first
  bool remote;       // on another rank
};
bool mega_reuse_find(struct mega_proving *v, int tensor, struct mega_overwritten *first); // finds the first violation; false: there is one

// ---- prove_stream.c ----
void mega_streams_make(struct mega_proving *v);
// The instance of the task that frees the stage which piece `piece` takes. -1: the stage is initially empty.
int mega_stage_freed_by(const struct mega_proving *v, const struct mega_stream *s, int64_t piece);

// ---- prove_state.c: accesses to state, by the first dimension ----
struct mega_touch {
  struct mega_box box;
  int instance, worker, tile;
};
enum { MEGA_BUCKETS = 64 };
struct mega_touches {
  int n[MEGA_BUCKETS], cap[MEGA_BUCKETS];
  struct mega_touch *at[MEGA_BUCKETS];
};
void mega_touch_add(struct arena *mem, struct mega_touches *to, const struct mega_touch *t);
// The first touch that intersects the box and for which `fine` is false. NULL: there is none.
const struct mega_touch *mega_touch_find(const struct mega_touches *in, int rank, const struct mega_box *box,
                                         bool (*fine)(void *arg, const struct mega_touch *t), void *arg);
// Whether `known` implies that this instance of the other worker's task has ended.
static inline bool mega_over(const uint32_t *known, int worker, int instance) { return known[worker] >= (uint32_t)instance + 1; }

#endif

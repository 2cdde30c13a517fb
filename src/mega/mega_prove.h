// Inside the room: what the checks of a proof share. A check adds faults; the next is done where the one before found none.
#ifndef MICA_MEGA_PROVE_H
#define MICA_MEGA_PROVE_H

#include "mega/mega.h"

struct mega_paint { // by element of a tensor, the tile that writes it in a node, from 1; 0: none
  uint16_t *tile;
};
struct mega_stream { // of a worker: numbers of pieces in the order in which the pipeline brings them
  int64_t *start;    // [instance in the order of the pipeline], and the end
  int *instance;     // which that is
};
struct mega_proving {
  struct arena *mem;
  const struct mega_plan *p;
  struct mega_proof *out;
  struct mega_paint *paint[MEGA_MOST_TENSORS]; // by write of the tensor; NULL for state
  struct mega_stream *stream;                  // by worker
  struct mega_stream *least;                   // the same without pieces of a cache that requests share, of which there may be none
  struct mega_clocks clocks;
  bool *ahead; // NULL, or by node: its pipeline may copy state too early; set by the check of fences
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
bool mega_reuse_fits(struct mega_proving *v, int tensor); // with the versions that it has
struct mega_overwritten {
  int writer, other; // nodes; the other has to end first
  bool remote;       // on another rank
};
bool mega_reuse_find(struct mega_proving *v, int tensor, struct mega_overwritten *first); // false: there is one

// ---- prove_stream.c ----
void mega_streams_make(struct mega_proving *v);
// The instance of the task whose work frees the stage that piece `piece` takes; -1: it takes one that is empty from the beginning.
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
// The first of them that meets the box and that f says no to; NULL: there is none.
const struct mega_touch *mega_touch_find(const struct mega_touches *in, int rank, const struct mega_box *box,
                                         bool (*fine)(void *arg, const struct mega_touch *t), void *arg);
// Is this instance's task of the other worker over, for one that knows so much?
static inline bool mega_over(const uint32_t *known, int worker, int instance) { return known[worker] >= (uint32_t)instance + 1; }

#endif

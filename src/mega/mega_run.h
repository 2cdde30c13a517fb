// The schedule of a plan, run by threads of this machine: one thread a worker and one for its pipeline, C11 atomics for events, task bodies
// in float32. It shows that the plan computes what it should under real races, and it is what the thread sanitizer watches.
//
// Glossary
//   slot     a version of a tensor in memory
//   word     value and epoch of tagged data in one atomic 64-bit word
//   ring     stages of a worker's pipeline; filled and freed count pieces
//   record   what the first thread saw that waited past the deadline: worker, role, node, event, word seen and wanted
#ifndef MICA_MEGA_RUN_H
#define MICA_MEGA_RUN_H

#include "mega/mega.h"

// Weights and first state of a model by a seed: by rank and tensor, NULL where it has neither. Ranks have their parts of the same whole.
// Positions of a cache that are not filled are NaN.
int mega_values_make(struct arena *mem, const struct mega_model *m, uint64_t seed, float ***out, struct err *e);

void mega_value_fill(const struct mega_model *m, int tensor, uint64_t seed, float *to); // of one tensor, the whole

struct mega_answer {
  int steps;
  int32_t *tokens; // [step][row]; NULL: the model has none
  float **output;  // by tensor: of output, what the last step wrote; else NULL
  bool hung;
  char record[400]; // why it ended, where it did
};
// `first`, by rank and tensor, is not changed. All ranks have to make the same tokens; the outputs are those of rank 0. Past `deadline` seconds in one wait the run ends as hung: NO, with the record. A run leaves nothing behind.
int mega_run(struct arena *mem, const struct mega_plan *p, float *const *first, int steps, double deadline, struct mega_answer *out, struct err *e);

// The same in pieces: memory of its own, in which state lives from launch to launch, and launches. Weights and first state are copied where steps
// write them, else used as they lie. After a launch that hung the next one begins anew.
struct mega_running;
int mega_run_open(struct arena *mem, const struct mega_plan *p, float *const *first, struct mega_running **out, struct err *e);
int mega_run_steps(struct arena *mem, struct mega_running *r, int steps, double deadline, struct mega_answer *out, struct err *e);
float *mega_run_tensor(const struct mega_running *r, int tensor); // its elements; NULL: it is held in words
const double *mega_run_ends(const struct mega_running *r);        // [worker][node]: seconds at which tasks of the last step ended; 0: there was none

// The same tokens without tasks, events or versions: a transformer in float64, sequentially.
int mega_reference(struct arena *mem, const struct mega_config *c, const struct mega_model *m, float *const *first, int steps, int32_t **tokens,
                   struct err *e);

#endif

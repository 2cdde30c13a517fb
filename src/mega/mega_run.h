// Runs the schedule of a plan with threads of this machine: one thread for a worker and one for its pipeline. Events are C11 atomics, and task bodies
// use float32. It tests that the plan is correct under real races, also with the thread sanitizer.
//
// Glossary
//   word     value and epoch of tagged data in one atomic 64-bit word; on a GPU a word has 16 bytes
//   ring     stages of a worker's pipeline; filled and freed count pieces
//   record   the first wait that exceeded the deadline: worker, role, node, event, the word read and the word expected
#ifndef MICA_MEGA_RUN_H
#define MICA_MEGA_RUN_H

#include "mega/mega.h"

// Weights and initial state of a model from a seed: by rank and tensor, NULL for other tensors. The ranks' parts form one whole tensor. Unfilled
// positions of a cache are NaN.
int mega_values_make(struct arena *mem, const struct mega_model *m, uint64_t seed, float ***out, struct err *e);

void mega_value_fill(const struct mega_model *m, int tensor, uint64_t seed, float *to); // one whole tensor

struct mega_answer {
  int steps;
  int32_t *tokens; // [step][row]; NULL: the model has none
  float **output;  // by tensor: the values that the last step wrote to an output; else NULL
  bool hung;
  char record[400]; // the reason why it hung
};
// Runs `steps` steps. `first`, by rank and tensor, is not changed. All ranks must choose the same tokens; the outputs are those of rank 0. If one
// wait takes more than `deadline` seconds, the run ends as hung: NO, with the record. All threads and memory are released.
int mega_run(struct arena *mem, const struct mega_plan *p, float *const *first, int steps, double deadline, struct mega_answer *out, struct err *e);

// A run in parts: memory, in which state lives from launch to launch, and launches. Weights and initial state are copied if steps write them, else
// used in place. After a launch that hung, the next launch starts from reset events.
struct mega_running;
int mega_run_open(struct arena *mem, const struct mega_plan *p, float *const *first, struct mega_running **out, struct err *e);
int mega_run_steps(struct arena *mem, struct mega_running *r, int steps, double deadline, struct mega_answer *out, struct err *e);
float *mega_run_tensor(const struct mega_running *r, int tensor); // its elements; NULL: it is stored in words
const double *mega_run_ends(const struct mega_running *r);        // [worker][node]: seconds at which tasks of the last step ended; 0: no task

// The tokens of a transformer in float64, computed sequentially without tasks, events or versions.
int mega_reference(struct arena *mem, const struct mega_config *c, const struct mega_model *m, float *const *first, int steps, int32_t **tokens,
                   struct err *e);

#endif

// One kernel of a kernel graph, lowered by a scheme at given knobs, run in the interpreter and held against float64.
#ifndef TESTS_LOWER_HELD_H
#define TESTS_LOWER_HELD_H

#include <stdbool.h>

struct held {
  const char *name;
  const char *graph;    // without the frame: "X: f16[8, 8]\n Y = block() { .. }\n return Y". Its last block is lowered
  const char *how;      // scheme and knobs, "mma wm=1 wn=2 stages=2"
  const char *instance; // a row of the instruction table that must have been used, or NULL
  const char *refused;  // a part of the reason, where the scheme must refuse it
  bool special;         // input X has rows of special.h, and each element must be of the right class
};
// Fails the test for rows whose kernel is not clean in the interpreter, or off by more than 2e-3 (relative norm).
void hold(const struct held *rows, int n);
// The same at all knobs that the row's scheme chooses.
void hold_choices(const struct held *rows, int n);
// At a dozen layouts of warps (wm, wn, by) and stages, where the scheme mma takes them, whether it would choose them or not; how many.
int hold_layouts(const struct held *rows, int n);

// With bf16 for fp16, off by no more than 1.6e-2; for sm_80, without what sm_90 has. Instances are not looked for.
void hold_bf16(const struct held *rows, int n);
void hold_sm80(const struct held *rows, int n);

#endif

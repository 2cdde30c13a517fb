// One kernel of a kernel graph, lowered by a scheme at given knobs, run in the interpreter and held against float64.
#ifndef TESTS_LOWER_HELD_H
#define TESTS_LOWER_HELD_H

#include <stdbool.h>

// A row of tests/lower/graphs/TABLE.mica (../tables.h) is a graph; its last block is lowered. Fields:
//   how       scheme and knobs, "mma wm=1 wn=2 stages=2"
//   uses      an instance of the instruction table that must have been used
//   most      an instance, and how often warps may have issued it at most, "st.global.u16 4"
//   refused   a part of the reason, where the scheme must refuse the graph
//   special   input X has rows of special.h, and each element must be of the right class

// Fails the test for rows whose kernel is not clean in the interpreter, or off by more than 2e-3 (relative norm).
void hold(const char *table);
// The same of one graph, as text: is it?
bool hold_graph(const char *name, const char *graph, const char *how);
// The first `most` rows without each rule of values that the scheme has, one at a time.
void hold_off(const char *table, int most);
// The first `most` rows at all knobs that the row's scheme chooses.
void hold_choices(const char *table, int most);
// At a dozen layouts of warps (wm, wn, by) and stages, where the scheme mma takes them, whether it would choose them or not; how many. Under the
// sanitizers one of two, and each counts twice.
int hold_layouts(const char *table);

// By two persistent blocks, at the first and the last choice that the scheme has then; how many have more work tiles than blocks. Under
// the sanitizers one of two rows, and each counts twice.
int hold_workers(const char *table, const char *scheme);

// With bf16 for fp16, off by no more than 1.6e-2; for sm_80, without what sm_90 has. Instances are not looked for.
void hold_bf16(const char *table);
void hold_sm80(const char *table);

#endif

// The texts that Mica makes of a graph, for files under tests/golden/texts. They depend on the graph only, not on measured times, the database or the
// machine.
#ifndef TESTS_GOLDEN_H
#define TESTS_GOLDEN_H

#include "ir/ir.h"

enum golden { GOLDEN_PASSES, GOLDEN_SM80, GOLDEN_SM90A, GOLDEN_C, GOLDENS };
extern const char *const golden_suffix[GOLDENS]; // "passes", "sm_80.tile", ...

// Adds all texts of a graph as it was parsed. `every`: for GPUs, the best choice of each scheme and not only the best of all.
void golden_texts(const struct graph *parsed, bool every, struct str out[GOLDENS]);

#endif

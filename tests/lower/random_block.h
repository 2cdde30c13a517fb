// A kernel graph of one block graph at random: elementwise operators, reductions, accumulators, transposes, parts; what nothing
// uses is saved. The same for the same seed.
#ifndef TESTS_LOWER_RANDOM_BLOCK_H
#define TESTS_LOWER_RANDOM_BLOCK_H

#include "ir/ir.h"

struct graph *random_block(struct arena *mem, uint64_t seed);

#endif

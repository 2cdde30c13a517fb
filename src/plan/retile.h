// retile: changes the tiles in a kernel's normal form (norm.h). A scheme of products may choose its own rows and columns of a block and its own step
// of the loop, since a product gives the same result for any tiling. The last block or iteration may have fewer elements.
//
//   retile.c       the grid: rows of a block      retile_step.c  the loop      retile_clip.c  columns of a block
#ifndef MICA_PLAN_RETILE_H
#define MICA_PLAN_RETILE_H

#include "plan/norm.h"

struct norm_retile { // rows, loop step and columns of a block, multiples of 16; 0: as in the block graph
  int64_t rows, step, cols;
};
// Returns a copy of n in mem with these tiles and its analyses (passes). *rows: rows of a block if the last block has fewer, else 0.
// even: all blocks must have the same size. On failure: NULL, with the reason in why.
const struct norm *norm_cut(struct arena *mem, const struct norm *n, struct norm_retile to, bool even, int64_t *rows, char why[160]);
// Sorts the letters by descending stride in the first tensor that has all of them, so that adjacent ones can form one dimension there. The letters
// `fast` of n come last. Returns their number.
int norm_in_order(const struct norm *n, uint32_t letters, int8_t out[MAX_LETTERS]);
struct plan_access *norm_access(const struct norm *n, int i); // iterators, then savers
// The letter whose elements continue, in each tensor, from one block along a grid axis to the next, or from one iteration to the next (axis:
// GRID_AXES and up for a loop). -1: none.
int norm_continued(const struct norm *n, int axis);
// ---- retile_step.c ----
bool norm_step(struct norm *n, struct graph *b, int64_t step, char why[160]); // b: the block graph of n. False, with the reason in why: it cannot
int norm_only_loop(const struct graph *b);                                    // the only loop with more than one iteration; -1: none, or several
int64_t norm_own_step(const struct norm *n, int64_t *all); // elements per iteration of the block graph's loop; 0: unknown. all: of all iterations
// ---- retile_clip.c ----
int64_t norm_clip_all(const struct norm *n, int64_t *own); // columns of all blocks together; 0: they cannot be changed. own: columns of a block
bool norm_clip(struct norm *n, struct graph *b, int64_t cols, char why[160]); // gives a block `cols` columns; as norm_step

#endif

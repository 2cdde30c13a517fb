// anew: a kernel's normal form (norm.h) cut anew. A scheme of products may take other tiles than the block graph has, since no product cares: pieces of
// all rows, other columns, and another step of the loop. The last block or iteration may have less.
//
//   anew.c       the grid: rows of a block      anew_step.c  the loop      anew_clip.c  columns of a block
#ifndef MICA_PLAN_ANEW_H
#define MICA_PLAN_ANEW_H

#include "plan/norm.h"

struct norm_anew { // rows and columns of a block and what a loop takes at a time, multiples of 16; 0: as the block graph has it
  int64_t rows, step, cols;
};
// The normal form cut so, in mem, with its passes. *rows: of a block where the last one has fewer, else 0. even: no block may have less than others.
// NULL with the reason in why.
const struct norm *norm_cut(struct arena *mem, const struct norm *n, struct norm_anew to, bool even, int64_t *rows, char why[160]);
// Letters in the order in which device memory has the rows of the first tensor that has all, so that these are one dimension there
// if they can be; returns how many.
int norm_in_order(const struct norm *n, uint32_t letters, int8_t out[MAX_LETTERS]);
struct plan_access *norm_access(const struct norm *n, int i); // iterators, then savers
int norm_continued(const struct norm *n, int axis);           // the letter that grid axis or, from GRID_AXES on, loop axis continues; -1
// ---- anew_step.c ----
bool norm_step(struct norm *n, struct graph *b, int64_t step, char why[160]); // b: of n
int norm_only_loop(const struct graph *b);                                    // the loop that has more than one iteration; -1: none, or several
int64_t norm_own_step(const struct norm *n, int64_t *all); // what the block graph's loop takes; 0: not known. all: what all its iterations take
// ---- anew_clip.c ----
int64_t norm_clip_all(const struct norm *n, int64_t *own); // columns of all blocks, where they can be cut anew; 0: they cannot. own: of a block
bool norm_clip(struct norm *n, struct graph *b, int64_t cols, char why[160]); // b: of n

#endif

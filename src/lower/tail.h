// tail: shared by the schemes that compute a tail (lower.h) at the end of their kernel. The tail is a kernel of the scheme rows (rows.h). Each group
// of blocks computes a part of it.
//
// Glossary
//   head     the kernel whose results the tail reads
//   parts    the blocks of a group: they differ only along grid axes of the head that the tail sums over (split axes)
//   room     a tensor in shared memory where a block of a cluster leaves its results
//   cluster  way 1: a group is a cluster. Its blocks read each other's rooms, and each computes some items of the tail
//   last     way 2: blocks leave results in device memory. The last block of a group to arrive, by a counter, computes all items
//   base     a coordinate of the group: part of a grid axis of the head that the tail does not sum over
//   item     one block of the tail's plan: the work that the team does at a time
//   team     the threads of a block that compute the tail
//
//   tail_axes.c  expresses the tail's axes by the head's
//   tail_plan.c  the tail's settings and their cost
//   tail_text.c  the text
#ifndef MICA_LOWER_TAIL_H
#define MICA_LOWER_TAIL_H

#include "lower/rows.h"

enum tail_way { TAIL_CLUSTER, TAIL_LAST, TAIL_WAYS };

struct tail_base {
  int grid;              // grid axis of the head
  int64_t below, extent; // the coordinate is index / below % extent
};
struct tail_room { // for each saver of the head
  int64_t stride[MAX_LETTERS], elements;
};
enum { TAIL_MOST_LOG = 11 };
struct tail_fitted {
  struct row_plan p; // .r NULL: impossible
  int64_t rounds;
};
// A cache of tail settings. Several re-tilings and schemes of a kernel have equal tails.
struct tail_memo {
  int n, cap;
  struct tail_known {
    uint64_t key;
    const struct tail_fitted *fitted;
  } * known;
};
struct tail {
  const struct lower_job *j;
  enum tail_way way;
  struct rows r;
  int nbases;
  struct tail_base base[KERN_BASES];
  uint32_t split;         // bits of the grid axes that the tail sums over
  int64_t parts, groups;  // blocks of a group; number of groups
  struct tail_room *room; // for each saver of the head
  struct norm head;       // the head as it is emitted: its savers write to rooms
  // set by tail_fit
  struct row_plan p;
  int64_t rounds;                            // the most items that one block computes
  struct tail_fitted *fitted[TAIL_MOST_LOG]; // by the logarithm of the number of threads; NULL: not planned yet
};

// ---- tail_axes.c ----
bool tail_make(const struct lower_job *j, enum tail_way way, struct tail *out, char why[160]); // false: impossible, with the reason in why
// ---- tail_plan.c ----
bool tail_fit(struct tail *x, int threads); // a team of at most this many threads; false: impossible
int64_t tail_shared(const struct tail *x);  // bytes of rooms and of sums over warps
double tail_cost(const struct tail *x);     // seconds in addition to the head's
double tail_last_cost(double bytes);        // seconds of the last block of a group, which reads this many bytes of the others
// ---- tail_text.c ----
// Declares the numbers of a block: @bid as in the head and, if needed, @rank and @base0, ...
void tail_blocks(const struct tail *x, struct text *t);
// Declares buffers that only the tail needs. Adds arguments to out and names to the lists. global: names by tensor; tail_rooms must have set those of
// rooms.
void tail_arguments(const struct tail *x, struct text *t, const char **global, struct lower_out *out, struct str *reads, struct str *writes);
bool tail_keeps(const struct tail *x, int tensor);                          // whether it is in rooms only, and so not an argument
bool tail_reads(const struct tail *x, int tensor);                          // whether the tail loads it from device memory
void tail_rooms(const struct tail *x, struct text *t, const char **global); // declares rooms
// Opens the text that only the last block of a group executes, after all threads of the block have saved. %counters has a counter for each group.
void tail_open_last(struct text *t, const char *group, int threads, int64_t parts);
// Emits the tail, for the first `threads` threads of a block, after all of its threads have saved.
void tail_emit(const struct tail *x, struct text *t, const char **global, int threads);
void tail_accompany(const struct tail *x, struct text *t); // for threads that do not reach tail_emit

#endif

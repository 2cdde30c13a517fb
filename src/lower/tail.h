// tail: inside lower, what schemes share that do a tail (lower.h) at the end of their kernel. The tail is a kernel of rows
// (rows.h), of which each group of blocks does its part:
//
// Glossary
//   head     the kernel whose tail it is
//   parts    blocks of the head that differ only along grid axes over which the tail sums (splits): a group
//   room     where a block leaves what it saves: a tensor in its shared memory, where the group is a cluster
//   cluster  the blocks of a group read one another's rooms, and each does some of the tail's work
//   last     what blocks leave is in device memory; that of the group which comes last, by a counter, does all of the tail
//   base     coordinate of the group: a part of a grid axis of the head, over which the tail does not sum
//   item     a block of the tail's plan: what the team does at once
//   team     the threads of a block that do the tail
//
//   tail_axes.c  the tail's axes: which are within a block, which number parts and groups
//   tail_plan.c  its settings and their cost
//   tail_text.c  text
#ifndef MICA_LOWER_TAIL_H
#define MICA_LOWER_TAIL_H

#include "lower/rows.h"

enum tail_way { TAIL_CLUSTER, TAIL_LAST, TAIL_WAYS };

struct tail_base {
  int grid;              // axis of the head
  int64_t below, extent; // its index / below % extent
};
struct tail_room { // of a saver of the head
  int64_t stride[MAX_LETTERS], elements;
};
enum { TAIL_MOST_LOG = 11 };
struct tail_fitted {
  struct row_plan p; // .r NULL: not possible
  int64_t rounds;
};
struct tail {
  const struct lower_job *j;
  enum tail_way way;
  struct rows r;
  int nbases;
  struct tail_base base[KERN_BASES];
  uint32_t split;         // grid axes over whose parts the tail sums, as bits
  int64_t parts, groups;  // blocks of a group; groups
  struct tail_room *room; // by saver of the head
  struct norm head;       // as the head is written: savers in rooms
  // of tail_fit
  struct row_plan p;
  int64_t rounds;                            // items that a block does, at most
  struct tail_fitted *fitted[TAIL_MOST_LOG]; // by the logarithm of the number of threads; NULL: not asked about yet
};

// ---- tail_axes.c ----
bool tail_make(const struct lower_job *j, enum tail_way way, struct tail *out, char why[160]); // false with the reason
// ---- tail_plan.c ----
bool tail_fit(struct tail *x, int threads); // at most so many in the team; false: not possible
int64_t tail_shared(const struct tail *x);  // bytes: rooms, sums over warps
double tail_cost(const struct tail *x);     // seconds beside the head's
double tail_last_cost(double bytes);        // for the last block of a group, which reads so many bytes that the others left
// ---- tail_text.c ----
// Numbers of the block: @bid, as the head knows it, and where need be @rank and @base0, ...
void tail_blocks(const struct tail *x, struct text *t);
// Buffers of the tail in device memory that the head has not; adds arguments, and names to the lists. `global`: names by tensor,
// those of rooms are set.
void tail_arguments(const struct tail *x, struct text *t, const char **global, struct lower_out *out, struct str *reads, struct str *writes);
bool tail_keeps(const struct tail *x, int tensor);                          // is it left in rooms, and no argument?
bool tail_reads(const struct tail *x, int tensor);                          // does the tail load it from device memory?
void tail_rooms(const struct tail *x, struct text *t, const char **global); // declares them
// Opens the text that only the last block of a group executes, after all threads of the block have saved. %counters has a counter for each group.
void tail_open_last(struct text *t, const char *group, int threads, int64_t parts);
// By the first threads of the block, all of which have saved; `threads` of them come here.
void tail_emit(const struct tail *x, struct text *t, const char **global, int threads);
void tail_accompany(const struct tail *x, struct text *t); // by threads that take no part

#endif

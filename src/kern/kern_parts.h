// Values in parts: one value for each index of an axis, where parts are joined or split. An operator on such a value works on each part. Their
// numbers are negative. Private to kern_make.c and kern_parts.c.
#ifndef MICA_KERN_PARTS_H
#define MICA_KERN_PARTS_H

#include "kern/kern.h"

enum { KERN_PARTS = 16, KERN_STORES = 64 };
struct kern_part {
  int axis, n, part[KERN_PARTS];
};
struct kern_making {
  const struct norm *n;
  const enum dtype *store;
  struct kern *k;
  struct arena *mem;
  char *why;
  int first;                  // first axis
  int when, *of[2];           // when: which value of running accumulators is meant; of: values of each tensor, by root
  int saves, about;           // savers so far, each may be several stores; the current node
  axis_set parted;            // axes whose indices are numbers of parts: each part of a load is a separate load
  int nparts, cparts, csaves; // csaves: room for stores
  struct kern_part *parts;
};
int kern_joined(struct kern_making *m, int axis, int n, const int *part);
int kern_part_at(struct kern_making *m, int v, int axis, int64_t index); // v at this index of the axis
int kern_parted(struct kern_making *m, int v, axis_set axes);            // v as its parts along these axes
int kern_part_map(struct kern_making *m, int op, int x, int y, const struct attrs *a);
int kern_part_fold(struct kern_making *m, enum kern_kind kind, int x, int y, axis_set over); // y: the factor of KERN_RESCALE, else -1
// kern_chosen.c: v with a value as its index along the dimension. False: its operands have no such access.
bool kern_part_chosen(struct kern_making *m, int v, const struct norm_dim *d, int index, int *out);
// Stores v at an index along the dimension. False: impossible.
bool kern_part_placed(struct kern_making *m, int v, const struct norm_dim *d, int index, struct kern_access at);
// Stores selected elements (KERN_TOP, KERN_TOP_AT) one after the other along the dimension. False: impossible.
bool kern_part_top(struct kern_making *m, int v, const struct norm_dim *d, struct kern_access at);
// The largest k elements of v along the dimension, or their indices, by kind. False: v has parts, or lacks axes of the dimension.
bool kern_part_topk(struct kern_making *m, enum kern_kind kind, int v, const struct norm_dim *d, int64_t k, int *out);
bool kern_part_store(struct kern_making *m, int v, struct kern_access at); // false: too many

#endif

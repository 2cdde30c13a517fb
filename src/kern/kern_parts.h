// Values in parts. Next to a concat or split, a value may be a list of values, one for each index of an axis. An operator then works on each part.
// Values in parts have negative numbers. Private to kern_make.c, kern_parts.c and kern_chosen.c.
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
  int when, *of[2];           // when: in the loop or after it (kern_make.c); of[when]: the value of each tensor, by root
  int saves, about;           // saves: savers so far, each of which may be several stores; about: the current node
  axis_set parted;            // axes that number parts: loads along them are one load for each index
  int nparts, cparts, csaves; // csaves: room for stores
  struct kern_part *parts;
};
int kern_joined(struct kern_making *m, int axis, int n, const int *part);
int kern_part_at(struct kern_making *m, int v, int axis, int64_t index); // v at this index of the axis
int kern_parted(struct kern_making *m, int v, axis_set axes);            // v as its parts along these axes
int kern_part_map(struct kern_making *m, int op, int x, int y, const struct attrs *a);
int kern_part_fold(struct kern_making *m, enum kern_kind kind, int x, int y, axis_set over); // y: the factor of KERN_RESCALE, else -1
// kern_chosen.c: v at an index, another value, along the dimension. False: the loads of v cannot have such an index.
bool kern_part_chosen(struct kern_making *m, int v, const struct norm_dim *d, int index, int *out);
// Stores v at an index along the dimension. False: impossible.
bool kern_part_placed(struct kern_making *m, int v, const struct norm_dim *d, int index, struct kern_access at);
// Stores selected elements (KERN_TOP, KERN_TOP_AT) one after the other along the dimension. False: impossible.
bool kern_part_top(struct kern_making *m, int v, const struct norm_dim *d, struct kern_access at);
// By kind, the largest k elements of v along the dimension or their positions. False: v has parts.
bool kern_part_topk(struct kern_making *m, enum kern_kind kind, int v, const struct norm_dim *d, int64_t k, int *out);
bool kern_part_store(struct kern_making *m, int v, struct kern_access at); // false: too many stores

#endif

// Inside kern_make.c and kern_parts.c: a value that is no value, but one for each index of an axis, where parts are joined or split. An operator on
// it is one on each part. Numbers of such values are negative.
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
  int first;        // axis
  int when, *of[2]; // which value of running accumulators is meant; values by tensor, of roots
  int saves, about; // savers so far, one may be several stores; the node that is looked at
  axis_set parted;  // axes whose indices are numbers of parts: each part of what is loaded is loaded for itself
  int nparts, cparts;
  struct kern_part *parts;
};
int kern_joined(struct kern_making *m, int axis, int n, const int *part);
int kern_part_at(struct kern_making *m, int v, int axis, int64_t index); // v where the axis has this index
int kern_parted(struct kern_making *m, int v, axis_set axes);            // v as its parts along these axes
int kern_part_map(struct kern_making *m, int op, int x, int y, const struct attrs *a);
int kern_part_fold(struct kern_making *m, enum kern_kind kind, int x, int y, axis_set over); // y: the factor of KERN_RESCALE, else -1
// kern_chosen.c: v where its index along the dimension is a value. False: what it is made of has no such access.
bool kern_part_chosen(struct kern_making *m, int v, const struct norm_dim *d, int index, int *out);
// Stores v at an index along the dimension. False: it cannot.
bool kern_part_placed(struct kern_making *m, int v, const struct norm_dim *d, int index, struct kern_access at);
// Stores what was chosen (KERN_TOP, KERN_TOP_AT), one after the other along the dimension. False: it cannot.
bool kern_part_top(struct kern_making *m, int v, const struct norm_dim *d, struct kern_access at);
// The largest k elements of v along the dimension, or their numbers, by kind. False: v is parts, or has not all axes of the dimension.
bool kern_part_topk(struct kern_making *m, enum kern_kind kind, int v, const struct norm_dim *d, int64_t k, int *out);
bool kern_part_store(struct kern_making *m, int v, struct kern_access at); // false: too many

#endif

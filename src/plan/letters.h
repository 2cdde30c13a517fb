// letters: letters of a normal form (norm.h) during its construction; private to norm.c and letters.c. A letter may later be split in two by a
// reshape, or unified with another one by an operator that traverses both. Lists of letters are resolved to their current form.
#ifndef MICA_PLAN_LETTERS_H
#define MICA_PLAN_LETTERS_H

#include "plan/norm.h"

enum { RAW_LETTERS = 512, RAW_LIST = 48 };
struct raw_list { // slowest first
  int n, id[RAW_LIST];
};
struct raw_letters {
  int n;
  int64_t extent[RAW_LETTERS];
  int same[RAW_LETTERS];                    // another letter that it equals, or -1
  int slow[RAW_LETTERS], fast[RAW_LETTERS]; // the letters it was split into, or -1
  bool full;                                // there was no room: the result is rejected
};
int raw_fresh(struct raw_letters *r, int64_t extent); // a new letter
void raw_push(struct raw_letters *r, struct raw_list *l, int id);
struct raw_list raw_resolve(struct raw_letters *r, const struct raw_list *l);
// Unifies two lists letter by letter, from the fastest on; false if extents do not divide each other.
bool raw_unify(struct raw_letters *r, const struct raw_list *a, const struct raw_list *b);
// Splits l into a slow part and a fast part of that extent; false if that is impossible.
bool raw_cut(struct raw_letters *r, const struct raw_list *l, int64_t fast, struct raw_list *slow_out, struct raw_list *fast_out);
// Strides of the final letters of a letter: calls `each` with every final letter and its stride.
void raw_strides(struct raw_letters *r, int id, int64_t stride, void *arg, void (*each)(void *arg, int letter, int64_t stride));

// A tensor of a kernel graph as a view of a tensor with a buffer: dimensions as (extent, stride) factors, slowest first.
struct kview_dim {
  int n;
  int64_t extent[MAX_FACTORS], stride[MAX_FACTORS];
};
struct kview {
  int root, ndims;
  int64_t offset; // offset of its first element in the buffer
  struct kview_dim dim[MAX_DIMS];
};
bool kview_of(const struct graph *kernels, int tensor, struct kview *out);
bool kview_in(const struct graph *kernels, const struct order *order, int tensor, struct kview *out); // order: for each tensor; may be NULL
// Takes the slowest `parts` of a dimension; *stride is that of one part. False if the dimension has no such stride.
bool kview_take(struct kview_dim *d, int64_t parts, int64_t *stride);

#endif

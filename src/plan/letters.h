// letters: inside norm.c and letters.c, letters while they are found. A letter may turn out to be two (a reshape cuts it) or
// the same as another (an operator walks both); lists of letters are resolved to what they have become.
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
  int same[RAW_LETTERS];                    // another that it is, or -1
  int slow[RAW_LETTERS], fast[RAW_LETTERS]; // what it was cut into, or -1
  bool full;                                // there was no room: what comes out is refused
};
int raw_fresh(struct raw_letters *r, int64_t extent);
void raw_push(struct raw_letters *r, struct raw_list *l, int id);
struct raw_list raw_resolve(struct raw_letters *r, const struct raw_list *l);
// Makes both the same, letter by letter; false where extents do not divide each other.
bool raw_unify(struct raw_letters *r, const struct raw_list *a, const struct raw_list *b);
// l = slow part, fast part of that extent; false where a letter cannot be cut there.
bool raw_cut(struct raw_letters *r, const struct raw_list *l, int64_t fast, struct raw_list *slow_out, struct raw_list *fast_out);
// Strides of what a letter has become: calls `each` with letters that are final and their strides.
void raw_strides(struct raw_letters *r, int id, int64_t stride, void *arg, void (*each)(void *arg, int letter, int64_t stride));

// A tensor of a kernel graph as a view of one that has a buffer: dimensions as (extent, stride) factors, slowest first.
struct kview_dim {
  int n;
  int64_t extent[MAX_FACTORS], stride[MAX_FACTORS];
};
struct kview {
  int root, ndims;
  int64_t offset; // of its first element in the buffer
  struct kview_dim dim[MAX_DIMS];
};
bool kview_of(const struct graph *kernels, int tensor, struct kview *out);
bool kview_in(const struct graph *kernels, const struct order *order, int tensor, struct kview *out); // by tensor; NULL
// Takes the slowest `parts` of a dimension; *stride is that of one part. False where the dimension has no such stride.
bool kview_take(struct kview_dim *d, int64_t parts, int64_t *stride);

#endif

// reference64: inside rt, values of the float64 reference that are views of others.
#ifndef MICA_RT_REFERENCE64_H
#define MICA_RT_REFERENCE64_H

#include "rt/rt.h"

// Place of a tensor's elements in the buffer that holds it: along dimension d, index / group[d] * stride[d].
struct reference64_place {
  int64_t stride[MAX_DIMS], group[MAX_DIMS];
};
struct reference64_place reference64_place_of(const struct reference64 *r, int t);
// Start of an operand of each matrix of the output, to be freed.
int64_t *reference64_matrices(const struct reference64 *r, int t, const struct shape *out, int64_t batch);
// The node makes a view that needs no memory of its own.
bool reference64_is_view(const struct reference64 *r, const struct node *n);

#endif

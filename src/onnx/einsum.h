// The equation of an Einsum: labels of terms and of the result, and extents of labels.
#ifndef MICA_ONNX_EINSUM_H
#define MICA_ONNX_EINSUM_H

#include "onnx/onnx.h"

enum { EINSUM_TERMS = 8, EINSUM_LABELS = 64, EINSUM_DOTS = 52 }; // EINSUM_DOTS + i: dimension i of an ellipsis, from the right

struct einsum_term {
  int n, label[MAX_DIMS];
};
struct einsum_equation {
  int terms;                               // inputs of the node
  const struct shape *shape[EINSUM_TERMS]; // shapes of the node's inputs; set by the caller
  struct einsum_term in[EINSUM_TERMS], out;
  bool twice[EINSUM_TERMS]; // a label occurs twice in the term: its diagonal is read
  int nin;
  int64_t extent[EINSUM_LABELS]; // 0: no term has the label
  char why[160];
};
bool einsum_read(struct einsum_equation *q, const char *equation); // false: `why` has the reason

#endif

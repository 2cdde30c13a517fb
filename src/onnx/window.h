// Windows that slide over the spatial dimensions of [N, C, ...] (host_window.c), for convolutions and pooling.
#ifndef MICA_ONNX_WINDOW_H
#define MICA_ONNX_WINDOW_H

#include "onnx/onnx_host.h"

enum { MOST_SPACE = MAX_DIMS - 2 };

struct window {
  int n; // number of spatial dimensions
  int64_t size[MOST_SPACE], step[MOST_SPACE], gap[MOST_SPACE], before[MOST_SPACE], after[MOST_SPACE];
  int64_t in[MOST_SPACE], out[MOST_SPACE];
};
// The node's windows over x, each of `size`; false after a failure.
bool window_of(struct onnx_host *h, const struct shape *x, const int64_t *size, struct window *w);
// An attribute of n integers, or `otherwise` if it is absent. No entry may be less than `least`.
void window_list(struct onnx_host *h, const char *name, int n, int64_t otherwise, int64_t least, int64_t *to);
// The spatial index of the input element at position `at` of the window of output `to`; -1: padding. *padded: it is in the input or its pads.
int64_t window_element(const struct window *w, const int64_t *to, const int64_t *at, bool *padded);
bool window_next(int64_t *at, const int64_t *extent, int n); // advances to the next index; after the last it returns false and restarts
int64_t window_product(const int64_t *d, int n);
struct shape window_shape(const struct window *w, int64_t n, int64_t c);

#endif

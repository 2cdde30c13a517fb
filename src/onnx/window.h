// Windows that slide over the dimensions in space of [N, C, ...] (host_window.c): convolutions and pooling.
#ifndef MICA_ONNX_WINDOW_H
#define MICA_ONNX_WINDOW_H

#include "onnx/onnx_host.h"

enum { MOST_SPACE = MAX_DIMS - 2 };

struct window {
  int n; // dimensions in space
  int64_t size[MOST_SPACE], step[MOST_SPACE], gap[MOST_SPACE], before[MOST_SPACE], after[MOST_SPACE];
  int64_t in[MOST_SPACE], out[MOST_SPACE];
};
// The windows of the node over x, each of `size`; false after a failure.
bool window_of(struct onnx_host *h, const struct shape *x, const int64_t *size, struct window *w);
// An attribute of n integers, or `otherwise` where it is absent; no entry is less than `least`.
void window_list(struct onnx_host *h, const char *name, int n, int64_t otherwise, int64_t least, int64_t *to);
// The element of the input that element `at` of the window at output `to` is, in space; -1: padding. *padded: it lies in the input or its pads.
int64_t window_element(const struct window *w, const int64_t *to, const int64_t *at, bool *padded);
bool window_next(int64_t *at, const int64_t *extent, int n); // to the next index; false, and back to the first, behind the last
int64_t window_product(const int64_t *d, int n);
struct shape window_shape(const struct window *w, int64_t n, int64_t c);

#endif

// Functions of single nodes on cells (host_*.c): each is named by a row of node.def.
#ifndef MICA_ONNX_HOST_H
#define MICA_ONNX_HOST_H

#include "onnx/onnx.h"

bool host_has(const struct onnx_host *h, int k);
void host_strides(const struct shape *s, int64_t stride[MAX_DIMS]); // row-major
// to[...] = from[start + index . stride] over all indices of s.
void host_copy(void *to, const void *from, const struct shape *s, int64_t start, const int64_t *stride);
void host_spread(const struct shape *s, const struct shape *to, int64_t stride[MAX_DIMS]);
bool host_broadcast(struct onnx_host *h, const struct shape *a, const struct shape *b, struct shape *out);

bool host_shape_of(struct onnx_host *h, int k, struct shape *s); // a shape that input k holds

enum host_fn { // of elements
#define FN(id, ...) FN_##id,
#include "onnx/fn.def"
#undef FN
  FNS
};

#define HOST(name) void host_##name(struct onnx_host *h);
#include "onnx/host.def"
#undef HOST

#endif

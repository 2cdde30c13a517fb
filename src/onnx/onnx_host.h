// Simple functions of single nodes on cells (host_*.c); rows of node.def name them.
#ifndef MICA_ONNX_HOST_H
#define MICA_ONNX_HOST_H

#include "onnx/onnx.h"

bool host_has(const struct onnx_host *h, int k);
void host_strides(const struct shape *s, int64_t stride[MAX_DIMS]); // row-major
// to[...] = from[start + index . stride] over all indices of s.
void host_copy(void *to, const void *from, const struct shape *s, int64_t start, const int64_t *stride);
void host_spread(const struct shape *s, const struct shape *to, int64_t stride[MAX_DIMS]);
bool host_broadcast(struct onnx_host *h, const struct shape *a, const struct shape *b, struct shape *out);

bool host_shape_of(struct onnx_host *h, int k, struct shape *s); // the shape that input k holds

double host_number(const struct onnx_cells *c, int64_t i);           // element i of any type
void host_store(struct onnx_cells *c, int64_t i, double x);          // integers are truncated towards zero and saturated
double host_scalar(struct onnx_host *h, int k, double otherwise);    // input k, which must be one number
int64_t host_integer(struct onnx_host *h, int k, int64_t otherwise); // likewise, truncated, of absolute value at most 2^62
bool host_real(struct onnx_host *h, int k);                          // fails if input k is given and is not real
bool host_whole(struct onnx_host *h, int k);                         // fails if input k is given and is not of integers
struct host_lanes {                                                  // the elements along an axis
  int64_t before, d, step, n;                                        // n lanes of d elements, `step` apart
};
struct host_lanes host_lanes(const struct shape *s, int axis);
int64_t host_lane(const struct host_lanes *l, int64_t i);                // start of lane i
void host_place(const struct shape *s, int64_t i, int64_t at[MAX_DIMS]); // indices of element i
struct shape host_shape_with(const struct shape *s, int axis, int64_t extent);

struct host_act {                    // a row of act.def
  const char *type, *first, *second; // names of its parameters
  double a, b;                       // their defaults
  double (*f)(double x, double a, double b);
};
const struct host_act *host_act_find(const char *type); // ignores case; or NULL

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

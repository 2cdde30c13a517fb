// Lowerings of nodes (lower_*.c); rows of node.def name them. They read tensors with lo_in and set results with lo_out. After a failure tensors are
// -1, which every function here accepts and returns, so that a lowering reads as one formula.
#ifndef MICA_ONNX_LOWER_H
#define MICA_ONNX_LOWER_H

#include "onnx/onnx_host.h"

enum { LO_MOST_PARTS = 64 }; // most parts of a split or concat

void lo_fail(struct onnx_lower *l, const char *fmt, ...) PRINTF(2, 3);
bool lo_has(const struct onnx_lower *l, int k); // input k is given
int lo_in(struct onnx_lower *l, int k);
int lo_condition(struct onnx_lower *l, int k);                          // a tensor of bools: 0 or 1
int lo_index(struct onnx_lower *l, int k, int64_t least, int64_t most); // a tensor of int32 or int64 within these limits
void lo_out(struct onnx_lower *l, int k, int t);
bool lo_wants(const struct onnx_lower *l, int k); // output k has a name
const struct shape *lo_shape(const struct onnx_lower *l, int t);
bool lo_known(struct onnx_lower *l, int k, double *c);                               // input k is one known real number
bool lo_list(struct onnx_lower *l, const char *name, int k, struct onnx_ints *list); // as host_list; may fail
bool lo_axis(struct onnx_lower *l, int64_t axis, int n, int *out);
// The shape that the node's own simple function infers for output k.
bool lo_host_shape(struct onnx_lower *l, int k, struct shape *s);

int lo_const(struct onnx_lower *l, double c);
int lo_op(struct onnx_lower *l, enum op op, int n, const int *in, const struct attrs *a);
int lo_op1(struct onnx_lower *l, enum op op, int x);
int lo_op2(struct onnx_lower *l, enum op op, int x, int y);
int lo_dim(struct onnx_lower *l, enum op op, int x, int dim);       // an operator along a dimension
int lo_scale(struct onnx_lower *l, int x, double c);                // x * c; returns x if c is 1
int lo_shift(struct onnx_lower *l, int x, double c);                // x + c
int lo_reshape(struct onnx_lower *l, int x, const struct shape *s); // returns x if it has that shape
int lo_transpose(struct onnx_lower *l, int x, const struct shape *perm);
int lo_part(struct onnx_lower *l, int x, int dim, int64_t start, int64_t count); // a slice
int lo_pair(struct onnx_lower *l, enum op op, int a, int b);                     // inputs a and b, one of which may be a known number
// In lower_choice.c: the result of Gather, slices of x along the axis at indices computed at run time.
void onnx_gather_computed(struct onnx_lower *l, int x, int axis, const struct shape *out);

#define HOW(name) void onnx_as_##name(struct onnx_lower *l);
#include "onnx/lower.def"
#undef HOW

#endif

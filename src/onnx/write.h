// Nodes that are written out as simpler ones (write_*.c), which may then be taken, folded or left. Rows of node.def name the functions. A function
// knows the shapes of its node's inputs, names tensors by values of the model, and appends nodes of the default domain. After a failure values are
// -1, which every function here accepts and returns.
#ifndef MICA_ONNX_WRITE_H
#define MICA_ONNX_WRITE_H

#include "onnx/onnx.h"

void wr_fail(struct onnx_write *w, const char *fmt, ...) PRINTF(2, 3);
bool wr_has(const struct onnx_write *w, int k);   // input k is given
bool wr_wants(const struct onnx_write *w, int k); // output k is read
int wr_in(struct onnx_write *w, int k);
void wr_out(struct onnx_write *w, int k, int value);
int wr_type(const struct onnx_write *w, int value);
const struct shape *wr_shape(struct onnx_write *w, int value);              // of an input; may fail
void wr_refuse_inputs(struct onnx_write *w, int from);                      // fails if an input from there on is given
void wr_refuse_attr(struct onnx_write *w, const char *name, int64_t plain); // fails if the attribute has another value

int wr_number(struct onnx_write *w, int type, double c); // constants
int wr_list(struct onnx_write *w, int n, const int64_t *v);
struct band { // 0 if query i may read key j, else `otherwise`: j <= i + before + right, j >= i + before - left; -1: no limit
  int64_t rows, cols, before, left, right;
  double otherwise;
};
int wr_band(struct onnx_write *w, int type, const struct band *b);
double wr_lowest(int type); // lowest finite number

int wr_op(struct onnx_write *w, const char *type, int n, const int *in, int nout, int *out);
int wr_op1(struct onnx_write *w, const char *type, int x);
int wr_op2(struct onnx_write *w, const char *type, int x, int y);
int wr_op3(struct onnx_write *w, const char *type, int x, int y, int z);
void wr_int(struct onnx_write *w, const char *name, int64_t i); // attributes of the last node
void wr_real(struct onnx_write *w, const char *name, double f);
void wr_ints(struct onnx_write *w, const char *name, int n, const int64_t *v);

int wr_scale(struct onnx_write *w, int x, int type, double c);
int wr_reshape(struct onnx_write *w, int x, int n, const int64_t *d);
int wr_transpose(struct onnx_write *w, int x, int n, const int64_t *perm);
int wr_slice(struct onnx_write *w, int x, int64_t dim, int64_t from, int64_t to);
int wr_concat(struct onnx_write *w, int n, const int *in, int64_t dim);

// ---- write_attention.c ----
struct heads { // an attention: q [batch, heads, rows, size], k [batch, kv, cols, size], v [batch, kv, cols, vsize]
  int q, k, v, type;
  int bias[3], nbias; // tensors added to the scores
  int64_t batch, heads, kv, rows, cols, size, vsize;
  double scale, cap; // factor and cap of the scores; cap 0: none
  bool zeros;        // a fully masked row gives zeros, and masking uses -inf; else masking uses the lowest number
  int stage, scores; // which scores are an output (0 products, 1 capped, 2 biased, 3 softmax; -1 none), and their value
};
int wr_attention(struct onnx_write *w, struct heads *h); // [batch, heads, rows, vsize]
// Adds a bias whose shape, of up to 4 dimensions, broadcasts to [batch, heads, rows, cols] and ends with rows and cols or 1.
void wr_add_bias(struct onnx_write *w, struct heads *h, int bias, const struct shape *s);
// wr_band for queries that follow `before` earlier keys
void wr_add_band(struct onnx_write *w, struct heads *h, int64_t before, int64_t left, int64_t right);
int wr_split_heads(struct onnx_write *w, int x, int64_t batch, int64_t rows, int64_t heads); // [b, s, h d] -> [b, h, s, d]
int wr_join_heads(struct onnx_write *w, int x, int64_t batch, int64_t rows, int64_t width);
int wr_bool_bias(struct onnx_write *w, int mask, int type, double otherwise); // 0 where the mask is true

// ---- write_rotary.c ----
struct rotation {
  int64_t head, turned; // size of a head; rotated elements in it
  bool pairs;           // adjacent elements are rotated together; else corresponding elements of the two halves
};
// Rotates the last dimension of x, whose shape is given. Cosines and sines broadcast to it, except for the last dimension, which is half of the
// rotated part.
int wr_rotate(struct onnx_write *w, int x, const struct shape *s, int cosines, int sines, const struct shape *angles, const struct rotation *r);

// ---- the functions of rows ----
#define ONNX(...)
#define MICROSOFT(...)
#define WRITTEN(domain, type, since, least, most, how) void onnx_write_##how(struct onnx_write *w);
#include "onnx/node.def"
#undef ONNX
#undef MICROSOFT
#undef WRITTEN

#endif

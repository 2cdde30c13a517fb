// The arguments of a plain kernel of a float64 reference besides its buffers, passed by value. A kernel reads only the fields of its kind, and its text
// does not depend on them. So one kernel serves all shapes and dtypes of an operator. The text of plain kernels contains this file.
#ifndef MICA_PLAIN_ARGS_H
#define MICA_PLAIN_ARGS_H

enum { PLAIN_DIMS = 8 };
enum { PLAIN_ROUNDS = 1, PLAIN_DOWN = 2, PLAIN_EITHER = 4, PLAIN_FLUSHES = 8 }; // bits of the mode

struct plain_args {
  int64_t size; // elements, or lines, that threads compute one by one
  // Index i of `extent` is at x0 + x . index in the first operand, at y . index in the second, and at at0 + at . index in the result.
  int64_t dims, extent[PLAIN_DIMS], x[PLAIN_DIMS], y[PLAIN_DIMS], at[PLAIN_DIMS], x0, at0;
  int64_t rows, cols, deep;              // of a product of matrices
  int64_t along, inner;                  // a dimension of an operand, and the elements of the dimensions after it
  int64_t many;                          // indices, written slices, or largest elements
  int64_t seed;                          // of perturbed values; -1: the result is not perturbed
  int64_t mode;                          // bits of the mode
  int exponent, mantissa, special, bits; // of the dtype of the result, or of an input
  int raw;                               // the result is stored as it is
  int indices;                           // of the largest elements, not the elements
  double largest, underflow, tiny, scalar, lo, hi, slope, count;
};

#endif

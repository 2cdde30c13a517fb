// Element types (dtype.def) and their numbers: one row a type, one conversion each way.
#ifndef MICA_NUM_H
#define MICA_NUM_H

#include "base/float_bits.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Upper bound of extents, elements of a tensor, blocks and iterations.
#define EXTENT_LIMIT (INT64_C(1) << 40)

// The types of programs: the first rows of num_rows.
enum dtype {
#define DTYPE(id, ...) id,
#define WHOLE DTYPE
#include "base/dtype.def"
  DTYPES
};

struct num_row {
  int bits, bytes;
  int exponent, mantissa, special; // fields and rule of float_bits.h; exponent is 0 for other types
  const char *name, *what;         // "fp16" of tile programs; a description
  const char *dtype;               // "f16" of programs, JSON and messages; NULL: no type of programs
  double low;                      // a score: exp(low - s) is 0 of any usual s, and 2 low is finite
  double tolerance, kernel;        // accepted relative norm of an error: of a program that rounds on its way; of one kernel
  const char *cuda, *pair;         // the type in CUDA C++, and that of two elements, or NULL
  const char *c;                   // the type in C that cprint makes; mica_NAME has mica_from_NAME and mica_to_NAME
  int map;                         // CUtensorMapDataType, or -1
  const char *map_name;            // and its enumerator's end
  int blas;                        // cudaDataType
  const char *blas_name;           // and its enumerator
  const char *array;               // "float16": of numpy, ml_dtypes, torch, jax and cupy
  bool numpy;                      // numpy has it; otherwise ml_dtypes has
  const char *typestr, *format;    // of an array interface; of the buffer protocol
  int dlpack;                      // DLDataTypeCode
  int onnx;                        // TensorProto.DataType
};
extern const struct num_row num_rows[];

static inline bool num_floats(const struct num_row *f) { return f->exponent > 0; }
static inline bool num_whole(enum dtype t) { return num_rows[t].exponent == 0; }                   // whole numbers
static inline bool num_narrow(const struct num_row *f) { return f->exponent > 0 && f->bits < 32; } // kept in fewer bits than computed with

// Word i of an array of words of 8, 16 or 32 bits, which may lie at any address. Little-endian, as all that reads such arrays.
static inline uint32_t num_word(const void *p, int64_t i, int bits)
{
  uint32_t w = 0;
  memcpy(&w, (const char *)p + i * (bits / 8), (size_t)(bits / 8));
  return w;
}
static inline void num_set_word(void *p, int64_t i, int bits, uint32_t w) { memcpy((char *)p + i * (bits / 8), &w, (size_t)(bits / 8)); }

extern const char float_bits_text[];           // float_bits.h, for generated C
extern const char order_text[];                // order.h, for generated C
extern const char parts_text[];                // parts.h, the same
const char *num_names(void);                   // of the types of programs: "f16, bf16, f32"
double num_largest(const struct num_row *f);   // finite number
double num_underflow(const struct num_row *f); // by which a number too small for the type may be off
double num_normal(const struct num_row *f);    // the least number above 0 that is normal

// Element i of an array; writing rounds to nearest, ties to even.
double num_read(enum dtype t, const void *p, int64_t i);
void num_write(enum dtype t, void *p, int64_t i, double x);
void num_read_all(enum dtype t, const void *p, int64_t from, int64_t n, double *out); // elements from .. from + n
double num_round(enum dtype t, double x); // the value that num_write would leave; of whole numbers the nearest, NaN is 0

#endif

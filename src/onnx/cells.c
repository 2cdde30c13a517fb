// Elements in memory: read from what ONNX stores, rounded to what their type can hold.
#include "onnx/onnx.h"
#include "eval/eval.h"

#include <math.h>
#include <string.h>

enum { NONE = -1 };
static const struct {
  int number;
  const char *name;
  int bytes;
  enum onnx_kind kind;
  int dtype;
} types[] = {
#define TYPE(id, number, name, bytes, kind, dtype) {number, name, bytes, kind, (int)dtype},
#include "onnx/type.def"
#undef TYPE
};

static int row_of(int type)
{
  for (int i = 0; i < (int)COUNT(types); i++)
    if (types[i].number == type) return i;
  return -1;
}

const char *onnx_type_name(int type)
{
  int i = row_of(type);
  return i < 0 ? "a type that is not known" : types[i].name;
}

int onnx_type_bytes(int type)
{
  int i = row_of(type);
  return i < 0 ? 0 : types[i].bytes;
}

enum onnx_kind onnx_type_kind(int type)
{
  int i = row_of(type);
  return i < 0 ? NEITHER : types[i].kind;
}

bool onnx_type_dtype(int type, enum dtype *t)
{
  int i = row_of(type);
  if (i < 0 || types[i].dtype == NONE) return false;
  return *t = (enum dtype)types[i].dtype, true;
}

struct onnx_cells *onnx_cells_new(struct arena *mem, int type, const struct shape *s)
{
  struct onnx_cells *c = NEW(mem, struct onnx_cells);
  *c = (struct onnx_cells){.type = type, .shape = *s};
  c->p = arena_alloc(mem, 8 * (size_t)MAX(onnx_elements(s), 1));
  return c;
}

static double half(uint16_t bits)
{
  int exponent = bits >> 10 & 31, fraction = bits & 1023;
  double x = exponent == 31 ? (fraction ? (double)NAN : (double)INFINITY) : exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
  return bits >> 15 ? -x : x;
}

static double real_of(int type, const uint8_t *p)
{
  float f;
  double d;
  uint16_t b;
  uint32_t bits;
  switch (type) {
  case ONNX_FLOAT: return memcpy(&f, p, 4), (double)f;
  case ONNX_DOUBLE: return memcpy(&d, p, 8), d;
  case ONNX_FLOAT16: return memcpy(&b, p, 2), half(b);
  default: memcpy(&b, p, 2), bits = (uint32_t)b << 16, memcpy(&f, &bits, 4); return (double)f;
  }
}

static int64_t whole_of(int type, const uint8_t *p)
{
  uint64_t x = 0;
  int bytes = onnx_type_bytes(type), up = 64 - 8 * bytes;
  memcpy(&x, p, (size_t)bytes);
  bool sign = type == ONNX_INT8 || type == ONNX_INT16 || type == ONNX_INT32;
  if (type == ONNX_BOOL) return x != 0;
  return sign ? (int64_t)(x << up) >> up : (int64_t)x;
}

void onnx_cells_read(struct onnx_cells *c, const uint8_t *raw)
{
  int64_t n = onnx_elements(&c->shape);
  size_t bytes = (size_t)onnx_type_bytes(c->type);
  bool real = onnx_type_kind(c->type) == REAL;
  for (int64_t i = 0; i < n; i++) {
    const uint8_t *p = raw + (size_t)i * bytes;
    if (real)
      c->f[i] = real_of(c->type, p);
    else
      c->i[i] = whole_of(c->type, p);
  }
}

// Into the range of an integer type, as C's conversion wraps.
static int64_t wrapped(int type, int64_t x) { return whole_of(type, (const uint8_t *)&x); }

void onnx_cells_round(struct onnx_cells *c)
{
  enum dtype t;
  int64_t n = onnx_elements(&c->shape);
  bool real = onnx_type_kind(c->type) == REAL;
  if (real && !onnx_type_dtype(c->type, &t)) return; // float64
  for (int64_t i = 0; i < n; i++) {
    if (real)
      c->f[i] = eval_round(t, c->f[i]);
    else
      c->i[i] = c->type == ONNX_BOOL ? c->i[i] != 0 : wrapped(c->type, c->i[i]);
  }
}

const struct onnx_cells *onnx_known(struct onnx_model *m, int value)
{
  if (value < 0) return NULL;
  struct onnx_value *v = &m->values[value];
  if (v->known || !v->init || onnx_type_kind(v->type) == NEITHER) return v->known;
  int64_t n = onnx_elements(&v->shape);
  if (n > ONNX_KNOWN_CELLS / 64) return NULL; // weights
  struct onnx_cells *c = onnx_cells_new(m->mem, v->type, &v->shape);
  if (n) onnx_cells_read(c, v->init->raw);
  return v->known = c;
}

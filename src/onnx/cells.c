// Elements in memory: read from what ONNX stores, rounded to what their type can hold.
#include "onnx/onnx.h"
#include "eval/eval.h"

#include <math.h>
#include <string.h>

static const struct {
  int number;
  const char *name;
  int bytes;
  enum onnx_kind kind;
} types[] = {
#define TYPE(id, number, name, bytes, kind) {number, name, bytes, kind},
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
  for (int i = 0; i < DTYPES; i++)
    if (type && num_rows[i].onnx == type) return *t = (enum dtype)i, true;
  return false;
}

struct onnx_cells *onnx_cells_new(struct arena *mem, int type, const struct shape *s)
{
  struct onnx_cells *c = NEW(mem, struct onnx_cells);
  *c = (struct onnx_cells){.type = type, .shape = *s};
  c->p = arena_alloc(mem, 8 * (size_t)MAX(onnx_elements(s), 1));
  return c;
}

static double real_of(int type, const uint8_t *p)
{
  enum dtype t;
  double d;
  if (onnx_type_dtype(type, &t)) return num_read(t, p, 0);
  return memcpy(&d, p, 8), d;
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
      c->f[i] = num_round(t, c->f[i]);
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

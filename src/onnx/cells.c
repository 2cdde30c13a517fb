// Elements in memory: read from what ONNX stores, rounded to what their type can hold.
#include "onnx/onnx_host.h"
#include "eval/eval.h"

#include <math.h>
#include <string.h>

enum { UNSIGNED, SIGNED };
static const struct {
  int number;
  const char *name;
  int bits;
  enum onnx_kind kind;
  bool sign;
} types[] = {
#define TYPE(id, number, name, bits, kind, sign) {number, name, bits, kind, sign},
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

int onnx_type_bits(int type)
{
  int i = row_of(type);
  return i < 0 ? 0 : types[i].bits;
}

size_t onnx_type_size(int type, int64_t n) { return ((size_t)n * (size_t)onnx_type_bits(type) + 7) / 8; }

static bool is_signed(int type)
{
  int i = row_of(type);
  return i >= 0 && types[i].sign;
}

int64_t onnx_type_least(int type) { return is_signed(type) ? -((int64_t)1 << (onnx_type_bits(type) - 2)) * 2 : 0; }

int64_t onnx_type_most(int type)
{
  int bits = type == ONNX_BOOL ? 1 : onnx_type_bits(type) - is_signed(type);
  return bits > 62 ? INT64_MAX : ((int64_t)1 << bits) - 1;
}

enum onnx_kind onnx_type_kind(int type)
{
  int i = row_of(type);
  return i < 0 ? NEITHER : types[i].kind;
}

bool onnx_type_dtype(int type, enum dtype *t)
{
  for (int i = 0; i < DTYPES; i++)
    if (type && num_rows[i].onnx == type && !num_whole((enum dtype)i)) return *t = (enum dtype)i, true;
  return false;
}

struct onnx_cells *onnx_cells_new(struct arena *mem, int type, const struct shape *s)
{
  struct onnx_cells *c = NEW(mem, struct onnx_cells);
  *c = (struct onnx_cells){.type = type, .shape = *s};
  c->p = arena_alloc(mem, 8 * (size_t)MAX(onnx_elements(s), 1));
  return c;
}

double *onnx_cells_doubles(struct arena *mem, const struct onnx_cells *c)
{
  if (onnx_type_kind(c->type) != WHOLE) return c->f;
  const int64_t n = onnx_elements(&c->shape);
  double *x = NEWS(mem, double, n + 1);
  for (int64_t i = 0; i < n; i++) x[i] = (double)c->i[i];
  return x;
}

void onnx_cells_from_doubles(struct onnx_cells *c)
{
  for (int64_t i = 0, n = onnx_elements(&c->shape); i < n && onnx_type_kind(c->type) == WHOLE; i++) host_store(c, i, c->f[i]);
  onnx_cells_round(c);
}

// The low bits of x as an element of an integer type.
static int64_t wrapped(int type, uint64_t x)
{
  int up = 64 - onnx_type_bits(type);
  if (type == ONNX_BOOL) return x != 0;
  return is_signed(type) ? (int64_t)(x << up) >> up : (int64_t)(x << up >> up);
}

static double real_of(int type, uint64_t bits)
{
  enum dtype t;
  double d;
  if (onnx_small(type)) return onnx_small_read(type, (int)bits);
  if (onnx_type_dtype(type, &t)) return num_read(t, &bits, 0);
  return memcpy(&d, &bits, 8), d;
}

void onnx_cells_from_bits(struct onnx_cells *c, int64_t i, uint64_t bits)
{
  if (onnx_type_kind(c->type) == REAL)
    c->f[i] = real_of(c->type, bits);
  else
    c->i[i] = wrapped(c->type, bits);
}

uint64_t onnx_cells_bits(const struct onnx_cells *c, int64_t i)
{
  enum dtype t;
  uint64_t x = 0;
  int n = onnx_type_bits(c->type);
  uint64_t mask = n == 64 ? ~(uint64_t)0 : ((uint64_t)1 << n) - 1;
  if (onnx_type_kind(c->type) == WHOLE) return (uint64_t)c->i[i] & mask;
  if (onnx_type_dtype(c->type, &t)) return num_write(t, &x, 0, c->f[i]), x;
  if (!onnx_small(c->type)) return memcpy(&x, &c->f[i], 8), x;
  for (; x < mask; x++) { // searches the few patterns for the one with this value
    double d = onnx_small_read(c->type, (int)x);
    if (isnan(d) ? isnan(c->f[i]) : d == c->f[i] && signbit(d) == signbit(c->f[i])) break;
  }
  return x;
}

void onnx_cells_read(struct onnx_cells *c, const uint8_t *raw)
{
  int bits = onnx_type_bits(c->type);
  for (int64_t i = 0, n = onnx_elements(&c->shape); i < n; i++) {
    uint64_t x = 0;
    if (bits < 8)
      x = raw[i * bits / 8] >> (i * bits % 8) & ((1 << bits) - 1);
    else
      memcpy(&x, raw + i * (bits / 8), (size_t)bits / 8);
    onnx_cells_from_bits(c, i, x);
  }
}

void onnx_cells_round(struct onnx_cells *c)
{
  enum dtype t;
  int64_t n = onnx_elements(&c->shape);
  bool real = onnx_type_kind(c->type) == REAL, small = onnx_small(c->type);
  if (real && !small && !onnx_type_dtype(c->type, &t)) return; // float64
  for (int64_t i = 0; i < n; i++) {
    if (small)
      c->f[i] = onnx_small_round(c->type, c->f[i], isfinite(c->f[i]), ROUND_NEAREST);
    else if (real)
      c->f[i] = num_round(t, c->f[i]);
    else
      c->i[i] = wrapped(c->type, (uint64_t)c->i[i]);
  }
}

const struct onnx_cells *onnx_known(struct onnx_model *m, int value)
{
  if (value < 0) return NULL;
  struct onnx_value *v = &m->values[value];
  if (v->known || !v->init || onnx_type_kind(v->type) == NEITHER) return v->known;
  int64_t n = onnx_elements(&v->shape);
  if (n > ONNX_KNOWN_CELLS / 64) return NULL; // too large to decode, such as weights
  struct onnx_cells *c = onnx_cells_new(m->mem, v->type, &v->shape);
  if (n) onnx_cells_read(c, v->init->raw);
  return v->known = c;
}

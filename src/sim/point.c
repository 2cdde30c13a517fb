// Elementwise instructions: fused multiply-add, unary and binary operators, reductions of one thread, constants.
// Operators are computed in double by the expressions of pointwise.def, on 32 lanes at a time, and rounded to the type of
// the result. Integers are computed in 64 bits.
#include "base/order.h"
#include "base/parts.h"
#include "sim/machine.h"
#define NUM double
#include "eval/real.h"

enum { ROOM = 16 * LANES * 8 }; // bytes of the widest piece
#define EACH for (int l = 0; l < LANES; l++)

#define UNARY_OP(id, name, value, cost)              \
  static void un_##id(const double *in, double *out) \
  {                                                  \
    EACH                                             \
    {                                                \
      double x = in[l];                              \
      out[l] = value;                                \
    }                                                \
  }
#define BINARY_OP(id, name, value)                                   \
  static void bi_##id(const double *a, const double *b, double *out) \
  {                                                                  \
    EACH                                                             \
    {                                                                \
      const double x = a[l], y = b[l], z = out[l];                   \
      (void)z;                                                       \
      out[l] = value;                                                \
    }                                                                \
  }
#include "tile/pointwise.def"
#undef UNARY_OP
#undef BINARY_OP

static void (*const unary[UN_COUNT])(const double *, double *) = {
#define UNARY_OP(id, name, value, cost) [UN_##id] = un_##id,
#define BINARY_OP(id, name, value)
#include "tile/pointwise.def"
#undef UNARY_OP
#undef BINARY_OP
};
static void (*const binary[BI_COUNT])(const double *, const double *, double *) = {
#define UNARY_OP(id, name, value, cost)
#define BINARY_OP(id, name, value) [BI_##id] = bi_##id,
#include "tile/pointwise.def"
#undef UNARY_OP
#undef BINARY_OP
};

static int64_t integer(int op, int64_t x, int64_t y)
{
  if (op == BI_ADD) return (int64_t)((uint64_t)x + (uint64_t)y);
  if (op == BI_SUB) return (int64_t)((uint64_t)x - (uint64_t)y);
  if (op == BI_MUL || op == BI_MASK) return (int64_t)((uint64_t)x * (uint64_t)y);
  if (op == BI_DIV) return y ? (y == -1 ? (int64_t) - (uint64_t)x : x / y) : 0;
  if (op == BI_MIN) return MIN(x, y);
  if (op == BI_LE) return x <= y;
  if (op == BI_EQ) return x == y;
  if (op == BI_BELOW) return x < y ? x : INT64_MIN;
  return op == BI_MAX ? MAX(x, y) : x < y;
}

void point_binary(int op, enum tile_type t, const void *a, const void *b, void *out)
{
  if (num_floats(&tile_types[t])) {
    double x[LANES], y[LANES], z[LANES] = {0};
    num_load(t, a, x), num_load(t, b, y);
    if (op == BI_KEEP) num_load(t, out, z);
    binary[op](x, y, z);
    num_store(t, z, out);
  } else {
    int64_t x[LANES], y[LANES], z[LANES];
    num_load_int(t, a, x), num_load_int(t, b, y);
    EACH z[l] = integer(op, x[l], y[l]);
    num_store_int(t, z, out);
  }
}

// Counts `width` computed elements per active lane. Elements read from or written to memory are counted as moved too.
static void worked(struct warp *w, const struct sim_atom *a, int width, int64_t flops)
{
  int64_t lanes = __builtin_popcount(w->active), moved = 0;
  for (int i = 0; i < a->n; i++) moved += a->op[i].mem != MEM_RF;
  if (a->op[0].mem != MEM_RF && a->t->row->sum) moved++;
  w->s->r->counts.elements += lanes * width * (1 + moved), w->s->r->counts.flops += lanes * flops;
}

static size_t row_bytes(const struct sim_operand *op) { return (size_t)op->bytes * LANES; }

enum go sem_init(struct warp *w, const struct sim_atom *a)
{
  int width = a->t->width;
  uint8_t buffer[ROOM];
  double value[LANES];
  EACH value[l] = a->t->value;
  for (int i = 0; i < width; i++) num_store(a->op[0].type, value, buffer + (size_t)i * row_bytes(&a->op[0]));
  for (struct walk it = walk_begin(w, a); !it.done; walk_next(&it)) {
    walk_store(&it, 0, width, buffer);
    worked(w, a, width, 0);
  }
  return GO_ON;
}

enum go sem_index(struct warp *w, const struct sim_atom *a)
{
  uint8_t buffer[ROOM];
  double value[LANES];
  const struct vec *index = code_eval(w, a->arg);
  EACH value[l] = (double)index->v[l];
  num_store(a->op[0].type, value, buffer);
  for (struct walk it = walk_begin(w, a); !it.done; walk_next(&it)) {
    walk_store(&it, 0, 1, buffer);
    worked(w, a, 1, 0);
  }
  return GO_ON;
}

static void apply_unary(int op, enum tile_type from, const void *in, enum tile_type to, void *out)
{
  if (op == UN_CAST && !num_floats(&tile_types[from]) && !num_floats(&tile_types[to])) {
    int64_t v[LANES];
    num_load_int(from, in, v);
    num_store_int(to, v, out);
    return;
  }
  double x[LANES], z[LANES];
  num_load(from, in, x);
  unary[op](x, z);
  num_store(to, z, out);
}

enum go sem_unary(struct warp *w, const struct sim_atom *a)
{
  const struct sim_operand *to = &a->op[0], *from = &a->op[1];
  int width = a->t->width;
  uint8_t in[ROOM], out[ROOM];
  for (struct walk it = walk_begin(w, a); !it.done; walk_next(&it)) {
    const uint8_t *x = walk_load(&it, 1, width, in);
    for (int i = 0; i < width; i++) apply_unary(a->t->op, from->type, x + (size_t)i * row_bytes(from), to->type, out + (size_t)i * row_bytes(to));
    walk_store(&it, 0, width, out);
    worked(w, a, width, a->t->op == UN_CAST ? 0 : width);
  }
  return GO_ON;
}

enum go sem_binary(struct warp *w, const struct sim_atom *a)
{
  int width = a->t->width;
  uint8_t in[3][ROOM], out[ROOM];
  size_t row = row_bytes(&a->op[0]);
  for (struct walk it = walk_begin(w, a); !it.done; walk_next(&it)) {
    const uint8_t *x = walk_load(&it, 1, width, in[0]), *y = walk_load(&it, 2, width, in[1]);
    if (a->t->row->sum) memcpy(out, walk_load(&it, 0, width, in[2]), row * (size_t)width);
    for (int i = 0; i < width; i++) point_binary(a->t->op, a->op[0].type, x + (size_t)i * row, y + (size_t)i * row, out + (size_t)i * row);
    walk_store(&it, 0, width, out);
    worked(w, a, width, width);
  }
  return GO_ON;
}

static void multiply_add(const struct sim_atom *a, const void *x, const void *y, void *z)
{
  if (a->op[0].type == a->op[1].type) {
    num_fma(a->op[0].type, x, y, z);
    return;
  }
  float wide[2][LANES]; // fp32 += fp16 * fp16: the product is exact
  num_load_float(a->op[1].type, x, wide[0]), num_load_float(a->op[2].type, y, wide[1]);
  num_fma(TT_F32, wide[0], wide[1], z);
}

enum go sem_fma(struct warp *w, const struct sim_atom *a)
{
  int width = a->t->width;
  uint8_t in[3][ROOM];
  size_t row = row_bytes(&a->op[0]), narrow = row_bytes(&a->op[1]);
  for (struct walk it = walk_begin(w, a); !it.done; walk_next(&it)) {
    const uint8_t *x = walk_load(&it, 1, width, in[1]), *y = walk_load(&it, 2, width, in[2]), *z = walk_load(&it, 0, width, in[0]);
    uint8_t sum[ROOM];
    memcpy(sum, z, row * (size_t)width);
    for (int i = 0; i < width; i++) multiply_add(a, x + (size_t)i * narrow, y + (size_t)i * narrow, sum + (size_t)i * row);
    walk_store(&it, 0, width, sum);
    worked(w, a, width, 2 * width);
  }
  return GO_ON;
}

// The first modes are the reduced ones. The result is rounded after every step, as by the instruction.
enum go sem_reduce(struct warp *w, const struct sim_atom *a)
{
  const struct sim_operand *to = &a->op[0], *from = &a->op[1];
  uint8_t in[ROOM], acc[LANES * 8], wide[LANES * 8];
  double start[LANES];
  EACH start[l] = a->t->value;
  for (struct walk it = walk_begin(w, a); !it.done; walk_next(&it)) {
    bool first = true, last = true;
    for (int m = 0; m < a->t->nreduce; m++) first &= !it.mode[m], last &= it.mode[m] == a->t->extent[m] - 1;
    if (first) num_store(to->type, start, acc);
    const uint8_t *x = walk_load(&it, 1, 1, in);
    apply_unary(UN_CAST, from->type, x, to->type, wide);
    point_binary(a->t->op, to->type, acc, wide, acc);
    if (last) walk_store(&it, 0, 1, acc);
    worked(w, a, 1, 1);
  }
  return GO_ON;
}

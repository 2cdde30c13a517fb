// Kernels that join tensors along a dimension.
#include "legal/wrap.h"

enum { JOINED = 16 }; // most equal parts of a kernel

// An elementwise operator on x and y, or on x alone if y is -1.
static int put(struct wrapping *w, enum op op, int x, int y, const struct attrs *a, struct loc at, int *out)
{
  const struct node n = {.op = op, .nin = y < 0 ? 1 : 2, .a = a ? *a : attrs_default(op), .at = at};
  struct shape s = w->to->tensors[x].shape;
  if (y >= 0 && !shape_broadcast(&s, &w->to->tensors[y].shape, &s)) return err_set(w->e, ERR_SHAPE, at, "extents differ and neither is 1");
  return wrap_map(w, &n, (int[]){x, y}, &s, out);
}

// Slice i of the result is slice i - start of one operand. Each operand is read at all indices, limited to its own, and the result chooses.
static int concat_by_index(struct wrapping *w, const struct node *n, const int *in, const struct shape *whole, int *out)
{
  const int dim = n->a.dim;
  int64_t start = 0;
  int i, place, all = -1;
  TRY(wrap_index_of(w, 1, whole->d[dim], n->at, &i));
  TRY(wrap_index_of(w, whole->n - dim, whole->d[dim], n->at, &place));
  for (int k = 0; k < n->nin; k++) {
    const int64_t extent = w->to->tensors[in[k]].shape.d[dim];
    struct node read = {.op = OP_GATHER, .nin = 2, .nout = 1, .a = attrs_default(OP_GATHER), .at = n->at};
    struct attrs moved = attrs_default(OP_ADD_SCALAR), own = attrs_default(OP_CLAMP), from = attrs_default(OP_CONST);
    int at, x, bound, before, after;
    read.a.dim = dim, moved.scalar = -(double)start, own.lo = 0, own.hi = (double)(extent - 1), from.scalar = (double)start;
    TRY(put(w, OP_ADD_SCALAR, i, -1, &moved, n->at, &at));
    TRY(put(w, OP_CLAMP, at, -1, &own, n->at, &at));
    TRY(wrap_by_index(w, &read, (int[]){in[k], at}, &x));
    if (k) {
      TRY(graph_add(w->to, OP_CONST, 0, NULL, &from, n->at, &bound, w->e));
      TRY(put(w, OP_LESS, place, bound, NULL, n->at, &before));
      TRY(put(w, OP_LESS_EQUAL, bound, place, NULL, n->at, &after));
      TRY(put(w, OP_MASK, all, before, NULL, n->at, &all));
      TRY(put(w, OP_MASK, x, after, NULL, n->at, &x));
      TRY(put(w, OP_ADD, all, x, NULL, n->at, &x));
    }
    all = x, start += extent;
  }
  return *out = all, OK;
}

// Joins tensors along a dimension, which no grid axis divides, in equal parts, or by index if these are too many.
int wrap_concat(struct wrapping *w, const struct node *n, const int *in, const struct shape *whole, int *out)
{
  struct shape rest = *whole;
  int64_t unit = 0;
  int tile[JOINED], count = 0;
  for (int k = 0; k < n->nin; k++) unit = common_divisor(w->to->tensors[in[k]].shape.d[n->a.dim], unit);
  if (whole->d[n->a.dim] / unit > JOINED) return concat_by_index(w, n, in, whole, out);
  rest.d[n->a.dim] = 1;
  struct wrap_block b = wrap_begin(w, whole->n, wrap_cut_of(&rest, NULL, whole->d[n->a.dim], WRAP_TILE), 1);
  for (int k = 0; k < n->nin; k++) {
    struct attrs a = attrs_default(OP_CHUNK);
    int from = wrap_load(&b, in[k], -1);
    a.dim = n->a.dim, a.parts = w->to->tensors[in[k]].shape.d[n->a.dim] / unit;
    for (; a.index < a.parts; a.index++) tile[count++] = a.parts > 1 ? block_add(&b.b, OP_CHUNK, 1, &from, &a, n->at) : from;
  }
  return wrap_end(&b, 1, block_add(&b.b, OP_CONCAT, count, tile, &n->a, n->at), n->at, out);
}

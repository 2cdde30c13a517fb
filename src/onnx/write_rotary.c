// Rotary embedding: pairs of elements of a head are rotated by angles that depend on the token's position; tables hold their cosines and sines. A
// pair is two corresponding elements of the halves, or two adjacent elements.
#include "onnx/write.h"

#include <string.h>

#define DIMS(...) \
  (int64_t[]) { __VA_ARGS__ }

static int turned_part(struct onnx_write *w, int x, int dim, int64_t at, int64_t count, int64_t all)
{
  return at == 0 && count == all ? x : wr_slice(w, x, dim, at, at + count);
}

int wr_rotate(struct onnx_write *w, int x, const struct shape *s, int cosines, int sines, const struct shape *angles, const struct rotation *r)
{
  int last = s->n - 1, dim = r->pairs ? last + 1 : last, half = (int)(r->turned / 2);
  struct shape cut = *s, turn = *angles;
  int part = turned_part(w, x, last, 0, r->turned, r->head), one, two;
  if (r->pairs) {
    cut.d[last] = half, cut.d[cut.n++] = 2, turn.d[turn.n++] = 1;
    part = wr_reshape(w, part, cut.n, cut.d);
  }
  one = wr_slice(w, part, dim, 0, r->pairs ? 1 : half), two = wr_slice(w, part, dim, r->pairs ? 1 : half, r->pairs ? 2 : r->turned);
  int cos = wr_reshape(w, cosines, turn.n, turn.d), sin = wr_reshape(w, sines, turn.n, turn.d);
  int real = wr_op2(w, "Sub", wr_op2(w, "Mul", one, cos), wr_op2(w, "Mul", two, sin));
  int imaginary = wr_op2(w, "Add", wr_op2(w, "Mul", one, sin), wr_op2(w, "Mul", two, cos));
  int y = wr_concat(w, 2, (int[]){real, imaginary}, dim);
  if (r->pairs) {
    cut = *s, cut.d[last] = r->turned;
    y = wr_reshape(w, y, cut.n, cut.d);
  }
  return r->turned == r->head ? y : wr_concat(w, 2, (int[]){y, wr_slice(w, x, last, r->turned, r->head)}, last);
}

struct rotary {
  int x, cosines, sines, places; // places: -1 if the tables are already indexed by token
  int64_t batch, tokens;
  struct shape s, angles; // s: x with its heads as a dimension; angles: cosines and sines as they broadcast to it
  struct rotation r;
};

// x is [batch, heads, tokens, size] or [batch, tokens, heads * size].
static void shapes_of(struct onnx_write *w, struct rotary *y, int64_t heads)
{
  const struct shape *s = wr_shape(w, y->x), *c = wr_shape(w, y->cosines);
  if (w->failed) return;
  if ((s->n != 4 && (s->n != 3 || heads < 1 || s->d[2] % heads)) || c->n < 2)
    return wr_fail(w, "its input has no %lld heads (num_heads), or its tables have no rows", (long long)heads);
  y->s = *s, y->batch = s->d[0], y->tokens = s->n == 4 ? s->d[2] : s->d[1];
  if (s->n == 3) y->s = (struct shape){.n = 4, .d = {s->d[0], s->d[1], heads, s->d[2] / heads}};
  y->r.head = y->s.d[3], y->r.turned = onnx_attr_int(w->n, "rotary_embedding_dim", 0), y->r.pairs = onnx_attr_int(w->n, "interleaved", 0) != 0;
  if (!y->r.turned) y->r.turned = y->r.head;
  if (y->r.turned < 2 || y->r.turned % 2 || y->r.turned > y->r.head || c->d[c->n - 1] != y->r.turned / 2 || !shape_eq(c, wr_shape(w, y->sines)))
    return wr_fail(w, "its tables have %lld columns for %lld elements that turn, of %lld", (long long)c->d[c->n - 1], (long long)y->r.turned,
                   (long long)y->r.head);
  y->angles = (struct shape){.n = 4, .d = {y->batch, s->n == 4 ? 1 : y->tokens, s->n == 4 ? y->tokens : 1, y->r.turned / 2}};
}

static void check_places(struct onnx_write *w, const struct rotary *y)
{
  const struct shape *s = y->places >= 0 ? wr_shape(w, y->places) : wr_shape(w, y->cosines);
  bool fits = y->places >= 0 ? s->n == 2 && wr_shape(w, y->cosines)->n == 2 : s->n == 3;
  if (!w->failed && (!fits || s->d[0] != y->batch || s->d[1] != y->tokens))
    wr_fail(w, "its %s have no row a token", y->places >= 0 ? "position_ids" : "tables");
}

static int rows_of_places(struct onnx_write *w, int table, int places)
{
  int y = places < 0 ? table : wr_op2(w, "Gather", table, places);
  if (places >= 0) wr_int(w, "axis", 0);
  return y;
}

static void write(struct onnx_write *w, struct rotary *y)
{
  if (w->failed) return;
  int cosines = rows_of_places(w, y->cosines, y->places), sines = rows_of_places(w, y->sines, y->places);
  struct shape was = *wr_shape(w, y->x);
  int x = was.n == 3 ? wr_reshape(w, y->x, y->s.n, y->s.d) : y->x;
  x = wr_rotate(w, x, &y->s, cosines, sines, &y->angles, &y->r);
  wr_out(w, 0, was.n == 3 ? wr_reshape(w, x, was.n, was.d) : x);
}

void onnx_write_rotary(struct onnx_write *w)
{
  struct rotary y = {.x = wr_in(w, 0), .cosines = wr_in(w, 1), .sines = wr_in(w, 2), .places = wr_has(w, 3) ? wr_in(w, 3) : -1};
  shapes_of(w, &y, onnx_attr_int(w->n, "num_heads", 0));
  check_places(w, &y);
  write(w, &y);
}

// com.microsoft: positions are the second input, and a single one is that of the first token.
void onnx_write_ms_rotary(struct onnx_write *w)
{
  struct rotary y = {.x = wr_in(w, 0), .places = wr_in(w, 1), .cosines = wr_in(w, 2), .sines = wr_in(w, 3)};
  int64_t heads = onnx_attr_int(w->n, "num_heads", 0);
  const struct shape *s = wr_shape(w, y.x), *c = wr_shape(w, y.cosines);
  wr_refuse_attr(w, "is_packed_batching", 0);
  if (onnx_attr_real(w->n, "scale", 1) != 1) wr_fail(w, "its attribute scale is %g, which is not taken", onnx_attr_real(w->n, "scale", 1));
  if (!heads && s->n == 3 && c->n == 2 && c->d[1] > 0) heads = s->d[2] / (2 * c->d[1]);
  shapes_of(w, &y, heads);
  const struct shape *p = wr_shape(w, y.places);
  if (!w->failed && onnx_elements(p) == 1 && p->n < 2 && c->n == 2) {
    if (y.tokens > 1 << 20) return wr_fail(w, "it has %lld tokens", (long long)y.tokens);
    int64_t *each = NEWS(w->m->mem, int64_t, y.tokens + 1);
    for (int64_t i = 0; i < y.tokens; i++) each[i] = i;
    y.places = wr_op2(w, "Add", y.places, wr_list(w, (int)y.tokens, each));
    y.angles.d[0] = 1;
  } else
    check_places(w, &y);
  write(w, &y);
}

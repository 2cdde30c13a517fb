// Kinds that turn on which element goes where.
#include "pairs.h"

static const int64_t FEW[] = {2, 3, 4, 6, 8, 12};
static const struct shape LAST_TWO = {0};

static struct term *mul(struct gen *g, struct term *x, struct term *y) { return term_two(g, OP_MUL, x, y); }
static struct term *sum(struct gen *g, struct term *x, int dim) { return term_along(g, OP_SUM, x, dim); }
static struct term *turn(struct gen *g, struct term *x) { return term_transpose(g, x, LAST_TWO); }
static struct term *join(struct gen *g, struct term *x, struct term *y, int dim) { return term_concat(g, 2, (struct term *[]){x, y}, dim); }

// A function of one argument that keeps the shape, in which places matter or not.
static struct term *some(struct gen *g, int what, struct term *x)
{
  static const enum op ops[] = {OP_EXP, OP_RELU, OP_TANH, OP_SQUARE, OP_NEG, OP_SIGMOID};
  return what < (int)COUNT(ops) ? term_one(g, ops[what], x) : x;
}

void slices(struct gen *g, enum kind_id kind)
{
  static const int64_t many[] = {2, 3, 4, 8, 16, 64};
  int64_t p = draw_of(g, COUNT(many), many), each = 1 + draw(g, 4), n = p * each, i = draw(g, (int)p), j = draw(g, (int)p), r = 1 + draw(g, 4);
  struct term *x = draw_input(g, shape2(r, n)), *y = draw_input(g, shape2(r, each)), *a, *b;
  int what = draw(g, 8);
  (void)kind;
  switch (draw(g, 5)) {
  case 0: a = term_chunk(g, x, 1, p, i), b = term_chunk(g, x, 1, p, j); break;
  case 1: a = mul(g, term_chunk(g, x, 1, p, i), y), b = mul(g, term_chunk(g, x, 1, p, j), y); break;
  case 2: a = join(g, x, y, 1), b = join(g, y, x, 1); break;
  case 3: { // two parts have changed places
    int k = (int)MIN(p, MOST_ARGUMENTS);
    struct term *piece[MOST_ARGUMENTS], *z = draw_input(g, shape2(r, k * each));
    for (int c = 0; c < k; c++) piece[c] = term_chunk(g, z, 1, k, c);
    struct term *first = piece[i % k];
    piece[i % k] = piece[j % k], piece[j % k] = first;
    a = z, b = term_concat(g, k, piece, 1);
    break;
  }
  default:
    a = term_repeat(g, term_chunk(g, x, 1, p, i), 1, p), b = term_repeat(g, term_chunk(g, x, 1, p, j), 1, p), a = mul(g, a, x), b = mul(g, b, x);
  }
  result(g, some(g, what, a), some(g, what, b));
}

// Each slice k times in a row against the whole k times; along another dimension.
void repeats(struct gen *g, enum kind_id kind)
{
  int64_t k = 2 + draw(g, 4), n = draw_of(g, COUNT(FEW), FEW), r = draw(g, 3) ? draw_of(g, COUNT(FEW), FEW) : n;
  struct term *x = draw_input(g, shape2(r, n)), *all[MOST_ARGUMENTS], *a, *b;
  for (int i = 0; i < k; i++) all[i] = x;
  int how = draw(g, 4), dim = draw(g, 2);
  struct term *tile = term_concat(g, (int)k, all, dim), *slow = term_repeat(g, x, dim, k);
  (void)kind;
  if (how == 0)
    a = slow, b = tile;
  else if (how == 1) {
    struct term *y = draw_input(g, slow->s);
    a = mul(g, slow, y), b = mul(g, tile, y);
  } else if (how == 2) { // grouped heads: queries k i + j read keys i, or keys j
    struct term *y = draw_input(g, shape3(dim ? n * k : r * k, dim ? r : n, 3));
    struct term *keys = term_reshape(g, dim ? turn(g, slow) : slow, shape3(y->s.d[0], 1, y->s.d[1]));
    struct term *wrong = term_reshape(g, dim ? turn(g, tile) : tile, keys->s);
    a = term_matmul(g, keys, y), b = term_matmul(g, wrong, y);
  } else {
    a = term_reshape(g, term_repeat(g, x, 0, k), shape2(1, r * n * k)), b = term_reshape(g, term_repeat(g, x, 1, k), a->s);
  }
  int what = draw(g, 8);
  result(g, some(g, what, a), some(g, what, b));
}

// Square matrices and cubes: every wrong operand has the right shape.
void squares(struct gen *g, enum kind_id kind)
{
  static const int64_t sizes[] = {2, 3, 4, 6, 8};
  int64_t n = draw_of(g, COUNT(sizes), sizes);
  struct shape s = shape2(n, n);
  struct term *x = draw_input(g, s), *y = draw_input(g, s), *c = draw_input(g, shape3(n, n, n)), *a, *b;
  static const struct shape perms[] = {{3, {0, 1, 2}}, {3, {0, 2, 1}}, {3, {1, 0, 2}}, {3, {1, 2, 0}}, {3, {2, 0, 1}}, {3, {2, 1, 0}}};
  int p = draw(g, 6), q = draw(g, 6), d = draw(g, 3), e = draw(g, 3), what = draw(g, 8);
  (void)kind;
  switch (draw(g, 10)) {
  case 0: a = term_matmul(g, x, y), b = term_matmul(g, y, x); break;
  case 1: a = term_matmul(g, x, y), b = term_matmul(g, x, turn(g, y)); break;
  case 2: a = term_matmul(g, turn(g, x), y), b = term_matmul(g, turn(g, y), x); break;
  case 3: a = term_transpose(g, c, perms[p]), b = term_transpose(g, c, perms[q]); break;
  case 4: a = term_reshape(g, sum(g, c, d), s), b = term_reshape(g, sum(g, c, e), s); break;
  case 5: a = mul(g, x, term_reshape(g, sum(g, y, 1), shape2(1, n))), b = mul(g, x, sum(g, y, 1)); break;
  case 6: a = sum(g, sum(g, mul(g, x, turn(g, y)), 0), 1), b = sum(g, sum(g, mul(g, x, y), 0), 1); break;
  case 7: a = term_along(g, OP_SOFTMAX, c, d), b = term_along(g, OP_SOFTMAX, c, e); break;
  case 8: a = term_matmul(g, c, x), b = term_matmul(g, term_transpose(g, c, perms[p]), x); break;
  default:
    a = term_matmul(g, term_along(g, OP_SOFTMAX, term_matmul(g, x, turn(g, y)), 1), x),
    b = term_matmul(g, term_along(g, OP_SOFTMAX, term_matmul(g, x, y), 1), x);
  }
  result(g, some(g, what, a), some(g, what, b));
}

// ---- equal ----

void views(struct gen *g, enum kind_id kind)
{
  int64_t p = 2 + draw(g, 3), each = 1 + draw(g, 4), n = p * each, r = draw_of(g, COUNT(FEW), FEW);
  struct term *x = draw_input(g, shape2(r, n)), *y = draw_input(g, shape2(r, n)), *piece[MOST_ARGUMENTS], *a, *b;
  int what = draw(g, 8);
  (void)kind;
  for (int i = 0; i < p; i++) piece[i] = term_chunk(g, x, 1, p, i);
  struct term *whole = term_concat(g, (int)p, piece, 1);
  switch (draw(g, 10)) {
  case 0: a = x, b = whole; break;
  case 1: a = some(g, what, turn(g, x)), b = turn(g, some(g, what, x)); break;
  case 2: a = term_reshape(g, some(g, what, x), shape2(n, r)), b = some(g, what, term_reshape(g, x, shape2(n, r))); break;
  case 3: a = turn(g, mul(g, x, y)), b = mul(g, turn(g, x), turn(g, y)); break;
  case 4: a = sum(g, x, 0), b = turn(g, sum(g, turn(g, x), 1)); break;
  case 5: a = term_repeat(g, some(g, what, x), 0, 3), b = some(g, what, term_repeat(g, x, 0, 3)); break;
  case 6: a = some(g, what, join(g, x, y, 0)), b = join(g, some(g, what, x), some(g, what, y), 0); break;
  case 7: a = term_chunk(g, mul(g, x, y), 1, p, 1), b = mul(g, piece[1], term_chunk(g, y, 1, p, 1)); break;
  case 8:
    a = term_reshape(g, term_repeat(g, x, 1, p), shape3(r, n, p)),
    b = mul(
        g, term_reshape(g, x, shape3(r, n, 1)),
        term_two(g, OP_ADD, mul(g, term_number(g, rat(0, 1)), term_repeat(g, term_reshape(g, x, shape3(r, n, 1)), 2, p)), term_number(g, rat(1, 1))));
    break;
  default: a = turn(g, turn(g, some(g, what, x))), b = some(g, what, whole);
  }
  result(g, a, b);
}

void products(struct gen *g, enum kind_id kind)
{
  static const int64_t full[] = {2, 3, 5, 8, 64, 512};
  int64_t extents[4];
  for (int i = 0; i < 4; i++) {
    int64_t n = draw_of(g, COUNT(full), full);
    extents[i] = n > 8 ? extent(g, 4, n) : n;
  }
  int64_t r = extents[0], k = extents[1], n = extents[2], m = extents[3];
  struct term *x = draw_input(g, shape2(r, k)), *w = draw_input(g, shape2(k, n)), *a, *b;
  struct term *c = term_number(g, draw_constant(g));
  (void)kind;
  switch (draw(g, 8)) {
  case 0: {
    struct term *v = draw_input(g, shape2(n, m));
    a = term_matmul(g, term_matmul(g, x, w), v), b = term_matmul(g, x, term_matmul(g, w, v));
    break;
  }
  case 1: a = turn(g, term_matmul(g, x, w)), b = term_matmul(g, turn(g, w), turn(g, x)); break;
  case 2: a = term_matmul(g, mul(g, x, c), w), b = mul(g, term_matmul(g, x, w), c); break;
  case 3: {
    struct term *v = draw_input(g, w->s);
    a = term_matmul(g, x, term_two(g, OP_ADD, w, v)), b = term_two(g, OP_ADD, term_matmul(g, x, w), term_matmul(g, x, v));
    break;
  }
  case 4: a = sum(g, term_matmul(g, x, w), 1), b = term_matmul(g, x, sum(g, w, 1)); break;
  case 5: {
    struct term *u = draw_input(g, shape2(r, m)), *v = draw_input(g, shape2(m, n));
    a = term_matmul(g, join(g, x, u, 1), join(g, w, v, 0)), b = term_two(g, OP_ADD, term_matmul(g, x, w), term_matmul(g, u, v));
    break;
  }
  case 6: {
    struct term *v = draw_input(g, shape2(k, m));
    a = term_matmul(g, x, join(g, w, v, 1)), b = join(g, term_matmul(g, x, w), term_matmul(g, x, v), 1);
    break;
  }
  default: {
    struct term *e = term_one(g, OP_EXP, x), *s = sum(g, e, 1);
    a = term_matmul(g, term_two(g, OP_DIV, e, s), w), b = term_two(g, OP_DIV, term_matmul(g, e, w), s);
  }
  }
  result(g, a, b);
}

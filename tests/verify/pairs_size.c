// Kinds that turn on extents: counts, widths, groups. A verifier that works at smaller extents must keep these apart.
#include "pairs.h"

static const int64_t SOME[] = {2, 3, 4, 6, 7, 8, 12, 16, 24, 48, 49, 96, 100, 128};

static struct term *number(struct gen *g, int64_t p, int64_t q) { return term_number(g, rat(p, q)); }
static struct term *mul(struct gen *g, struct term *x, struct term *y) { return term_two(g, OP_MUL, x, y); }
static struct term *sum(struct gen *g, struct term *x) { return term_along(g, OP_SUM, x, -1); }

// 1/k as a factor or a divisor.
static struct term *scaled(struct gen *g, struct term *x, int64_t k, bool divided)
{
  return divided ? term_two(g, OP_DIV, x, number(g, k, 1)) : mul(g, x, number(g, 1, k));
}

// Sums over two extents, times one over a number made of them; the extents are equal or not.
void means(struct gen *g, enum kind_id k)
{
  int64_t n = draw_of(g, COUNT(SOME), SOME), m = draw(g, 4) ? draw_of(g, COUNT(SOME), SOME) : n, r = 1 + draw(g, 4);
  const int64_t counts[] = {n, m, n * m, n * n, m * m, n + m, 2 * n, 2 * m, n + 1, r, r * n, r * m};
  int64_t u = draw_of(g, COUNT(counts), counts), v = draw_of(g, COUNT(counts), counts);
  struct term *x = draw_input(g, shape2(r, n)), *y = draw_input(g, shape2(r, m)), *both[2];
  int how = draw(g, 5), op = draw(g, 2) ? OP_MUL : OP_ADD;
  bool divided = draw(g, 2);
  (void)k;
  for (int i = 0; i < 2; i++) {
    int64_t c = i ? v : u;
    struct term *a = sum(g, x), *b = sum(g, y);
    if (how == 0) both[i] = scaled(g, mul(g, a, b), c, divided);
    if (how == 1) both[i] = term_two(g, op, scaled(g, a, c, divided), scaled(g, b, m, divided));
    if (how == 2) both[i] = term_two(g, op, scaled(g, a, n, divided), scaled(g, b, c, divided));
    if (how == 3)
      both[i] = term_two(g, OP_SUB, scaled(g, sum(g, mul(g, x, x)), n, divided), mul(g, scaled(g, a, c, divided), scaled(g, a, n, divided)));
    if (how == 4) both[i] = mul(g, term_along(g, OP_MEAN, x, -1), scaled(g, b, c, divided));
  }
  result(g, both[0], both[1]);
}

// x / sqrt(sum(x^2) / k) of a product of matrices, where k is its width or the depth of the product; all extents may be
// large.
void widths(struct gen *g, enum kind_id kind)
{
  static const int64_t full[] = {256, 1024, 384, 4096, 6144};
  static const int64_t many[] = {2, 3, 4, 8, 2, 3, 4, 2048};
  int64_t k = draw_of(g, COUNT(full), full), n = draw_of(g, COUNT(full), full), r = draw_of(g, COUNT(many), many);
  const int64_t counts[] = {k, n, r, 2 * n, n + 1, k + n};
  int64_t u = draw_of(g, COUNT(counts), counts), v = draw_of(g, COUNT(counts), counts);
  int64_t depth = extent(g, 3, k), width = extent(g, 5, n), rows = extent(g, 2, r);
  struct term *y = term_matmul(g, draw_input(g, shape2(rows, depth)), draw_input(g, shape2(depth, width))), *both[2];
  int how = draw(g, 4);
  bool divided = draw(g, 2);
  (void)kind;
  for (int i = 0; i < 2; i++) {
    struct term *s = scaled(g, sum(g, mul(g, y, y)), i ? v : u, divided);
    if (how == 0) both[i] = mul(g, y, term_one(g, OP_RSQRT, s));
    if (how == 1) both[i] = term_two(g, OP_DIV, y, term_one(g, OP_SQRT, term_two(g, OP_ADD, s, number(g, 1, 100000))));
    if (how == 2) both[i] = scaled(g, y, i ? v : u, divided);
    if (how == 3) both[i] = term_one(g, OP_EXP, scaled(g, y, i ? v : u, divided));
  }
  result(g, both[0], both[1]);
}

// Operations of a head on its part of a row; all keep the shape.
static struct term *of_head(struct gen *g, int what, struct term *x)
{
  switch (what) {
  case 0: return term_norm(g, OP_RMS_NORM, x, rat(0, 1));
  case 1: return term_along(g, OP_SOFTMAX, x, -1);
  case 2: return term_norm(g, OP_LAYER_NORM, x, rat(1, 100000));
  case 3: return term_two(g, OP_SUB, x, term_along(g, OP_MEAN, x, -1));
  case 4: return term_two(g, OP_SUB, x, term_along(g, OP_MAX, x, -1));
  case 5: return mul(g, x, sum(g, x));
  case 6: return term_along(g, OP_SOFTMAX, x, 1);
  default: return term_two(g, OP_DIV, x, sum(g, mul(g, x, x)));
  }
}

static int64_t divisor(struct gen *g, int64_t n) // from 2 to 128
{
  for (int64_t d;;)
    if (n % (d = 2 + draw(g, 127)) == 0) return d;
}

void heads(struct gen *g, enum kind_id kind)
{
  static const int64_t widths_of[] = {8, 12, 16, 24, 36, 48, 64, 96, 256, 4096, 4096};
  static const int64_t depths[] = {4, 4, 64, 1024};
  int64_t n = draw_of(g, COUNT(widths_of), widths_of), a = divisor(g, n), b = divisor(g, n);
  int64_t many = n > 1000 && draw(g, 4) ? 2048 : 1 + draw(g, 4), rows = n > 1000 ? extent(g, 1, many) : many;
  int64_t k = draw_of(g, COUNT(depths), depths), depth = extent(g, 2, k);
  struct term *x = draw(g, 2) ? draw_input(g, shape2(rows, n)) : term_matmul(g, draw_input(g, shape2(rows, depth)), draw_input(g, shape2(depth, n)));
  int what = draw(g, 8), turned = draw(g, 4);
  (void)kind;
  if (turned == 1) b = n / a;
  struct term *both[2];
  for (int i = 0; i < 2; i++) {
    int64_t h = i ? b : a;
    struct term *y = term_reshape(g, x, shape3(rows, n / h, h));
    if (turned == 2) y = term_transpose(g, term_reshape(g, x, shape3(rows, h, n / h)), (struct shape){0});
    y = of_head(g, what, y);
    if (turned == 3 && i)
      y = term_transpose(g, term_reshape(g, term_transpose(g, y, (struct shape){0}), y->s), (struct shape){0}),
      y = term_reshape(g, y, shape3(rows, n / h, h));
    both[i] = term_reshape(g, y, shape2(rows, n));
  }
  result(g, both[0], both[1]);
}

// A sum over the first part of a dimension against one over another part or the whole; every k-th element against k
// neighbours.
void parts(struct gen *g, enum kind_id kind)
{
  int64_t p = 2 + draw(g, 7), q = 2 + draw(g, 7), n = p * q * (1 + draw(g, 3)), r = 1 + draw(g, 4);
  struct term *x = draw_input(g, shape2(r, n)), *a, *b;
  (void)kind;
  switch (draw(g, 5)) {
  case 0: a = sum(g, term_chunk(g, x, 1, p, draw(g, (int)p))), b = sum(g, x); break;
  case 1: a = sum(g, term_chunk(g, x, 1, p, 0)), b = sum(g, term_chunk(g, x, 1, q, 0)); break;
  case 2: a = sum(g, term_chunk(g, x, 1, p, 0)), b = sum(g, term_chunk(g, x, 1, p, p - 1)); break;
  case 3:
    a = term_groups(g, x, 1, p);
    b = term_reshape(g, term_along(g, OP_SUM, term_reshape(g, x, shape3(r, p, n / p)), 1), a->s);
    break;
  default: a = term_two(g, OP_DIV, sum(g, term_chunk(g, x, 1, p, 0)), number(g, n / p, 1)); b = term_along(g, OP_MEAN, x, 1);
  }
  if (draw(g, 2)) a = term_one(g, OP_EXP, a), b = term_one(g, OP_EXP, b);
  result(g, a, b);
}

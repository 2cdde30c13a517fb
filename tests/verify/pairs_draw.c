// Parts of the kinds: constants, shapes, inputs and contexts by the seed.
#include "pairs.h"

int draw(struct gen *g, int n) { return (int)rng_below(&g->r, (uint64_t)n); }
int64_t draw_of(struct gen *g, int n, const int64_t *x) { return x[draw(g, n)]; }
int64_t extent(struct gen *g, int64_t small, int64_t full) { return g->truth ? small : full; }

static int64_t draw_prime(struct gen *g)
{
  for (int64_t n = 2 + draw(g, 998);; n++) {
    bool prime = true;
    for (int64_t d = 2; d * d <= n; d++) prime &= n % d != 0;
    if (prime) return n;
  }
}

struct rat draw_constant(struct gen *g)
{
  struct rat c = {1, 1};
  switch (draw(g, 6)) {
  case 0: c = rat(draw_prime(g), 1); break;
  case 1: c = rat(1 + draw(g, 99), 100); break;
  case 2: c = rat(draw_prime(g), draw_prime(g)); break;
  case 3: c = rat((int64_t)1 << draw(g, 8), (int64_t)1 << draw(g, 8)); break;
  case 4: c = rat(1 + draw(g, 1999), 1000); break;
  default: c = rat(2 + draw(g, 62), 1); break;
  }
  return c.p == c.q ? rat(3, 2) : c;
}

// Mostly small. Few elements leave a random test few chances; in large tensors it may not look at all of them.
struct shape draw_shape(struct gen *g)
{
  static const int64_t rows[] = {1, 2, 3, 4, 6, 8}, columns[] = {2, 3, 4, 6, 7, 8, 12, 16, 24};
  switch (draw(g, 10)) {
  case 0: return shape2(1, 1);
  case 1: return shape2(1, draw_of(g, COUNT(columns), columns));
  case 2: return shape2(draw_of(g, COUNT(rows), rows), 1);
  case 3: {
    int64_t n = 2 + draw(g, 7);
    return shape2(n, n);
  }
  case 4: {
    int64_t n = (int64_t)16 << draw(g, 6);
    return shape2(extent(g, 2, n), draw_of(g, COUNT(columns), columns));
  }
  default: {
    int64_t r = draw_of(g, COUNT(rows), rows), c = draw_of(g, COUNT(columns), columns);
    return shape2(r, c);
  }
  }
}

struct term *draw_input(struct gen *g, struct shape s)
{
  struct term *x = term_input(g, s);
  return x;
}

// Positive with probability one third, so that roots and logarithms are defined.
struct term *draw_argument(struct gen *g, struct shape s)
{
  struct term *x = term_input(g, s);
  switch (draw(g, 8)) {
  case 0: return term_two(g, OP_ADD, x, term_number(g, draw_constant(g)));
  case 1: return term_two(g, OP_MUL, x, draw(g, 2) ? term_input(g, s) : x);
  case 2: return term_two(g, OP_MUL, x, term_along(g, OP_SUM, x, -1));
  case 3: return draw(g, 2) ? term_one(g, OP_EXP, x) : term_one(g, OP_SQUARE, x);
  default: return x;
  }
}

static struct term *around(struct gen *g, int what, struct rat c, struct term *extra, struct term *x)
{
  switch (what) {
  case 0: return term_two(g, OP_MUL, x, extra);
  case 1: return term_two(g, OP_ADD, extra, x);
  case 2: return term_along(g, OP_SUM, x, -1);
  case 3: return term_two(g, OP_MUL, x, term_number(g, c));
  case 4: return term_one(g, OP_NEG, x);
  case 5: return term_two(g, OP_DIV, x, extra);
  case 6: return term_along(g, OP_SUM, x, 0);
  case 7: return term_along(g, OP_MEAN, x, -1);
  case 8: return term_transpose(g, x, (struct shape){0});
  default: return x;
  }
}

void draw_context(struct gen *g, struct term **a, struct term **b)
{
  enum { WHAT = 9 };
  for (int steps = draw(g, 3); steps; steps--) {
    int what = draw(g, WHAT);
    struct rat c = draw_constant(g);
    struct term *extra = what == 0 || what == 1 || what == 5 ? term_input(g, (*a)->s) : NULL;
    *a = around(g, what, c, extra, *a), *b = around(g, what, c, extra, *b);
  }
}

void result(struct gen *g, struct term *a, struct term *b)
{
  CHECK(g->p->n < MOST_RESULTS);
  g->p->a[g->p->n] = a, g->p->b[g->p->n] = b, g->p->n++;
}

// As an output of its own, as a summand or a factor of the first one.
void draw_heavy(struct gen *g)
{
  static const int64_t sizes[] = {1024, 2048, 4096};
  int64_t n = draw_of(g, COUNT(sizes), sizes), m = extent(g, 3, n);
  int how = draw(g, 3);
  struct term *h = term_matmul(g, term_input(g, shape2(m, m)), term_input(g, shape2(m, m)));
  if (!how) {
    result(g, h, h);
    return;
  }
  struct term *one = term_along(g, OP_SUM, term_along(g, OP_SUM, h, 1), 0), **a = &g->p->a[0], **b = &g->p->b[0];
  enum op op = how == 1 ? OP_ADD : OP_MUL;
  *a = term_two(g, op, *a, one), *b = term_two(g, op, *b, one);
}

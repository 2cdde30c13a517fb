// Kinds that are made of laws: a row of pairs_law.def over drawn arguments, within a drawn context.
#include "pairs.h"

struct scope {
  struct gen *g;
  struct shape s;
  struct term *x[3], *positive[2];
};

// Made when first named, so that no input is idle.
static struct term *argument(struct scope *o, int i) { return o->x[i] ? o->x[i] : (o->x[i] = draw_argument(o->g, o->s)); }

static struct term *positive(struct scope *o, int i)
{
  if (o->positive[i]) return o->positive[i];
  struct gen *g = o->g;
  struct term *x = term_input(g, o->s);
  x = draw(g, 2) ? term_one(g, OP_EXP, x) : term_two(g, OP_ADD, term_one(g, OP_SQUARE, x), term_number(g, draw_constant(g)));
  return o->positive[i] = x;
}

// The columns in another shape: [r, n] as [r n / k, k] and back, along which nothing changes.
static struct term *refold(struct gen *g, struct term *x)
{
  struct shape flat = shape2(1, shape_size(&x->s));
  return term_reshape(g, term_reshape(g, x, flat), x->s);
}

// A sum in two steps.
static struct term *fold(struct gen *g, struct term *x)
{
  int64_t n = x->s.d[1], k = 1;
  for (int64_t d = 2; d < n; d++)
    if (n % d == 0 && draw(g, 2)) k = d;
  int first = 1 + draw(g, 2);
  struct term *parts = term_reshape(g, x, shape3(x->s.d[0], n / k, k));
  return term_reshape(g, term_along(g, OP_SUM, term_along(g, OP_SUM, parts, first), 3 - first), shape2(x->s.d[0], 1));
}

static struct rat sq(struct rat c) { return rat_mul(c, c); }
#define mul rat_mul
#define add rat_add
#define inv rat_inv
#define neg rat_neg
#define X argument(o, 0)
#define Y argument(o, 1)
#define Z argument(o, 2)
#define P positive(o, 0)
#define Q positive(o, 1)
#define C(c) term_number(o->g, c)
#define W(n) term_number(o->g, rat(n, 1))
#define ADD(x, y) term_two(o->g, OP_ADD, x, y)
#define SUB(x, y) term_two(o->g, OP_SUB, x, y)
#define MUL(x, y) term_two(o->g, OP_MUL, x, y)
#define DIV(x, y) term_two(o->g, OP_DIV, x, y)
#define POW(x, y) term_two(o->g, OP_POW, x, y)
#define MAX2(x, y) term_two(o->g, OP_MAXIMUM, x, y)
#define MIN2(x, y) term_two(o->g, OP_MINIMUM, x, y)
#define EXP(x) term_one(o->g, OP_EXP, x)
#define LOG(x) term_one(o->g, OP_LOG, x)
#define SQRT(x) term_one(o->g, OP_SQRT, x)
#define RSQRT(x) term_one(o->g, OP_RSQRT, x)
#define SQ(x) term_one(o->g, OP_SQUARE, x)
#define NEG(x) term_one(o->g, OP_NEG, x)
#define ABS(x) term_one(o->g, OP_ABS, x)
#define RELU(x) term_one(o->g, OP_RELU, x)
#define TANH(x) term_one(o->g, OP_TANH, x)
#define SIGMOID(x) term_one(o->g, OP_SIGMOID, x)
#define SILU(x) term_one(o->g, OP_SILU, x)
#define GELU(x) term_one(o->g, OP_GELU, x)
#define CLAMP(x, lo, hi) term_clamp(o->g, x, lo, hi)
#define SUM(x) term_along(o->g, OP_SUM, x, -1)
#define SUM0(x) term_along(o->g, OP_SUM, x, 0)
#define MEAN(x) term_along(o->g, OP_MEAN, x, -1)
#define MEAN0(x) term_along(o->g, OP_MEAN, x, 0)
#define LARGEST(x, dim) term_along(o->g, OP_MAX, x, dim)
#define MAX0(x) LARGEST(x, 0)
#define SOFT(x) term_along(o->g, OP_SOFTMAX, x, -1)
#define SOFT0(x) term_along(o->g, OP_SOFTMAX, x, 0)
#define EPS(x, eps) term_norm(o->g, OP_RMS_NORM, x, eps)
#define RMS(x) EPS(x, rat(0, 1))
#define LAYER(x, eps) term_norm(o->g, OP_LAYER_NORM, x, eps)
#define TRANSPOSE(x) term_transpose(o->g, x, (struct shape){0})
#define REFOLD(x) refold(o->g, x)
#define FOLD(x) fold(o->g, x)
#undef MAX
#define MAX(x) LARGEST(x, -1)

static const struct {
  enum kind_id kind;
  int line;
} rows[] = {
#define LAW(kind, a, b) {KIND_##kind, __LINE__},
#include "pairs_law.def"
#undef LAW
};

static void law(struct scope *o, int line, struct rat c, struct rat d, int64_t m, struct term **a, struct term **b)
{
  const int64_t r = o->s.d[0], n = o->s.d[1];
  (void)r, (void)n, (void)m, (void)d;
  switch (line) {
#define LAW(kind, x, y) \
  case __LINE__:        \
    *a = x, *b = y;     \
    break;
#include "pairs_law.def"
#undef LAW
  }
}

void laws(struct gen *g, enum kind_id kind)
{
  int all = 0;
  for (size_t i = 0; i < COUNT(rows); i++) all += rows[i].kind == kind;
  size_t at = 0;
  for (int skip = draw(g, all);; at++)
    if (rows[at].kind == kind && !skip--) break;
  struct scope o = {.g = g, .s = draw_shape(g)};
  struct rat c = draw_constant(g), d = draw_constant(g);
  int64_t n = o.s.d[1], counts[] = {n + 1, 2 * n, n * n, o.s.d[0] + n, 3, 96, n + 7};
  struct term *a, *b;
  law(&o, rows[at].line, c, d, draw_of(g, COUNT(counts), counts), &a, &b);
  if (draw(g, 2)) draw_context(g, &a, &b);
  result(g, a, b);
}

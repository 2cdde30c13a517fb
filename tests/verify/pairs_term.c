// Terms: nodes with a shape. The generator makes sensible ones; what is none is a mistake of its own and ends it.
#include "pairs.h"

// ---- exact numbers ----

static int64_t gcd(int64_t a, int64_t b)
{
  for (int64_t t; b; t = a % b, a = b, b = t) {
  }
  return a < 0 ? -a : a;
}

struct rat rat(int64_t p, int64_t q)
{
  int64_t d = gcd(p, q);
  CHECK(q);
  if (d) p /= d, q /= d;
  return q < 0 ? (struct rat){-p, -q} : (struct rat){p, q};
}

struct rat rat_mul(struct rat a, struct rat b)
{
  struct rat x = rat(a.p, b.q), y = rat(b.p, a.q);
  int64_t p, q;
  CHECK(!__builtin_mul_overflow(x.p, y.p, &p) && !__builtin_mul_overflow(x.q, y.q, &q));
  return (struct rat){p, q};
}

struct rat rat_add(struct rat a, struct rat b)
{
  int64_t x, y, p, q;
  CHECK(!__builtin_mul_overflow(a.p, b.q, &x) && !__builtin_mul_overflow(b.p, a.q, &y) && !__builtin_add_overflow(x, y, &p));
  CHECK(!__builtin_mul_overflow(a.q, b.q, &q));
  return rat(p, q);
}

struct rat rat_inv(struct rat a) { return rat(a.q, a.p); }
struct rat rat_neg(struct rat a) { return (struct rat){-a.p, a.q}; }

// ---- terms ----

struct shape shape2(int64_t rows, int64_t columns) { return (struct shape){2, {rows, columns}}; }
struct shape shape3(int64_t a, int64_t b, int64_t c) { return (struct shape){3, {a, b, c}}; }

static struct term *node(struct gen *g, enum op op, int nin, struct term *const *in, struct shape s)
{
  struct term *t = NEW(g->mem, struct term);
  *t = (struct term){.op = op, .nin = nin, .s = s};
  for (int i = 0; i < nin; i++) t->in[i] = in[i];
  return t;
}

struct term *term_copy(struct gen *g, const struct term *t) { return arena_copy(g->mem, t, sizeof *t); }

struct term *term_input(struct gen *g, struct shape s)
{
  struct term *t = node(g, OP_INPUT, 0, NULL, s);
  CHECK(g->p->ninputs < MOST_INPUTS);
  t->number = g->p->ninputs;
  return g->p->input[g->p->ninputs++] = t;
}

struct term *term_number(struct gen *g, struct rat c)
{
  struct term *t = node(g, OP_CONST, 0, NULL, (struct shape){0});
  int64_t p = c.p < 0 ? -c.p : c.p;
  t->c = c;
  g->extreme |= p / 1000 > c.q || (p && p < c.q / 1000);
  return t;
}

struct term *term_digits(struct gen *g, struct rat c, const char *digits)
{
  struct term *t = term_number(g, c);
  t->digits = digits;
  return t;
}

struct term *term_one(struct gen *g, enum op op, struct term *x) { return node(g, op, 1, &x, x->s); }

struct term *term_two(struct gen *g, enum op op, struct term *x, struct term *y)
{
  struct shape s;
  CHECK(shape_broadcast(&x->s, &y->s, &s));
  return node(g, op, 2, (struct term *[]){x, y}, s);
}

struct term *term_matmul(struct gen *g, struct term *x, struct term *y)
{
  struct shape s = x->s, bx = x->s, by = y->s;
  CHECK(bx.n >= 2 && by.n >= 2 && bx.d[bx.n - 1] == by.d[by.n - 2]);
  bx.n -= 2, by.n -= 2;
  CHECK(shape_broadcast(&bx, &by, &s));
  s.d[s.n++] = x->s.d[bx.n], s.d[s.n++] = y->s.d[by.n + 1];
  return node(g, OP_MATMUL, 2, (struct term *[]){x, y}, s);
}

static int dim_of(const struct term *x, int dim)
{
  dim += dim < 0 ? x->s.n : 0;
  CHECK(dim >= 0 && dim < x->s.n);
  return dim;
}

struct term *term_along(struct gen *g, enum op op, struct term *x, int dim)
{
  struct term *t = node(g, op, 1, &x, x->s);
  t->dim = dim_of(x, dim);
  if (op != OP_SOFTMAX) t->s.d[t->dim] = 1;
  return t;
}

struct term *term_groups(struct gen *g, struct term *x, int dim, int64_t group)
{
  struct term *t = term_along(g, OP_SUM, x, dim);
  CHECK(x->s.d[t->dim] % group == 0);
  t->group = group, t->s.d[t->dim] = x->s.d[t->dim] / group;
  return t;
}

struct term *term_norm(struct gen *g, enum op op, struct term *x, struct rat eps)
{
  struct term *t = node(g, op, 1, &x, x->s);
  t->eps = eps;
  return t;
}

struct term *term_clamp(struct gen *g, struct term *x, struct rat lo, struct rat hi)
{
  struct term *t = node(g, OP_CLAMP, 1, &x, x->s);
  t->lo = lo, t->hi = hi;
  return t;
}

struct term *term_reshape(struct gen *g, struct term *x, struct shape s)
{
  CHECK(shape_size(&s) == shape_size(&x->s));
  return node(g, OP_RESHAPE, 1, &x, s);
}

struct term *term_transpose(struct gen *g, struct term *x, struct shape perm)
{
  struct term *t = node(g, OP_TRANSPOSE, 1, &x, x->s);
  if (!perm.n)
    for (perm.n = 0; perm.n < x->s.n; perm.n++) perm.d[perm.n] = perm.n < x->s.n - 2 ? perm.n : 2 * x->s.n - 3 - perm.n;
  for (int i = 0; i < x->s.n; i++) t->s.d[i] = x->s.d[perm.d[i]];
  t->perm = perm;
  return t;
}

struct term *term_repeat(struct gen *g, struct term *x, int dim, int64_t times)
{
  struct term *t = node(g, OP_REPEAT, 1, &x, x->s);
  t->dim = dim_of(x, dim), t->times = times;
  t->s.d[t->dim] *= times;
  return t;
}

struct term *term_concat(struct gen *g, int n, struct term *const *x, int dim)
{
  CHECK(n <= MOST_ARGUMENTS);
  struct term *t = node(g, OP_CONCAT, n, x, x[0]->s);
  t->dim = dim_of(x[0], dim);
  for (int i = 1; i < n; i++) t->s.d[t->dim] += x[i]->s.d[t->dim];
  return t;
}

struct term *term_chunk(struct gen *g, struct term *x, int dim, int64_t parts, int64_t index)
{
  struct term *t = node(g, OP_CHUNK, 1, &x, x->s);
  t->dim = dim_of(x, dim), t->parts = parts, t->index = index;
  CHECK(x->s.d[t->dim] % parts == 0 && index >= 0 && index < parts);
  t->s.d[t->dim] /= parts;
  t->as_split = parts <= 8 && draw(g, 3) == 0;
  return t;
}

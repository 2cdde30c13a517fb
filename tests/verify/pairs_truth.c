// The truth: both terms are computed in 113-bit floating point on random inputs, by loops over indices as
// docs/language.md words the operators. A value that is not defined (a zero denominator, a root or logarithm of less
// than zero) is NaN, and so is what uses it. Each value carries a bound of its error. Two results are compared where
// both are defined and precise.
#include "pairs.h"

enum { DRAWS = 4 };
static const long double DIFFERENT_FROM = 1e-20L, EQUAL_TO = 1e-22L; // of the larger value

// ---- values with bounds of their errors, to the first order ----

struct val {
  wide v;
  long double e; // at least the distance of v from the true value
};
static const long double EPS = 0x1p-105L; // of one operation, with something to spare for the functions of pairs_wide.c

static struct val no(void) { return (struct val){wide_nan(), 0}; }
static bool is(struct val x) { return wide_ok(x.v) && x.e - x.e == 0; }
static long double size(struct val x) { return (long double)wide_abs(x.v); }
static struct val val(wide v, long double e)
{
  struct val r = {v, e};
  r.e += EPS * size(r);
  return is(r) ? r : no();
}
static struct val exact(wide v) { return (struct val){v, 0}; }
static struct val of_rat(struct rat c) { return val((wide)c.p / (wide)c.q, 0); }
static struct val plus(struct val x, struct val y) { return val(x.v + y.v, x.e + y.e); }
static struct val minus(struct val x) { return (struct val){-x.v, x.e}; }
static struct val times(struct val x, struct val y) { return val(x.v * y.v, size(x) * y.e + size(y) * x.e + x.e * y.e); }
static struct val larger(struct val x, struct val y) { return !is(x) || !is(y) ? no() : (struct val){x.v > y.v ? x.v : y.v, x.e > y.e ? x.e : y.e}; }

// x is not zero, by a wide margin: else what depends on it is not defined here.
static bool clear(struct val x) { return is(x) && size(x) > 1e6L * x.e && x.v != 0; }
static bool zero(struct val x) { return x.v == 0 && x.e == 0; }

static struct val over(struct val x, struct val y)
{
  if (!clear(y)) return no();
  wide r = x.v / y.v;
  return val(r, (x.e + (long double)wide_abs(r) * y.e) / size(y) * 1.01L);
}
static struct val root(struct val x)
{
  if (zero(x)) return x;
  if (!clear(x) || x.v < 0) return no();
  wide r = wide_sqrt(x.v);
  return val(r, x.e / (long double)r);
}
static struct val power_of_e(struct val x)
{
  wide r = wide_exp(x.v);
  return x.e < 1e-3L ? val(r, (long double)r * x.e * 1.01L) : no();
}
static struct val logarithm(struct val x) { return clear(x) && x.v > 0 ? val(wide_log(x.v), x.e / size(x) * 1.01L + EPS) : no(); }
static struct val power(struct val x, struct val y)
{
  bool whole = !y.e && y.v == (int)y.v;
  if (zero(x) && zero(y)) return no();
  if (zero(x) && y.v > 0) return x;
  if (!clear(x) || (x.v < 0 && !whole)) return no();
  wide r = wide_pow(x.v, y.v), log = wide_log(wide_abs(x.v));
  return val(r, (long double)wide_abs(r) * (size(y) * x.e / size(x) * 1.1L + (long double)wide_abs(log) * (y.e + EPS * size(y))));
}
static struct val smooth(wide r, struct val x) { return val(r, 2 * x.e); } // of a slope below 2
static struct val sigmoid(struct val x) { return over(exact(1), plus(exact(1), power_of_e(minus(x)))); }

static struct val hyperbolic(struct val x)
{
  wide e = wide_exp(-2 * wide_abs(x.v)), r = (1 - e) / (1 + e);
  return val(x.v < 0 ? -r : r, 2 * x.e + EPS);
}

static struct val one(const struct term *t, struct val x)
{
  switch ((int)t->op) {
  case OP_EXP: return power_of_e(x);
  case OP_LOG: return logarithm(x);
  case OP_SQRT: return root(x);
  case OP_RSQRT: return over(exact(1), root(x));
  case OP_SQUARE: return times(x, x);
  case OP_NEG: return minus(x);
  case OP_ABS: return larger(x, minus(x));
  case OP_SILU: return times(x, sigmoid(x));
  case OP_SIGMOID: return sigmoid(x);
  case OP_GELU: return smooth(x.v * (1 + wide_erf(x.v / wide_sqrt(2))) / 2, (struct val){x.v, x.e + EPS * (1 + size(x))});
  case OP_RELU: return larger(x, exact(0));
  case OP_TANH: return hyperbolic(x);
  case OP_CLAMP: return minus(larger(minus(larger(x, of_rat(t->lo))), minus(of_rat(t->hi))));
  default: CHECK(!"an operator of one argument"); return x;
  }
}

static struct val two(enum op op, struct val x, struct val y)
{
  if (!is(x) || !is(y)) return no();
  switch ((int)op) {
  case OP_ADD: return plus(x, y);
  case OP_SUB: return plus(x, minus(y));
  case OP_MUL: return times(x, y);
  case OP_DIV: return over(x, y);
  case OP_POW: return power(x, y);
  case OP_MAXIMUM: return larger(x, y);
  case OP_MINIMUM: return minus(larger(minus(x), minus(y)));
  default: CHECK(!"an operator of two arguments"); return x;
  }
}

// ---- indices ----

static void index_of(const struct shape *s, int64_t k, int64_t *at)
{
  for (int i = s->n - 1; i >= 0; k /= s->d[i--]) at[i] = k % s->d[i];
}

// Row-major, right-aligned under n indices; an extent of 1 stays at 0.
static int64_t place(const struct shape *s, int n, const int64_t *at)
{
  int64_t k = 0;
  for (int i = 0; i < s->n; i++) k = k * s->d[i] + (s->d[i] == 1 ? 0 : at[n - s->n + i]);
  return k;
}

static struct val at_place(const struct term *x, int n, const int64_t *at)
{
  int64_t k = place(&x->s, n, at);
  return (struct val){x->v[k], x->e[k]};
}

static struct val dot(const struct term *t, int64_t *at)
{
  const struct term *x = t->in[0], *y = t->in[1];
  int n = t->s.n;
  int64_t row = at[n - 2], column = at[n - 1];
  struct val sum = exact(0);
  for (int64_t k = 0; k < x->s.d[x->s.n - 1]; k++) {
    at[n - 2] = row, at[n - 1] = k;
    struct val u = at_place(x, n, at);
    at[n - 2] = k, at[n - 1] = column;
    sum = plus(sum, times(u, at_place(y, n, at)));
  }
  return sum;
}

static struct val folded(const struct term *t, int64_t *at)
{
  const struct term *x = t->in[0];
  int64_t n = t->group ? t->group : x->s.d[t->dim], from = at[t->dim] * n;
  struct val r = exact(0);
  for (int64_t k = 0; k < n; k++) {
    at[t->dim] = from + k;
    struct val u = at_place(x, t->s.n, at);
    r = !k ? u : t->op == OP_MAX ? larger(r, u) : plus(r, u);
  }
  return t->op == OP_MEAN ? over(r, exact(n)) : r;
}

// Softmax and norms: all places along one dimension at once, n of them from x on, `step` apart.
struct line {
  const struct term *x;
  int64_t from, step, n;
};

static struct val along(const struct line *l, int64_t i)
{
  int64_t k = l->from + i * l->step;
  return (struct val){l->x->v[k], l->x->e[k]};
}

static struct val shifted_power(const struct line *l, int64_t i, struct val shift) { return power_of_e(plus(along(l, i), minus(shift))); }

static void shares(struct term *t, const struct line *l)
{
  struct val most = along(l, 0), sum = exact(0);
  for (int64_t i = 1; i < l->n; i++) most = larger(most, along(l, i));
  for (int64_t i = 0; i < l->n; i++) sum = plus(sum, shifted_power(l, i, most));
  for (int64_t i = 0; i < l->n; i++) {
    struct val r = over(shifted_power(l, i, most), sum);
    t->v[l->from + i * l->step] = r.v, t->e[l->from + i * l->step] = r.e;
  }
}

static void normal(struct term *t, const struct line *l)
{
  struct val mean = exact(0), square = exact(0), count = exact(l->n);
  for (int64_t i = 0; i < l->n && t->op == OP_LAYER_NORM; i++) mean = plus(mean, along(l, i));
  mean = minus(over(mean, count));
  for (int64_t i = 0; i < l->n; i++) {
    struct val u = plus(along(l, i), mean);
    square = plus(square, times(u, u));
  }
  struct val by = root(plus(over(square, count), of_rat(t->eps)));
  for (int64_t i = 0; i < l->n; i++) {
    struct val r = over(plus(along(l, i), mean), by);
    t->v[l->from + i * l->step] = r.v, t->e[l->from + i * l->step] = r.e;
  }
}

static void lines(struct term *t)
{
  int dim = t->op == OP_SOFTMAX ? t->dim : t->s.n - 1;
  struct line l = {.x = t->in[0], .step = 1, .n = t->s.d[dim]};
  for (int i = dim + 1; i < t->s.n; i++) l.step *= t->s.d[i];
  for (int64_t k = 0; k < shape_size(&t->s); k++)
    if (k / l.step % l.n == 0) l.from = k, t->op == OP_SOFTMAX ? shares(t, &l) : normal(t, &l);
}

static struct val joined(const struct term *t, int64_t *at)
{
  int i = 0;
  for (; at[t->dim] >= t->in[i]->s.d[t->dim]; i++) at[t->dim] -= t->in[i]->s.d[t->dim];
  return at_place(t->in[i], t->s.n, at);
}

static struct val element(const struct term *t, int64_t k, int64_t *at)
{
  const struct term *x = t->in[0];
  int64_t from[MAX_DIMS];
  if (t->op == OP_MATMUL) return dot(t, at);
  if (op_rows[t->op].rule == RULE_REDUCE) return folded(t, at);
  if (t->op == OP_RESHAPE) return (struct val){x->v[k], x->e[k]};
  if (t->op == OP_CONCAT) return joined(t, at);
  if (t->op == OP_REPEAT) at[t->dim] /= t->times;
  if (t->op == OP_CHUNK) at[t->dim] += t->index * t->s.d[t->dim];
  for (int i = 0; i < t->s.n && t->op == OP_TRANSPOSE; i++) from[t->perm.d[i]] = at[i];
  struct val u = at_place(x, t->s.n, t->op == OP_TRANSPOSE ? from : at);
  if (op_rows[t->op].rule != RULE_MAP) return u;
  return t->nin == 2 ? two(t->op, u, at_place(t->in[1], t->s.n, at)) : is(u) ? one(t, u) : u;
}

static void compute(struct arena *mem, struct term *t)
{
  if (t->v) return;
  for (int i = 0; i < t->nin; i++) compute(mem, t->in[i]);
  int64_t n = shape_size(&t->s), at[MAX_DIMS];
  t->v = NEWS(mem, wide, n), t->e = NEWS(mem, long double, n);
  if (op_rows[t->op].rule == RULE_COMPOSITE) lines(t);
  for (int64_t k = 0; k < n && op_rows[t->op].rule != RULE_COMPOSITE; k++) {
    index_of(&t->s, k, at);
    struct val x = t->op == OP_CONST ? of_rat(t->c) : element(t, k, at);
    t->v[k] = x.v, t->e[k] = x.e;
  }
}

static void forget(struct term *t)
{
  if (!t->v) return;
  t->v = NULL;
  for (int i = 0; i < t->nin; i++) forget(t->in[i]);
}

// ---- random inputs ----

static wide unit(struct rng *r) // (0, 1), 106 random bits
{
  return ((wide)(rng_next(r) >> 11) + ((wide)(rng_next(r) >> 11) + 0.5) * 0x1p-53) * 0x1p-53;
}

// By the number of the draw: of both signs, positive, as the input wants, of both signs and larger.
static void fill(struct arena *mem, struct term *t, int turn, struct rng *r)
{
  t->v = NEWS(mem, wide, shape_size(&t->s)), t->e = NEWS(mem, long double, shape_size(&t->s));
  for (int64_t k = 0; k < shape_size(&t->s); k++) {
    wide u = unit(r), s = 2 * u - 1;
    if (turn == 1)
      t->v[k] = 0.05 + 2 * u;
    else if (turn == 2 && t->habit == NEAR_ONE)
      t->v[k] = 1 + s * 0x1p-62;
    else
      t->v[k] = s * (turn == 3 ? 12 : 2);
  }
}

// ---- the comparison ----

struct tally {
  int64_t compared, different;
};

static void compare(const struct term *a, const struct term *b, struct tally *t)
{
  int64_t n = shape_size(&a->s);
  if (!shape_eq(&a->s, &b->s)) return; // a change has changed the shape
  for (int64_t k = 0; k < n; k++) {
    struct val u = {a->v[k], a->e[k]}, v = {b->v[k], b->e[k]};
    if (!is(u) || !is(v)) continue;
    long double d = size(plus(u, minus(v))), e = u.e + v.e, most = MAX(size(u), size(v));
    if (d > 1000 * e && d > DIFFERENT_FROM * most) t->different++, t->compared++;
    if (d <= e && e <= EQUAL_TO * most) t->compared++;
    if (!most && !e) t->compared++;
  }
}

enum truth pair_truth(struct arena *mem, struct pair *p, uint64_t seed)
{
  struct tally t = {0};
  for (int turn = 0; turn < DRAWS; turn++) {
    struct arena_mark mark = arena_mark(mem);
    for (int i = 0; i < p->ninputs; i++) {
      struct rng r = {hash_mix(seed, (uint64_t)(turn * MOST_INPUTS + i))};
      fill(mem, p->input[i], turn, &r);
    }
    for (int i = 0; i < p->n; i++) compute(mem, p->a[i]), compute(mem, p->b[i]), compare(p->a[i], p->b[i], &t);
    for (int i = 0; i < p->n; i++) forget(p->a[i]), forget(p->b[i]);
    for (int i = 0; i < p->ninputs; i++) p->input[i]->v = NULL;
    arena_reset(mem, mark);
  }
  return t.different ? TRUTH_DIFFERENT : t.compared ? TRUTH_EQUAL : TRUTH_UNCLEAR;
}

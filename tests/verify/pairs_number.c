// Kinds of pairs that differ in constants only: constants that are nearly equal, equal as doubles, or equal modulo a prime that tests over
// fields may use.
#include "pairs.h"

static struct term *number(struct gen *g, int64_t p, int64_t q) { return term_number(g, rat(p, q)); }
static struct term *mul(struct gen *g, struct term *x, struct term *y) { return term_two(g, OP_MUL, x, y); }
static struct term *add(struct gen *g, struct term *x, struct term *y) { return term_two(g, OP_ADD, x, y); }

// c against c (1 + 2^-40) or c + 1e-12, outside and inside of functions; X + 1e-9 Y against X.
void near(struct gen *g, enum kind_id k)
{
  static const int64_t tiny[] = {(int64_t)1 << 30, (int64_t)1 << 40, 1000000000, 1000000000000, 1000000007};
  struct shape s = draw_shape(g);
  struct term *x = draw_argument(g, s), *y = draw_argument(g, s), *a, *b;
  struct rat c = rat(1 + draw(g, 99), 1 + draw(g, 9)), t = rat(1, draw_of(g, COUNT(tiny), tiny));
  struct term *c1 = term_number(g, c), *c2 = term_number(g, draw(g, 2) ? rat_add(c, t) : rat_mul(c, rat_add(rat(1, 1), t)));
  (void)k;
  switch (draw(g, 10)) {
  case 0: a = mul(g, x, c1), b = mul(g, x, c2); break;
  case 1: a = add(g, x, c1), b = add(g, x, c2); break;
  case 2: a = x, b = add(g, x, mul(g, y, term_number(g, t))); break;
  case 3: a = mul(g, x, add(g, y, c1)), b = mul(g, x, add(g, y, c2)); break;
  case 4: a = term_one(g, OP_EXP, mul(g, x, c1)), b = term_one(g, OP_EXP, mul(g, x, c2)); break;
  case 5: a = term_one(g, OP_RELU, add(g, x, c1)), b = term_one(g, OP_RELU, add(g, x, c2)); break;
  case 6: a = term_one(g, OP_SQRT, mul(g, x, c1)), b = term_one(g, OP_SQRT, mul(g, x, c2)); break;
  case 7: a = term_two(g, OP_MAXIMUM, x, c1), b = term_two(g, OP_MAXIMUM, x, c2); break;
  case 8: a = term_two(g, OP_DIV, x, add(g, y, c1)), b = term_two(g, OP_DIV, x, add(g, y, c2)); break;
  default: a = term_two(g, OP_POW, term_one(g, OP_EXP, x), c1), b = term_two(g, OP_POW, term_one(g, OP_EXP, x), c2);
  }
  result(g, a, b);
}

// Texts whose nearest double is the same.
void digits(struct gen *g, enum kind_id k)
{
  const int64_t e18 = 1000000000000000000, big = (int64_t)1 << 53;
  int64_t odd = 1 + draw(g, 9), base = e18 / 10 * (1 + draw(g, 9));
  struct shape s = draw_shape(g);
  struct term *x = draw_argument(g, s), *c1, *c2;
  (void)k;
  switch (draw(g, 4)) {
  case 0: c1 = number(g, 1, 1), c2 = term_digits(g, rat(e18 + odd, e18), arena_printf(g->mem, "1.%018lld", (long long)odd)); break;
  case 1: c1 = number(g, base, e18), c2 = term_digits(g, rat(base + odd, e18), arena_printf(g->mem, "0.%018lld", (long long)(base + odd))); break;
  case 2: c1 = number(g, big, 1), c2 = number(g, big + 1, 1); break;
  default: c1 = number(g, 1, 3), c2 = term_digits(g, rat(333333333333333333, e18), "0.333333333333333333");
  }
  if (draw(g, 2))
    result(g, mul(g, x, c1), mul(g, x, c2));
  else
    result(g, add(g, x, c1), add(g, x, c2));
}

// Primes of the sizes that src/eval/primes.c draws, and 2^31 - 1, 2^61 - 1.
static const int64_t PRIMES[] = {2147483579,       1073741789,          4294967087,          2147483543, 4503599627370023,
                                 2251799813685011, 4611686018427376319, 2305843009213688159, 2147483647, 2305843009213693951};

// p X with constants that a double holds: p = h 2^32 + l.
static struct term *times_prime(struct gen *g, struct term *x, int64_t p)
{
  int64_t h = p >> 32, l = p & 0xffffffff;
  struct term *low = mul(g, x, number(g, l, 1));
  return h ? add(g, mul(g, mul(g, x, number(g, h, 1)), number(g, (int64_t)1 << 32, 1)), low) : low;
}

// X + p q Y, or with as many primes as there are.
void primes(struct gen *g, enum kind_id k)
{
  struct shape s = draw_shape(g);
  struct term *x = draw_argument(g, s), *y = draw(g, 2) ? x : draw_argument(g, s), *multiple = y, *a, *b;
  int from = draw(g, COUNT(PRIMES)), count = draw(g, 3) ? 1 + draw(g, 2) : (int)COUNT(PRIMES), sign = draw(g, 2);
  (void)k;
  for (int i = 0; i < count; i++) multiple = times_prime(g, multiple, PRIMES[(from + i) % COUNT(PRIMES)]);
  a = x, b = term_two(g, sign ? OP_ADD : OP_SUB, x, multiple);
  switch (draw(g, 6)) {
  case 0: a = term_one(g, OP_EXP, a), b = term_one(g, OP_EXP, b); break;
  case 1: a = mul(g, y, term_one(g, OP_EXP, a)), b = mul(g, y, term_one(g, OP_EXP, b)); break;
  case 2: a = term_one(g, OP_RELU, a), b = term_one(g, OP_RELU, b); break;
  case 3:
    a = mul(g, a, number(g, 1, PRIMES[from] - 1)), b = mul(g, mul(g, a, number(g, -1, 1)), number(g, 1, 1)), b = mul(g, x, number(g, -1, 1));
    break;
  default: break;
  }
  result(g, a, b);
}

static struct term *raised(struct gen *g, struct term *x, int64_t n)
{
  struct term *r = NULL, *square = x;
  for (; n; n >>= 1) {
    if (n & 1) r = r ? mul(g, r, square) : square;
    if (n > 1) square = term_one(g, OP_SQUARE, square);
  }
  return r;
}

// x^(p-1) is 1 modulo p, x^((p-1)/2) a sign, x^((p-1)(q-1)) is 1 modulo both.
void powers(struct gen *g, enum kind_id k)
{
  struct shape s = draw_shape(g);
  struct term *x = term_input(g, s), *y = draw_argument(g, s), *one, *a, *b;
  int at = 2 * draw(g, COUNT(PRIMES) / 2), how = draw(g, 6);
  int64_t p = PRIMES[at], q = PRIMES[at + 1];
  (void)k;
  x->habit = NEAR_ONE;
  if (how == 0)
    one = raised(g, x, p - 1);
  else if (how == 1)
    one = term_one(g, OP_SQUARE, raised(g, x, (p - 1) / 2));
  else
    one = raised(g, raised(g, x, p - 1), q - 1);
  switch (draw(g, 6)) {
  case 0: a = mul(g, one, x), b = x; break;
  case 1: a = term_two(g, OP_DIV, one, x), b = term_two(g, OP_DIV, number(g, 1, 1), x); break;
  case 2: a = mul(g, y, term_one(g, OP_SQRT, one)), b = mul(g, y, number(g, 1, 1)); break;
  case 3: a = term_one(g, OP_EXP, mul(g, y, one)), b = term_one(g, OP_EXP, y); break;
  case 4: a = mul(g, x, add(g, one, number(g, -1, 1))), b = mul(g, x, number(g, 0, 1)); break;
  default: a = mul(g, y, one), b = y;
  }
  result(g, a, b);
}

// Integer expressions. A simplified expression has the value of the original, which lies in its range and is a multiple of its divisor. Its text is
// read back unchanged. A table has expected texts.
#include "tile/ex.h"

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct {
  const char *name;
  int64_t lo, hi, multiple;
} vars[] = {
    {"M", 1, INT64_MAX, 1}, {"N", 128, INT64_MAX, 128}, {"K", 32, 4096, 32}, {"i", 0, 7, 1},   {"j", 0, 15, 1},        {"t", 0, 31, 1},
    {"b", 0, 1023, 1},      {"z", -20, 20, 1},          {"one", 0, 0, 1},    {"w", 0, 96, 32}, {"E", 2, INT64_MAX, 2}, {"s", 20, 23, 1},
};
enum { VARS = COUNT(vars), TRIES = 6 };

struct world {
  struct arena mem;
  struct ex_pool *p;
  ex var[VARS];
};

static void world_open(struct world *w)
{
  *w = (struct world){0};
  w->p = ex_open(&w->mem);
  for (int v = 0; v < VARS; v++) w->var[v] = ex_var(w->p, vars[v].name, vars[v].lo, vars[v].hi, vars[v].multiple);
}

// ---- reading text, by the precedence of C ----

struct reader {
  struct world *w;
  const char *at;
};

static ex read_level(struct reader *r, int level);

static bool take(struct reader *r, const char *what)
{
  while (*r->at == ' ') r->at++;
  size_t n = strlen(what);
  if (strncmp(r->at, what, n)) return false;
  r->at += n;
  return true;
}

static ex read_atom(struct reader *r)
{
  if (take(r, "(")) {
    ex x = read_level(r, 0);
    assert_true(take(r, ")"));
    return x;
  }
  if (take(r, "-")) return ex_sub(r->w->p, EX_C(0), read_atom(r));
  bool min = take(r, "min("), max = !min && take(r, "max(");
  if (min || max) {
    ex a = read_level(r, 0);
    assert_true(take(r, ","));
    ex b = read_level(r, 0);
    assert_true(take(r, ")"));
    return min ? ex_min(r->w->p, a, b) : ex_max(r->w->p, a, b);
  }
  if (isdigit((unsigned char)*r->at)) {
    char *end;
    int64_t c = strtoll(r->at, &end, 10);
    return r->at = end, EX_C(c);
  }
  for (int v = 0; v < VARS; v++) {
    size_t n = strlen(vars[v].name);
    if (!strncmp(r->at, vars[v].name, n) && !isalnum((unsigned char)r->at[n])) return r->at += n, r->w->var[v];
  }
  fail_msg("cannot read '%s'", r->at);
  return 0;
}

static ex differ(struct ex_pool *p, ex a, ex b) { return ex_not(p, ex_eq(p, a, b)); }
static ex more(struct ex_pool *p, ex a, ex b) { return ex_lt(p, b, a); }
static ex at_least(struct ex_pool *p, ex a, ex b) { return ex_le(p, b, a); }

static const struct {
  const char *op;
  int level;
  ex (*make)(struct ex_pool *p, ex a, ex b);
} ops[] = {
    {"||", 1, ex_either}, {"&&", 2, ex_both}, {"^", 3, ex_xor},     {"& ", 4, ex_bits}, {"==", 5, ex_eq}, {"!=", 5, differ},
    {">> ", 7, ex_shr},   {"<= ", 6, ex_le},  {">= ", 6, at_least}, {"< ", 6, ex_lt},   {"> ", 6, more},  {"+", 8, ex_add},
    {"-", 8, ex_sub},     {"*", 9, ex_mul},   {"/", 9, ex_div},     {"%", 9, ex_mod},
};

static ex read_level(struct reader *r, int level)
{
  if (level > 9) return read_atom(r);
  ex x = read_level(r, level + 1);
  if (level == 0 && take(r, "?")) {
    ex a = read_level(r, 0);
    assert_true(take(r, ":"));
    return ex_select(r->w->p, x, a, read_level(r, 0));
  }
  for (bool more_of_it = level > 0; more_of_it;) {
    more_of_it = false;
    for (size_t i = 0; i < COUNT(ops); i++) {
      if (ops[i].level != level || !take(r, ops[i].op)) continue;
      x = ops[i].make(r->w->p, x, read_level(r, level + 1));
      more_of_it = true;
      break;
    }
  }
  return x;
}

static ex read_text(struct world *w, const char *text)
{
  struct reader r = {w, text};
  ex x = read_level(&r, 0);
  if (*r.at) fail_msg("what is '%s' in '%s'?", r.at, text);
  return x;
}

// ---- exact texts ----

static const struct {
  const char *written, *simplified;
} texts[] = {
    {"i + j + i", "i * 2 + j"},
    {"(i + j) * (i - j)", "i * i - j * j"},
    {"3 - i", "3 - i"},
    {"0 - i", "-i"},
    {"0 - b / 8", "0 - b / 8"},
    {"0 - i * 3 - 2", "-i * 3 - 2"},
    {"M * 128 + i * M", "M * 128 + M * i"},
    {"one * M + one + 4", "4"},
    {"(8 * b + i) / 8", "b"},
    {"(8 * b + i) % 8", "i"},
    {"(8 * b + j) / 8", "b + j / 8"},
    {"(8 * b + j) % 8", "j % 8"},
    {"b / 8 * 8 + b % 8", "b"},
    {"b / 8 * 8 * M + b % 8 * M", "M * b"},
    {"b / 8 * 16 + b % 8", "b / 8 * 16 + b % 8"},
    {"(b / 4 % 2) * 4 + b % 4 + b / 8 * 8", "b"},
    {"b / 4 / 3", "b / 12"},
    {"b / M / N", "b / (M * N)"},
    {"(M * N * i + N * j) / (M * N)", "i + j / M"},
    {"b % 64 % 16", "b % 16"},
    {"b % 16 % 64", "b % 16"},
    {"b % 64 / 16", "b / 16 % 4"},
    {"b % (M * 4) % M", "b % M"},
    {"b % (M * 4) / M", "b / M % 4"},
    {"(b * 8 + i) % 32", "i + b % 4 * 8"},
    {"(b * 8 + i) % (M * 8)", "i + b % M * 8"},
    {"(b * M + b % M) / M", "b"},
    {"(b * M + b % M) % M", "b % M"},
    {"(t * 64 + j * 4 + 3) / 8", "t * 8 + j / 2"},
    {"(t * 64 + j * 4 + 3) % 8", "j % 2 * 4 + 3"},
    {"(b * 16 + s) / 64", "(b + 1) / 4"},
    {"(b * 16 + s) % 64", "s + (b + 1) % 4 * 16 - 16"},
    {"(i - j + 16) / 32", "0"},
    {"(i - 8) / 8", "-1"},
    {"(i - 8) % 8", "i"},
    {"N / 128 * 128", "N"},
    {"N % 64", "0"},
    {"(N + 127) / 128", "N / 128"},
    {"(N + i) / 128 * 128 + i", "N + i"},
    {"(N * M + i) % 128", "i"},
    {"N * M / 128 * 128", "M * N"},
    {"(M + 127) / 128", "(M + 127) / 128"},
    {"(M - 1) / M", "0"},
    {"(M * 3 + M - 1) / M", "3"},
    {"(M * 3 - 1) % M", "M - 1"},
    {"((M + 1) * b + M) / (M + 1)", "b"},
    {"M * (b / M) + b % M", "b"},
    {"b - b % 8", "b - b % 8"},
    {"min(i, 7)", "i"},
    {"min(i, 6)", "min(i, 6)"},
    {"min(i + M, M)", "M"},
    {"max(i + M, M)", "M + i"},
    {"min(t, min(t, 40))", "t"},
    {"i < 8", "1"},
    {"i < 0", "0"},
    {"b * 128 + t < M", "t + b * 128 < M"},
    {"b % M < M", "1"},
    {"b % M * 4 + 3 < M * 4", "1"},
    {"b / M * M < b + 1", "b / M * M < b + 1"},
    {"8 * b + 4 < 100", "b < 12"},
    {"b <= 12", "b < 13"},
    {"b >= 12", "11 < b"},
    {"2 * b == 2 * t", "t == b"},
    {"N == 64", "0"},
    {"2 * b == 2 * t + 1", "0"},
    {"b != t", "t != b"},
    {"(b < 5) && 1", "b < 5"},
    {"(b < 5) && (t < 5) || (i < 5)", "b < 5 && t < 5 || i < 5"},
    {"i == 3 ? b : b", "b"},
    {"i == 3 ? b : t", "i == 3 ? b : t"},
    {"b & 7", "b % 8"},
    {"b & 56", "b / 8 % 8 * 8"},
    {"b & 5", "5 & b"},
    {"b >> 3", "b / 8"},
    {"(b & 56) >> 3", "b / 8 % 8"},
    {"b ^ (b & 56) >> 3", "b ^ b / 8 % 8"},
    {"b ^ b", "0"},
    {"b * (i % 3)", "i % 3 * b"},
    {"(b / 3) * (i / 3)", "b / 3 * (i / 3)"},
    {"(b / 3) % 5", "b / 3 % 5"},
    {"b / (i + 1)", "b / (i + 1)"},
    {"(b - z) % 8", "(b - z) % 8"},
    {"9 * i / 8", "i"},
    {"9 * t / 8", "t + t / 8"},
};

static void texts_are_exact(void **state)
{
  (void)state;
  int bad = 0;
  for (size_t c = 0; c < COUNT(texts); c++) {
    struct world w;
    world_open(&w);
    struct str out = {0};
    ex x = read_text(&w, texts[c].written);
    ex_text(w.p, x, &out);
    if (strcmp(str_text(&out), texts[c].simplified)) print_error("%s is %s, not %s\n", texts[c].written, str_text(&out), texts[c].simplified);
    bad += strcmp(str_text(&out), texts[c].simplified) != 0;
    assert_true(read_text(&w, str_text(&out)) == x);
    assert_false(ex_overflowed(w.p));
    str_free(&out);
    arena_close(&w.mem);
  }
  assert_int_equal(bad, 0);
}

// ---- random expressions, beside their values at a few points ----

struct term { // what was written: its value at each point, or off: an intermediate value was too large to compare
  ex x;
  int64_t at[TRIES];
  bool off[TRIES];
};

static int64_t point[TRIES][VARS];

static void draw_points(struct rng *r)
{
  for (int t = 0; t < TRIES; t++)
    for (int v = 0; v < VARS; v++) {
      int64_t hi = vars[v].hi == INT64_MAX ? vars[v].lo + vars[v].multiple * (int64_t)rng_below(r, t < 3 ? 6 : 500) : vars[v].hi;
      uint64_t steps = (uint64_t)((hi - vars[v].lo) / vars[v].multiple + 1);
      uint64_t step = t == 0 ? 0 : t == 1 ? steps - 1 : rng_below(r, steps);
      point[t][v] = vars[v].lo + vars[v].multiple * (int64_t)step;
    }
}

static int64_t down(int64_t a, int64_t b) { return a / b - (a % b < 0); }

enum { ADD, SUBTRACT, MUL, DIVIDE, REST, CEIL, LEAST, MOST, XOR, BITS, SHIFT, LESS, AT_MOST, EQUAL, BOTH, EITHER, NOT, SELECT, OPS };

static int64_t naive(int op, int64_t a, int64_t b, int64_t c)
{
  switch (op) {
  case ADD: return a + b;
  case SUBTRACT: return a - b;
  case MUL: return a * b;
  case DIVIDE: return down(a, b);
  case REST: return a - down(a, b) * b;
  case CEIL: return -down(-a, b);
  case LEAST: return MIN(a, b);
  case MOST: return MAX(a, b);
  case XOR: return a ^ b;
  case BITS: return a & b;
  case SHIFT: return a >> b;
  case LESS: return a < b;
  case AT_MOST: return a <= b;
  case EQUAL: return a == b;
  case BOTH: return a && b;
  case EITHER: return a || b;
  case NOT: return !a;
  default: return a ? b : c;
  }
}

static ex simplified(struct ex_pool *p, int op, ex a, ex b, ex c)
{
  static ex (*const two[])(struct ex_pool *, ex, ex) = {ex_add, ex_sub,  ex_mul, ex_div, ex_mod, ex_ceil_div, ex_min,  ex_max,
                                                        ex_xor, ex_bits, ex_shr, ex_lt,  ex_le,  ex_eq,       ex_both, ex_either};
  return op == NOT ? ex_not(p, a) : op == SELECT ? ex_select(p, a, b, c) : two[op](p, a, b);
}

static struct term leaf(struct world *w, struct rng *r)
{
  struct term t = {0};
  if (rng_below(r, 3)) {
    int v = (int)rng_below(r, VARS);
    t.x = w->var[v];
    for (int i = 0; i < TRIES; i++) t.at[i] = point[i][v];
  } else {
    static const int64_t some[] = {0, 1, 2, 3, 4, 7, 8, 16, 31, 32, 64, 128, -1, -8};
    int64_t c = some[rng_below(r, COUNT(some))];
    t.x = EX_C(c);
    for (int i = 0; i < TRIES; i++) t.at[i] = c;
  }
  return t;
}

static struct term grown(struct world *w, struct rng *r, int depth)
{
  if (depth == 0 || rng_below(r, 8) == 0) return leaf(w, r);
  int op = rng_below(r, 2) ? (int)rng_below(r, DIVIDE) : (int)rng_below(r, OPS);
  if (rng_below(r, 3) == 0) op = rng_below(r, 2) ? DIVIDE : REST;
  struct term a = grown(w, r, depth - 1), b = grown(w, r, depth - 1), c = {0}, out = {0};
  if (op == SELECT) c = grown(w, r, depth - 1);
  bool divides = op == DIVIDE || op == REST || op == CEIL;
  struct ex_range ra = ex_range(w->p, a.x), rb = ex_range(w->p, b.x);
  if (op == SHIFT) {
    int64_t n = (int64_t)rng_below(r, 7);
    b = (struct term){.x = EX_C(n)};
    for (int i = 0; i < TRIES; i++) b.at[i] = n;
  }
  if ((divides && rb.lo < 1) || ((op == XOR || op == BITS) && (ra.lo < 0 || rb.lo < 0))) op = ADD;
  out.x = simplified(w->p, op, a.x, b.x, c.x);
  for (int i = 0; i < TRIES; i++) {
    out.off[i] = a.off[i] || b.off[i] || c.off[i];
    if (!out.off[i]) out.at[i] = naive(op, a.at[i], b.at[i], c.at[i]);
    out.off[i] = out.off[i] || out.at[i] > 1 << 30 || out.at[i] < -(1 << 30);
  }
  return out;
}

static void check(struct world *w, const struct term *t, uint64_t seed)
{
  struct ex_range range = ex_range(w->p, t->x);
  int64_t multiple = ex_multiple(w->p, t->x);
  struct str out = {0};
  ex_text(w->p, t->x, &out);
  ex again = read_text(w, str_text(&out));
  bool proved = ex_true(w->p, t->x), divisible = ex_divides(w->p, w->var[0], t->x);
  for (int i = 0; i < TRIES; i++) {
    if (t->off[i]) continue;
    int64_t got = ex_eval(w->p, t->x, point[i]), v = t->at[i];
    bool fine = got == v && range.lo <= v && v <= range.hi && (multiple ? v % multiple == 0 : v == 0) && (!proved || v) &&
                (!divisible || v % point[i][0] == 0) && ex_eval(w->p, again, point[i]) == v;
    if (!fine)
      fail_msg("seed %llu, point %d: %s is %lld in [%lld, %lld] by %lld, not %lld", (unsigned long long)seed, i, str_text(&out), (long long)got,
               (long long)range.lo, (long long)range.hi, (long long)multiple, (long long)v);
  }
  str_free(&out);
}

static void random_expressions_keep_their_values(void **state)
{
  (void)state;
  int cases = getenv("MICA_SANITIZED") ? 10000 : 100000, compared = 0;
  struct world w;
  world_open(&w);
  for (int n = 0; n < cases; n++) {
    struct rng r = {(uint64_t)n};
    if (n % 100 == 0) arena_close(&w.mem), world_open(&w);
    draw_points(&r);
    struct term t = grown(&w, &r, 2 + n % 3);
    if (ex_overflowed(w.p)) {
      arena_close(&w.mem), world_open(&w);
      continue;
    }
    check(&w, &t, (uint64_t)n);
    compared++;
  }
  arena_close(&w.mem);
  assert_true(compared > cases / 10 * 9);
}

// ---- substitution, overflow ----

static void substitution_is_evaluation(void **state)
{
  (void)state;
  for (int n = 0; n < 3000; n++) {
    struct world w;
    world_open(&w);
    struct rng r = {(uint64_t)n + 1000000};
    draw_points(&r);
    struct term t = grown(&w, &r, 3);
    ex by = ex_add(w.p, w.var[3], EX_C(n % 8)); // i + c in [0, 14], for j
    ex s = ex_subst(w.p, t.x, w.var[4], by);
    assert_false(ex_mentions(w.p, s, w.var[4]));
    for (int i = 0; i < TRIES && !ex_overflowed(w.p); i++) {
      if (t.off[i]) continue;
      int64_t got = ex_eval(w.p, s, point[i]), moved[VARS];
      memcpy(moved, point[i], sizeof moved);
      moved[4] = point[i][3] + n % 8;
      assert_int_equal(got, ex_eval(w.p, t.x, moved));
    }
    arena_close(&w.mem);
  }
}

static void overflow_is_reported(void **state)
{
  (void)state;
  struct world w;
  for (int c = 0; c < 8; c++) {
    world_open(&w);
    ex big = EX_C((int64_t)1 << 61), x = w.var[6];
    assert_false(ex_overflowed(w.p));
    if (c == 0) ex_mul(w.p, big, big);
    if (c == 1) ex_add(w.p, big, big);
    if (c == 2) ex_mul(w.p, ex_mul(w.p, x, big), big);
    if (c == 3) ex_div(w.p, x, EX_C(0));
    if (c == 4) ex_mod(w.p, EX_C(3), EX_C(-1));
    if (c == 5)
      for (int i = 0; i < 30; i++) x = ex_mul(w.p, x, w.var[5]);
    if (c == 6)
      for (int i = 0; i < 300; i++) x = ex_xor(w.p, ex_div(w.p, x, w.var[0]), ex_add(w.p, x, EX_C(1)));
    if (c == 7)
      for (int i = 0; i < 100; i++) x = ex_add(w.p, x, ex_mul(w.p, ex_var(w.p, "v", 0, 9, 1), EX_C(i + 1)));
    assert_true(ex_overflowed(w.p));
    arena_close(&w.mem);
  }
}

static void numbers_do_not_touch_the_pool(void **state)
{
  (void)state;
  struct world w;
  world_open(&w);
  size_t before = w.mem.used;
  ex sum = 0;
  for (int64_t i = 1; i < 10000; i++)
    sum = ex_add(w.p, sum, ex_min(w.p, ex_mul(w.p, ex_mod(w.p, EX_C(i), EX_C(7)), EX_C(3)), ex_div(w.p, EX_C(i), EX_C(5))));
  assert_true(ex_is_const(sum));
  assert_int_equal(w.mem.used, before);
  assert_int_equal(ex_value(ex_mod(w.p, EX_C(-3), EX_C(8))), 5);
  assert_int_equal(ex_value(ex_div(w.p, EX_C(-3), EX_C(8))), -1);
  arena_close(&w.mem);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(texts_are_exact),      cmocka_unit_test(random_expressions_keep_their_values), cmocka_unit_test(substitution_is_evaluation),
      cmocka_unit_test(overflow_is_reported), cmocka_unit_test(numbers_do_not_touch_the_pool),
  };
  return cmocka_run_group_tests_name("expressions", tests, NULL, NULL);
}

// Terms: parser, normal form, text, random generator.
#include "terms.h"

#include <ctype.h>
#include <string.h>

const struct term *mk(struct arena *m, enum term_op op, uint64_t k, const struct term *a, const struct term *b)
{
  struct term *t = NEW(m, struct term);
  *t = (struct term){op, k, a, b};
  return t;
}

// ---- parser ------------------------------------------------------------------------------------

struct reader {
  struct arena *m;
  const char *s;
};

static const struct term *read_sum(struct reader *r);

static char peek(struct reader *r)
{
  while (*r->s == ' ') r->s++;
  return *r->s;
}

static void expect(struct reader *r, char c)
{
  CHECK(peek(r) == c);
  r->s++;
}

static uint64_t read_int(struct reader *r)
{
  uint64_t k = 0;
  while (isdigit((unsigned char)*r->s)) k = 10 * k + (uint64_t)(*r->s++ - '0');
  return k;
}

static const struct term *read_call(struct reader *r)
{
  static const struct {
    const char *name;
    enum term_op op;
  } call[] = {
      {"exp", T_EXP}, {"sqrt", T_SQRT}, {"sq", T_SQ}, {"max", T_MAX}, {"f", T_F}, {"g", T_F}, {"ewmax", T_EWMAX}, {"ewmin", T_EWMIN},
  };
  const char *begin = r->s;
  while (islower((unsigned char)*r->s)) r->s++;
  size_t n = (size_t)(r->s - begin), i = 0;
  while (i < COUNT(call) && (strlen(call[i].name) != n || strncmp(call[i].name, begin, n))) i++;
  CHECK(i < COUNT(call));
  uint64_t k = call[i].op == T_F ? (uint64_t)*begin : read_int(r);
  expect(r, '(');
  const struct term *t = read_sum(r);
  if (call[i].op != T_EWMAX && call[i].op != T_EWMIN) t = mk(r->m, call[i].op, k, t, NULL);
  while (peek(r) == ',') {
    expect(r, ',');
    t = mk(r->m, call[i].op, 0, t, read_sum(r));
  }
  expect(r, ')');
  return t;
}

static const struct term *read_factor(struct reader *r)
{
  const struct term *t;
  if (peek(r) == '(') {
    expect(r, '(');
    t = read_sum(r);
    expect(r, ')');
  } else if (isupper((unsigned char)peek(r))) {
    t = mk(r->m, T_ATOM, (uint64_t)*r->s++, NULL, NULL);
  } else {
    t = read_call(r);
  }
  if (*r->s != '^') return t;
  r->s++;
  const struct term *power = t;
  for (uint64_t n = read_int(r); n > 1; n--) power = mk(r->m, T_MUL, 0, power, t);
  return power;
}

static bool factor_begins(struct reader *r) { return peek(r) == '(' || isalpha((unsigned char)peek(r)); }

// [2] [S64] factor factor ...
static const struct term *read_product(struct reader *r)
{
  uint64_t count = isdigit((unsigned char)peek(r)) ? read_int(r) : 1, k = 0;
  if (peek(r) == 'S' && isdigit((unsigned char)r->s[1])) {
    r->s++;
    k = read_int(r);
  }
  const struct term *t = read_factor(r);
  while (factor_begins(r)) t = mk(r->m, T_MUL, 0, t, read_factor(r));
  if (k) t = mk(r->m, T_SUM, k, t, NULL);
  const struct term *all = t;
  for (; count > 1; count--) all = mk(r->m, T_ADD, 0, all, t);
  return all;
}

static const struct term *read_quotient(struct reader *r)
{
  const struct term *t = read_product(r);
  for (char c = peek(r); c == '/' || c == '*'; c = peek(r)) {
    r->s++;
    t = mk(r->m, c == '/' ? T_DIV : T_MUL, 0, t, read_product(r));
  }
  return t;
}

static const struct term *read_sum(struct reader *r)
{
  const struct term *t = read_quotient(r);
  while (peek(r) == '+') {
    r->s++;
    t = mk(r->m, T_ADD, 0, t, read_quotient(r));
  }
  return t;
}

const struct term *parse(struct arena *m, const char *text)
{
  struct reader r = {m, text};
  const struct term *t = read_sum(&r);
  CHECK(!peek(&r));
  return t;
}

// ---- terms to normal forms ---------------------------------------------------------------------

nf build(struct expr *ex, const struct term *t)
{
  nf a = t->a ? build(ex, t->a) : 0, b = t->b ? build(ex, t->b) : 0;
  switch (t->op) {
  case T_ATOM: return expr_atom(ex, (uint32_t)t->k);
  case T_ADD: return expr_add(ex, a, b);
  case T_MUL: return expr_mul(ex, a, b);
  case T_DIV: return expr_div(ex, a, b);
  case T_SUM: return expr_sum(ex, t->k, a);
  case T_EXP: return expr_exp(ex, a);
  case T_SQRT: return expr_sqrt(ex, a);
  case T_SQ: return expr_square(ex, a);
  case T_F: return expr_opaque(ex, (uint32_t)t->k, 1, &a);
  case T_MAX: return expr_max(ex, t->k, a);
  case T_EWMAX: return expr_ewmax(ex, a, b);
  case T_EWMIN: return expr_ewmin(ex, a, b);
  }
  return 0;
}

nf build_text(struct expr *ex, const char *text)
{
  struct arena m = {0};
  nf e = build(ex, parse(&m, text));
  arena_close(&m);
  return e;
}

static const char *letter(void *arg, uint32_t id)
{
  char *room = arg;
  room[0] = (char)id;
  room[1] = 0;
  return room;
}

char *text_of(struct arena *m, const struct expr *ex, nf e)
{
  char room[2];
  struct str s = {0};
  expr_print(ex, e, &(struct expr_names){letter, letter, room}, &s);
  char *text = arena_strdup(m, str_text(&s));
  str_free(&s);
  return text;
}

// ---- random terms ------------------------------------------------------------------------------

static uint64_t some_length(struct rng *r) { return 1ull << rng_below(r, 4); }

const struct term *random_term(struct arena *m, struct rng *r, int ops, int letters, enum laws laws)
{
  static const enum term_op op[] = {T_ADD, T_ADD, T_MUL, T_MUL, T_MUL, T_DIV, T_DIV, T_SUM, T_EXP, T_SQRT, T_SQ, T_F, T_MAX, T_EWMAX, T_EWMIN};
  static const size_t upto[] = {[LAWS_PAPER] = 9, [LAWS_EXP] = 10, [LAWS_ALL] = COUNT(op)};
  if (!ops) return mk(m, T_ATOM, 'A' + rng_below(r, (uint64_t)letters), NULL, NULL);
  enum term_op o = op[rng_below(r, upto[laws])];
  bool binary = o == T_ADD || o == T_MUL || o == T_DIV || o == T_EWMAX || o == T_EWMIN;
  int left = binary ? (int)rng_below(r, (uint64_t)ops) : ops - 1;
  const struct term *a = random_term(m, r, left, letters, laws);
  const struct term *b = binary ? random_term(m, r, ops - 1 - left, letters, laws) : NULL;
  return mk(m, o, o == T_SUM || o == T_MAX ? some_length(r) : o == T_F ? 'f' : 0, a, b);
}

int term_size(const struct term *t) { return t ? 1 + term_size(t->a) + term_size(t->b) : 0; }

bool term_same(const struct term *s, const struct term *t)
{
  return s == t || (s && t && s->op == t->op && s->k == t->k && term_same(s->a, t->a) && term_same(s->b, t->b));
}

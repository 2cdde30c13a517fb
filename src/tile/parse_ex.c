// Parses integer expressions with C's operators and precedence. The parser checks the preconditions of ex.h: divisors are positive. A value that ex.h
// replaces because it is too large is an error here.
#include "tile/tile_parse.h"

int read_too_large(struct reader *r, struct loc at)
{
  if (!ex_overflowed(r->p->ex)) return OK;
  int s = err_set(r->e, ERR_LIMIT, at, "numbers beyond 62 bits, or an expression of too many parts");
  return err_hint(r->e, "make sizes smaller, or give the parameters in them a range: `param N in 1..4096`"), s;
}

static int positive(struct reader *r, struct loc at, ex b)
{
  if (ex_range(r->p->ex, b).lo > 0) return OK;
  if (ex_is_const(b)) return err_set(r->e, ERR_TILE, at, "division by %lld", (long long)ex_value(b));
  int s = err_set(r->e, ERR_TILE, at, "the divisor may be zero or negative");
  return err_hint(r->e, "give its parameters a range, `param N in 1..4096`, or take max(1, ...)"), s;
}

static int div(struct reader *r, struct loc at, ex a, ex b, ex *out)
{
  READ(positive(r, at, b));
  return *out = ex_div(r->p->ex, a, b), OK;
}

static int mod(struct reader *r, struct loc at, ex a, ex b, ex *out)
{
  READ(positive(r, at, b));
  return *out = ex_mod(r->p->ex, a, b), OK;
}

static int natural(struct reader *r, struct loc at, ex a, ex b)
{
  if (ex_range(r->p->ex, a).lo >= 0 && ex_range(r->p->ex, b).lo >= 0) return OK;
  return err_set(r->e, ERR_TILE, at, "bits of a number that may be negative");
}

static int bits(struct reader *r, struct loc at, ex a, ex b, ex *out)
{
  READ(natural(r, at, a, b));
  return *out = ex_bits(r->p->ex, a, b), OK;
}

static int xor
    (struct reader * r, struct loc at, ex a, ex b, ex *out) {
      READ(natural(r, at, a, b));
      return *out = ex_xor(r->p->ex, a, b), OK;
    }

    static int shr(struct reader *r, struct loc at, ex a, ex b, ex *out)
{
  READ(natural(r, at, a, b));
  if (ex_range(r->p->ex, b).hi > 61) return err_set(r->e, ERR_TILE, at, "a shift by more than 61");
  return *out = ex_shr(r->p->ex, a, b), OK;
}

#define PLAIN(name, value) \
  static int name(struct reader *r, struct loc at, ex a, ex b, ex *out) { return (void)at, *out = (value), OK; }
PLAIN(add, ex_add(r->p->ex, a, b))
PLAIN(sub, ex_sub(r->p->ex, a, b))
PLAIN(mul, ex_mul(r->p->ex, a, b))
PLAIN(lt, ex_lt(r->p->ex, a, b))
PLAIN(le, ex_le(r->p->ex, a, b))
PLAIN(gt, ex_lt(r->p->ex, b, a))
PLAIN(ge, ex_le(r->p->ex, b, a))
PLAIN(eq, ex_eq(r->p->ex, a, b))
PLAIN(ne, ex_not(r->p->ex, ex_eq(r->p->ex, a, b)))
PLAIN(both, ex_both(r->p->ex, a, b))
PLAIN(either, ex_either(r->p->ex, a, b))
PLAIN(least, ex_min(r->p->ex, a, b))
PLAIN(most, ex_max(r->p->ex, a, b))

static int ceil_div(struct reader *r, struct loc at, ex a, ex b, ex *out)
{
  READ(positive(r, at, b));
  return *out = ex_ceil_div(r->p->ex, a, b), OK;
}

typedef int binary(struct reader *r, struct loc at, ex a, ex b, ex *out);
enum { LOOSEST = 1, LESS = 6, TIGHTEST = 9 };
static const struct {
  int token, level;
  binary *make;
} operators[] = {
    {TILE_EITHER, 1, either},
    {TILE_BOTH, 2, both},
    {'^', 3, xor},
    {'&', 4, bits},
    {TILE_EQ, 5, eq},
    {TILE_NE, 5, ne},
    {'<', LESS, lt},
    {TILE_LE, LESS, le},
    {'>', LESS, gt},
    {TILE_GE, LESS, ge},
    {TILE_SHR, 7, shr},
    {'+', 8, add},
    {'-', 8, sub},
    {'*', 9, mul},
    {'/', 9, div},
    {'%', 9, mod},
};
static const struct {
  const char *name;
  binary *make;
} functions[] = {{"min", least}, {"max", most}, {"ceil", ceil_div}, {"xor", xor}};

static int unary(struct reader *r, ex *out);

// `k %8` begins a tensor's name; `k % 8` and `k%8` are remainders. A statement may end before such a name without a separator.
static bool sigil(const struct reader *r)
{
  const char *after = r->t.p + 1;
  if (r->t.kind != '%' || r->t.glued || after >= r->lex.end) return false;
  return *after == '_' || (*after >= '0' && *after <= '9') || (*after >= 'a' && *after <= 'z') || (*after >= 'A' && *after <= 'Z');
}

static int by_level(struct reader *r, int level, ex *out)
{
  if (level > TIGHTEST) return unary(r, out);
  READ(by_level(r, level + 1, out));
  for (;;) {
    if (r->t.kind == TILE_ARROW && level == LESS) { // a <-1
      tile_lex_back(&r->lex, &r->t, 1);
      r->t.kind = '<', r->t.n = 1;
    }
    binary *make = NULL;
    bool closes = r->in_arguments && (r->t.kind == '>' || r->t.kind == TILE_GE || r->t.kind == TILE_SHR);
    for (size_t i = 0; i < COUNT(operators); i++)
      if (operators[i].token == r->t.kind && operators[i].level == level && !closes) make = operators[i].make;
    if (!make || sigil(r)) return OK;
    struct loc at = r->t.at;
    ex b;
    read_next(r);
    READ(by_level(r, level + 1, &b));
    READ(make(r, at, *out, b, out));
  }
}

static int call(struct reader *r, binary *make, ex *out)
{
  struct loc at = r->t.at, opened;
  ex a, b;
  bool outer = r->in_arguments;
  r->in_arguments = false;
  read_next(r);
  opened = r->t.at;
  READ(read_expect(r, '(', "`(` and two arguments"));
  READ(read_ex(r, &a));
  READ(read_expect(r, ',', "`,` and a second argument"));
  READ(read_ex(r, &b));
  READ(read_close(r, ')', '(', opened));
  r->in_arguments = outer;
  return make(r, at, a, b, out);
}

static bool before_paren(const struct reader *r)
{
  const char *p = r->t.p + r->t.n;
  while (p < r->lex.end && (*p == ' ' || *p == '\t')) p++;
  return p < r->lex.end && *p == '(';
}

static int named(struct reader *r, ex *out)
{
  if (r->t.kind == TILE_WORD && before_paren(r)) {
    struct tile_nearest near = tile_nearest(read_text(r, &r->t));
    for (size_t i = 0; i < COUNT(functions); i++) {
      if (tile_is(&r->t, functions[i].name)) return call(r, functions[i].make, out);
      tile_nearest_try(&near, functions[i].name);
    }
    char text[64];
    int s = err_set(r->e, ERR_TILE, r->t.at, "%s is no function of integers", tile_token_text(text, &r->t));
    if (near.best)
      err_hint(r->e, "did you mean `%s`? There are min, max, ceil and xor", near.best);
    else
      err_hint(r->e, "there are min, max, ceil and xor; value(%%v) stands alone: @x = value(%%v)");
    return s;
  }
  struct tile_token name;
  const struct tile_name *found;
  READ(read_scalar_name(r, &name));
  READ(read_use(r, '@', &name, &found));
  return *out = found->var, OK;
}

static int primary(struct reader *r, ex *out)
{
  struct loc at = r->t.at;
  if (r->t.kind == TILE_NUMBER) {
    *out = EX_C(r->t.value);
    return read_next(r), OK;
  }
  if (read_take(r, '(')) {
    bool outer = r->in_arguments;
    r->in_arguments = false;
    READ(read_ex(r, out));
    r->in_arguments = outer;
    return read_close(r, ')', '(', at);
  }
  if (r->t.kind == TILE_WORD || r->t.kind == '@') return named(r, out);
  return read_unexpected(r, "an expression");
}

static int unary_inside(struct reader *r, ex *out)
{
  if (read_take(r, '-')) {
    READ(unary(r, out));
    return *out = ex_sub(r->p->ex, EX_C(0), *out), OK;
  }
  if (read_take(r, '!')) {
    READ(unary(r, out));
    *out = ex_not(r->p->ex, *out);
    return OK;
  }
  return primary(r, out);
}

static int deeper(struct reader *r)
{
  if (++r->depth <= TILE_DEEP) return OK;
  int s = err_set(r->e, ERR_LIMIT, r->t.at, "more than %d expressions within one another", TILE_DEEP);
  return err_hint(r->e, "name a part of it: @part = ..."), s;
}

static int unary(struct reader *r, ex *out)
{
  READ(deeper(r));
  READ(unary_inside(r, out));
  return r->depth--, OK;
}

int read_ex(struct reader *r, ex *out)
{
  struct loc at = r->t.at;
  ex a, b;
  READ(deeper(r));
  READ(by_level(r, LOOSEST, out));
  if (read_take(r, '?')) {
    READ(read_ex(r, &a));
    READ(read_expect(r, ':', "`:` of `? :`"));
    READ(read_ex(r, &b));
    *out = ex_select(r->p->ex, *out, a, b);
  }
  r->depth--;
  return read_too_large(r, at);
}

int read_argument(struct reader *r, ex *out)
{
  r->in_arguments = true;
  READ(read_ex(r, out));
  return r->in_arguments = false, OK;
}

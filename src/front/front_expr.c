// Expressions, by recursive descent. Every operator either folds two numbers or appends a node:
//   tensor * number, tensor / number   mul_scalar         number / tensor   div of a constant
//   tensor + number, tensor - number   add_scalar         number - tensor   add_scalar of neg
#include "base/rational.h"
#include "front/parse.h"

#include <math.h>

static int condition(struct parser *p, struct front_value *v);

int expr_tensor(struct parser *p, struct front_value *v, int *t)
{
  if (v->kind == TENSORS && v->count == 1) return *t = v->first, OK;
  if (v->kind == TENSORS) {
    int s = err_set(p->e, ERR_ARITY, v->at, "%d tensors stand where one is needed", v->count);
    return err_hint(p->e, "name them first: a, b = ..."), s;
  }
  struct attrs a = attrs_default(OP_CONST);
  struct front_value c = {0};
  int s = number_real(p->e, v->at, &v->number, &a.scalar);
  if (!s) s = call_add(p, OP_CONST, 0, NULL, &a, v->at, &c);
  return *t = c.first, s;
}

static int with_scalar(struct parser *p, enum op op, struct loc at, struct front_value *x, double c, struct front_value *v)
{
  int t, s = expr_tensor(p, x, &t);
  struct attrs a = attrs_default(op);
  a.scalar = c;
  return s ? s : call_add(p, op, 1, &t, &a, at, v);
}

static int unary(struct parser *p, enum op op, struct loc at, struct front_value *x, struct front_value *v)
{
  int t, s = expr_tensor(p, x, &t);
  return s ? s : call_add(p, op, 1, &t, NULL, at, v);
}

// Finds the operator for a power that has one of its own; algebraic laws are known for these operators.
static bool known_power(double y, enum op *op)
{
  *op = y == 2 ? OP_SQUARE : y == 0.5 ? OP_SQRT : OP_RSQRT;
  return y == 2 || y == 0.5 || y == -0.5;
}

static int with_number(struct parser *p, enum op op, struct loc at, struct front_value *a, struct front_value *b, struct front_value *v)
{
  bool left = a->kind == NUMBER; // number op tensor
  struct front_value *x = left ? b : a;
  double c, inverse;
  enum op power;
  int bad = number_real(p->e, at, left ? &a->number : &b->number, &c);
  if (bad) return bad;
  if (op == OP_ADD) return with_scalar(p, OP_ADD_SCALAR, at, x, c, v);
  if (op == OP_MUL) return with_scalar(p, OP_MUL_SCALAR, at, x, c, v);
  if (op == OP_SUB && !left) return with_scalar(p, OP_ADD_SCALAR, at, x, -c, v);
  if (op == OP_DIV && !left && (c == 0 || !isfinite(1 / c))) return number_by_zero(p->e, at);
  if (op == OP_DIV && !left) return with_scalar(p, OP_MUL_SCALAR, at, x, rational_fold('/', 1, c, &inverse) ? inverse : 1 / c, v);
  if (op == OP_POW && !left && known_power(c, &power)) return unary(p, power, at, x, v);
  if (op == OP_SUB) {
    struct front_value neg = {0};
    int s = unary(p, OP_NEG, at, x, &neg);
    return s ? s : with_scalar(p, OP_ADD_SCALAR, at, &neg, c, v);
  }
  int in[2], s = expr_tensor(p, a, &in[0]);
  if (!s) s = expr_tensor(p, b, &in[1]);
  return s ? s : call_add(p, op, 2, in, NULL, at, v);
}

int expr_binary(struct parser *p, enum op op, struct loc at, const struct front_value *a, const struct front_value *b, struct front_value *v)
{
  struct front_value x = *a, y = *b;
  int sign = op == OP_ADD ? '+' : op == OP_SUB ? '-' : op == OP_MUL ? '*' : op == OP_DIV ? '/' : 0;
  if (x.kind == NUMBER && y.kind == NUMBER) {
    *v = (struct front_value){.kind = NUMBER, .at = at};
    if (sign) return number_op(p->e, at, sign, x.number, y.number, &v->number);
    const struct number xy[] = {x.number, y.number};
    return number_fold(p->e, at, op, &(struct attrs){0}, 2, xy, &v->number);
  }
  if (x.kind == NUMBER || y.kind == NUMBER) return with_number(p, op, at, &x, &y, v);
  int in[2], s = expr_tensor(p, &x, &in[0]);
  if (!s) s = expr_tensor(p, &y, &in[1]);
  return s ? s : call_add(p, op, 2, in, NULL, at, v);
}

static int inside(struct parser *p, struct front_value *v)
{
  struct loc opened = p->t.at;
  parse_next(p);
  int s = condition(p, v);
  return s ? s : parse_close(p, ')', '(', opened);
}

static int named(struct parser *p, struct front_value *v)
{
  struct token id = p->t;
  parse_next(p);
  if (p->t.kind == '(') return call_parse(p, &id, v);
  if (!lex_is(&id, "inf")) return scope_value(p, &id, v);
  *v = (struct front_value){.kind = NUMBER, .at = id.at, .number = {.real = INFINITY, .lost = DECIMAL}};
  return OK;
}

static int primary(struct parser *p, struct front_value *v)
{
  *v = (struct front_value){.kind = NUMBER, .at = p->t.at, .number = p->t.number};
  if (p->t.kind == TOK_NUMBER) return parse_next(p), OK;
  if (p->t.kind != TOK_NAME && p->t.kind != '(') return parse_unexpected(p, "an expression");
  int s = p->t.kind == '(' ? inside(p, v) : named(p, v);
  while (!s && p->t.kind == '[' && v->kind == TENSORS) s = items_take(p, v);
  return s;
}

static int negated(struct parser *p, struct front_value *v)
{
  while (p->t.kind == TOK_LINE) parse_next(p); // an operator at the end of a line continues it
  struct loc at = p->t.at;
  if (p->t.kind != '-') return primary(p, v);
  parse_next(p);
  if (++p->depth > FRONT_DEPTH) return err_set(p->e, ERR_LIMIT, at, "expressions are nested more than %d deep", FRONT_DEPTH);
  struct front_value x;
  int s = negated(p, &x);
  p->depth--;
  if (s || x.kind == TENSORS) return s ? s : unary(p, OP_NEG, at, &x, v);
  *v = x, v->at = at;
  if (x.number.lost == WHOLE) return number_op(p->e, at, '-', number_of(0), x.number, &v->number);
  v->number.real = -x.number.real;
  return OK;
}

// x // y (floor division) and x % y
static int rounded_down(struct parser *p, const struct token *op, struct front_value *x, struct front_value *y, struct front_value *v)
{
  int in[2];
  if (x->kind == NUMBER && y->kind == NUMBER) {
    struct number rest = {0};
    TRY(number_op(p->e, op->at, '%', x->number, y->number, op->kind == '%' ? &v->number : &rest));
    if (op->kind == '%') return OK;
    TRY(number_op(p->e, op->at, '-', x->number, rest, &rest));
    return number_op(p->e, op->at, '/', rest, y->number, &v->number);
  }
  TRY(expr_tensor(p, x, &in[0]));
  TRY(expr_tensor(p, y, &in[1]));
  return call_add(p, op->kind == '%' ? OP_MOD : OP_FLOOR_DIV, 2, in, NULL, op->at, v);
}

static int product(struct parser *p, struct front_value *v)
{
  int s = negated(p, v);
  while (!s && (p->t.kind == '*' || p->t.kind == '/' || p->t.kind == '%' || p->t.kind == TOK_FLOOR_DIV)) {
    struct token op = p->t;
    struct front_value y;
    parse_next(p);
    s = negated(p, &y);
    if (s) return s;
    struct front_value x = *v;
    if (op.kind == '*' || op.kind == '/')
      s = expr_binary(p, op.kind == '*' ? OP_MUL : OP_DIV, op.at, &x, &y, v);
    else
      s = rounded_down(p, &op, &x, &y, v);
  }
  return s;
}

int expr_plain(struct parser *p, struct front_value *v)
{
  struct loc at = p->t.at;
  if (++p->depth > FRONT_DEPTH) return err_set(p->e, ERR_LIMIT, at, "expressions are nested more than %d deep", FRONT_DEPTH);
  int s = product(p, v);
  while (!s && (p->t.kind == '+' || p->t.kind == '-')) {
    struct token op = p->t;
    struct front_value x = *v, y;
    parse_next(p);
    s = product(p, &y);
    if (!s) s = expr_binary(p, op.kind == '+' ? OP_ADD : OP_SUB, op.at, &x, &y, v);
  }
  p->depth--;
  return s;
}

// Each comparison as an operator. `turned`: with the sides exchanged. `negated`: the result is negated.
static const struct {
  int token;
  enum op op;
  bool turned, negated;
} comparisons[] = {{'<', OP_LESS, false, false},
                   {'>', OP_LESS, true, false},
                   {TOK_LESS_EQUAL, OP_LESS_EQUAL, false, false},
                   {TOK_GREATER_EQUAL, OP_LESS_EQUAL, true, false},
                   {TOK_EQUAL, OP_EQUAL, false, false},
                   {TOK_NOT_EQUAL, OP_EQUAL, false, true}};

static int find_comparison(int token)
{
  for (size_t i = 0; i < COUNT(comparisons); i++)
    if (comparisons[i].token == token) return (int)i;
  return -1;
}

// Logical negation of a condition: 1 where v is 0.
static int opposite(struct parser *p, struct loc at, struct front_value *v)
{
  struct front_value x = *v, number = {.kind = NUMBER, .at = at, .number = number_of(1)};
  if (x.kind == NUMBER || !num_whole(p->scope->g->tensors[x.first].dtype)) return expr_binary(p, OP_SUB, at, &number, &x, v);
  number.number = number_of(0);
  return expr_binary(p, OP_EQUAL, at, &x, &number, v);
}

static int comparison(struct parser *p, struct front_value *v)
{
  int s = expr_plain(p, v), k = find_comparison(p->t.kind);
  if (s || k < 0) return s;
  struct loc at = p->t.at;
  struct front_value x = *v, y;
  parse_next(p);
  s = expr_plain(p, &y);
  if (!s) s = expr_binary(p, comparisons[k].op, at, comparisons[k].turned ? &y : &x, comparisons[k].turned ? &x : &y, v);
  if (!s && comparisons[k].negated) s = opposite(p, at, v);
  if (s || find_comparison(p->t.kind) < 0) return s;
  s = err_set(p->e, ERR_SYNTAX, p->t.at, "a comparison of a comparison");
  return err_hint(p->e, "write a < b and b < c"), s;
}

static int negation(struct parser *p, struct front_value *v)
{
  struct loc at = p->t.at;
  if (!lex_is(&p->t, "not")) return comparison(p, v);
  parse_next(p);
  if (++p->depth > FRONT_DEPTH) return err_set(p->e, ERR_LIMIT, at, "expressions are nested more than %d deep", FRONT_DEPTH);
  int s = negation(p, v);
  p->depth--;
  return s ? s : opposite(p, at, v);
}

// `and` is the product of conditions, `or` their maximum.
static int joined(struct parser *p, bool both, struct front_value *v)
{
  int s = both ? negation(p, v) : joined(p, true, v);
  while (!s && lex_is(&p->t, both ? "and" : "or")) {
    struct front_value x = *v, y;
    struct loc at = p->t.at;
    parse_next(p);
    s = both ? negation(p, &y) : joined(p, true, &y);
    if (!s) s = expr_binary(p, both ? OP_MUL : OP_MAXIMUM, at, &x, &y, v);
  }
  return s;
}

static int condition(struct parser *p, struct front_value *v) { return joined(p, false, v); }
int expr_parse(struct parser *p, struct front_value *v) { return condition(p, v); }

int expr_whole(struct parser *p, enum errid id, const char *what, int64_t lo, int64_t hi, int64_t *out)
{
  struct front_value v;
  struct loc at = p->t.at;
  int s = expr_parse(p, &v);
  if (s) return s;
  if (v.kind != NUMBER) return err_set(p->e, id, at, "%s must be a number, not a tensor", what);
  return number_whole(p->e, id, at, &v.number, what, lo, hi, out);
}

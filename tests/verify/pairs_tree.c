// Random expressions: one change in one of them, or rewritten in some places.
#include "pairs.h"

struct forest {
  struct gen *g;
  struct shape s;
  struct term *input[3];
};

static struct term *leaf(struct forest *f)
{
  struct gen *g = f->g;
  int i = draw(g, 3);
  if (f->input[i]) return f->input[i];
  struct shape s = f->s;
  if (i == 2) s.d[draw(g, 2)] = 1; // broadcasts
  return f->input[i] = term_input(g, s);
}

static struct term *tree(struct forest *f, int depth)
{
  static const enum op ones[] = {OP_EXP, OP_SQUARE, OP_NEG, OP_RELU, OP_SQRT, OP_ABS, OP_SIGMOID, OP_TANH, OP_SQUARE, OP_NEG};
  static const enum op twos[] = {OP_ADD, OP_SUB, OP_MUL, OP_DIV, OP_ADD, OP_MUL, OP_MAXIMUM, OP_MINIMUM};
  static const enum op folds[] = {OP_SUM, OP_SUM, OP_MEAN, OP_MAX};
  struct gen *g = f->g;
  if (!depth) return leaf(f);
  switch (draw(g, 10)) {
  case 0:
  case 1: {
    enum op op = ones[draw(g, COUNT(ones))];
    return term_one(g, op, tree(f, depth - 1));
  }
  case 2: {
    enum op op = folds[draw(g, COUNT(folds))];
    int dim = draw(g, 2);
    return term_along(g, op, tree(f, depth - 1), dim);
  }
  case 3: {
    struct rat c = draw_constant(g);
    enum op op = draw(g, 2) ? OP_MUL : OP_ADD;
    return term_two(g, op, tree(f, depth - 1), term_number(g, draw(g, 2) ? c : rat_neg(c)));
  }
  case 4: {
    struct term *x = tree(f, depth - 1);
    return x->s.d[0] == x->s.d[1] ? term_transpose(g, x, (struct shape){0}) : x;
  }
  default: {
    enum op op = twos[draw(g, COUNT(twos))];
    struct term *x = tree(f, depth - 1), *y = tree(f, draw(g, depth));
    return term_two(g, op, x, y);
  }
  }
}

static int nodes(const struct term *t)
{
  int n = 1;
  for (int i = 0; i < t->nin; i++) n += nodes(t->in[i]);
  return n;
}

// ---- one change ----

static struct term *changed(struct forest *f, struct term *t)
{
  static const enum op twos[] = {OP_ADD, OP_SUB, OP_MUL, OP_DIV, OP_MAXIMUM, OP_MINIMUM};
  static const enum op ones[] = {OP_EXP, OP_SQUARE, OP_NEG, OP_RELU, OP_SQRT, OP_ABS, OP_SIGMOID, OP_TANH};
  struct gen *g = f->g;
  struct term *r = term_copy(g, t);
  if (t->op == OP_CONST) {
    static const struct rat by[] = {{2, 1}, {-1, 1}, {1000001, 1000000}, {3, 4}};
    return term_number(g, rat_mul(t->c, by[draw(g, COUNT(by))]));
  }
  if (t->op == OP_INPUT) {
    struct term *x = f->input[draw(g, 2)];
    return x && x != t && shape_eq(&x->s, &t->s) ? x : term_one(g, OP_NEG, t);
  }
  if (t->nin == 2 && draw(g, 3) == 0)
    r->in[0] = t->in[1], r->in[1] = t->in[0];
  else if (t->nin == 2)
    r->op = twos[draw(g, COUNT(twos))];
  else if (op_rows[t->op].rule == RULE_REDUCE && draw(g, 2))
    r->op = t->op == OP_SUM ? OP_MEAN : OP_SUM;
  else if (op_rows[t->op].rule == RULE_REDUCE)
    r->in[0] = term_one(g, OP_SQUARE, t->in[0]);
  else if (op_rows[t->op].rule == RULE_MAP && draw(g, 2))
    r->op = ones[draw(g, COUNT(ones))];
  else
    return shape_eq(&t->in[0]->s, &t->s) ? t->in[0] : r;
  return r;
}

static struct term *without(struct forest *f, struct term *t, int *at)
{
  if (!(*at)--) return changed(f, t);
  struct term *r = NULL;
  for (int i = 0; i < t->nin; i++) {
    struct term *x = *at < 0 ? t->in[i] : without(f, t->in[i], at);
    if (x == t->in[i]) continue;
    if (!r) r = term_copy(f->g, t);
    r->in[i] = x;
  }
  return r ? r : t;
}

void trees(struct gen *g, enum kind_id kind)
{
  struct forest f = {.g = g, .s = draw_shape(g)};
  struct term *a = tree(&f, 2 + draw(g, 3));
  int at = draw(g, nodes(a));
  (void)kind;
  if (a->op == OP_INPUT) a = term_one(g, OP_EXP, a), at = 0;
  result(g, a, without(&f, a, &at));
}

// ---- rewriting ----

static struct term *two(struct gen *g, enum op op, struct term *x, struct term *y) { return term_two(g, op, x, y); }

// Another way to write t; its arguments are rewritten already.
static struct term *another(struct gen *g, struct term *t)
{
  struct term *x = t->in[0], *y = t->in[1], *one = term_number(g, rat(1, 1));
  struct rat c = draw_constant(g);
  bool sum = x && (x->op == OP_ADD || x->op == OP_SUB) && x->in[0]->op != OP_CONST && x->in[1]->op != OP_CONST;
  bool tensors = t->nin == 2 && x->op != OP_CONST && y->op != OP_CONST;
  switch ((int)t->op) {
  case OP_ADD: return two(g, OP_ADD, y, x);
  case OP_SUB: return tensors ? two(g, OP_ADD, term_one(g, OP_NEG, y), x) : t;
  case OP_MUL:
    if (tensors && sum) return two(g, x->op, two(g, OP_MUL, x->in[0], y), two(g, OP_MUL, y, x->in[1]));
    return two(g, OP_MUL, y, x);
  case OP_DIV:
    if (tensors && sum) return two(g, x->op, two(g, OP_DIV, x->in[0], y), two(g, OP_DIV, x->in[1], y));
    return tensors ? two(g, OP_MUL, x, two(g, OP_DIV, one, y)) : t;
  case OP_SQUARE: return two(g, OP_MUL, x, x);
  case OP_NEG: return two(g, OP_MUL, x, term_number(g, rat(-1, 1)));
  case OP_EXP:
    return sum ? two(g, x->op == OP_ADD ? OP_MUL : OP_DIV, term_one(g, OP_EXP, x->in[0]), term_one(g, OP_EXP, x->in[1]))
               : two(g, OP_DIV, one, term_one(g, OP_EXP, term_one(g, OP_NEG, x)));
  case OP_SUM: return two(g, OP_MUL, term_along(g, OP_SUM, two(g, OP_MUL, x, term_number(g, c)), t->dim), term_number(g, rat_inv(c)));
  case OP_MEAN: return two(g, OP_DIV, term_along(g, OP_SUM, x, t->dim), term_number(g, rat(x->s.d[t->dim], 1)));
  case OP_MAX: return two(g, OP_SUB, term_along(g, OP_MAX, two(g, OP_ADD, x, term_number(g, c)), t->dim), term_number(g, c));
  case OP_SQRT: return two(g, OP_DIV, term_one(g, OP_SQRT, two(g, OP_MUL, x, term_number(g, rat_mul(c, c)))), term_number(g, c));
  case OP_RELU: return two(g, OP_MAXIMUM, x, term_number(g, rat(0, 1)));
  case OP_ABS: return term_one(g, OP_ABS, term_one(g, OP_NEG, x));
  case OP_MAXIMUM: return two(g, OP_MAXIMUM, y, x);
  case OP_MINIMUM: return tensors ? term_one(g, OP_NEG, two(g, OP_MAXIMUM, term_one(g, OP_NEG, x), term_one(g, OP_NEG, y))) : t;
  case OP_TRANSPOSE: return two(g, OP_DIV, term_transpose(g, two(g, OP_MUL, x, term_number(g, c)), t->perm), term_number(g, c));
  default: return t;
  }
}

static struct term *elsewhere(struct gen *g, struct term *t)
{
  struct term *r = term_copy(g, t);
  if (!t->nin) return t;
  for (int i = 0; i < t->nin; i++) r->in[i] = elsewhere(g, t->in[i]);
  return draw(g, 2) ? another(g, r) : r;
}

void rewritten(struct gen *g, enum kind_id kind)
{
  struct forest f = {.g = g, .s = draw_shape(g)};
  struct term *a = tree(&f, 2 + draw(g, 3));
  (void)kind;
  if (a->op == OP_INPUT) a = term_one(g, OP_EXP, a);
  result(g, a, elsewhere(g, a));
}

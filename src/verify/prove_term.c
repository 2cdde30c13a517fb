// Terms: how they are put together, and what operators mean (law.def).
#include "verify/prove.h"

#include <math.h>

struct term *term_new(struct prover *p, enum term_kind kind, struct term *x, struct term *y)
{
  bool two = kind == TERM_ADD || kind == TERM_MUL || kind == TERM_POWER || kind == TERM_LARGER;
  if (p->why || p->need >= 0 || (!x && kind > TERM_ELEMENT) || (!y && two)) return NULL;
  struct term *t = NEW(p->mem, struct term);
  *t = (struct term){.kind = kind, .x = x, .y = y};
  return t;
}

struct term *term_ratio(struct prover *p, whole n, whole d)
{
  struct term *t = term_new(p, TERM_NUMBER, NULL, NULL);
  if (t) t->number = ratio_of(p, n, d);
  return t;
}

struct term *term_constant(struct prover *p, double c)
{
  struct term *t = term_new(p, TERM_CONSTANT, NULL, NULL);
  if (t) t->constant = c;
  return t;
}

// ---- sums and maxima over indices ----

static struct term *bound(struct prover *p, enum term_kind kind, struct subscript over, struct term *x)
{
  struct term *t = term_new(p, kind, x, NULL);
  struct subscript s = subscript_expand(p, over);
  if (t) t->n = 1, t->at = arena_copy(p->mem, &s, sizeof s);
  return t;
}

static bool holds(struct prover *p, struct subscript over, int digit)
{
  struct subscript s = subscript_expand(p, over);
  for (int i = 0; i < s.n; i++)
    if (s.p[i].digit == digit) return true;
  return false;
}

struct term *term_max(struct prover *p, struct subscript over, struct term *x)
{
  if (p->need >= 0 && holds(p, over, p->need)) return prove_give_up(p, "a maximum over a concatenation");
  if (x && x->rises) return term_map(p, x->rises, term_max(p, over, x->argument), NULL);
  return bound(p, TERM_MAX, over, x);
}

struct term *term_sum(struct prover *p, struct subscript over, term_body body, const void *arg)
{
  struct term *x = body(arg), *sum = NULL;
  if (x) return bound(p, TERM_SUM, over, x);
  if (p->why || !holds(p, over, p->need)) return NULL;
  int d = p->need;
  p->need = -1;
  for (int64_t v = 0; v < p->digits[d].extent; v++) {
    p->digits[d].value = v;
    x = term_sum(p, over, body, arg);
    sum = v ? term_new(p, TERM_ADD, sum, x) : x;
    p->digits[d].value = -1;
    if (!sum) return NULL;
  }
  return sum;
}

// ---- the terms of law.def ----

static struct term *constant(struct prover *p, double c) { return term_constant(p, c); }
static struct term *plus(struct prover *p, struct term *x, struct term *y) { return term_new(p, TERM_ADD, x, y); }
static struct term *times(struct prover *p, struct term *x, struct term *y) { return term_new(p, TERM_MUL, x, y); }
static struct term *negative(struct prover *p, struct term *x) { return times(p, term_ratio(p, -1, 1), x); }
static struct term *minus(struct prover *p, struct term *x, struct term *y) { return plus(p, x, negative(p, y)); }
static struct term *inverse(struct prover *p, struct term *x) { return term_new(p, TERM_INVERSE, x, NULL); }
static struct term *exponential(struct prover *p, struct term *x) { return term_new(p, TERM_EXP, x, NULL); }
static struct term *logarithm(struct prover *p, struct term *x) { return term_new(p, TERM_LOG, x, NULL); }
static struct term *root(struct prover *p, struct term *x) { return term_new(p, TERM_SQRT, x, NULL); }
static struct term *power(struct prover *p, struct term *x, struct term *y) { return term_new(p, TERM_POWER, x, y); }
static struct term *logistic(struct prover *p, struct term *x) { return term_new(p, TERM_LOGISTIC, x, NULL); }
static struct term *larger(struct prover *p, struct term *x, struct term *y) { return term_new(p, TERM_LARGER, x, y); }

static struct term *smaller(struct prover *p, struct term *x, struct term *y) { return negative(p, larger(p, negative(p, x), negative(p, y))); }

// With a bound that may be infinite, that is, none.
static struct term *at_least(struct prover *p, struct term *x, double lo) { return isinf(lo) && lo < 0 ? x : larger(p, x, term_constant(p, lo)); }
static struct term *at_most(struct prover *p, struct term *x, double hi) { return isinf(hi) && hi > 0 ? x : smaller(p, x, term_constant(p, hi)); }

static struct term *unknown(struct prover *p, enum op op, struct term *x, struct term *y)
{
  const struct op_row *row = &op_rows[op];
  if (!(row->flags & OPAQUE) || row->attrs) return prove_give_up(p, "an operator that the algebra does not know");
  struct term *t = !y && row->least > 1 ? NULL : term_new(p, TERM_OPAQUE, x, y);
  if (t) t->op = op;
  return t;
}

static struct term *meaning(struct prover *p, const struct node *n, struct term *x, struct term *y)
{
  const struct attrs *a = &n->a;
  switch ((int)n->op) {
#define LAW(id, flags, term) \
  case OP_##id:              \
    return term;
#define FOLD(id, term)
#include "verify/law.def"
#undef LAW
#undef FOLD
  default: return unknown(p, n->op, x, y);
  }
}

static bool rises(enum op op)
{
  enum { RISES = 1 };
  switch ((int)op) {
#define LAW(id, flags, term) \
  case OP_##id:              \
    return (flags) == RISES;
#define FOLD(id, term)
#include "verify/law.def"
#undef LAW
#undef FOLD
  default: return false;
  }
}

struct term *term_map(struct prover *p, const struct node *n, struct term *x, struct term *y)
{
  struct term *t = meaning(p, n, x, y);
  if (t && rises(n->op)) t->rises = n, t->argument = x;
  return t;
}

static struct term *element(const struct fold *f) { return f->body(f->arg); }
static struct term *total(const struct fold *f) { return term_sum(f->p, f->over, f->body, f->arg); }
static struct term *largest(const struct fold *f, struct term *x) { return term_max(f->p, f->over, x); }

struct term *term_fold(const struct fold *f, enum op op)
{
  struct prover *p = f->p;
  switch ((int)op) {
#define LAW(id, flags, term)
#define FOLD(id, term) \
  case OP_##id:        \
    return term;
#include "verify/law.def"
#undef LAW
#undef FOLD
  default: return prove_give_up(p, "an operator that the algebra does not know");
  }
}

// Constructs terms, and defines operators by the laws of op.def (law_term.h).
#include "verify/law_term.h"
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

// ---- meanings of operators ----

static struct term *plus(struct prover *p, struct term *x, struct term *y) { return term_new(p, TERM_ADD, x, y); }
static struct term *times(struct prover *p, struct term *x, struct term *y) { return term_new(p, TERM_MUL, x, y); }
static struct term *negative(struct prover *p, struct term *x) { return times(p, term_ratio(p, -1, 1), x); }

static struct term *smaller(struct prover *p, struct term *x, struct term *y)
{
  return negative(p, term_new(p, TERM_LARGER, negative(p, x), negative(p, y)));
}

// x, or the larger of x and lo. A lower bound of -infinity means that there is none.
static struct term *at_least(struct prover *p, struct term *x, double lo)
{
  return isinf(lo) && lo < 0 ? x : term_new(p, TERM_LARGER, x, term_constant(p, lo));
}
static struct term *at_most(struct prover *p, struct term *x, double hi) { return isinf(hi) && hi > 0 ? x : smaller(p, x, term_constant(p, hi)); }

static struct term *unknown(struct prover *p, enum op op, struct term *x, struct term *y)
{
  struct term *t = !y && op_rows[op].least > 1 ? NULL : term_new(p, TERM_OPAQUE, x, y);
  if (t) t->op = op;
  return t;
}

static struct term *of_parity(struct prover *p, enum op op, struct term *x, int parity)
{
  struct term *t = unknown(p, op, x, NULL);
  if (t) t->parity = parity;
  return t;
}

static struct term *meaning(struct prover *p, const struct node *n, struct term *x, struct term *y)
{
  ATTR_LOCALS(&n->a);
  switch ((int)n->op) {
#define TERM_OF_MAP(id, law) \
  case OP_##id:              \
    return law;
#define TERM_OF_OTHER(id, law)
#define TERM_OF_IO TERM_OF_OTHER
#define TERM_OF_CONST TERM_OF_OTHER
#define TERM_OF_INDEX TERM_OF_OTHER
#define TERM_OF_CONTRACT TERM_OF_OTHER
#define TERM_OF_REDUCE TERM_OF_OTHER
#define TERM_OF_VIEW TERM_OF_OTHER
#define TERM_OF_AT TERM_OF_OTHER
#define TERM_OF_CONCAT TERM_OF_OTHER
#define TERM_OF_SPLIT TERM_OF_OTHER
#define TERM_OF_WORLD TERM_OF_OTHER
#define TERM_OF_COMPOSITE TERM_OF_OTHER
#define TERM_OF_ACCUM TERM_OF_OTHER
#define TERM_OF_GRAPH TERM_OF_OTHER
#define OP(id, name, least, most, rule, levels, attrs, flags, code, law, abstract, range, cost, doc) TERM_OF_##rule(id, law)
#include "ir/op.def"
#undef OP
  default: return prove_give_up(p, "an operator that the algebra does not know");
  }
}

struct term *term_map(struct prover *p, const struct node *n, struct term *x, struct term *y)
{
  struct term *t = meaning(p, n, x, y);
  if (t && (op_rows[n->op].flags & RISES)) t->rises = n, t->argument = x;
  return t;
}

struct term *term_fold(const struct verify_fold *f, enum op op)
{
  struct prover *p = f->p;
  switch ((int)op_rows[op].abstract) {
  case AE_SUM: return term_sum(p, f->over, f->body, f->arg);
  case AE_MEAN: return times(p, term_sum(p, f->over, f->body, f->arg), term_ratio(p, 1, f->len));
  case AE_MAX: return term_max(p, f->over, f->body(f->arg));
  default: return prove_give_up(p, "an operator that the algebra does not know");
  }
}

// Random rewriting by the axioms, in both directions. Each rule returns an equal term, or NULL if it does not apply. The caller chooses the laws.
#include "terms.h"

static bool is(const struct term *t, enum term_op op) { return t && t->op == op; }

static const struct term *rewrite_add(struct arena *m, uint64_t rule, const struct term *t)
{
  const struct term *a = t->a, *b = t->b;
  if (rule == 0) return mk(m, T_ADD, 0, b, a);
  if (rule == 1 && is(b, T_ADD)) return mk(m, T_ADD, 0, mk(m, T_ADD, 0, a, b->a), b->b);
  if (rule == 2 && is(a, T_ADD)) return mk(m, T_ADD, 0, a->a, mk(m, T_ADD, 0, a->b, b));
  bool factors = a->op == b->op && (is(a, T_MUL) || is(a, T_DIV)) && term_same(a->b, b->b);
  if (factors || (is(a, T_SUM) && is(b, T_SUM) && a->k == b->k)) return mk(m, a->op, a->k, mk(m, T_ADD, 0, a->a, b->a), a->b);
  return NULL;
}

static const struct term *rewrite_mul(struct arena *m, uint64_t rule, const struct term *t)
{
  const struct term *a = t->a, *b = t->b;
  if (rule == 0) return mk(m, T_MUL, 0, b, a);
  if (rule == 1 && is(b, T_MUL)) return mk(m, T_MUL, 0, mk(m, T_MUL, 0, a, b->a), b->b);
  if (rule == 2 && is(a, T_MUL)) return mk(m, T_MUL, 0, a->a, mk(m, T_MUL, 0, a->b, b));
  if (rule == 3 && is(b, T_DIV)) return mk(m, T_DIV, 0, mk(m, T_MUL, 0, a, b->a), b->b);
  if (is(a, T_ADD)) return mk(m, T_ADD, 0, mk(m, T_MUL, 0, a->a, b), mk(m, T_MUL, 0, a->b, b));
  if (is(a, T_SUM)) return mk(m, T_SUM, a->k, mk(m, T_MUL, 0, a->a, b), NULL);
  if (is(a, T_EXP) && is(b, T_EXP)) return mk(m, T_EXP, 0, mk(m, T_ADD, 0, a->a, b->a), NULL);
  if (is(a, T_SQRT) && is(b, T_SQRT)) return mk(m, T_SQRT, 0, mk(m, T_MUL, 0, a->a, b->a), NULL);
  if (is(a, T_ATOM) && is(b, T_ATOM) && a->k == b->k) return mk(m, T_SQ, 0, a, NULL);
  return NULL;
}

static const struct term *rewrite_div(struct arena *m, uint64_t rule, const struct term *t)
{
  const struct term *a = t->a, *b = t->b;
  if (rule == 0 && is(b, T_MUL)) return mk(m, T_DIV, 0, mk(m, T_DIV, 0, a, b->a), b->b);
  if (is(a, T_DIV)) return mk(m, T_DIV, 0, a->a, mk(m, T_MUL, 0, a->b, b));
  if (is(a, T_ADD)) return mk(m, T_ADD, 0, mk(m, T_DIV, 0, a->a, b), mk(m, T_DIV, 0, a->b, b));
  if (is(a, T_MUL)) return mk(m, T_MUL, 0, a->a, mk(m, T_DIV, 0, a->b, b));
  if (is(a, T_SUM)) return mk(m, T_SUM, a->k, mk(m, T_DIV, 0, a->a, b), NULL);
  return NULL;
}

static const struct term *rewrite_sum(struct arena *m, uint64_t rule, const struct term *t)
{
  const struct term *a = t->a;
  if (rule == 0 && t->k % 2 == 0) return mk(m, T_SUM, 2, mk(m, T_SUM, t->k / 2, a, NULL), NULL);
  if (rule == 1 && t->k == 1) return a;
  if (is(a, T_SUM)) return mk(m, T_SUM, t->k * a->k, a->a, NULL);
  if (is(a, T_ADD)) return mk(m, T_ADD, 0, mk(m, T_SUM, t->k, a->a, NULL), mk(m, T_SUM, t->k, a->b, NULL));
  if (is(a, T_MUL) || is(a, T_DIV)) return mk(m, a->op, 0, mk(m, T_SUM, t->k, a->a, NULL), a->b);
  return NULL;
}

static const struct term *rewrite_unary(struct arena *m, uint64_t rule, const struct term *t)
{
  const struct term *a = t->a;
  if (is(t, T_EXP) && is(a, T_ADD)) return mk(m, T_MUL, 0, mk(m, T_EXP, 0, a->a, NULL), mk(m, T_EXP, 0, a->b, NULL));
  if (is(t, T_SQRT) && is(a, T_MUL)) return mk(m, T_MUL, 0, mk(m, T_SQRT, 0, a->a, NULL), mk(m, T_SQRT, 0, a->b, NULL));
  if (is(t, T_SQ) && is(a, T_ATOM)) return mk(m, T_MUL, 0, a, a);
  if (is(t, T_SQ) && is(a, T_MUL) && (is(a->a, T_ATOM) || is(a->b, T_ATOM)))
    return mk(m, T_MUL, 0, mk(m, T_SQ, 0, a->a, NULL), mk(m, T_SQ, 0, a->b, NULL));
  if (is(t, T_SQ) && is(a, T_SUM)) return mk(m, T_SUM, a->k * a->k, mk(m, T_SQ, 0, a->a, NULL), NULL);
  if (is(t, T_SQ) && is(a, T_DIV) && is(a->b, T_ATOM)) return mk(m, T_DIV, 0, mk(m, T_SQ, 0, a->a, NULL), mk(m, T_MUL, 0, a->b, a->b));
  if (is(t, T_MAX) && is(a, T_MAX)) return mk(m, T_MAX, t->k * a->k, a->a, NULL);
  if (is(t, T_MAX) && t->k % 2 == 0 && rule < 2) return mk(m, T_MAX, t->k / 2, mk(m, T_MAX, 2, a, NULL), NULL);
  return NULL;
}

static const struct term *rewrite_extremum(struct arena *m, uint64_t rule, const struct term *t)
{
  const struct term *a = t->a, *b = t->b;
  if (rule == 0) return mk(m, t->op, 0, b, a);
  if (rule == 1 && is(b, t->op)) return mk(m, t->op, 0, mk(m, t->op, 0, a, b->a), b->b);
  if (rule == 2) return mk(m, t->op, 0, a, t);
  return term_same(a, b) ? a : NULL;
}

static const struct term *rewrite_here(struct arena *m, struct rng *r, const struct term *t, enum laws laws)
{
  uint64_t rule = rng_below(r, 5);
  bool any = laws == LAWS_ALL;
  if (rng_below(r, 12) == 0) return any && rng_below(r, 4) == 0 ? mk(m, T_EWMAX, 0, t, t) : mk(m, T_SUM, 1, t, NULL);
  switch (t->op) {
  case T_ADD: return rewrite_add(m, rule, t);
  case T_MUL: {
    const struct term *s = rewrite_mul(m, rule, t);
    bool needs_exp_laws = is(s, T_EXP) || is(s, T_SQRT);
    return (needs_exp_laws && laws == LAWS_PAPER) || (is(s, T_SQ) && !any) ? NULL : s;
  }
  case T_DIV: return rewrite_div(m, rule, t);
  case T_SUM: return rewrite_sum(m, rule, t);
  case T_EXP:
  case T_SQRT:
  case T_SQ:
  case T_MAX: return laws == LAWS_PAPER ? NULL : rewrite_unary(m, rule, t);
  case T_EWMAX:
  case T_EWMIN: return rewrite_extremum(m, rule, t);
  case T_ATOM:
  case T_F: return NULL;
  }
  return NULL;
}

const struct term *rewrite(struct arena *m, struct rng *r, const struct term *t, enum laws laws)
{
  int at = (int)rng_below(r, (uint64_t)term_size(t));
  if (at == 0 || !t->a) {
    const struct term *s = rewrite_here(m, r, t, laws);
    return s ? s : t;
  }
  bool left = at <= term_size(t->a);
  const struct term *s = rewrite(m, r, left ? t->a : t->b, laws);
  return mk(m, t->op, t->k, left ? s : t->a, left ? t->b : s);
}

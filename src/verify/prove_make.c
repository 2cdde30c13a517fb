// Terms -> forms. A digit that must be split for a case is split before the term that binds it is complete, so no form contains the unsplit digit.
#include "verify/prove.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_EXPONENT = 16, MOST_WEIGHT = 40 };

// The number with at most nine digits that is nearest to x.
static double shortened(double x)
{
  char text[32];
  snprintf(text, sizeof text, "%.9g", x);
  return strtod(text, NULL);
}

// Whether c > 0 is the double nearest to the root of a rational number, or to its inverse.
static bool root_meant(double c, struct ratio *r)
{
  double up = shortened(c * c), down = shortened(1 / (c * c));
  if (sqrt(up) == c) return ratio_meant(up, r);
  if ((1 / sqrt(down) != c && sqrt(1 / down) != c) || !ratio_meant(down, r)) return false;
  return *r = ratio_inverse(*r), true;
}

static struct form *of_constant(struct prover *p, struct term *t)
{
  static const struct ratio half = {1, 2};
  struct ratio r;
  double c = t->constant;
  if (ratio_meant(c, &r)) return form_constant(p, r);
  if (root_meant(fabs(c), &r)) return form_scale(p, form_root(p, form_constant(p, r), half), (struct ratio){c < 0 ? -1 : 1, 1});
  if (!(c - c == 0)) return prove_give_up(p, "a constant is no number");
  return form_atom(p, (struct atom){.kind = ATOM_CONSTANT, .value = c < 0 ? -c : c, .sign = POSITIVE}, (struct ratio){c < 0 ? -1 : 1, 1});
}

static struct form *element(struct prover *p, int array, int n, const struct subscript *from)
{
  struct subscript *at = NEWS(p->mem, struct subscript, n + 1);
  for (int i = 0; i < n; i++) {
    at[i] = subscript_expand(p, from[i]);
    if (subscript_composite(p, at[i])) return prove_give_up(p, "an index is split inside one of its parts");
  }
  struct form *f = form_atom(p, (struct atom){.kind = ATOM_ELEMENT, .tag = array, .nat = n, .at = at}, (struct ratio){1, 1});
  if (f) p->numbered |= f->m[0].f[0].a->numbered;
  return f;
}

static struct form *of_element(struct prover *p, struct term *t) { return element(p, t->array, t->n, t->at); }

static struct form *unknown(struct prover *p, enum op op, const struct form *x, const struct form *y)
{
  if (!x || p->why) return NULL;
  struct atom a = {.kind = ATOM_OPAQUE, .tag = (int)op, .f = {x, y}, .sign = op == OP_SIGMOID ? POSITIVE : ANY_SIGN};
  return form_atom(p, a, (struct ratio){1, 1});
}

// A canonical choice between x and -x: the sign of the coefficients of the monomials with the least hash. These do not depend on digit names, so
// forms that differ only in names get the same choice. If they cancel, the sign is 1. That may lose proofs but cannot make wrong ones.
static int leading_sign(struct prover *p, const struct form *x)
{
  struct ratio c = {0, 1};
  uint64_t least = UINT64_MAX;
  for (const struct monomial *m = x->m; m < x->m + x->n; m++) {
    if (m->hash > least) continue;
    c = m->hash < least ? m->c : ratio_add(p, c, m->c);
    least = m->hash;
  }
  return ratio_floor(c) < 0 ? -1 : 1;
}

// An opaque function with f(-x) = parity f(x): one argument represents x and -x.
static struct form *of_parity(struct prover *p, enum op op, const struct form *x, int parity)
{
  if (!x || p->why) return NULL;
  if (!x->n && parity < 0) return form_constant(p, (struct ratio){0, 1});
  const int sign = leading_sign(p, x);
  struct form *f = unknown(p, op, sign < 0 ? form_scale(p, x, (struct ratio){-1, 1}) : x, NULL);
  return f && sign < 0 && parity < 0 ? form_scale(p, f, (struct ratio){-1, 1}) : f;
}

// ---- digits that are bound ----

// The digits that a sum or a maximum binds, as currently split.
static struct digits bound_by(struct prover *p, struct term *t)
{
  struct digits d = {0};
  struct subscript s = subscript_expand(p, *t->at);
  for (int i = 0; i < s.n; i++)
    if (s.p[i].digit >= 0) PUSH(p->mem, d.d, d.n, d.cap) = s.p[i].digit;
  return d;
}

static struct form *of_sum(struct prover *p, struct term *t)
{
  const struct form *x = form_of(p, t->x);
  struct digits d = bound_by(p, t);
  struct form *r = x ? form_sum(p, x, d.n, d.d) : NULL;
  if (r) r->sign = x->sign;
  return r;
}

static const struct form *of_max(struct prover *p, struct term *t)
{
  const struct form *x = form_of(p, t->x);
  struct digits d = bound_by(p, t);
  return x ? form_max(p, &(struct branches){.n = 1, .b = &(struct branch){x, d.n, d.d}}) : NULL;
}

// The second argument fixes the order of the loop's axes. It is an element of an array that is in no graph.
static struct form *of_running(struct prover *p, struct term *t)
{
  enum { NO_ARRAY = -1 };
  struct digits d = {0};
  int n = t->n / 2;
  p->running++;
  const struct form *x = form_of(p, t->x), *order = x ? element(p, NO_ARRAY, n, t->at + n) : NULL;
  const struct form *now = order ? element(p, NO_ARRAY, n, t->at) : NULL;
  p->running--;
  if (!now) return NULL;
  const struct atom *axes = order->m[0].f[0].a, *here = now->m[0].f[0].a;
  for (int i = 0; i < axes->nfree; i++) digits_add(p, &d, axes->free[i]);
  struct atom a = {.kind = ATOM_RUNNING, .tag = t->change, .nat = n, .at = here->at, .f = {x, order}, .nbound = d.n, .bound = d.d};
  return form_atom(p, a, (struct ratio){1, 1});
}

// ---- products and powers ----

static bool is_square(struct prover *p, const struct form *x, const struct form *y) { return x == y || (x && y && form_same(p, x, y)); }

static struct form *of_product(struct prover *p, struct term *t)
{
  const struct form *x = form_of(p, t->x), *y = x ? form_of(p, t->y) : NULL;
  struct form *r = form_mul(p, x, y);
  if (r && r->sign == ANY_SIGN && is_square(p, x, y)) r->sign = NONNEGATIVE;
  return r;
}

// Quotients, roots and logarithms of a product are computed by its factors before these are multiplied out. A sum that was multiplied out has no
// factors.
static const struct form *inverse_of(struct prover *p, struct term *t)
{
  if (t->kind != TERM_MUL) return form_inverse(p, form_of(p, t));
  const struct form *x = inverse_of(p, t->x), *y = x ? inverse_of(p, t->y) : NULL;
  struct form *r = form_mul(p, x, y);
  if (r) r->sign = form_sign(p, form_of(p, t)) ? POSITIVE : ANY_SIGN;
  return r;
}

static const struct form *bars(struct prover *p, const struct form *x)
{
  return form_larger(p, x, x ? form_scale(p, x, (struct ratio){-1, 1}) : NULL);
}

static const struct form *root_of(struct prover *p, struct term *t, struct ratio e)
{
  const struct form *f = form_of(p, t), *x = t->kind == TERM_MUL ? form_of(p, t->x) : NULL;
  const struct form *y = x ? form_of(p, t->y) : NULL;
  struct ratio twice = ratio_mul(p, e, (struct ratio){2, 1});
  if (!f || !f->n || !y) return form_root(p, f, e);
  if (is_square(p, x, y)) return twice.d == 1 ? form_power(p, bars(p, x), twice.n) : form_root(p, bars(p, x), twice);
  if (!form_sign(p, x) || !form_sign(p, y)) return form_root(p, f, e);
  const struct form *r = root_of(p, t->x, e);
  return r ? form_mul(p, r, root_of(p, t->y, e)) : NULL;
}

static const struct form *log_of(struct prover *p, struct term *t)
{
  const struct form *f = form_of(p, t), *x = t->kind == TERM_MUL ? form_of(p, t->x) : NULL;
  const struct form *y = x ? form_of(p, t->y) : NULL;
  if (!f || !f->n || !y) return form_log(p, f);
  if (is_square(p, x, y)) {
    const struct form *r = form_log(p, bars(p, x));
    return r ? form_scale(p, r, (struct ratio){2, 1}) : NULL;
  }
  if (!form_sign(p, x) || !form_sign(p, y)) return form_log(p, f);
  const struct form *r = log_of(p, t->x);
  return r ? form_add(p, r, log_of(p, t->y)) : NULL;
}

// A power with an exponent that is not a small number is an unknown function.
static const struct form *of_power(struct prover *p, struct term *t)
{
  const struct form *x = form_of(p, t->x), *y = x ? form_of(p, t->y) : NULL;
  if (!y) return NULL;
  struct ratio e = y->n ? y->m[0].c : (struct ratio){0, 1};
  bool number = !y->n || (y->n == 1 && !y->m[0].nfactors && !y->m[0].nbound);
  if (!number || ratio_floor(ratio_abs(e)) >= MOST_EXPONENT) return unknown(p, OP_POW, x, y);
  if (e.d == 1) return form_power(p, x, e.n);
  const struct form *r = root_of(p, t->x, ratio_abs(e));
  return e.n < 0 ? form_inverse(p, r) : r;
}

// 1 / (1 + exp(-x)), if that form is small. It contains x more than once, so deep networks would grow.
static const struct form *of_logistic(struct prover *p, const struct form *x)
{
  const struct form *f = unknown(p, OP_SIGMOID, x, NULL);
  if (!f || f->m[0].f[0].a->weight > MOST_WEIGHT) return f;
  const struct form *e = form_exp(p, form_scale(p, x, (struct ratio){-1, 1}));
  return e ? form_inverse(p, form_add(p, form_constant(p, (struct ratio){1, 1}), e)) : NULL;
}

// ---- all ----

static const struct form *made(struct prover *p, struct term *t)
{
  static const struct ratio half = {1, 2};
  bool plain = t->x && t->kind != TERM_RUNNING;
  const struct form *x = plain ? form_of(p, t->x) : NULL;
  switch (t->kind) {
  case TERM_NUMBER: return form_constant(p, t->number);
  case TERM_CONSTANT: return of_constant(p, t);
  case TERM_ELEMENT: return of_element(p, t);
  case TERM_ADD: return form_gather(p, form_add(p, x, form_of(p, t->y)));
  case TERM_MUL: return of_product(p, t);
  case TERM_INVERSE: return inverse_of(p, t->x);
  case TERM_EXP: return form_exp(p, x);
  case TERM_SQRT: return root_of(p, t->x, half);
  case TERM_LOG: return log_of(p, t->x);
  case TERM_POWER: return of_power(p, t);
  case TERM_LARGER: return form_larger(p, x, form_of(p, t->y));
  case TERM_LOGISTIC: return of_logistic(p, x);
  case TERM_OPAQUE: return t->parity ? of_parity(p, t->op, x, t->parity) : unknown(p, t->op, x, t->y ? form_of(p, t->y) : NULL);
  case TERM_SUM: return of_sum(p, t);
  case TERM_MAX: return of_max(p, t);
  case TERM_RUNNING: return of_running(p, t);
  }
  return NULL;
}

const struct form *form_of(struct prover *p, struct term *t)
{
  if (p->why || !t) return NULL;
  if (!t->form || t->round != p->round) t->form = made(p, t), t->round = p->round;
  return p->why ? NULL : t->form;
}

// Integer expressions in C++. They are signed: the compiler may then assume that nothing overflows, and can move constant
// parts of an index into the address. A value whose range may exceed 32 bits is computed in 64. Quotients and remainders
// by powers of two are shifts and masks, which round towards minus infinity, as the IR does. Other quotients are unsigned
// if the range proves that the dividend is not negative, and otherwise a function of the prelude.
#include "cuda/cu_print.h"

#include <string.h>

static bool fits(struct ex_range r) { return r.lo > INT32_MIN && r.hi <= INT32_MAX; }

static const struct ex_node *node(const struct printer *w, ex x) { return ex_node(w->s.p->ex, x); }
static struct ex_range range(const struct printer *w, ex x) { return ex_range(w->s.p->ex, x); }
static bool is(const struct printer *w, ex x, enum ex_kind kind) { return !ex_is_const(x) && node(w, x)->kind == kind; }
static bool is_truth(const struct printer *w, ex x) { return is(w, x, EX_LT) || is(w, x, EX_EQ) || is(w, x, EX_BOTH) || is(w, x, EX_EITHER); }

static bool is_opposite(const struct printer *w, ex x)
{
  if (!is(w, x, EX_SUM)) return false;
  const struct ex_node *n = node(w, x);
  return n->n == 1 && n->c == 1 && n->coef[0] == -1 && is_truth(w, n->arg[0]);
}

bool cu_is_truth(const struct printer *w, ex x) { return is_truth(w, x) || is_opposite(w, x); }

static const char *at_least(struct printer *w, struct words t, enum tile_level least)
{
  return t.level < least ? arena_printf(w->s.mem, "(%s)", t.text) : t.text;
}

static struct words widened(struct printer *w, struct words t)
{
  if (t.wide) return t;
  return (struct words){arena_printf(w->s.mem, "i64(%s)", t.text), L_ATOM, true};
}

// t as an argument of a function that takes two values of one type.
static struct words argument(struct printer *w, struct words t, bool wide)
{
  if (wide) return widened(w, t);
  return t.truth ? (struct words){arena_printf(w->s.mem, "int(%s)", t.text), L_ATOM, false, false} : t;
}

// Converts to 32 bits a value that was computed in 64, if its range fits.
static struct words narrowed(struct printer *w, ex x, struct words t)
{
  if (!t.wide || !fits(range(w, x))) return t;
  return (struct words){arena_printf(w->s.mem, "int(%s)", t.text), L_ATOM, false};
}

static struct words constant(struct printer *w, int64_t v)
{
  bool wide = v <= INT32_MIN || v > INT32_MAX;
  if (v == INT64_MIN) return (struct words){"(-0x7fffffffffffffffLL - 1)", L_ATOM, true};
  return (struct words){arena_printf(w->s.mem, wide ? "%lldLL" : "%lld", (long long)v), v < 0 ? L_UNARY : L_ATOM, wide};
}

static struct ex_range scaled(struct ex_range r, int64_t k)
{
  int64_t a, b;
  if (__builtin_mul_overflow(r.lo, k, &a) || __builtin_mul_overflow(r.hi, k, &b)) return (struct ex_range){INT64_MIN, INT64_MAX};
  return (struct ex_range){MIN(a, b), MAX(a, b)};
}

static struct ex_range added(struct ex_range a, struct ex_range b)
{
  struct ex_range r;
  if (__builtin_add_overflow(a.lo, b.lo, &r.lo)) r.lo = INT64_MIN;
  if (__builtin_add_overflow(a.hi, b.hi, &r.hi)) r.hi = INT64_MAX;
  return r;
}

// ---- products and sums ----

static struct words product(struct printer *w, ex x)
{
  const struct ex_node *n = node(w, x);
  struct ex_range so_far = range(w, n->arg[0]);
  struct words t = cu_ex(w, n->arg[0]);
  const char *text = at_least(w, t, L_TERM);
  bool wide = t.wide;
  for (int i = 1; i < n->n; i++) { // each partial product must fit, even if the whole product does
    struct ex_range r = range(w, n->arg[i]);
    struct ex_range a = scaled(so_far, r.lo), b = scaled(so_far, r.hi);
    so_far = (struct ex_range){MIN(a.lo, b.lo), MAX(a.hi, b.hi)};
    struct words f = cu_ex(w, n->arg[i]);
    if (!fits(so_far) && !wide && !f.wide) text = arena_printf(w->s.mem, "i64(%s)", text);
    wide |= f.wide || !fits(so_far);
    text = arena_printf(w->s.mem, "%s * %s", text, at_least(w, f, L_TERM + 1));
  }
  return (struct words){text, L_TERM, wide};
}

// |k| * x, as a term of a sum
static struct words term(struct printer *w, ex x, int64_t k)
{
  struct words t = cu_ex(w, x);
  if (k < 0) k = k == INT64_MIN ? INT64_MAX : -k;
  if (k == 1) return t;
  if (!fits(scaled(range(w, x), k))) t = widened(w, t);
  struct words c = constant(w, k);
  return (struct words){arena_printf(w->s.mem, "%s * %s", at_least(w, t, L_TERM), c.text), L_TERM, t.wide || c.wide};
}

struct cu_ex_parts { // terms of a sum that have been printed
  struct str s;
  int n;
  struct ex_range range;
};

static void part(struct printer *w, struct cu_ex_parts *p, struct words t, bool minus, struct ex_range r)
{
  const char *text = at_least(w, t, minus ? L_TERM : L_SUM);
  if (!p->n)
    str_add(&p->s, minus ? "-%s" : "%s", minus ? at_least(w, t, L_UNARY) : text);
  else
    str_add(&p->s, minus ? " - %s" : " + %s", text);
  p->range = p->n++ ? added(p->range, r) : r;
}

static void constant_part(struct printer *w, struct cu_ex_parts *narrow, struct cu_ex_parts *wide, int64_t c)
{
  struct ex_range r = {c, c};
  bool fit = fits(r) && (!narrow->n || fits(added(narrow->range, r))), minus = c < 0 && c != INT64_MIN;
  struct words t = constant(w, minus ? -c : c);
  part(w, fit ? narrow : wide, fit ? t : widened(w, t), minus, r);
}

static bool has_factor(const struct printer *w, ex t, ex f)
{
  if (t == f) return true;
  bool has = false;
  for (int i = 0; is(w, t, EX_PROD) && i < node(w, t)->n; i++) has |= node(w, t)->arg[i] == f;
  return has;
}

static ex without(struct printer *w, ex t, ex f)
{
  if (t == f) return EX_C(1);
  const struct ex_node *n = node(w, t);
  ex r = EX_C(1);
  bool gone = false;
  for (int i = 0; i < n->n; i++)
    if (n->arg[i] == f && !gone)
      gone = true;
    else
      r = ex_mul(w->s.p->ex, r, n->arg[i]);
  return r;
}

// The variable that is a factor of the most terms, usually the length of a row. 0: no variable is a factor of two terms.
static ex common_factor(struct printer *w, const struct ex_node *n)
{
  ex best = 0;
  int most = 1;
  for (int i = 0; i < n->n; i++) {
    if (!is(w, n->arg[i], EX_PROD)) continue;
    const struct ex_node *t = node(w, n->arg[i]);
    for (int j = 0; j < t->n; j++) {
      int times = 0;
      for (int k = 0; k < n->n; k++) times += has_factor(w, n->arg[k], t->arg[j]);
      if (is(w, t->arg[j], EX_VAR) && times > most) best = t->arg[j], most = times;
    }
  }
  return best;
}

// Prints the wide terms, then the others as one sum in 32 bits, as long as each partial sum fits. Terms of a wide sum with
// a common factor are multiplied once: K * (row + 8) instead of K * row + K * 8.
static struct words sum(struct printer *w, ex x)
{
  const struct ex_node *n = node(w, x);
  struct cu_ex_parts narrow = {0}, wide = {0};
  ex factor = fits(range(w, x)) ? 0 : common_factor(w, n), rest = EX_C(0);
  for (int i = 0; factor && i < n->n; i++)
    if (has_factor(w, n->arg[i], factor)) rest = ex_add(w->s.p->ex, rest, ex_mul(w->s.p->ex, EX_C(n->coef[i]), without(w, n->arg[i], factor)));
  if (factor) {
    const char *by = at_least(w, cu_ex(w, rest), L_ATOM), *f = widened(w, cu_ex(w, factor)).text;
    part(w, &wide, (struct words){arena_printf(w->s.mem, "%s * %s", f, by), L_TERM, true, false}, false, range(w, x));
  }
  bool constant_first = n->c > 0; // if all other terms are negative
  for (int i = 0; i < n->n; i++) constant_first &= n->coef[i] < 0;
  if (constant_first) constant_part(w, &narrow, &wide, n->c);
  for (int pass = 0; pass < 2; pass++) // positive terms first, so that the sum does not begin with a minus
    for (int i = 0; i < n->n; i++) {
      if ((n->coef[i] < 0) != pass || (factor && has_factor(w, n->arg[i], factor))) continue;
      struct words t = term(w, n->arg[i], n->coef[i]);
      struct ex_range r = scaled(range(w, n->arg[i]), n->coef[i]);
      bool fit = !t.wide && fits(r) && (!narrow.n || fits(added(narrow.range, r)));
      part(w, fit ? &narrow : &wide, fit ? t : widened(w, t), pass, r);
    }
  if (n->c && !constant_first) constant_part(w, &narrow, &wide, n->c);
  bool is_wide = wide.n > 0;
  if (is_wide && narrow.n) str_add(&wide.s, narrow.n > 1 ? " + (%s)" : " + %s", str_text(&narrow.s));
  struct words t = {arena_strdup(w->s.mem, str_text(is_wide ? &wide.s : &narrow.s)), wide.n + narrow.n > 1 ? L_SUM : L_TERM, is_wide, false};
  str_free(&wide.s), str_free(&narrow.s);
  return narrowed(w, x, t);
}

// ---- quotients, comparisons, choices ----

static int log2_of(ex x) // -1 if x is no constant power of two
{
  if (!ex_is_const(x)) return -1;
  int64_t v = ex_value(x);
  return v > 0 && !(v & (v - 1)) ? __builtin_ctzll((uint64_t)v) : -1;
}

static struct words quotient(struct printer *w, ex x)
{
  const struct ex_node *n = node(w, x);
  bool div = n->kind == EX_DIV;
  struct words a = cu_ex(w, n->arg[0]), b = cu_ex(w, n->arg[1]);
  int bits = log2_of(n->arg[1]);
  if (bits >= 0) {
    const char *left = at_least(w, a, L_ATOM);
    const char *text = div ? arena_printf(w->s.mem, "%s >> %d", left, bits)
                           : arena_printf(w->s.mem, a.wide && bits >= 31 ? "%s & %lldLL" : "%s & %lld", left, (long long)ex_value(n->arg[1]) - 1);
    return narrowed(w, x, (struct words){text, div ? L_SHIFT : L_AND, a.wide});
  }
  bool wide = a.wide || b.wide, known = range(w, n->arg[0]).lo >= 0;
  const char *text;
  if (known)
    text = arena_printf(w->s.mem, "%s(%s(%s) %c %s(%s))", wide ? "i64" : "int", wide ? "u64" : "u32", a.text, div ? '/' : '%', wide ? "u64" : "u32",
                        b.text);
  else
    text = arena_printf(w->s.mem, "%s(%s, %s)", div ? "mica_div" : "mica_mod", argument(w, a, wide).text, argument(w, b, wide).text);
  return narrowed(w, x, (struct words){text, L_ATOM, wide});
}

static const struct {
  const char *op;
  enum tile_level level,
      operand; // least precedence of an operand without parentheses; higher than C++ requires where readers could err
} binary[] = {
    [EX_XOR] = {"^", L_XOR, L_ATOM},    [EX_AND] = {"&", L_AND, L_ATOM},    [EX_SHR] = {">>", L_SHIFT, L_ATOM},     [EX_LT] = {"<", L_LESS, L_SHIFT},
    [EX_EQ] = {"==", L_EQUAL, L_SHIFT}, [EX_BOTH] = {"&&", L_BOTH, L_BOTH}, [EX_EITHER] = {"||", L_EITHER, L_ATOM},
};

static struct words infix(struct printer *w, enum ex_kind kind, const char *op, ex x, ex y)
{
  struct words a = cu_ex(w, x), b = cu_ex(w, y);
  enum tile_level least = binary[kind].operand;
  const char *text = arena_printf(w->s.mem, "%s %s %s", at_least(w, a, least), op, at_least(w, b, least));
  bool truth = kind == EX_LT || kind == EX_EQ || kind == EX_BOTH || kind == EX_EITHER;
  return (struct words){text, binary[kind].level, !truth && (a.wide || b.wide), truth};
}

// Prints a < b + 1 as a <= b.
static struct words less(struct printer *w, const struct ex_node *n)
{
  ex right = n->arg[1];
  bool or_equal = is(w, right, EX_SUM) && node(w, right)->c == 1;
  if (or_equal) right = ex_sub(w->s.p->ex, right, EX_C(1));
  return infix(w, EX_LT, or_equal ? "<=" : "<", n->arg[0], right);
}

static struct words opposite(struct printer *w, ex truth)
{
  const struct ex_node *n = node(w, truth);
  if (n->kind == EX_EQ) return infix(w, EX_EQ, "!=", n->arg[0], n->arg[1]);
  if (n->kind == EX_LT) return infix(w, EX_LT, ">=", n->arg[0], n->arg[1]);
  return (struct words){arena_printf(w->s.mem, "!%s", at_least(w, cu_ex(w, truth), L_ATOM)), L_UNARY, false, true};
}

static struct words call(struct printer *w, const struct ex_node *n)
{
  struct words a = cu_ex(w, n->arg[0]), b = cu_ex(w, n->arg[1]);
  bool wide = a.wide || b.wide;
  a = argument(w, a, wide), b = argument(w, b, wide);
  return (struct words){arena_printf(w->s.mem, "%s(%s, %s)", n->kind == EX_MIN ? "min" : "max", a.text, b.text), L_ATOM, wide};
}

static struct words choice(struct printer *w, const struct ex_node *n)
{
  struct words a = cu_ex(w, n->arg[1]), b = cu_ex(w, n->arg[2]);
  const char *text = arena_printf(w->s.mem, "%s ? %s : %s", cu_value(w, n->arg[0], L_EITHER), at_least(w, a, L_EITHER), at_least(w, b, L_EITHER));
  return (struct words){text, L_SELECT, a.wide || b.wide};
}

struct words cu_ex(struct printer *w, ex x)
{
  if (ex_is_const(x)) return constant(w, ex_value(x));
  const struct ex_node *n = node(w, x);
  switch (n->kind) {
  case EX_VAR: CHECK(w->vars[n->c]); return (struct words){w->vars[n->c], L_ATOM, !fits(n->range)};
  case EX_SUM:
    if (is_opposite(w, x)) return opposite(w, n->arg[0]);
    return sum(w, x);
  case EX_PROD: return narrowed(w, x, product(w, x));
  case EX_DIV:
  case EX_MOD: return quotient(w, x);
  case EX_MIN:
  case EX_MAX: return narrowed(w, x, call(w, n));
  case EX_XOR:
  case EX_AND:
  case EX_SHR: return narrowed(w, x, infix(w, n->kind, binary[n->kind].op, n->arg[0], n->arg[1]));
  case EX_LT: return less(w, n);
  case EX_EQ:
  case EX_BOTH:
  case EX_EITHER: return infix(w, n->kind, binary[n->kind].op, n->arg[0], n->arg[1]);
  case EX_SELECT: return narrowed(w, x, choice(w, n));
  }
  CHECK(!"a kind of expression that is none");
  return constant(w, 0);
}

const char *cu_value(struct printer *w, ex x, enum tile_level least) { return at_least(w, cu_ex(w, x), least); }

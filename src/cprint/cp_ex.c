// Integer expressions in C, all in 64 bits: no value in the ranges of the language overflows.
#include "cprint/cp_print.h"

struct cp_ex_text {
  const char *s;
  enum tile_level level;
};

static struct cp_ex_text print(struct cprint *c, ex x);

static const struct ex_node *node(const struct cprint *c, ex x) { return ex_node(cp_pool(c), x); }

static const char *least_of(struct cprint *c, ex x, enum tile_level least)
{
  struct cp_ex_text t = print(c, x);
  return t.level < least ? arena_printf(c->w.mem, "(%s)", t.s) : t.s;
}

static struct cp_ex_text constant(struct cprint *c, int64_t v)
{
  if (v == INT64_MIN) return (struct cp_ex_text){"INT64_MIN", L_ATOM};
  bool wide = v <= INT32_MIN || v > INT32_MAX;
  return (struct cp_ex_text){arena_printf(c->w.mem, wide ? "INT64_C(%lld)" : "%lld", (long long)v), v < 0 ? L_UNARY : L_ATOM};
}

static struct cp_ex_text product(struct cprint *c, const struct ex_node *n)
{
  const char *s = least_of(c, n->arg[0], L_TERM);
  for (int i = 1; i < n->n; i++) s = arena_printf(c->w.mem, "%s * %s", s, least_of(c, n->arg[i], L_UNARY));
  return (struct cp_ex_text){s, L_TERM};
}

static const char *term(struct cprint *c, ex x, int64_t k)
{
  if (k == 1) return least_of(c, x, L_SUM + 1);
  return arena_printf(c->w.mem, "%s * %s", least_of(c, x, L_TERM), constant(c, k).s);
}

static bool is_truth(enum ex_kind k) { return k == EX_LT || k == EX_EQ || k == EX_BOTH || k == EX_EITHER; }

// A sum. A positive term comes first if there is one, so that the text does not begin with a minus.
static struct cp_ex_text sum(struct cprint *c, const struct ex_node *n)
{
  if (n->n == 1 && n->c == 1 && n->coef[0] == -1 && !ex_is_const(n->arg[0]) && is_truth(node(c, n->arg[0])->kind))
    return (struct cp_ex_text){arena_printf(c->w.mem, "!%s", least_of(c, n->arg[0], L_ATOM)), L_UNARY};
  const char *s = NULL;
  for (int i = 0; i < n->n; i++)
    if (n->coef[i] > 0) {
      const char *t = term(c, n->arg[i], n->coef[i]);
      s = s ? arena_printf(c->w.mem, "%s + %s", s, t) : t;
    }
  bool plain = s && n->n == 1 && !n->c;
  if (!s || n->c > 0)
    s = s ? arena_printf(c->w.mem, "%s + %s", s, constant(c, n->c).s) : constant(c, n->c).s;
  else if (n->c < 0)
    s = arena_printf(c->w.mem, "%s - %s", s, n->c == INT64_MIN ? "INT64_MIN" : constant(c, -n->c).s);
  for (int i = 0; i < n->n; i++)
    if (n->coef[i] < 0) s = arena_printf(c->w.mem, "%s - %s", s, term(c, n->arg[i], -n->coef[i]));
  return (struct cp_ex_text){s, plain ? L_TERM : L_SUM};
}

// Quotients and remainders round down, as in the language. Shifts and masks do so, and so does C if the dividend is not negative.
static struct cp_ex_text quotient(struct cprint *c, const struct ex_node *n)
{
  bool div = n->kind == EX_DIV;
  int64_t by = ex_is_const(n->arg[1]) ? ex_value(n->arg[1]) : 0;
  if (by > 0 && !(by & (by - 1))) {
    const char *left = least_of(c, n->arg[0], L_ATOM);
    if (div) return (struct cp_ex_text){arena_printf(c->w.mem, "%s >> %d", left, __builtin_ctzll((uint64_t)by)), L_SHIFT};
    return (struct cp_ex_text){arena_printf(c->w.mem, "%s & %s", left, constant(c, by - 1).s), L_AND};
  }
  if (ex_range(cp_pool(c), n->arg[0]).lo >= 0)
    return (struct cp_ex_text){arena_printf(c->w.mem, "%s %c %s", least_of(c, n->arg[0], L_UNARY), div ? '/' : '%', least_of(c, n->arg[1], L_UNARY)),
                               L_TERM};
  return (struct cp_ex_text){arena_printf(c->w.mem, "%s(%s, %s)", div ? "mica_quot" : "mica_rem", print(c, n->arg[0]).s, print(c, n->arg[1]).s),
                             L_ATOM};
}

static const struct {
  const char *op;
  enum tile_level level, operand; // its precedence, and the least one of an operand without parentheses
} binary[] = {
    [EX_XOR] = {"^", L_XOR, L_ATOM},    [EX_AND] = {"&", L_AND, L_ATOM},    [EX_SHR] = {">>", L_SHIFT, L_ATOM},     [EX_LT] = {"<", L_LESS, L_SHIFT},
    [EX_EQ] = {"==", L_EQUAL, L_SHIFT}, [EX_BOTH] = {"&&", L_BOTH, L_BOTH}, [EX_EITHER] = {"||", L_EITHER, L_ATOM},
};

static struct cp_ex_text infix(struct cprint *c, const struct ex_node *n)
{
  enum tile_level least = binary[n->kind].operand;
  ex right = n->arg[1];
  const char *op = binary[n->kind].op;
  bool sum1 = n->kind == EX_LT && !ex_is_const(right) && node(c, right)->kind == EX_SUM && node(c, right)->c == 1;
  if (sum1) right = ex_sub(cp_pool(c), right, EX_C(1)), op = "<="; // a < b + 1
  return (struct cp_ex_text){arena_printf(c->w.mem, "%s %s %s", least_of(c, n->arg[0], least), op, least_of(c, right, least)), binary[n->kind].level};
}

static struct cp_ex_text print(struct cprint *c, ex x)
{
  if (ex_is_const(x)) return constant(c, ex_value(x));
  const struct ex_node *n = node(c, x);
  switch (n->kind) {
  case EX_VAR: CHECK(cp_var(c, x)->text); return (struct cp_ex_text){cp_var(c, x)->text, L_ATOM};
  case EX_SUM: return sum(c, n);
  case EX_PROD: return product(c, n);
  case EX_DIV:
  case EX_MOD: return quotient(c, n);
  case EX_MIN:
  case EX_MAX:
    return (struct cp_ex_text){
        arena_printf(c->w.mem, "%s(%s, %s)", n->kind == EX_MIN ? "mica_least" : "mica_most", print(c, n->arg[0]).s, print(c, n->arg[1]).s), L_ATOM};
  case EX_XOR:
  case EX_AND:
  case EX_SHR:
  case EX_LT:
  case EX_EQ:
  case EX_BOTH:
  case EX_EITHER: return infix(c, n);
  case EX_SELECT:
    return (struct cp_ex_text){
        arena_printf(c->w.mem, "%s ? %s : %s", least_of(c, n->arg[0], L_EITHER), least_of(c, n->arg[1], L_EITHER), least_of(c, n->arg[2], L_EITHER)),
        L_SELECT};
  }
  CHECK(!"a kind of expression that is none");
  return constant(c, 0);
}

const char *cp_value(struct cprint *c, ex x, enum tile_level least) { return least_of(c, cp_known(c, x), least); }

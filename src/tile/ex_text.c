// Printing with C's operators and precedence, min(a, b) and max(a, b), and no redundant parentheses. A coefficient follows its term, negative terms
// follow positive ones, and the constant is last: i * 8 + j - M + 1. 1 - (a == b) is printed as a != b.
#include "tile/ex_pool.h"

enum { LOOSEST, TERNARY, OR, AND, BIT_XOR, BIT_AND, EQUAL, LESS, SHIFT, SUM, TERM, ATOM };

static const struct {
  const char *op;
  int level;
} ops[] = {
    [EX_DIV] = {"/", TERM}, [EX_MOD] = {"%", TERM},  [EX_XOR] = {"^", BIT_XOR}, [EX_AND] = {"&", BIT_AND}, [EX_SHR] = {">>", SHIFT},
    [EX_LT] = {"<", LESS},  [EX_EQ] = {"==", EQUAL}, [EX_BOTH] = {"&&", AND},   [EX_EITHER] = {"||", OR},
};

static void print(const struct ex_pool *p, ex x, int level, struct str *out);

static void open(struct str *out, int level, int own)
{
  if (own < level) str_add(out, "(");
}
static void close(struct str *out, int level, int own)
{
  if (own < level) str_add(out, ")");
}

static bool divided(const struct ex_pool *p, ex x) { return ex_is(p, x, EX_DIV) || ex_is(p, x, EX_MOD); }

// A quotient or remainder may be the first factor of a product without parentheses.
static int leading(const struct ex_pool *p, int n, const ex *f)
{
  for (int i = 0; i < n; i++)
    if (divided(p, f[i])) return i;
  return 0;
}

static void product(const struct ex_pool *p, ex t, int64_t k, struct str *out)
{
  const struct ex_node *n = ex_node(p, t);
  bool prod = n->kind == EX_PROD;
  const ex *f = prod ? n->arg : &t;
  int count = prod ? n->n : 1, first = leading(p, count, f);
  print(p, f[first], TERM, out);
  for (int i = 0; i < count; i++) {
    if (i == first) continue;
    str_add(out, " * ");
    print(p, f[i], ATOM, out);
  }
  if (k != 1) str_add(out, " * %lld", (long long)k);
}

// -x / 8 would parse as (-x) / 8, so it is printed as 0 - x / 8.
static const char *minus(const struct ex_pool *p, ex t)
{
  const struct ex_node *n = ex_node(p, t);
  bool quotient = n->kind == EX_PROD ? divided(p, n->arg[leading(p, n->n, n->arg)]) : divided(p, t);
  return quotient ? "0 - " : "-";
}

static bool differs(const struct ex_pool *p, const struct ex_node *n)
{
  return n->n == 1 && n->c == 1 && n->coef[0] == -1 && ex_is(p, n->arg[0], EX_EQ);
}

static void sum_terms(const struct ex_pool *p, const struct ex_node *n, struct str *out)
{
  bool begun = false;
  for (int i = 0; i < n->n; i++) {
    if (n->coef[i] < 0) continue;
    if (begun) str_add(out, " + ");
    product(p, n->arg[i], n->coef[i], out);
    begun = true;
  }
  bool constant_first = !begun && n->c > 0;
  if (constant_first) str_add(out, "%lld", (long long)n->c), begun = true;
  for (int i = 0; i < n->n; i++) {
    if (n->coef[i] >= 0) continue;
    str_add(out, "%s", begun ? " - " : minus(p, n->arg[i]));
    product(p, n->arg[i], -n->coef[i], out);
    begun = true;
  }
  if (n->c && !constant_first) str_add(out, n->c < 0 ? " - %lld" : " + %lld", (long long)(n->c < 0 ? -n->c : n->c));
}

static void sum(const struct ex_pool *p, const struct ex_node *n, int level, struct str *out)
{
  int own = n->n == 1 && !n->c && n->coef[0] > 0 ? TERM : SUM;
  if (differs(p, n)) {
    const struct ex_node *eq = ex_node(p, n->arg[0]);
    open(out, level, EQUAL);
    print(p, eq->arg[0], EQUAL + 1, out);
    str_add(out, " != ");
    print(p, eq->arg[1], EQUAL + 1, out);
    close(out, level, EQUAL);
    return;
  }
  open(out, level, own);
  sum_terms(p, n, out);
  close(out, level, own);
}

static void call(const struct ex_pool *p, const char *name, const struct ex_node *n, struct str *out)
{
  str_add(out, "%s(", name);
  print(p, n->arg[0], LOOSEST, out);
  str_add(out, ", ");
  print(p, n->arg[1], LOOSEST, out);
  str_add(out, ")");
}

static void select_text(const struct ex_pool *p, const struct ex_node *n, int level, struct str *out)
{
  open(out, level, TERNARY);
  print(p, n->arg[0], TERNARY + 1, out);
  str_add(out, " ? ");
  print(p, n->arg[1], TERNARY, out);
  str_add(out, " : ");
  print(p, n->arg[2], TERNARY, out);
  close(out, level, TERNARY);
}

static void print(const struct ex_pool *p, ex x, int level, struct str *out)
{
  if (ex_is_const(x)) {
    bool negative = ex_value(x) < 0 && level > SUM;
    str_add(out, negative ? "(%lld)" : "%lld", (long long)ex_value(x));
    return;
  }
  const struct ex_node *n = ex_node(p, x);
  if (n->kind == EX_VAR)
    str_add(out, "%s", n->name);
  else if (n->kind == EX_SUM)
    sum(p, n, level, out);
  else if (n->kind == EX_MIN)
    call(p, "min", n, out);
  else if (n->kind == EX_MAX)
    call(p, "max", n, out);
  else if (n->kind == EX_SELECT)
    select_text(p, n, level, out);
  else if (n->kind == EX_PROD) {
    open(out, level, TERM);
    product(p, x, 1, out);
    close(out, level, TERM);
  } else {
    int own = ops[n->kind].level;
    open(out, level, own);
    print(p, n->arg[0], own, out);
    str_add(out, " %s ", ops[n->kind].op);
    print(p, n->arg[1], own + 1, out);
    close(out, level, own);
  }
}

void ex_text(const struct ex_pool *p, ex x, struct str *out) { print(p, x, LOOSEST, out); }

// Evaluates expressions for values of their variables, and substitutes. The depth and size of nodes are bounded (ex_pool.h), so recursion is safe;
// substitution memoizes shared nodes.
#include "tile/ex_pool.h"

static int64_t floor_or_0(int64_t a, int64_t d) { return d > 0 ? ex_floor(a, d) : 0; }

static int64_t sum(const struct ex_pool *p, const struct ex_node *n, const int64_t *vars)
{
  uint64_t v = (uint64_t)n->c;
  for (int i = 0; i < n->n; i++) v += (uint64_t)n->coef[i] * (uint64_t)ex_eval(p, n->arg[i], vars);
  return (int64_t)v;
}

static int64_t product(const struct ex_pool *p, const struct ex_node *n, const int64_t *vars)
{
  uint64_t v = 1;
  for (int i = 0; i < n->n; i++) v *= (uint64_t)ex_eval(p, n->arg[i], vars);
  return (int64_t)v;
}

static int64_t binary(enum ex_kind kind, int64_t a, int64_t b)
{
  switch (kind) {
  case EX_DIV: return floor_or_0(a, b);
  case EX_MOD: return (int64_t)((uint64_t)a - (uint64_t)floor_or_0(a, b) * (uint64_t)b);
  case EX_MIN: return MIN(a, b);
  case EX_MAX: return MAX(a, b);
  case EX_XOR: return a ^ b;
  case EX_AND: return a & b;
  case EX_SHR: return b < 0 ? 0 : a >> MIN(b, 63);
  case EX_LT: return a < b;
  case EX_EQ: return a == b;
  case EX_BOTH: return a && b;
  case EX_EITHER: return a || b;
  case EX_VAR:
  case EX_SUM:
  case EX_PROD:
  case EX_SELECT: break;
  }
  return 0;
}

int64_t ex_eval(const struct ex_pool *p, ex x, const int64_t *vars)
{
  if (ex_is_const(x)) return ex_value(x);
  const struct ex_node *n = ex_node(p, x);
  if (n->kind == EX_VAR) return vars[n->c];
  if (n->kind == EX_SUM) return sum(p, n, vars);
  if (n->kind == EX_PROD) return product(p, n, vars);
  if (n->kind == EX_SELECT) return ex_eval(p, n->arg[ex_eval(p, n->arg[0], vars) ? 1 : 2], vars);
  return binary(n->kind, ex_eval(p, n->arg[0], vars), ex_eval(p, n->arg[1], vars));
}

bool ex_mentions(const struct ex_pool *p, ex x, ex var)
{
  if (x == var) return true;
  if (ex_is_const(x) || ex_is_const(var) || !(ex_full(p, x)->vars & ex_full(p, var)->vars)) return false;
  const struct ex_node *n = ex_node(p, x);
  for (int i = 0; i < n->n; i++)
    if (ex_mentions(p, n->arg[i], var)) return true;
  return false;
}

// ---- substitution ----

typedef ex binary_fn(struct ex_pool *p, ex a, ex b);
static binary_fn *const make[] = {
    [EX_DIV] = ex_div, [EX_MOD] = ex_mod, [EX_MIN] = ex_min, [EX_MAX] = ex_max,   [EX_XOR] = ex_xor,       [EX_AND] = ex_bits,
    [EX_SHR] = ex_shr, [EX_LT] = ex_lt,   [EX_EQ] = ex_eq,   [EX_BOTH] = ex_both, [EX_EITHER] = ex_either,
};

static ex replace(struct ex_pool *p, ex x, ex var, ex by);

static ex rebuilt(struct ex_pool *p, const struct ex_node *n, ex var, ex by)
{
  ex v = n->kind == EX_SUM ? EX_C(n->c) : EX_C(1), part[3] = {0};
  if (n->kind == EX_SUM) {
    for (int i = 0; i < n->n; i++) v = ex_add(p, v, ex_mul(p, EX_C(n->coef[i]), replace(p, n->arg[i], var, by)));
    return v;
  }
  if (n->kind == EX_PROD) {
    for (int i = 0; i < n->n; i++) v = ex_mul(p, v, replace(p, n->arg[i], var, by));
    return v;
  }
  for (int i = 0; i < n->n; i++) part[i] = replace(p, n->arg[i], var, by);
  return n->kind == EX_SELECT ? ex_select(p, part[0], part[1], part[2]) : make[n->kind](p, part[0], part[1]);
}

static ex replace(struct ex_pool *p, ex x, ex var, ex by)
{
  if (x == var) return by;
  if (ex_is_const(x) || !(ex_full(p, x)->vars & ex_full(p, var)->vars)) return x;
  struct ex_full *f = ex_full(p, x);
  if (f->node.kind == EX_VAR || f->stamp == p->stamp) return f->node.kind == EX_VAR ? x : f->memo;
  f->memo = rebuilt(p, &f->node, var, by);
  f->stamp = p->stamp;
  return f->memo;
}

ex ex_subst(struct ex_pool *p, ex x, ex var, ex by)
{
  if (ex_is_const(var) || !ex_is(p, var, EX_VAR)) return x;
  p->stamp++;
  return replace(p, x, var, by);
}

// Rules for elementwise operators.
#include "kern/kern_rule.h"

#include <float.h>
#include <math.h>

// One instruction replaces a square root and a division.
bool rule_rsqrt(struct kern *k, const struct kern_value *v, int *out)
{
  if (!kern_is_map(v, OP_DIV) || !kern_is_map(&k->v[v->in[1]], OP_SQRT)) return false;
  int root = kern_map(k, OP_RSQRT, NULL, k->v[v->in[1]].in[0], -1, k->v[v->in[1]].about);
  return *out = kern_map(k, OP_MUL, NULL, v->in[0], root, v->about), true;
}

// Whether the letters of y are some, but not all, of those of x.
static bool fewer(const struct kern *k, int y, int x)
{
  axis_set of_y = k->v[y].axes & k->letters, of_x = k->v[x].axes & k->letters;
  return of_y != of_x && !(of_y & ~of_x);
}

// Computes one reciprocal for each y, because divisions are slow.
bool rule_reciprocal(struct kern *k, const struct kern_value *v, int *out)
{
  if (!kern_is_map(v, OP_DIV) || !fewer(k, v->in[1], v->in[0]) || k->v[v->in[1]].kind == KERN_CONST) return false;
  int one = kern_map(k, KERN_RCP, NULL, v->in[1], -1, v->about);
  return *out = kern_map(k, OP_MUL, NULL, v->in[0], one, v->about), true;
}

bool rule_exp2(struct kern *k, const struct kern_value *v, int *out)
{
  const double log2e = 1.4426950408889634;
  if (!kern_is_map(v, OP_EXP)) return false;
  return *out = kern_map(k, KERN_EXP2, &(struct attrs){.scalar = log2e}, v->in[0], -1, v->about), true;
}

// Whether no finite x overflows when multiplied by c. The margin is for sums, each step of which may round up by 2^-24.
static bool stays_finite(const struct kern *k, int x, double c) { return kern_bound(k, x) * fabs(c) < 0x1p120; }

// Whether m is a maximum with a lower limit, and c m overflows only if m is that limit: in a row where all scores are -inf.
static bool overflows_below(const struct kern *k, int m, double c)
{
  while (k->v[m].kind == KERN_MAX || k->v[m].kind == KERN_RUN_MAX) m = k->v[m].in[0];
  const struct kern_value *v = &k->v[m];
  return kern_is_map(v, OP_MAXIMUM) && k->v[v->in[1]].kind == KERN_CONST && isfinite(k->v[v->in[1]].a.scalar) && c > 0 &&
         stays_finite(k, v->in[0], c);
}

// c m, limited so that it is finite for every finite m; -1: it may overflow.
static int multiplied(struct kern *k, int m, double c, int about)
{
  const bool finite = stays_finite(k, m, c);
  if (!finite && !overflows_below(k, m, c)) return -1;
  const int less = kern_scaled(k, m, c, about);
  return finite ? less : kern_map(k, OP_MAXIMUM, NULL, less, kern_const(k, -(double)FLT_MAX, about), about);
}

// If no product with c overflows, the factor is c itself. Otherwise it is guard(c) m, a power of 2 for large m (kern_guard_limit). For such m, and c
// below 2, different products with it differ by at least 2^5, so the exponential is close to 0 or 1, as with c. Infinities and NaN give the same
// results with both factors.
bool rule_difference(struct kern *k, const struct kern_value *v, int *out)
{
  if (!kern_is_map(v, KERN_EXP2) || !kern_is_map(&k->v[v->in[0]], OP_SUB)) return false;
  int x = k->v[v->in[0]].in[0], m = k->v[v->in[0]].in[1], about = k->v[v->in[0]].about;
  if (v->a.scalar == 1 || !fewer(k, m, x) || k->v[m].kind == KERN_CONST) return false;
  const double c = v->a.scalar;
  int by, less = stays_finite(k, x, c) ? multiplied(k, m, c, v->about) : -1;
  if (less >= 0) {
    by = kern_scaled(k, x, c, v->about);
  } else {
    int guard = kern_map(k, KERN_GUARD, &v->a, m, -1, v->about);
    by = kern_map(k, OP_MUL, NULL, x, guard, v->about), less = kern_map(k, OP_MUL, NULL, m, guard, v->about);
  }
  return *out = kern_map(k, KERN_EXP2, &(struct attrs){.scalar = 1}, kern_map(k, OP_SUB, NULL, by, less, about), -1, v->about), true;
}

static bool is_const(const struct kern *k, int v, double *c) { return k->v[v].kind == KERN_CONST && (*c = k->v[v].a.scalar, true); }

// Turns a binary operator with a constant operand into an operator with an attribute.
static bool by_constant(struct kern *k, const struct kern_value *v, int *out)
{
  double c;
  bool right = is_const(k, v->in[1], &c), left = !right && is_const(k, v->in[0], &c);
  int x = v->in[left];
  if (v->op == OP_MUL && (left || right)) return *out = kern_scaled(k, x, c, v->about), true;
  if (v->op == OP_DIV && right && c != 0) return *out = kern_scaled(k, x, 1 / c, v->about), true;
  if (!(v->op == OP_ADD && (left || right)) && !(v->op == OP_SUB && right)) return false;
  struct attrs a = {.scalar = v->op == OP_SUB ? -c : c};
  return *out = c == 0 ? x : kern_map(k, OP_ADD_SCALAR, &a, x, -1, v->about), true;
}

// (d x) y becomes x (d y) if y has fewer axes.
static bool of_fewer(struct kern *k, const struct kern_value *v, int *out)
{
  for (int i = 0; i < 2 && v->op == OP_MUL; i++) {
    const struct kern_value x = k->v[v->in[i]];
    if (!kern_is_map(&x, OP_MUL_SCALAR) || !fewer(k, v->in[!i], v->in[i])) continue;
    return *out = kern_map(k, OP_MUL, NULL, x.in[0], kern_scaled(k, v->in[!i], x.a.scalar, v->about), v->about), true;
  }
  return false;
}

// Joins the constants of c (d x), c + (d + x), c (-x) and 2^(c (d x)).
static bool of_scaled(struct kern *k, const struct kern_value *v, int *out)
{
  const struct kern_value *x = &k->v[v->in[0]];
  bool adds = v->op == OP_ADD_SCALAR;
  if ((!adds && v->op != OP_MUL_SCALAR && v->op != KERN_EXP2) || x->kind != KERN_MAP) return false;
  if (adds ? x->op != OP_ADD_SCALAR : x->op != OP_MUL_SCALAR && x->op != OP_NEG) return false;
  double c = x->op == OP_NEG ? -1 : x->a.scalar;
  struct attrs a = {.scalar = adds ? v->a.scalar + c : v->a.scalar * c};
  return *out = kern_map(k, v->op, &a, x->in[0], -1, v->about), true;
}

bool rule_constants(struct kern *k, const struct kern_value *v, int *out)
{
  double x = 0, y = 0;
  if (v->kind != KERN_MAP) return false;
  if (is_const(k, v->in[0], &x) && (v->nin == 1 || is_const(k, v->in[1], &y)))
    return *out = kern_const(k, kern_apply(v->op, &v->a, x, y), v->about), true;
  if (v->nin == 2) return by_constant(k, v, out) || of_fewer(k, v, out);
  if (v->op == KERN_GUARD) return false;
  if ((v->op == OP_MUL_SCALAR && v->a.scalar == 1) || (v->op == OP_ADD_SCALAR && v->a.scalar == 0)) return *out = v->in[0], true;
  return of_scaled(k, v, out);
}

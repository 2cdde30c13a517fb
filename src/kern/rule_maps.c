// Rules of elementwise operators.
#include "kern/kern_rule.h"

// One instruction instead of a root, rounded, and a reciprocal.
bool rule_rsqrt(struct kern *k, const struct kern_value *v, int *out)
{
  if (!kern_is_map(v, OP_DIV) || !kern_is_map(&k->v[v->in[1]], OP_SQRT)) return false;
  int root = kern_map(k, OP_RSQRT, NULL, k->v[v->in[1]].in[0], -1, v->about);
  return *out = kern_map(k, OP_MUL, NULL, v->in[0], root, v->about), true;
}

// A reciprocal for each y, and products: divisions are long.
bool rule_reciprocal(struct kern *k, const struct kern_value *v, int *out)
{
  if (!kern_is_map(v, OP_DIV) || k->v[v->in[1]].axes == v->axes) return false;
  int one = kern_map(k, KERN_RCP, NULL, v->in[1], -1, v->about);
  return *out = kern_map(k, OP_MUL, NULL, v->in[0], one, v->about), true;
}

bool rule_exp2(struct kern *k, const struct kern_value *v, int *out)
{
  const double log2e = 1.4426950408889634;
  if (!kern_is_map(v, OP_EXP)) return false;
  return *out = kern_map(k, KERN_EXP2, &(struct attrs){.scalar = log2e}, v->in[0], -1, v->about), true;
}

static bool is_const(const struct kern *k, int v, double *c) { return k->v[v].kind == KERN_CONST && (*c = k->v[v].a.scalar, true); }

// An operator with a constant operand as one with an attribute.
static bool by_constant(struct kern *k, const struct kern_value *v, int *out)
{
  double c;
  bool right = is_const(k, v->in[1], &c), left = !right && is_const(k, v->in[0], &c);
  int x = v->in[left];
  if (v->op == OP_MUL && (left || right)) return *out = kern_scaled(k, x, c, v->about), true;
  if (!(v->op == OP_ADD && (left || right)) && !(v->op == OP_SUB && right)) return false;
  struct attrs a = {.scalar = v->op == OP_SUB ? -c : c};
  return *out = c == 0 ? x : kern_map(k, OP_ADD_SCALAR, &a, x, -1, v->about), true;
}

// c (d x), c + (d + x), c (-x); 2^(c (d x)).
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
  if (v->nin == 2) return by_constant(k, v, out);
  if ((v->op == OP_MUL_SCALAR && v->a.scalar == 1) || (v->op == OP_ADD_SCALAR && v->a.scalar == 0)) return *out = v->in[0], true;
  return of_scaled(k, v, out);
}

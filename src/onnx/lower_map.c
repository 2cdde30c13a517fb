// Elementwise operators. A known scalar operand becomes an attribute of the operator, as in the program language.
#include "onnx/onnx_lower.h"

#include <math.h>
#include <string.h>

void onnx_as_unary(struct onnx_lower *l) { lo_out(l, 0, lo_op1(l, l->row->op, lo_in(l, 0))); }

void onnx_as_reciprocal(struct onnx_lower *l) { lo_out(l, 0, lo_op2(l, OP_DIV, lo_const(l, 1), lo_in(l, 0))); }

static int power(struct onnx_lower *l, int x, double c)
{
  if (c == 1) return x;
  if (c == 2) return lo_op1(l, OP_SQUARE, x);
  if (c == 0.5) return lo_op1(l, OP_SQRT, x);
  if (c == -0.5) return lo_op1(l, OP_RSQRT, x);
  return lo_op2(l, OP_POW, x, lo_const(l, c));
}

// x op c
static int right_number(struct onnx_lower *l, enum op op, int x, double c)
{
  if (op == OP_ADD) return lo_shift(l, x, c);
  if (op == OP_SUB) return lo_shift(l, x, -c);
  if (op == OP_MUL) return lo_scale(l, x, c);
  if (op == OP_DIV && c != 0 && isfinite(1 / c)) return lo_scale(l, x, 1 / c);
  if (op == OP_POW) return power(l, x, c);
  return lo_op2(l, op, x, lo_const(l, c));
}

// c op x
static int left_number(struct onnx_lower *l, enum op op, double c, int x)
{
  if (op == OP_ADD || op == OP_MUL) return right_number(l, op, x, c);
  if (op == OP_SUB) return lo_shift(l, lo_op1(l, OP_NEG, x), c);
  return lo_op2(l, op, lo_const(l, c), x);
}

// A known scalar may have more dimensions than the tensor, all of extent 1.
static int ranked(struct onnx_lower *l, int t, int k)
{
  struct shape s = {0};
  int rank = l->m->values[l->n->in[k]].shape.n, own = lo_shape(l, t)->n;
  if (t < 0 || own >= rank) return t;
  for (int i = 0; i < rank; i++) s.d[s.n++] = i < rank - own ? 1 : lo_shape(l, t)->d[i - (rank - own)];
  return lo_reshape(l, t, &s);
}

static bool both(struct onnx_lower *l, int a, int b)
{
  const struct onnx_value *x = &l->m->values[l->n->in[a]], *y = &l->m->values[l->n->in[b]];
  if (x->type != y->type) lo_fail(l, "it takes %s and %s", onnx_type_name(x->type), onnx_type_name(y->type));
  return !l->failed;
}

int lo_pair(struct onnx_lower *l, enum op op, int a, int b)
{
  double c;
  if (!lo_has(l, a) || !lo_has(l, b)) return lo_fail(l, "an input is missing"), -1;
  if (!both(l, a, b)) return -1;
  if (lo_known(l, b, &c)) return ranked(l, right_number(l, op, lo_in(l, a), c), b);
  if (lo_known(l, a, &c)) return ranked(l, left_number(l, op, c, lo_in(l, b)), a);
  int x = lo_in(l, a), y = lo_in(l, b);
  return op == OP_MUL && x == y ? lo_op1(l, OP_SQUARE, x) : lo_op2(l, op, x, y);
}

void onnx_as_binary(struct onnx_lower *l) { lo_out(l, 0, lo_pair(l, l->row->op, 0, 1)); }

void onnx_as_variadic(struct onnx_lower *l)
{
  double c;
  int x = lo_in(l, 0), n = l->n->nin;
  for (int k = 1; k < n && !l->failed; k++) {
    if (!lo_has(l, k) || !both(l, 0, k)) return lo_fail(l, "an input is missing");
    x = lo_known(l, k, &c) ? ranked(l, right_number(l, l->row->op, x, c), k) : lo_op2(l, l->row->op, x, lo_in(l, k));
  }
  lo_out(l, 0, strcmp(l->row->type, "Mean") ? x : lo_scale(l, x, 1.0 / n));
}

// ---- activations ----

// BiasGelu and FastGelu of com.microsoft add a second input first.
void onnx_as_gelu(struct onnx_lower *l)
{
  const int x = lo_has(l, 1) ? lo_op2(l, OP_ADD, lo_in(l, 0), lo_in(l, 1)) : lo_in(l, 0);
  const bool by_tanh = !strcmp(onnx_attr_text(l->n, "approximate", "none"), "tanh");
  lo_out(l, 0, lo_op1(l, by_tanh ? OP_GELU_TANH : l->row->op, x));
}

// x sigmoid(alpha x)
void onnx_as_swish(struct onnx_lower *l)
{
  int x = lo_in(l, 0);
  double alpha = onnx_attr_real(l->n, "alpha", strcmp(l->row->type, "QuickGelu") ? 1 : 1.702);
  lo_out(l, 0, alpha == 1 ? lo_op1(l, OP_SILU, x) : lo_op2(l, OP_MUL, x, lo_op1(l, OP_SIGMOID, lo_scale(l, x, alpha))));
}

// PRelu with a tensor of slopes: relu(x) - slope relu(-x).
void onnx_as_leaky(struct onnx_lower *l)
{
  int x = lo_in(l, 0);
  if (l->n->nin > 1) {
    int down = lo_op2(l, OP_MUL, lo_op1(l, OP_RELU, lo_op1(l, OP_NEG, x)), lo_in(l, 1));
    return lo_out(l, 0, lo_op2(l, OP_SUB, lo_op1(l, OP_RELU, x), down));
  }
  struct attrs a = attrs_default(OP_LEAKY_RELU);
  a.slope = onnx_attr_real(l->n, "alpha", 0.01);
  lo_out(l, 0, lo_op(l, OP_LEAKY_RELU, 1, &x, &a));
}

// gamma (relu(x) + alpha (exp(min(x, 0)) - 1))
void onnx_as_elu(struct onnx_lower *l)
{
  bool selu = !strcmp(l->row->type, "Selu");
  double alpha = onnx_attr_real(l->n, "alpha", selu ? 1.67326319217681884765625 : 1);
  int x = lo_in(l, 0), below = lo_shift(l, lo_op1(l, OP_EXP, lo_op2(l, OP_MINIMUM, x, lo_const(l, 0))), -1);
  int y = lo_op2(l, OP_ADD, lo_op1(l, OP_RELU, x), lo_scale(l, below, alpha));
  lo_out(l, 0, selu ? lo_scale(l, y, onnx_attr_real(l->n, "gamma", 1.05070102214813232421875)) : y);
}

void onnx_as_softsign(struct onnx_lower *l)
{
  int x = lo_in(l, 0);
  lo_out(l, 0, lo_op2(l, OP_DIV, x, lo_shift(l, lo_op1(l, OP_ABS, x), 1)));
}

static int clamped(struct onnx_lower *l, int x, double lo, double hi)
{
  struct attrs a = attrs_default(OP_CLAMP);
  a.lo = lo, a.hi = hi;
  if (isnan(lo) || isnan(hi)) lo_fail(l, "a bound is no number");
  return lo_op(l, OP_CLAMP, 1, &x, &a);
}

void onnx_as_hard(struct onnx_lower *l)
{
  bool swish = !strcmp(l->row->type, "HardSwish");
  int x = lo_in(l, 0);
  double alpha = swish ? 1.0 / 6 : onnx_attr_real(l->n, "alpha", 0.2), beta = swish ? 0.5 : onnx_attr_real(l->n, "beta", 0.5);
  int y = clamped(l, lo_shift(l, lo_scale(l, x, alpha), beta), 0, 1);
  lo_out(l, 0, swish ? lo_op2(l, OP_MUL, x, y) : y);
}

static double bound(struct onnx_lower *l, const char *name, int k, double otherwise)
{
  double c = onnx_attr_real(l->n, name, otherwise);
  if (lo_has(l, k) && !lo_known(l, k, &c)) lo_fail(l, "its %s is computed when the model runs", name);
  return c;
}

void onnx_as_clip(struct onnx_lower *l)
{
  double lo = bound(l, "min", 1, -INFINITY), hi = bound(l, "max", 2, INFINITY);
  lo_out(l, 0, isinf(lo) && isinf(hi) ? lo_in(l, 0) : clamped(l, lo_in(l, 0), lo, hi));
}

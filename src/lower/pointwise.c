// Elementwise operators as specs. An operator of one argument is the spec of the same name (src/tile/pointwise.def); those
// of two arguments have a sign there; the rest, those with constants, are short sequences.
#include "lower/emit.h"

#include <string.h>

static const struct {
  enum op op;
  enum binary_op as;
} binaries[] = {{OP_ADD, BI_ADD}, {OP_SUB, BI_SUB}, {OP_MUL, BI_MUL}, {OP_DIV, BI_DIV}, {OP_POW, BI_POW}, {OP_MINIMUM, BI_MIN}, {OP_MAXIMUM, BI_MAX}};

static const char *binary_of(enum op op)
{
  for (size_t i = 0; i < COUNT(binaries); i++)
    if (binaries[i].op == op) return binary_name[binaries[i].as];
  return NULL;
}

static const char *unary_of(enum op op)
{
  if (op_rows[op].rule != RULE_MAP || op_rows[op].most != 1 || op_rows[op].attrs) return NULL;
  for (int i = 0; i < UN_COUNT; i++)
    if (!strcmp(unary_name[i], op_rows[op].name)) return unary_name[i];
  return NULL;
}

// Of one tensor and one constant: the spec of the same name takes the constant as its second operand.
static const char *shaped_of(enum op op)
{
  if (op_rows[op].rule != RULE_MAP || op_rows[op].most != 1 || !op_rows[op].attrs) return NULL;
  for (int i = 0; i < BI_COUNT; i++)
    if (!strcmp(binary_name[i], op_rows[op].name)) return binary_name[i];
  return NULL;
}

static double constant_of(enum op op, const struct attrs *a)
{
  int i = 0;
  while (!(op_rows[op].attrs >> i & 1)) i++;
  return attr_real(a, i);
}

bool emit_has_pointwise(enum op op)
{
  return unary_of(op) || binary_of(op) || shaped_of(op) || op == OP_CLAMP || op == OP_MUL_SCALAR || op == OP_ADD_SCALAR;
}

static void unary(struct text *t, const char *name, const char *out, const char *x)
{
  text_line(t, "%%%s <- UnaryPointwise<%s><<<#grid, #me>>>(%%%s)", out, name, x);
}

static void binary(struct text *t, const char *name, const char *out, const char *x, const char *y)
{
  text_line(t, "%%%s <- BinaryPointwise<%s><<<#grid, #me>>>(%%%s, %%%s)", out, name, x, y);
}

static void with_constant(struct text *t, const char *name, const char *out, const char *x, double c)
{
  char constant[32];
  snprintf(constant, sizeof constant, "c%d", t->fresh++);
  text_line(t, "%%%s:[].fp32.RF", constant);
  text_line(t, "%%%s <- Init<%#.17g><<<#grid, #me>>>()", constant, c);
  binary(t, name, out, x, constant);
}

bool emit_pointwise(struct text *t, enum op op, const struct attrs *a, const char *out, const char *x, const char *y)
{
  if (unary_of(op))
    unary(t, unary_of(op), out, x);
  else if (binary_of(op))
    binary(t, binary_of(op), out, x, y);
  else if (shaped_of(op))
    with_constant(t, shaped_of(op), out, x, constant_of(op, a));
  else if (op == OP_MUL_SCALAR)
    with_constant(t, "*", out, x, a->scalar);
  else if (op == OP_ADD_SCALAR)
    with_constant(t, "+", out, x, a->scalar);
  else if (op == OP_CLAMP)
    with_constant(t, "max", out, x, a->lo), with_constant(t, "min", out, out, a->hi);
  else
    return false;
  return true;
}

// The hardware's power of 2, without the detour that keeps denormal results.
void emit_map(struct text *t, const struct kern_value *v, const char *out, const char *x, const char *y)
{
  const char *tile = kern_op(v->op).tile;
  if (v->op < OPS)
    emit_pointwise(t, (enum op)v->op, &v->a, out, x, y);
  else if (tile)
    unary(t, tile, out, x);
  else
    with_constant(t, "*", out, x, v->a.scalar), unary(t, "exp2.approx", out, out);
}

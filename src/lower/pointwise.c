// Elementwise operators as specs. Most unary operators are a spec of the same name (src/tile/pointwise.def); an operator's constant is a second
// operand. Binary operators, and some with constants, have symbols in the tile language.
#include "lower/lower_emit.h"

#include <math.h>
#include <string.h>

static const struct {
  enum op op;
  enum binary_op as;
} signs[] = {{OP_ADD, BI_ADD},       {OP_SUB, BI_SUB},     {OP_MUL, BI_MUL},        {OP_DIV, BI_DIV},        {OP_POW, BI_POW},
             {OP_MINIMUM, BI_MIN},   {OP_MAXIMUM, BI_MAX}, {OP_MUL_SCALAR, BI_MUL}, {OP_ADD_SCALAR, BI_ADD}, {OP_LESS, BI_LT},
             {OP_LESS_EQUAL, BI_LE}, {OP_EQUAL, BI_EQ},    {OP_MASK, BI_MASK}};

static const char *named(const char *const *names, int n, enum op op)
{
  for (int i = 0; i < n; i++)
    if (op_rows[op].rule == RULE_MAP && op_rows[op].most == 1 && !strcmp(names[i], op_rows[op].name)) return names[i];
  return NULL;
}

// The operator's name in the tile language; NULL: none.
static const char *name_of(enum op op)
{
  for (size_t i = 0; i < COUNT(signs); i++)
    if (signs[i].op == op) return binary_name[signs[i].as];
  return op_rows[op].attrs ? named(binary_name, BI_COUNT, op) : named(unary_name, UN_COUNT, op);
}

bool emit_has_pointwise(enum op op) { return name_of(op) || op == OP_CLAMP || op == OP_WHOLE; }

static double constant_of(enum op op, const struct attrs *a)
{
  int i = 0;
  while (!(op_rows[op].attrs >> i & 1)) i++;
  return attr_real(a, i);
}

void emit_unary(struct text *t, const char *name, const char *out, const char *x) { text_line(t, "%%%s <- UnaryPointwise<%s>(%%%s)", out, name, x); }

void emit_binary(struct text *t, const char *name, const char *out, const char *x, const char *y)
{
  text_line(t, "%%%s <- BinaryPointwise<%s>(%%%s, %%%s)", out, name, x, y);
}

static void with_constant(struct text *t, const char *name, const char *out, const char *x, double c)
{
  char constant[32];
  snprintf(constant, sizeof constant, "c%d", t->fresh++);
  text_line(t, "%%%s:[].fp32.RF", constant);
  text_line(t, "%%%s <- Init<%#.17g>()", constant, c);
  emit_binary(t, name, out, x, constant);
}

// Omits infinite limits, but prints at least one comparison.
static void clamp(struct text *t, const struct attrs *a, const char *out, const char *x)
{
  const bool below = a->lo > -INFINITY, above = a->hi < INFINITY;
  if (below || !above) with_constant(t, "max", out, x, a->lo);
  if (above) with_constant(t, "min", out, below ? out : x, a->hi);
}

// Prints the operator; false: it has no row in the tables. Constants are attributes of the operator.
static bool pointwise(struct text *t, enum op op, const struct attrs *a, const char *out, const char *x, const char *y)
{
  const char *name = name_of(op);
  if (op == OP_WHOLE) {
    emit_binary(t, binary_name[BI_EQ], out, x, x), emit_binary(t, binary_name[BI_MASK], out, x, out); // NaN counts as 0
    emit_unary(t, named(unary_name, UN_COUNT, OP_FLOOR), out, out);
  }
  if (op == OP_CLAMP || op == OP_WHOLE)
    clamp(t, a, out, op == OP_WHOLE ? out : x);
  else if (!name)
    return false;
  else if (op_rows[op].most > 1)
    emit_binary(t, name, out, x, y);
  else if (op_rows[op].attrs)
    with_constant(t, name, out, x, constant_of(op, a));
  else
    emit_unary(t, name, out, x);
  return true;
}

// out = `scalar` if |x| is below the limit, else the power of 2 (kern_guard_limit).
static void guard(struct text *t, double c, const char *out, const char *x)
{
  const double power = kern_guard_power(c);
  emit_unary(t, "abs", out, x), with_constant(t, "<", out, out, kern_guard_limit(c));
  with_constant(t, "*", out, out, c - power), with_constant(t, "+", out, out, power);
}

// The approximate exp2 instruction, which flushes denormal results to 0.
static void power(struct text *t, double c, const char *out, const char *x)
{
  if (c != 1) with_constant(t, "*", out, x, c);
  emit_unary(t, "exp2.approx", out, c == 1 ? x : out);
}

// out = c != 0 ? x : scalar. out must differ from x and c.
static void select(struct text *t, double scalar, const char *out, const char *x, const char *c)
{
  text_line(t, "%%%s <- Init<%#.17g>()", out, scalar);
  emit_binary(t, binary_name[BI_KEEP], out, x, c);
}

void emit_map(struct text *t, const struct kern_value *v, const char *out, const char *x, const char *y)
{
  const char *tile = kern_op(v->op).tile;
  if (v->op < OPS)
    pointwise(t, (enum op)v->op, &v->a, out, x, y);
  else if (tile)
    emit_unary(t, tile, out, x);
  else if (v->op == KERN_SELECT)
    select(t, v->a.scalar, out, x, y);
  else
    (v->op == KERN_GUARD ? guard : power)(t, v->a.scalar, out, x);
}

const char *fold_operator(enum kern_kind kind) { return kern_kinds[kind].flags & (KERN_LARGEST | KERN_TOPS) ? "max" : kind == KERN_PROD ? "*" : "+"; }

const char *fold_neutral(enum kern_kind kind)
{
  const unsigned flags = kern_kinds[kind].flags;
  return flags & KERN_TOPS ? "-9223372036854775808.0" : flags & KERN_LARGEST ? "-inf" : kind == KERN_PROD ? "1.0" : "0.0";
}

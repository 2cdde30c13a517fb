// Terms as programs. A term that is used more than once is a statement, all else is written inside of what uses it.
#include "pairs.h"

static void count(struct term *t)
{
  if (t->uses++) return;
  t->number = t->op == OP_INPUT ? t->number : -1;
  for (int i = 0; i < t->nin; i++) count(t->in[i]);
}

static void clear(struct term *t)
{
  if (!t->uses) return;
  t->uses = 0;
  for (int i = 0; i < t->nin; i++) clear(t->in[i]);
}

// 10^k if q divides it with k <= 9, so that p / q is a short decimal; 0 otherwise.
static int64_t decimal(int64_t q)
{
  int64_t ten = 1;
  for (int k = 0; k <= 9; k++, ten *= 10)
    if (ten % q == 0) return ten;
  return 0;
}

static void number(struct rat c, struct str *out)
{
  int64_t ten = decimal(c.q), p = c.p < 0 ? -c.p : c.p, scaled;
  if (c.q == 1)
    str_add(out, "%lld", (long long)c.p);
  else if (!ten || __builtin_mul_overflow(p, ten / c.q, &scaled))
    str_add(out, "(%lld / %lld)", (long long)c.p, (long long)c.q);
  else {
    int places = 0;
    for (int64_t t = ten; t > 1; t /= 10) places++;
    str_add(out, "%s%lld.%0*lld", c.p < 0 ? "-" : "", (long long)(scaled / ten), places, (long long)(scaled % ten));
  }
}

static void list(const char *name, const struct shape *s, struct str *out)
{
  str_add(out, ", %s[", name);
  for (int i = 0; i < s->n; i++) str_add(out, i ? ", %lld" : "%lld", (long long)s->d[i]);
  str_add(out, "]");
}

static void use(const struct term *t, struct str *out);

static void attributes(const struct term *t, struct str *out)
{
  unsigned has = op_rows[t->op].attrs;
  if (has & A_DIM) str_add(out, ", dim=%d", t->dim);
  if ((has & A_GROUP) && t->group) str_add(out, ", group=%lld", (long long)t->group);
  if (has & A_TIMES) str_add(out, ", times=%lld", (long long)t->times);
  if (has & A_PARTS) str_add(out, ", parts=%lld", (long long)t->parts);
  if (has & A_INDEX) str_add(out, ", index=%lld", (long long)t->index);
  if (has & A_SHAPE) list("", &t->s, out);
  if (has & A_PERM) list("perm=", &t->perm, out);
  if (has & A_LO) str_add(out, ", lo="), number(t->lo, out), str_add(out, ", hi="), number(t->hi, out);
  if (has & A_EPS) str_add(out, ", eps="), number(t->eps, out);
}

static void body(const struct term *t, struct str *out)
{
  static const char sign[OPS] = {[OP_ADD] = '+', [OP_SUB] = '-', [OP_MUL] = '*', [OP_DIV] = '/'};
  if (t->op == OP_CONST && t->digits) {
    str_add(out, "%s", t->digits);
  } else if (t->op == OP_CONST) {
    number(t->c, out);
  } else if (sign[t->op]) {
    str_add(out, "("), use(t->in[0], out), str_add(out, " %c ", sign[t->op]), use(t->in[1], out), str_add(out, ")");
  } else {
    str_add(out, "%s(", op_rows[t->op].name);
    for (int i = 0; i < t->nin; i++) str_add(out, i ? ", " : ""), use(t->in[i], out);
    attributes(t, out), str_add(out, ")");
  }
}

static void use(const struct term *t, struct str *out)
{
  if (t->op == OP_INPUT)
    str_add(out, "X%d", t->number);
  else if (t->number >= 0)
    str_add(out, "t%d", t->number);
  else
    body(t, out);
}

static void statements(struct term *t, int *next, struct str *out)
{
  if (t->op == OP_INPUT || t->number >= 0) return;
  for (int i = 0; i < t->nin; i++) statements(t->in[i], next, out);
  if (t->op == OP_CONST || (t->uses < 2 && !t->as_split)) return;
  int name = (*next)++;
  str_add(out, "  ");
  for (int i = 0; t->as_split && i < t->parts; i++) str_add(out, i ? ", " : ""), str_add(out, i == t->index ? "t%d" : "_", name);
  if (t->as_split) {
    str_add(out, " = split("), use(t->in[0], out), str_add(out, ", dim=%d, parts=%lld)", t->dim, (long long)t->parts);
  } else {
    str_add(out, "t%d = ", name), body(t, out);
  }
  str_add(out, "\n");
  t->number = name;
}

void pair_text(const struct pair *p, bool second, struct str *out)
{
  struct term *const *end = second ? p->b : p->a;
  int next = 0;
  str_add(out, "program %s {\n", second ? "g" : "p");
  for (int i = 0; i < p->ninputs; i++) {
    char text[128];
    shape_text(text, &p->input[i]->s);
    str_add(out, "  X%d: %s%s\n", i, p->dtype, text);
  }
  for (int i = 0; i < p->n; i++) count(end[i]);
  for (int i = 0; i < p->n; i++) statements(end[i], &next, out);
  str_add(out, "  return ");
  for (int i = 0; i < p->n; i++) str_add(out, i ? ", " : ""), use(end[i], out);
  str_add(out, "\n}\n");
  for (int i = 0; i < p->n; i++) clear(end[i]);
}

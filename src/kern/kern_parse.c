// Text -> kernels (kern_print.c describes the text). Equal values are not merged.
#include "kern/kern_text.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

// largest offset or stride, and largest extent: the sum over 64 axes of stride * extent fits into int64_t
static const int64_t KERN_FAR = 1ll << 32, KERN_LONG = 1ll << 24;

struct kern_reading {
  struct kern *k;
  const char *p;
  int line;
  struct err *e;
  bool failed;
};

static void skip(struct kern_reading *r)
{
  for (; isspace((unsigned char)*r->p); r->p++) r->line += *r->p == '\n';
}

static void expected(struct kern_reading *r, const char *what)
{
  if (!r->failed) err_set(r->e, ERR_SYNTAX, (struct loc){.line = r->line, .col = 1}, "a kernel's text: expected %s at `%.12s`", what, r->p);
  r->failed = true;
}

static bool sees(struct kern_reading *r, const char *s)
{
  skip(r);
  if (r->failed || strncmp(r->p, s, strlen(s)) != 0) return false;
  return r->p += strlen(s), true;
}

static void want(struct kern_reading *r, const char *s)
{
  if (!sees(r, s)) expected(r, s);
}

static int64_t whole(struct kern_reading *r, int64_t least, int64_t most)
{
  char *end;
  skip(r);
  long long x = strtoll(r->p, &end, 10);
  if (end == r->p || x < least || x > most) return expected(r, "an integer in range"), least;
  return r->p = end, x;
}

static double real(struct kern_reading *r)
{
  char *end;
  double x = strtod(r->p, &end);
  if (end == r->p) return expected(r, "a number"), 0;
  return r->p = end, x;
}

static int numbered(struct kern_reading *r, const char *letter, int64_t most)
{
  want(r, letter);
  return (int)whole(r, 0, most);
}

static axis_set set(struct kern_reading *r)
{
  axis_set s = 0;
  want(r, "{");
  while (!r->failed && !sees(r, "}")) {
    s |= AXIS(numbered(r, "a", r->k->naxes - 1));
    sees(r, ",");
  }
  return s;
}

static const char *word(struct kern_reading *r, char out[24])
{
  size_t n = 0;
  skip(r);
  for (; n < 23 && (isalnum((unsigned char)r->p[n]) || r->p[n] == '_'); n++) out[n] = r->p[n];
  out[n] = 0, r->p += n;
  return out;
}

static struct kern_access access_of(struct kern_reading *r)
{
  struct kern_access a = {0};
  char type[24];
  if (!dtype_parse(word(r, type), &a.type)) expected(r, "a dtype");
  a.index = sees(r, "i");
  a.tensor = a.index ? (int)whole(r, 0, INT32_MAX) : numbered(r, "t", INT32_MAX);
  want(r, "["), a.elements = whole(r, 1, KERN_FAR), want(r, "]"), want(r, "+");
  a.offset = whole(r, -KERN_FAR, KERN_FAR);
  while (sees(r, "+")) {
    if (sees(r, "at")) {
      int64_t which = whole(r, 0, KERN_CHOSEN_BY - 1);
      want(r, "*"), a.by[which].stride = whole(r, 0, KERN_FAR), want(r, "<"), a.by[which].limit = whole(r, 1, KERN_FAR);
      continue;
    }
    int axis = numbered(r, "a", r->k->naxes - 1);
    want(r, "*"), a.stride[axis] = whole(r, -KERN_FAR, KERN_FAR);
  }
  return a;
}

static bool find_op(const char *name, int *out)
{
  enum op op;
  for (int i = OPS; i < KERN_OPS; i++)
    if (!strcmp(kern_op(i).name, name)) return *out = i, true;
  return op_find(name, &op) && op_rows[op].rule == RULE_MAP && (*out = op, true);
}

static void map(struct kern_reading *r, const char *name, struct kern_value *v)
{
  if (!find_op(name, &v->op)) {
    expected(r, "an operator");
    return;
  }
  struct kern_op_row row = kern_op(v->op);
  v->kind = KERN_MAP;
  int n = 0;
  for (int i = 0; i < ATTRS; i++)
    if (row.attrs >> i & 1) want(r, n++ ? "," : "("), *(double *)(void *)((char *)&v->a + attr_rows[i].offset) = real(r);
  if (n) want(r, ")");
}

static void one(struct kern_reading *r)
{
  struct kern *k = r->k;
  struct kern_value v = {0};
  char name[24];
  int kind = 0;
  if (numbered(r, "v", INT32_MAX) != k->nvalues) expected(r, "the next number of a value");
  want(r, "=");
  word(r, name);
  while (kind < KERN_KINDS && (kind == KERN_MAP || strcmp(kern_kinds[kind].name, name) != 0)) kind++;
  v.kind = (enum kern_kind)kind;
  if (kind == KERN_KINDS) map(r, name, &v);
  if (r->failed) return;
  if (kern_has(&v, KERN_LOADS | KERN_TOPS)) v.at = access_of(r);
  if (v.kind == KERN_CONST) v.a.scalar = real(r);
  if (v.kind == KERN_SPREAD) v.axes = set(r);
  if (kern_has(&v, KERN_OVER)) v.folded = set(r);
  if (v.kind == KERN_PRODUCT) v.batch = set(r);
  v.nin = kern_operands(&v);
  for (int n = 0; n < v.nin; n++) v.in[n] = numbered(r, "v", k->nvalues - 1);
  if (r->failed) return;
  v.axes = kern_axes_of(k, &v);
  PUSH(k->mem, k->v, k->nvalues, k->cap) = v;
}

static void save(struct kern_reading *r, int *cap)
{
  struct kern *k = r->k;
  struct kern_save s = {.value = numbered(r, "v", k->nvalues - 1)};
  s.at = access_of(r);
  if (r->failed) return;
  s.axes = k->v[s.value].axes;
  PUSH(k->mem, k->save, k->nsaves, *cap) = s;
}

static void extents(struct kern_reading *r, int which)
{
  while (!r->failed && sees(r, "a")) {
    int a = (int)whole(r, 0, KERN_AXES - 1);
    want(r, "="), r->k->extent[a] = whole(r, 1, KERN_LONG), r->k->naxes = MAX(r->k->naxes, a + 1);
    if (which == 0) r->k->letters |= AXIS(a);
    if (which == 2) r->k->loops |= AXIS(a);
  }
}

int kern_parse(struct arena *mem, const char *text, struct kern *out, struct err *e)
{
  struct kern_reading r = {.k = out, .p = text, .line = 1, .e = e};
  char why[160];
  int saves = 0;
  *out = (struct kern){.mem = mem};
  for (int a = 0; a < KERN_AXES; a++) out->extent[a] = 1;
  want(&r, "kern"), want(&r, "{");
  for (int w = 0; w < KERN_AXES_NAMES; w++)
    if (sees(&r, kern_axes_name[w])) extents(&r, w);
  while (!r.failed && !sees(&r, "}")) {
    if (sees(&r, "save"))
      save(&r, &saves);
    else
      one(&r);
  }
  if (r.failed) return USER;
  if (!kern_check(out, why)) return err_set(e, ERR_SYNTAX, NOWHERE, "a kernel's text: %s", why);
  return kern_live(out), OK;
}

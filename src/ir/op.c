// Access to the operator, attribute and dtype tables.
#include "ir/ir.h"
#include "base/memory.h"
#include "ir/law_parts.h"

#include <string.h>

enum { K = IS_K, B = IS_B, T = IS_T }; // levels in rows; not macros, because K(1) occurs in the texts of rows
const struct op_row op_rows[OPS] = {
#define OP(id, name, least, most, rule, levels, attrs, flags, code, field, abstract, range, cost, doc) \
  [OP_##id] = {#name, doc, #code, least, most, RULE_##rule, levels, attrs, flags, AE_##abstract, cost},
#include "ir/op.def"
#undef OP
};

const struct attr_row attr_rows[ATTRS] = {
#define NEED true
#define MAY false
#define ATTR(id, field, kind, presence, doc) [ATTR_##id] = {#field, doc, ATTR_##kind##_KIND, presence, offsetof(struct attrs, field)},
#include "ir/attr.def"
#undef ATTR
#undef NEED
#undef MAY
};

static const char *const level_names[LEVELS] = {"kernel", "block", "thread"};
static const char *const phase_names[] = {"fixed", "varying", "running", "after"};

const char *level_name(enum level l) { return level_names[l]; }
const char *phase_name(enum phase p) { return phase_names[p]; }
const char *dtype_name(enum dtype t) { return num_rows[t].dtype; }
int dtype_bytes(enum dtype t) { return num_rows[t].bytes; }
double dtype_largest(enum dtype t) { return num_largest(&num_rows[t]); }
double dtype_low(enum dtype t) { return num_rows[t].low; }
double dtype_underflow(enum dtype t) { return num_underflow(&num_rows[t]); }
enum dtype dtype_join(enum dtype a, enum dtype b)
{
  if (a == b) return a;
  if (num_whole(a) != num_whole(b)) return num_whole(a) ? b : a;
  return !num_whole(a) ? F32 : a == I64 || b == I64 ? I64 : I32;
}

bool dtype_parse(const char *s, enum dtype *t)
{
  for (int i = 0; i < DTYPES; i++)
    if (!strcmp(s, num_rows[i].dtype)) return *t = (enum dtype)i, true;
  return false;
}

int dtype_read(const char *s, enum dtype *t, struct err *e)
{
  if (dtype_parse(s, t)) return OK;
  err_set(e, ERR_DTYPE, NOWHERE, "there is no dtype %.40s", s);
  return err_hint(e, "dtypes are %s", num_names()), USER;
}

bool op_find(const char *name, enum op *op)
{
  for (int i = 0; i < OPS; i++)
    if (!strcmp(name, op_rows[i].name)) return *op = (enum op)i, true;
  return false;
}

int64_t attr_whole(const struct attrs *a, int attr)
{
  const char *at = (const char *)a + attr_rows[attr].offset;
  if (attr_rows[attr].kind == ATTR_INT_KIND) return *(const int64_t *)(const void *)at;
  return attr_rows[attr].kind == ATTR_DIM_KIND ? *(const int *)(const void *)at : 0;
}

double attr_real(const struct attrs *a, int attr) { return *(const double *)(const void *)((const char *)a + attr_rows[attr].offset); }

struct attrs attrs_reals(const struct attrs *a)
{
  struct attrs r = {0};
  for (int i = 0; i < ATTRS; i++)
    if (attr_rows[i].kind == ATTR_REAL_KIND) *(double *)(void *)((char *)&r + attr_rows[i].offset) = attr_real(a, i);
  return r;
}

bool attrs_reals_same(const struct attrs *a, const struct attrs *b)
{
  for (int i = 0; i < ATTRS; i++) {
    if (attr_rows[i].kind != ATTR_REAL_KIND) continue;
    double x = attr_real(a, i), y = attr_real(b, i);
    if (x < y || x > y) return false;
  }
  return true;
}

op_set op_parts(enum op op)
{
  static const struct attrs none = {0};
  static const op_set x = 0, y = 0, r = 0;
  op_set parts[OPS];
  ATTR_LOCALS(&none);
  _Static_assert(OPS <= 128, "a bit an operator");
#define OP(id, name, least, most, rule, levels, attrs, flags, code, law, abstract, range, cost, doc) parts[OP_##id] = law;
#include "ir/op.def"
#undef OP
  (void)x, (void)y, (void)r;
  return parts[op] & ~OP_BIT(op);
}

int attr_named(const char *name)
{
  for (int i = 0; i < ATTRS; i++)
    if (attr_rows[i].kind == ATTR_REAL_KIND && !strcmp(attr_rows[i].name, name)) return i;
  return -1;
}

struct attrs attrs_default(enum op op)
{
  struct attrs a = {.eps = op == OP_LAYER_NORM ? 1e-5 : 0};
  memset(a.imap, REPLICA, sizeof a.imap);
  memset(a.omap, REPLICA, sizeof a.omap);
  memset(a.fmap, REPLICA, sizeof a.fmap);
  return a;
}

int64_t shape_size(const struct shape *s)
{
  int64_t n = 1;
  for (int i = 0; i < s->n; i++) n *= s->d[i];
  return n;
}

bool shape_eq(const struct shape *a, const struct shape *b) { return a->n == b->n && !memcmp(a->d, b->d, sizeof(*a->d) * (size_t)a->n); }

void shape_text(char out[128], const struct shape *s)
{
  int n = snprintf(out, 128, "[");
  for (int i = 0; i < s->n && n < 110; i++) n += snprintf(out + n, (size_t)(128 - n), "%s%lld", i ? ", " : "", (long long)s->d[i]);
  snprintf(out + n, (size_t)(128 - n), "]");
}

void tensor_words(char out[256], const struct tensor *t)
{
  char shape[128];
  shape_text(shape, &t->shape);
  snprintf(out, 256, "%s%.100s%s%s%s", t->name ? "`" : "a tensor, ", t->name ? t->name : "", t->name ? "`, " : "", dtype_name(t->dtype), shape);
}

void *tensor_room(struct arena *mem, const struct tensor *t, size_t each)
{
  const size_t bytes = each * (size_t)shape_size(&t->shape);
  void *p = arena_try(mem, bytes);
  char text[256];
  if (p) return p;
  tensor_words(text, t);
  mem_none_for(bytes, "%s", text);
}

bool shape_broadcast(const struct shape *a, const struct shape *b, struct shape *out)
{
  struct shape r = {MAX(a->n, b->n)};
  for (int i = 1; i <= r.n; i++) {
    int64_t x = i <= a->n ? a->d[a->n - i] : 1, y = i <= b->n ? b->d[b->n - i] : 1;
    if (x != y && x != 1 && y != 1) return false;
    r.d[r.n - i] = x == 1 ? y : x;
  }
  *out = r;
  return true;
}

int64_t common_divisor(int64_t a, int64_t b) { return b ? common_divisor(b, a % b) : a; }

int64_t slice_unit(const struct attrs *a, int64_t extent) { return common_divisor(common_divisor(a->start, a->end), extent); }

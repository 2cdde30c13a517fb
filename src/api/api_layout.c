// Layouts in the public interface. Names in layouts are unknown positive integers, the same in all layouts of a
// context. The reason of a refusal is the error's message.
#include "api/api_layout.h"

#include <string.h>

static bool compose(struct lay_ctx *c, const struct lay *a, struct lay *out) { return lay_compose(c, a[0], a[1], out); }
static bool coalesce(struct lay_ctx *c, const struct lay *a, struct lay *out) { return lay_coalesce(c, a[0], out); }
static bool divide(struct lay_ctx *c, const struct lay *a, struct lay *out) { return lay_divide(c, a[0], a[1], out); }
static bool zipped(struct lay_ctx *c, const struct lay *a, struct lay *out) { return lay_zipped_divide(c, a[0], a[1], out); }
static bool product(struct lay_ctx *c, const struct lay *a, struct lay *out) { return lay_product(c, a[0], a[1], out); }
static bool reshape(struct lay_ctx *c, const struct lay *a, struct lay *out) { return lay_reshape(c, a[0], a[1], out); }
static bool right(struct lay_ctx *c, const struct lay *a, struct lay *out) { return lay_right_inverse(c, a[0], out); }
static bool left(struct lay_ctx *c, const struct lay *a, struct lay *out) { return lay_left_inverse(c, a[0], out); }

static bool complement(struct lay_ctx *c, const struct lay *a, struct lay *out) { return lay_complement(c, a[0], lay_size(c, a[1]), out); }

const struct layout_op layout_ops[] = {
    {"coalesce", 1, coalesce, "A", "the same function with the fewest modes"},
    {"compose", 2, compose, "A B", "R(i) = A(B(i))"},
    {"complement", 2, complement, "A N", "the offsets below N that A does not take, as a layout R: A and R together give all of them"},
    {"divide", 2, divide, "A B", "((tile),(rest)) of A: tiles that B picks, and where they begin"},
    {"zipped-divide", 2, zipped, "A B", "the same mode by mode: ((tile of each mode),(rest of each mode))"},
    {"product", 2, product, "A B", "one copy of A for each element of B, arranged like B"},
    {"reshape", 2, reshape, "A B", "A with the shape B, in B's order; the sizes agree"},
    {"right-inverse", 1, right, "A", "A(R(i)) = i, R as large as can be"},
    {"left-inverse", 1, left, "A", "R(A(i)) = i, for A that takes no offset twice"},
};
const int layout_op_count = COUNT(layout_ops);

// ---- names ----

void layout_name(struct mica_context *m, const char *name, ex value)
{
  const char *kept = arena_strdup(&m->layouts, name);
  PUSH(&m->layouts, m->symbol, m->symbols, m->symbol_cap) = (struct symbol){kept, value};
}

static ex named(void *arg, const char *name)
{
  struct mica_context *m = arg;
  for (int i = 0; i < m->symbols; i++)
    if (!strcmp(m->symbol[i].name, name)) return m->symbol[i].var;
  layout_name(m, name, ex_var(m->lay.ex, name, 1, INT64_MAX, 1));
  return m->symbol[m->symbols - 1].var;
}

// Starts an operation: clears the overflow flag, which belongs to one operation whose result is discarded.
static struct lay_ctx *begin(struct mica_context *m)
{
  m->err = (struct err){0};
  m->lay.mem = &m->layouts;
  if (!m->lay.ex) m->lay.ex = ex_open(&m->layouts);
  ex_forgive_overflow(m->lay.ex);
  return &m->lay;
}

// ---- handles ----

static int refused(struct mica_context *m) { return err_set(&m->err, ERR_REFUSED, NOWHERE, "%s", m->lay.why); }

static int new_layout(struct mica_context *m, struct lay l, struct mica_layout **out)
{
  struct str s = {0};
  struct mica_layout *made = NEW(&m->layouts, struct mica_layout);
  lay_text(&m->lay, l, &s);
  *made = (struct mica_layout){m, l, arena_strdup(&m->layouts, str_text(&s)), lay_size(&m->lay, l), lay_cosize(&m->lay, l), true};
  str_free(&s);
  for (int i = 0; i < l.n; i++) made->constant = made->constant && ex_is_const(l.node[i].shape) && ex_is_const(l.node[i].stride);
  if (ex_overflowed(m->lay.ex))
    return err_set(&m->err, ERR_LAYOUT, NOWHERE, "the size or the last offset of %.200s does not fit into 62 bits", made->text);
  *out = made;
  return OK;
}

int layout_read(struct mica_context *m, const char *text, bool row, struct mica_layout **out)
{
  struct lay_ctx *c = begin(m);
  struct lay l;
  if (!lay_parse(c, text, row, named, m, &l)) return err_set(&m->err, ERR_LAYOUT, NOWHERE, "%s", c->why);
  return new_layout(m, l, out);
}

static int belongs(struct mica_context *m, const struct mica_layout *l)
{
  if (l->m == m) return OK;
  return err_set(&m->err, ERR_LAYOUT, NOWHERE, "the layout %.200s is of another context", l->text);
}

int layout_run(struct mica_context *m, const struct layout_op *op, const struct mica_layout *const *arg, struct mica_layout **out)
{
  struct lay_ctx *c = begin(m);
  struct lay l[2], result;
  for (int i = 0; i < op->args; i++) {
    TRY(belongs(m, arg[i]));
    l[i] = arg[i]->l;
  }
  return op->run(c, l, &result) ? new_layout(m, result, out) : refused(m);
}

int layout_tile(struct mica_context *m, const struct mica_layout *a, const struct mica_layout *tiler, struct mica_layout **outer,
                struct mica_layout **inner, bool *partial)
{
  struct lay_ctx *c = begin(m);
  struct lay out, in;
  TRY(belongs(m, a));
  TRY(belongs(m, tiler));
  if (!lay_tile(c, a->l, tiler->l, &out, &in, partial)) return refused(m);
  TRY(new_layout(m, out, outer));
  return new_layout(m, in, inner);
}

int layout_join(struct mica_context *m, const struct mica_layout *a, const struct mica_layout *b, struct mica_layout **out)
{
  return new_layout(m, lay_tuple(begin(m), 2, (struct lay[]){a->l, b->l}), out);
}

const struct layout_op *layout_op_find(const char *name)
{
  for (int i = 0; i < layout_op_count; i++)
    if (!strcmp(layout_ops[i].name, name)) return &layout_ops[i];
  return NULL;
}

// ---- include/mica.h ----

int mica_layout_parse(struct mica_context *m, const char *text, bool row_major, struct mica_layout **out)
{
  int status;
  CALL(m, status, layout_read(m, text, row_major, out));
  return status;
}

const char *mica_layout_text(const struct mica_layout *l) { return l->text; }
int64_t mica_layout_size(const struct mica_layout *l) { return ex_is_const(l->size) ? ex_value(l->size) : -1; }
int64_t mica_layout_cosize(const struct mica_layout *l) { return ex_is_const(l->cosize) ? ex_value(l->cosize) : -1; }

int64_t mica_layout_at(const struct mica_layout *l, int64_t index) { return l->constant && index >= 0 ? lay_call(&l->l, index) : -1; }

// Runs the operation of that name. All its layouts must be of one context.
static int by_name(struct mica_context *m, const char *name, const struct mica_layout *a, const struct mica_layout *b, struct mica_layout **out)
{
  int status;
  CALL(m, status, layout_run(m, layout_op_find(name), (const struct mica_layout *[]){a, b}, out));
  return status;
}

#define UNARY(function, name) \
  int mica_layout_##function(struct mica_context *m, const struct mica_layout *a, struct mica_layout **out) { return by_name(m, name, a, NULL, out); }
#define BINARY(function, name)                                                                                                           \
  int mica_layout_##function(struct mica_context *m, const struct mica_layout *a, const struct mica_layout *b, struct mica_layout **out) \
  {                                                                                                                                      \
    return by_name(m, name, a, b, out);                                                                                                  \
  }
UNARY(coalesce, "coalesce")
UNARY(right_inverse, "right-inverse")
UNARY(left_inverse, "left-inverse")
BINARY(compose, "compose")
BINARY(divide, "divide")
BINARY(zipped_divide, "zipped-divide")
BINARY(product, "product")
BINARY(reshape, "reshape")

static int complement_in(struct mica_context *m, const struct mica_layout *a, int64_t size, struct mica_layout **out)
{
  bool fits = size > 0 && size < (int64_t)1 << 61;
  if (!fits) return err_set(&m->err, ERR_LAYOUT, NOWHERE, "a complement in size %lld", (long long)size);
  struct mica_layout of = {.m = m, .l = lay_int(begin(m), EX_C(size), EX_C(1))};
  return layout_run(m, layout_op_find("complement"), (const struct mica_layout *[]){a, &of}, out);
}

int mica_layout_complement(struct mica_context *m, const struct mica_layout *a, int64_t size, struct mica_layout **out)
{
  int status;
  CALL(m, status, complement_in(m, a, size, out));
  return status;
}

int mica_layout_tile(struct mica_context *m, const struct mica_layout *a, const struct mica_layout *tiler, struct mica_layout **outer,
                     struct mica_layout **inner, bool *partial)
{
  int status;
  CALL(m, status, layout_tile(m, a, tiler, outer, inner, partial));
  return status;
}

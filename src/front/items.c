// Subscripts: x[2:5, :, at] becomes slices and gathers, and K[at] = y becomes the update of a state. Adjacent index tensors become one index over
// their flattened dimensions. In an update, numbers and slices next to index tensors become part of that index.
#include "front/parse.h"

static const int64_t LARGEST = EXTENT_LIMIT - 1;

struct item {
  enum { ALL, PART, ONE, AT } kind;
  int64_t from, to; // PART: from .. to - 1. ONE: the index `from`
  int tensor;       // AT: the index tensor
  int runs;         // PART: the run-time extent at which it ends, or 0
  struct loc at;
};
struct items {
  struct parser *p;
  int n;
  struct item item[MAX_DIMS];
};

static const struct shape *shape_of(const struct parser *p, int t) { return &p->scope->g->tensors[t].shape; }

// ---- reading ----

static int bound(struct parser *p, const struct front_value *v, int64_t *out)
{
  if (v->kind != NUMBER) return err_set(p->e, ERR_ATTRIBUTE, v->at, "a bound of a part must be a number, not a tensor");
  return number_whole(p->e, ERR_ATTRIBUTE, v->at, &v->number, "a bound", 0, LARGEST, out);
}

static int item(struct parser *p, struct item *x)
{
  struct front_value v, end;
  *x = (struct item){.kind = ALL, .to = -1, .at = p->t.at};
  bool begins = p->t.kind != ':';
  if (begins) {
    TRY(expr_parse(p, &v));
    v.at = x->at;
    if (v.kind == TENSORS) return x->kind = AT, expr_tensor(p, &v, &x->tensor);
    TRY(bound(p, &v, &x->from));
    x->kind = ONE;
  }
  if (!parse_take(p, ':')) return OK;
  if (begins) x->kind = PART;
  if (p->t.kind == ',' || p->t.kind == ']') return OK;
  end.at = p->t.at;
  TRY(expr_parse(p, &end));
  x->kind = PART, x->runs = extent_of(p, &end);
  if (!x->runs) return bound(p, &end, &x->to);
  x->to = p->scope->g->tensors[end.first].range.most;
  return x->from ? err_set(p->e, ERR_EXTENT, x->at, "a part that ends at a run-time extent begins at 0, not at %lld", (long long)x->from) : OK;
}

static int read_items(struct parser *p, struct items *s)
{
  struct loc opened = p->t.at;
  *s = (struct items){.p = p};
  TRY(parse_expect(p, '[', "`[` and subscripts"));
  do {
    if (s->n == MAX_DIMS) return err_set(p->e, ERR_LIMIT, p->t.at, "a tensor has at most %d dimensions", MAX_DIMS);
    TRY(item(p, &s->item[s->n]));
    s->n++;
  } while (parse_take(p, ','));
  return parse_close(p, ']', '[', opened);
}

// ---- operators ----

static int add(struct parser *p, enum op op, int n, const int *in, const struct attrs *a, struct loc at, int *out)
{
  struct front_value v;
  TRY(call_add(p, op, n, in, a, at, &v));
  return *out = v.first, OK;
}

static int reshaped(struct parser *p, int t, const struct shape *s, struct loc at, int *out)
{
  struct attrs a = attrs_default(OP_RESHAPE);
  if (shape_eq(shape_of(p, t), s)) return *out = t, OK;
  a.shape = *s;
  return add(p, OP_RESHAPE, 1, &t, &a, at, out);
}

static int with_number(struct parser *p, enum op op, int t, double c, struct loc at, int *out)
{
  struct attrs a = attrs_default(op);
  a.scalar = c;
  return add(p, op, 1, &t, &a, at, out);
}

static int outside(const struct items *s, const struct item *x, int64_t extent)
{
  int64_t at = x->kind == PART && x->to >= 0 ? x->to : x->from;
  return err_set(s->p->e, ERR_INDEX_RANGE, x->at, "subscript %lld of a dimension of %lld", (long long)at, (long long)extent);
}

// Checks the bounds of a subscript against the extent of its dimension; a part without an end gets the extent.
static int part_bounds(const struct items *s, struct item *x, int64_t extent)
{
  if (x->kind == ONE) return x->from < extent ? OK : outside(s, x, extent);
  if (x->to < 0) x->to = extent;
  if (x->to > extent || x->from >= extent) return outside(s, x, extent);
  if (x->from < x->to) return OK;
  return err_set(s->p->e, ERR_EXTENT, x->at, "the part from %lld to %lld has no elements", (long long)x->from, (long long)x->to);
}

// ---- the index of a group of subscripts ----

// One subscript as an index tensor.
static int index_of(const struct items *s, const struct item *x, int *out)
{
  struct attrs a = attrs_default(OP_IOTA);
  if (x->kind == AT) return *out = x->tensor, OK;
  a.shape = (struct shape){1, {x->kind == PART ? x->to - x->from : 1}};
  TRY(add(s->p, OP_IOTA, 0, NULL, &a, x->at, out));
  if (x->runs) TRY(extent_runs(s->p, *out, (uint8_t[MAX_DIMS]){(uint8_t)x->runs}, x->at));
  if (x->kind == ONE) TRY(reshaped(s->p, *out, &(struct shape){0}, x->at, out));
  return x->from ? with_number(s->p, OP_ADD_SCALAR, *out, (double)x->from, x->at, out) : OK;
}

// Combines subscripts first .. end - 1 into one index tensor *at, and reshapes x so that their dimensions are one.
static int merge(struct items *s, int first, int end, int dim, int *x, int *at)
{
  struct shape shape = *shape_of(s->p, *x), whole = shape;
  TRY(index_of(s, &s->item[first], at));
  for (int i = first + 1; i < end; i++) {
    int next, scaled, extent = dim + i - first;
    TRY(index_of(s, &s->item[i], &next));
    TRY(with_number(s->p, OP_MUL_SCALAR, *at, (double)shape.d[extent], s->item[i].at, &scaled));
    TRY(add(s->p, OP_ADD, 2, (int[]){scaled, next}, NULL, s->item[i].at, at));
    whole.d[dim] *= shape.d[extent];
  }
  for (int d = dim + 1; d + end - first - 1 < shape.n; d++) whole.d[d] = shape.d[d + end - first - 1];
  whole.n = shape.n - (end - first - 1);
  return reshaped(s->p, *x, &whole, s->item[first].at, x);
}

static int too_many(const struct items *s, int t, int from)
{
  char text[128];
  shape_text(text, shape_of(s->p, t));
  return err_set(s->p->e, ERR_ARITY, s->item[from].at, "%d subscripts of a tensor %s", s->n, text);
}

// ---- x[...] ----

// x[:n] for a run-time extent n: a slice up to the bound of n, whose elements from n on are padding.
static int take_first(const struct items *s, const struct item *x, int dim, int *t)
{
  struct attrs part = attrs_default(OP_SLICE), same = attrs_default(OP_RESHAPE);
  uint8_t runs[MAX_DIMS] = {0};
  runs[dim] = (uint8_t)x->runs;
  part.dim = dim, part.end = x->to;
  if (x->to < shape_of(s->p, *t)->d[dim]) TRY(add(s->p, OP_SLICE, 1, t, &part, x->at, t));
  same.shape = *shape_of(s->p, *t);
  TRY(add(s->p, OP_RESHAPE, 1, t, &same, x->at, t));
  return extent_runs(s->p, *t, runs, x->at);
}

static int take_part(const struct items *s, struct item *x, int dim, int *t)
{
  const struct shape *shape = shape_of(s->p, *t);
  struct shape without = *shape;
  struct attrs a = attrs_default(OP_SLICE);
  if (x->kind == ALL) return OK;
  TRY(part_bounds(s, x, shape->d[dim]));
  if (x->runs) return take_first(s, x, dim, t);
  a.dim = dim, a.start = x->from, a.end = x->kind == ONE ? x->from + 1 : x->to;
  if (a.end - a.start < shape->d[dim]) TRY(add(s->p, OP_SLICE, 1, t, &a, x->at, t));
  if (x->kind != ONE) return OK;
  for (int d = dim; d + 1 < without.n; d++) without.d[d] = without.d[d + 1];
  without.n--;
  return reshaped(s->p, *t, &without, x->at, t);
}

// The end of the run of index tensors that starts at item i; i itself if item i is none.
static int group_end(const struct items *s, int i)
{
  while (i < s->n && s->item[i].kind == AT) i++;
  return i;
}

int items_take(struct parser *p, struct front_value *v)
{
  struct items s;
  int t, dim = 0;
  struct loc opened = p->t.at;
  TRY(read_items(p, &s));
  TRY(expr_tensor(p, v, &t));
  if (s.n > shape_of(p, t)->n) return too_many(&s, t, 0);
  for (int i = 0; i < s.n; i++) {
    int end = group_end(&s, i), at;
    if (end == i) {
      TRY(take_part(&s, &s.item[i], dim, &t));
      dim += s.item[i].kind != ONE;
      continue;
    }
    struct attrs a = attrs_default(OP_GATHER);
    TRY(merge(&s, i, end, dim, &t, &at));
    a.dim = dim;
    TRY(add(p, OP_GATHER, 2, (int[]){t, at}, &a, s.item[i].at, &t));
    dim += shape_of(p, at)->n, i = end - 1;
  }
  *v = (struct front_value){.kind = TENSORS, .at = opened, .first = t, .count = 1};
  return OK;
}

// ---- K[...] = y ----

// Finds the subscripts other than `:`, first .. end - 1. They must be adjacent.
static int written(struct items *s, int *first, int *end)
{
  for (*first = 0; *first < s->n && s->item[*first].kind == ALL;) ++*first;
  for (*end = *first; *end < s->n && s->item[*end].kind != ALL;) ++*end;
  if (*first == s->n)
    return err_set(s->p->e, ERR_SYNTAX, s->item[0].at, "`:` alone names all of a state"), err_hint(s->p->e, "write K[0:n] = y"), USER;
  for (int i = *end; i < s->n; i++)
    if (s->item[i].kind != ALL) return err_set(s->p->e, ERR_SYNTAX, s->item[i].at, "subscripts of an update stand side by side");
  return OK;
}

static int not_a_state(struct parser *p, const struct token *id)
{
  int s = err_set(p->e, ERR_NOT_A_STATE, id->at, "`%.*s` is no state, and only states are written in place", MIN(id->n, 60), id->p);
  return err_hint(p->e, "declare it as %.*s: f32[64, 8] state, or write a new tensor: y = update(x, at, z, dim=0)", MIN(id->n, 60), id->p), s;
}

int items_update(struct parser *p)
{
  struct token id = p->t;
  struct front_value v, y;
  struct items s;
  struct attrs a = attrs_default(OP_UPDATE);
  int x, first, end, at, value, out;
  TRY(scope_value(p, &id, &v));
  parse_next(p);
  TRY(read_items(p, &s));
  TRY(expr_tensor(p, &v, &x));
  if (graph_state(p->scope->g, x) < 0) return not_a_state(p, &id);
  const struct shape shape = *shape_of(p, x);
  if (s.n > shape.n) return too_many(&s, x, 0);
  TRY(written(&s, &first, &end));
  for (int i = first; i < end; i++)
    if (s.item[i].kind != AT) TRY(part_bounds(&s, &s.item[i], shape.d[i]));
  TRY(parse_expect(p, '=', "`=`"));
  y.at = p->t.at;
  TRY(expr_parse(p, &y));
  if (y.kind == NUMBER) return err_set(p->e, ERR_ARITY, y.at, "a state is updated with a tensor, not with a number");
  TRY(expr_tensor(p, &y, &value));
  TRY(merge(&s, first, end, first, &x, &at));
  a.dim = first;
  TRY(add(p, OP_UPDATE, 3, (int[]){x, at, value}, &a, id.at, &out));
  TRY(reshaped(p, out, &shape, id.at, &out));
  return scope_rebind(p, &id, out);
}

bool items_update_starts(struct parser *p) { return p->t.kind == TOK_NAME && p->ahead.kind == '[' && p->scope->g->level == KERNEL; }

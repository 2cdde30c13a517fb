// Parses tuples, levels, types and tilers. Computes omitted strides of a type, and compares annotations with the inferred type. An annotation without
// strides does not constrain strides.
#include "tile/tile_parse.h"

#include <stdlib.h>
#include <string.h>

// ---- tuples: one expression for each leaf, stored in `shape` ----
enum { NODES = TILE_SOME };
struct tuple {
  int n;
  struct lay_node node[NODES];
};

static int add_node(struct reader *r, struct tuple *t, int arity, ex value)
{
  if (t->n == NODES) return err_set(r->e, ERR_LIMIT, r->t.at, "more than %d numbers in one level", NODES - 1);
  t->node[t->n++] = (struct lay_node){arity, value, EX_C(0)};
  return OK;
}

// Decides at a `(` whether it opens a tuple, `(2, 4)`, or an expression, `(2 * n) / 4`. A tuple has a comma at its own depth.
static bool tuple_ahead(const struct reader *r)
{
  struct tile_lexer l = r->lex;
  for (int depth = 1;;) {
    struct tile_token t = tile_lex(&l);
    if (t.kind == TILE_END || t.kind == '{' || t.kind == '}') return false;
    if (depth == 1 && t.kind == ',') return true;
    depth += (t.kind == '(') - (t.kind == ')');
    if (!depth) return false;
  }
}

static int item(struct reader *r, struct tuple *t, int deep)
{
  struct loc opened = r->t.at;
  ex x;
  if (r->t.kind != '(' || !tuple_ahead(r)) {
    READ(read_ex(r, &x));
    return add_node(r, t, LAY_LEAF, x);
  }
  if (deep == LAY_DEPTH - 1) return err_set(r->e, ERR_LIMIT, opened, "more than %d tuples within one another", LAY_DEPTH - 1);
  int self = t->n, arity = 0;
  READ(add_node(r, t, 0, EX_C(0)));
  read_next(r);
  do {
    READ(item(r, t, deep + 1));
    arity++;
  } while (read_take(r, ','));
  t->node[self].arity = arity;
  return read_close(r, ')', '(', opened);
}

static int items(struct reader *r, struct tuple *t) // a, (b, c), ... under a root
{
  t->n = 0;
  READ(add_node(r, t, 0, EX_C(0)));
  do {
    READ(item(r, t, 1));
    t->node[0].arity++;
  } while (read_take(r, ','));
  return OK;
}

static int with_strides(struct reader *r, struct loc at, struct tuple *shape, const struct tuple *stride)
{
  bool same = shape->n == stride->n;
  for (int i = 0; same && i < shape->n; i++) {
    same = shape->node[i].arity == stride->node[i].arity;
    shape->node[i].stride = stride->node[i].shape;
  }
  if (same) return OK;
  int s = err_set(r->e, ERR_TILE, at, "the strides are nested in another way than the extents");
  return err_hint(r->e, "one stride an extent: [4,(2,4):2,(1,8)]"), s;
}

// [8] is written as a tuple of one item and may be stored as an integer; ((4,2)) as (4,2).
static struct lay unwrapped(struct lay l)
{
  while (l.n && l.node[0].arity == 1) l = (struct lay){l.n - 1, l.node + 1};
  return l;
}

static struct lay lay_of(struct reader *r, const struct lay_node *node, int n)
{
  return (struct lay){n, arena_copy(r->mem, node, sizeof *node * (size_t)n)};
}

// ---- levels ----
int read_level(struct reader *r, struct tile_levels *l)
{
  struct loc at = r->t.at, opened = at;
  struct tuple shape, stride;
  if (l->n == TILE_LEVELS) return err_set(r->e, ERR_LIMIT, at, "more than %d levels", TILE_LEVELS);
  READ(read_expect(r, '[', "`[` of a shape"));
  READ(items(r, &shape));
  bool strided = r->t.kind == ':';
  at = r->t.at;
  if (read_take(r, ':')) {
    READ(items(r, &stride));
    READ(with_strides(r, at, &shape, &stride));
  }
  l->strided[l->n] = strided;
  l->level[l->n++] = lay_of(r, shape.node, shape.n);
  return read_close(r, ']', '[', opened);
}

static bool scalar_ahead(const struct reader *r)
{
  struct tile_lexer l = r->lex;
  return r->t.kind == '[' && tile_lex(&l).kind == ']';
}

// Parses "[4].[8]." up to the word after the last dot; "[]." for a scalar.
static int levels(struct reader *r, struct tile_levels *l)
{
  l->n = 0;
  if (scalar_ahead(r)) {
    read_next(r), read_next(r);
    return read_expect(r, '.', "`.` and what follows a shape");
  }
  do {
    READ(read_level(r, l));
    READ(read_expect(r, '.', "`.` and what follows a shape"));
  } while (r->t.kind == '[');
  return OK;
}

static ex elements(struct lay_ctx *c, struct lay l)
{
  ex size = EX_C(1);
  for (int i = 0; i < l.n; i++)
    if (l.node[i].arity == LAY_LEAF) size = ex_mul(c->ex, size, l.node[i].shape);
  return size;
}

void tile_compact(struct lay_ctx *c, bool row, struct tile_levels *l)
{
  ex scale = EX_C(1);
  for (int i = l->n - 1; i >= 0; i--) {
    ex size = elements(c, l->level[i]);
    if (!l->strided[i]) {
      struct lay dense = lay_compact(c, l->level[i], row);
      struct lay_node *node = arena_copy(c->mem, dense.node, sizeof *node * (size_t)dense.n);
      for (int j = 0; j < dense.n; j++)
        if (node[j].arity == LAY_LEAF) node[j].stride = ex_mul(c->ex, node[j].stride, scale);
      l->level[i] = (struct lay){dense.n, node};
    }
    scale = ex_mul(c->ex, scale, size);
  }
}

// ---- types ----
static int one_of(struct reader *r, const char *what, int n, const char *const *names, int *out)
{
  char text[64];
  struct str all = {0};
  struct tile_nearest near = tile_nearest(r->t.kind == TILE_WORD ? read_text(r, &r->t) : "");
  for (int i = 0; i < n; i++) {
    if (tile_is(&r->t, names[i])) return *out = i, read_next(r), str_free(&all), OK;
    tile_nearest_try(&near, names[i]);
    str_add(&all, i ? ", %s" : "%s", names[i]);
  }
  int s = err_set(r->e, ERR_TILE, r->t.at, "%s is no %s", tile_token_text(text, &r->t), what);
  if (near.best)
    err_hint(r->e, "did you mean `%s`? There are %s", near.best, str_text(&all));
  else
    err_hint(r->e, "there are %s", str_text(&all));
  str_free(&all);
  return s;
}

static int integer(struct reader *r, int *out)
{
  int64_t x;
  bool minus = read_take(r, '-');
  READ(read_number(r, 0, 64, "a number of bits", &x));
  return *out = minus ? -(int)x : (int)x, OK;
}

static int swizzle(struct reader *r, struct swizzle *s)
{
  struct loc opened = r->t.at;
  READ(read_expect(r, '(', "`(bits, base, shift)`"));
  READ(integer(r, &s->bits));
  READ(read_expect(r, ',', "`,`"));
  READ(integer(r, &s->base));
  READ(read_expect(r, ',', "`,`"));
  READ(integer(r, &s->shift));
  return read_close(r, ')', '(', opened);
}

int read_type(struct reader *r, struct tile_written *w)
{
  static const char *const memories[] = {"GL", "SH", "RF"};
  const char *types[TT_COUNT];
  int type, memory;
  for (int i = 0; i < TT_COUNT; i++) types[i] = tile_types[i].name;
  *w = (struct tile_written){.at = r->t.at};
  READ(levels(r, &w->l));
  READ(one_of(r, "element type", TT_COUNT, types, &type));
  READ(read_expect(r, '.', "`.` and a memory: GL, SH or RF"));
  READ(one_of(r, "memory", 3, memories, &memory));
  w->type = (enum tile_type)type, w->mem = (enum tile_mem)memory;
  if (r->t.kind != '.') return OK;
  read_next(r);
  if (!read_word(r, "swizzle")) return read_unexpected(r, "`swizzle(bits, base, shift)`");
  return swizzle(r, &w->swizzle);
}

int read_group_type(struct reader *r, struct tile_written *w)
{
  static const char *const kinds[] = {[GROUP_THREAD] = "thread", [GROUP_BLOCK] = "block"};
  int kind;
  *w = (struct tile_written){.at = r->t.at};
  READ(levels(r, &w->l));
  READ(one_of(r, "kind of group", 2, kinds, &kind));
  return w->kind = (enum group_kind)kind, OK;
}

// ---- tilers ----
struct parse_type_piece { // an item of a tiler: extent, or extent : stride
  struct tuple shape, stride;
  bool strided, whole; // whole: `_`
  struct loc at;
};

static int piece(struct reader *r, struct parse_type_piece *p)
{
  p->shape.n = 0, p->at = r->t.at, p->strided = p->whole = false;
  if (read_word(r, "_")) return p->whole = true, add_node(r, &p->shape, LAY_LEAF, EX_C(0));
  READ(item(r, &p->shape, 1));
  if (!read_take(r, ':')) return OK;
  p->strided = true, p->stride.n = 0;
  return item(r, &p->stride, 1);
}

static struct lay leaf_or_compact(struct reader *r, const struct tuple *t)
{
  if (t->node[0].arity == LAY_LEAF) return lay_int(&r->p->lay, t->node[0].shape, EX_C(1));
  return lay_compact(&r->p->lay, lay_of(r, t->node, t->n), r->row);
}

// One dimension tiled by `4,2 : 1,16`, as extents : strides. True if the items have this form.
static bool joined(int rank, int n, const struct parse_type_piece *p)
{
  int colons = 0, at = -1;
  for (int i = 0; i < n; i++) {
    if (p[i].whole) return false;
    if (p[i].strided) colons++, at = i;
  }
  return rank != n && n > 1 && (!colons || (colons == 1 && 2 * (at + 1) == n + 1));
}

static int join(struct reader *r, int n, struct parse_type_piece *p, struct lay *modes, int *count)
{
  int half = 0;
  while (half < n && !p[half].strided) half++;
  *count = half == n ? n : half + 1;
  if (half == n) { // no strides
    struct tuple all = {0};
    READ(add_node(r, &all, n, EX_C(0)));
    for (int i = 0; i < n; i++)
      for (int j = 0; j < p[i].shape.n; j++) READ(add_node(r, &all, p[i].shape.node[j].arity, p[i].shape.node[j].shape));
    struct lay dense = lay_compact(&r->p->lay, lay_of(r, all.node, all.n), r->row);
    for (int i = 0; i < n; i++) modes[i] = lay_mode(dense, i);
    return OK;
  }
  for (int i = 0; i <= half; i++) {
    const struct tuple *stride = i ? &p[half + i].shape : &p[half].stride;
    READ(with_strides(r, p[half].at, &p[i].shape, stride));
    modes[i] = lay_of(r, p[i].shape.node, p[i].shape.n);
  }
  return OK;
}

enum { MOST = 8 }; // most dimensions of a tiler

// At the first bracket of tile([2:2], [2,2 : 1,4]): whether a second one follows.
static bool brackets_ahead(const struct reader *r)
{
  struct tile_lexer l = r->lex;
  struct tile_token t = tile_lex(&l);
  while (t.kind != ']' && t.kind != '[' && t.kind != TILE_END && t.kind != '{') t = tile_lex(&l);
  return r->t.kind == '[' && t.kind == ']' && tile_lex(&l).kind == ',';
}

static int brackets(struct reader *r, struct lay *modes, int *n)
{
  do {
    struct tile_levels l = {0};
    if (*n == MOST) return err_set(r->e, ERR_LIMIT, r->t.at, "more than %d dimensions in a tile", MOST);
    READ(read_level(r, &l));
    tile_compact(&r->p->lay, r->row, &l);
    modes[(*n)++] = unwrapped(l.level[0]);
  } while (read_take(r, ','));
  return OK;
}

static int pieces(struct reader *r, int rank, struct lay *modes, int *n)
{
  struct parse_type_piece p[MOST];
  struct loc opened = r->t.at;
  bool in_brackets = read_take(r, '[');
  do {
    if (*n == MOST) return err_set(r->e, ERR_LIMIT, r->t.at, "more than %d dimensions in a tile", MOST);
    READ(piece(r, &p[(*n)++]));
  } while (read_take(r, ','));
  if (in_brackets) READ(read_close(r, ']', '[', opened));
  if (joined(rank, *n, p)) return join(r, *n, p, modes, n);
  for (int i = 0; i < *n; i++) {
    if (p[i].strided) READ(with_strides(r, p[i].at, &p[i].shape, &p[i].stride));
    bool plain = p[i].strided || p[i].whole;
    modes[i] = plain ? lay_of(r, p[i].shape.node, p[i].shape.n) : leaf_or_compact(r, &p[i].shape);
  }
  return OK;
}

int read_tiler(struct reader *r, int rank, struct lay *out)
{
  struct lay modes[MOST];
  struct loc opened = r->t.at;
  int n = 0;
  READ(read_expect(r, '(', "`(` and the tile"));
  if (brackets_ahead(r))
    READ(brackets(r, modes, &n));
  else
    READ(pieces(r, rank, modes, &n));
  READ(read_close(r, ')', '(', opened));
  *out = lay_tuple(&r->p->lay, n, modes);
  return OK;
}

// ---- annotations ----
static bool level_is(struct lay written, bool strided, struct lay is)
{
  written = unwrapped(written), is = unwrapped(is);
  if (written.n != is.n) return false;
  for (int i = 0; i < is.n; i++) {
    const struct lay_node *a = &written.node[i], *b = &is.node[i];
    if (a->arity != b->arity) return false;
    if (a->arity != LAY_LEAF) continue;
    if (a->shape != b->shape) return false;
    if (strided && a->stride != b->stride && a->shape != EX_C(1)) return false;
  }
  return true;
}

static bool levels_are(const struct tile_levels *l, int n, const struct lay *is)
{
  bool same = l->n == n;
  for (int i = 0; same && i < n; i++) same = level_is(l->level[i], l->strided[i], is[i]);
  return same;
}

static int differs(struct reader *r, const struct tile_written *w, const char *end, struct str *is)
{
  struct tile_printer o = {.p = r->p, .k = r->b.k, .out = &(struct str){0}};
  tile_put_levels_as(&o, w->l.n, w->l.level, w->l.strided);
  str_add(o.out, ".%s", end);
  int s = err_set(r->e, ERR_TILE, w->at, "this is %s, and not %s", str_text(is), str_text(o.out));
  err_hint(r->e, "correct the annotation, or leave it out");
  str_free(o.out);
  str_free(is);
  return s;
}

int read_check_view(struct reader *r, const struct tile_written *w, int view)
{
  const struct tile_view *v = &r->b.k->views[view];
  const struct tile_buffer *buf = &r->b.k->buffers[v->buf];
  if (levels_are(&w->l, v->nlevels, v->level) && w->type == buf->type && w->mem == buf->mem) return OK;
  struct str is = {0};
  tile_view_text(r->p, r->b.k, view, &is);
  return differs(r, w, arena_printf(r->mem, "%s.%s", tile_types[w->type].name, tile_mem_name[w->mem]), &is);
}

int read_check_group(struct reader *r, const struct tile_written *w, int group)
{
  const struct tile_group *g = &r->b.k->groups[group];
  if (levels_are(&w->l, g->nlevels, g->level) && w->kind == g->kind) return OK;
  struct str is = {0};
  tile_group_text(r->p, r->b.k, group, &is);
  return differs(r, w, w->kind == GROUP_BLOCK ? "block" : "thread", &is);
}

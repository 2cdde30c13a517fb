// Text of values after the loop, for the executing thread: some columns of one row in fp32 registers. What is of rows only is
// one element, and is broadcast where an operator needs it.
#include "lower/skinny.h"

#include <string.h>

int sk_text_about(struct sk_emit *e, int about)
{
  int was = e->t.tail ? -e->t.about : e->t.about;
  e->t.tail = about < 0;
  text_about(&e->t, (about < 0 ? -about : about) - 1);
  return was;
}

const char *sk_element(const struct sk_emit *e, const struct kern_access *a, int unit, int n, const struct sk_coord *at)
{
  struct str s = {0};
  bool fits = sk_address(e->p, a, unit, n, at, &s);
  const char *out = arena_printf(e->p->j->mem, "%%g_%s.tile([%d])[%s]", e->name[a->tensor], unit, str_text(&s));
  str_free(&s);
  CHECK(fits); // sk_shape_make has looked
  return out;
}

static const struct sk_space *columns(const struct sk_emit *e, const struct sk_place *at)
{
  return at->from == SK_WIDE ? &e->p->cols : &e->p->second[at->from - SK_INNER].cols;
}

static int width_of(const struct sk_emit *e, const struct sk_place *at, int v)
{
  return e->p->role[v].second || e->p->kern.v[v].axes & sk_space_axes(columns(e, at)) ? at->width : 1;
}

// Columns of the whole block of the graph, in units of `width`.
static const char *column_index(const struct sk_emit *e, const struct sk_place *at)
{
  if (at->from != SK_WIDE || e->s->subs == 1) return "@col";
  return arena_printf(e->p->j->mem, "(@sub * %d + @col)", e->s->cols / at->width);
}

// %out = a load, cast to fp32 where need be; or of registers that hold it already.
static void to_fp32(struct sk_emit *e, enum dtype t, int width, const char *out, const char *from)
{
  bool registers = !strncmp(from, "%early", 6);
  int fresh = e->t.fresh++;
  if (t != F32 && !registers) {
    text_line(&e->t, "%%l%d:[%d].%s.RF", fresh, width, tile_dtype(t));
    text_line(&e->t, "%%l%d <- Move<<<#grid, #me>>>(%s)", fresh, from);
    from = arena_printf(e->p->j->mem, "%%l%d", fresh);
  }
  text_line(&e->t, "%%%s <- %s<<<#grid, #me>>>(%s)", out, t == F32 ? "Move" : "UnaryPointwise<cast>", from);
}

void sk_emit_load(struct sk_emit *e, const struct sk_place *at, int v, enum sk_load how)
{
  const struct kern_value *x = &e->p->kern.v[v];
  bool has = x->axes & sk_space_axes(columns(e, at));
  int width = has ? at->width : 1;
  const struct sk_coord to[] = {{&e->p->rows, "@row", false}, {columns(e, at), column_index(e, at), true}};
  const char *from = sk_element(e, &x->at, width, has ? 2 : 1, to);
  bool early = at->from == SK_WIDE && e->s->early;
  int was = sk_text_about(e, x->about);
  if (how == SK_DECLARE) text_line(&e->t, "%%early%d:[%d].%s.RF", v, width, tile_dtype(x->at.type));
  if (how == SK_MOVE) text_line(&e->t, "%%early%d <- Move<<<#grid, #me>>>(%s)", v, from);
  if (how == SK_VALUE) to_fp32(e, x->at.type, width, arena_printf(e->p->j->mem, "v%d", v), early ? arena_printf(e->p->j->mem, "%%early%d", v) : from);
  sk_text_about(e, was);
}

void sk_emit_parts(struct sk_emit *e, const char *out, const char *of, int number, int parts, int width, const char *element)
{
  struct text *t = &e->t;
  int fresh = t->fresh++;
  text_line(t, "%%%s <- Move<<<#grid, #me>>>(%%%s%d[0]%s)", out, of, number, element);
  text_open(t, "for (p = 1; p < %d; p += 1) unroll", parts);
  text_line(t, "%%l%d:[%d].fp32.RF", fresh, width);
  text_line(t, "%%l%d <- Move<<<#grid, #me>>>(%%%s%d[p]%s)", fresh, of, number, element);
  text_line(t, "%%%s <- BinaryPointwise<+><<<#grid, #me>>>(%%%s, %%l%d)", out, out, fresh);
  text_close(t);
}

// Row @row of %hN by the second's weights.
static void second(struct sk_emit *e, const struct sk_place *at, int v, int width)
{
  struct text *t = &e->t;
  struct arena *mem = e->p->j->mem;
  const struct kern_value *w = &e->p->kern.v[sk_weights(&e->p->kern.v[v])];
  int number = e->p->role[v].number;
  const struct sk_coord to[] = {{&e->p->second[number].cols, "k", false}, {&e->p->cols, column_index(e, at), true}};
  int64_t inner = e->p->second[number].cols.size;
  text_line(t, "%%v%d <- Init<0.0><<<#grid, #me>>>()", v);
  text_open(t, "for (k = 0; k < %lld; k += 1)%s", (long long)inner, inner <= 64 ? " unroll" : "");
  text_line(t, "%%left:[1].fp32.RF");
  text_line(t, "%%left <- Move<<<#grid, #me>>>(%%h%d.tile([1, 1])[@row, k])", number);
  text_line(t, "%%right:[%d].fp32.RF", width);
  const char *from =
      sk_staged(e->p, e->s, v) ? arena_printf(mem, "%%second%d.tile([1, %d])[k, @own]", v, width) : sk_element(e, &w->at, width, 2, to);
  int was = sk_text_about(e, w->about);
  to_fp32(e, w->at.type, width, "right", from);
  sk_text_about(e, was);
  text_line(t, "%%right <- BinaryPointwise<*><<<#grid, #me>>>(%%right, %%left)");
  text_line(t, "%%v%d <- BinaryPointwise<+><<<#grid, #me>>>(%%v%d, %%right)", v, v);
  text_close(t);
}

void sk_emit_value(struct sk_emit *e, struct sk_place *at, int v)
{
  struct text *t = &e->t;
  struct arena *mem = e->p->j->mem;
  const struct kern_value *x = &e->p->kern.v[v];
  int width = width_of(e, at, v), number = e->p->role[v].number, parts = e->s->split > 1 ? e->s->split : e->s->warps;
  bool cluster = e->s->split > 1;
  if (at->done[v]) return;
  at->done[v] = true;
  for (int i = 0; i < x->nin && x->kind == KERN_MAP; i++) sk_emit_value(e, at, x->in[i]);
  const char *out = arena_printf(mem, "v%d", v);
  int was = sk_text_about(e, x->about);
  text_line(t, "%%%s:[%d].fp32.RF", out, width);
  if (x->kind == KERN_CONST)
    text_line(t, "%%%s <- Init<%#.17g><<<#grid, #me>>>()", out, x->a.scalar);
  else if (x->kind == KERN_LOAD)
    sk_emit_load(e, at, v, SK_VALUE);
  else if (x->kind == KERN_MAP)
    emit_map(t, x, out, arena_printf(mem, "v%d", x->in[0]), x->nin > 1 ? arena_printf(mem, "v%d", x->in[1]) : NULL);
  else if (x->kind == KERN_SUM)
    sk_emit_parts(e, out, cluster ? "insum" : "stat", number, parts, 1, ".tile([1])[@row]");
  else if (e->p->role[v].second)
    second(e, at, v, width);
  else
    sk_emit_parts(e, out, cluster ? "in" : "part", number, parts, width, arena_printf(mem, ".tile([1, %d])[@row, @col]", width));
  sk_text_about(e, was);
}

// Text of values after the loop, for the executing thread: some columns of one row in fp32 registers. A value with rows only is one element, which is
// broadcast if an operator needs it.
#include "lower/skinny.h"

#include <string.h>

void sk_fill(struct sk_emit *e, int about, const char *template, const struct hole *holes)
{
  TEXT_ABOUT(&e->t, about);
  text_fill(&e->t, template, holes);
}

const char *sk_element(const struct sk_emit *e, const struct kern_access *a, int unit, int n, const struct sk_coord *at)
{
  struct str s = {0};
  bool fits = sk_address(e->p, a, unit, n, at, &s);
  const char *out = arena_printf(e->p->j->mem, "%%%s.tile([%d])[%s]", e->name[a->tensor], unit, str_text(&s));
  str_free(&s);
  CHECK(fits); // sk_shape_make has checked this
  return out;
}

static const struct lower_space *columns(const struct sk_emit *e, const struct sk_place *at)
{
  return at->from == SK_WIDE ? &e->p->cols : &e->p->second[at->from - SK_INNER].cols;
}

static int width_of(const struct sk_emit *e, const struct sk_place *at, int v)
{
  return e->p->role[v].second || e->p->kern.v[v].axes & space_axes(columns(e, at)) ? at->width : 1;
}

const char *sk_weights_column(const struct sk_emit *e, int product, const char *index)
{
  const struct sk_take *t = &e->s->take[product];
  const struct sk_product *x = &e->p->product[product];
  const int64_t columns = x->wide ? e->p->cols.size : x->cols.size;
  if (x->wide ? !e->s->clipped : t->width == columns) return index;
  return arena_printf(e->p->j->mem, "min(%s, %lld)", index, (long long)columns / (t->along ? 1 : t->unit) - 1);
}

// Columns of a whole block of the graph, in units of `width`.
const char *sk_column(const struct sk_emit *e, const struct sk_place *at)
{
  if (at->from != SK_WIDE || e->s->subs == 1) return "@col";
  return arena_printf(e->p->j->mem, "(@sub * %d + @col)", e->s->cols / at->width);
}

// %out = a load, converted to fp32 if necessary, or of registers that already hold it.
static void to_fp32(struct sk_emit *e, enum dtype t, int width, const char *out, const char *from)
{
  bool narrow = t != F32, registers = !strncmp(from, "%early", 6);
  text_fill(&e->t,
            "?apart %l$fresh:[$width].$type.RF <- Move($from)\n"
            "?apart %$out <- UnaryPointwise<cast>(%l$fresh)\n"
            "?!apart %$out <- $how($from)",
            HOLES(NULL, INT(apart, narrow && !registers), INT(fresh, e->t.fresh++), INT(width, width), STR(type, tile_dtype(t)), STR(out, out),
                  STR(from, from), STR(how, narrow ? "UnaryPointwise<cast>" : "Move")));
}

void sk_emit_load(struct sk_emit *e, const struct sk_place *at, int v, enum sk_load how)
{
  const struct kern_value *x = &e->p->kern.v[v];
  bool has = x->axes & space_axes(columns(e, at));
  int width = has ? at->width : 1;
  TEXT_ABOUT(&e->t, x->about);
  const struct sk_coord to[] = {{&e->p->rows, "@row", false}, {columns(e, at), sk_column(e, at), true}};
  const char *from = sk_element(e, &x->at, width, has ? 2 : 1, to);
  const struct hole *holes = HOLES(NULL, INT(v, v), INT(width, width), STR(type, tile_dtype(x->at.type)), STR(from, from));
  if (how == SK_VALUE)
    to_fp32(e, x->at.type, width, text_of(e->p->j->mem, "v$v", holes),
            at->from == SK_WIDE && e->s->early ? text_of(e->p->j->mem, "%early$v", holes) : from);
  else
    text_fill(&e->t, how == SK_DECLARE ? "%early$v:[$width].$type.RF" : "%early$v <- Move($from)", holes);
}

void sk_emit_parts(struct sk_emit *e, const char *out, const char *of, int number, int parts, int width, const char *element)
{
  text_fill(
      &e->t,
      "%$out <- Move(%$of$i[0]$at)\n"
      "for (p = 1; p < $parts; p += 1) unroll {\n"
      "%l$fresh:[$width].fp32.RF <- Move(%$of$i[p]$at)\n"
      "%$out <- BinaryPointwise<+>(%$out, %l$fresh)",
      HOLES(NULL, STR(out, out), STR(of, of), INT(i, number), INT(parts, parts), INT(width, width), STR(at, element), INT(fresh, e->t.fresh++)));
}

// Multiplies row @row of %hN by the weights of the second product.
static void second(struct sk_emit *e, const struct sk_place *at, int v, int width)
{
  const struct kern_value *w = &e->p->kern.v[sk_weights(&e->p->kern.v[v])];
  int number = e->p->role[v].number;
  TEXT_SCOPE(&e->t);
  const struct lower_space *inner = &e->p->second[number].cols;
  const struct sk_coord to[] = {{inner, "k", false}, {&e->p->cols, sk_column(e, at), true}};
  const struct hole *holes =
      HOLES(NULL, INT(v, v), INT(i, number), INT(n, inner->size), STR(unroll, inner->size <= 64 ? " unroll" : ""), INT(width, width));
  text_begin(&e->t,
             "%v$v <- Init<0.0>()\n"
             "for (k = 0; k < $n; k += 1)$unroll {\n"
             "%left:[1].fp32.RF <- Move(%h$i.tile([1, 1])[@row, k])\n"
             "%right:[$width].fp32.RF",
             holes);
  bool staged = sk_staged(e->p, e->s, v);
  const int was = e->t.about;
  text_about(&e->t, w->about);
  to_fp32(e, w->at.type, width, "right",
          staged ? text_of(e->p->j->mem, "%second$v.tile([1, $width])[k, @own]", holes) : sk_element(e, &w->at, width, 2, to));
  text_about(&e->t, was);
  text_fill(&e->t,
            "%right <- BinaryPointwise<*>(%right, %left)\n"
            "%v$v <- BinaryPointwise<+>(%v$v, %right)",
            holes);
}

void sk_emit_value(struct sk_emit *e, struct sk_place *at, int v)
{
  struct arena *mem = e->p->j->mem;
  const struct kern_value *x = &e->p->kern.v[v];
  int width = width_of(e, at, v), number = e->p->role[v].number, parts = e->s->split > 1 ? e->s->split : e->s->warps;
  bool cluster = e->s->split > 1;
  if (at->done[v]) return;
  at->done[v] = true;
  for (int i = 0; i < x->nin && x->kind == KERN_MAP; i++) sk_emit_value(e, at, x->in[i]);
  const char *out = arena_printf(mem, "v%d", v);
  TEXT_ABOUT(&e->t, x->about);
  text_line(&e->t, "%%%s:[%d].fp32.RF", out, width);
  if (x->kind == KERN_CONST)
    text_line(&e->t, "%%%s <- Init<%#.17g>()", out, x->a.scalar);
  else if (x->kind == KERN_LOAD)
    sk_emit_load(e, at, v, SK_VALUE);
  else if (x->kind == KERN_MAP)
    emit_map(&e->t, x, out, arena_printf(mem, "v%d", x->in[0]), x->nin > 1 ? arena_printf(mem, "v%d", x->in[1]) : NULL);
  else if (x->kind == KERN_SUM)
    sk_emit_parts(e, out, cluster ? "insum" : "stat", number, parts, 1, ".tile([1])[@row]");
  else if (e->p->role[v].second)
    second(e, at, v, width);
  else
    sk_emit_parts(e, out, cluster ? "in" : "part", number, parts, width, arena_printf(mem, ".tile([1, %d])[@row, @col]", width));
}

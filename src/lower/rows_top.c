// topk of rows.h. Each element and its index form one key (base/order.h). A round selects the largest key below the previous one: each thread has its
// own largest such key, and a fold over lanes, warps and the cluster finds the largest of all. Only threads that had the selected key search their
// elements again. If registers do not hold the whole axis, these threads load them again.
#include "lower/rows.h"

#include <string.h>

#define ABOVE "4611686018427387904.0" // above all keys

int row_top_first(const struct kern *k, int value)
{
  const struct kern_value *v = &k->v[value];
  for (int i = 0; i < value; i++) {
    const struct kern_value *u = &k->v[i];
    if (u->live && kern_tops(u) && u->in[0] == v->in[0] && u->folded == v->folded && kern_same_access(&u->at, &v->at)) return i;
  }
  return value;
}

void row_top_turns(const struct row_text *x, int value, struct row_exchange *e)
{
  if (!kern_tops(&x->p->r->k.v[value])) return;
  e->at = arena_printf(x->mem, "n%d %% 2 * %d + %s", value, e->kept, e->at);
  e->kept *= 2;
}

static const struct hole *holes_of(const struct row_text *x, int value)
{
  const struct kern_value *v = &x->p->r->k.v[value];
  const axis_set all = v->axes | v->folded;
  const bool several = row_regs(x->p, v->axes) > 1;
  return KEPT_HOLES(x->mem, NULL, INT(v, value), INT(k, v->at.by[0].limit), INT(several, several),
                    INT(fold, row_regs(x->p, all) > row_regs(x->p, v->axes)), STR(dims, row_dims(x, v->axes, row_has_vec(x, v->axes))),
                    STR(all, row_dims(x, all, row_has_vec(x, all))), STR(first, row_dims(x, 0, false)), STR(zeros, row_at(x, 0, 1, "0")),
                    STR(least, fold_neutral(v->kind)), STR(above, ABOVE));
}

// Opens loops over the single elements of these axes.
static void elements_open(struct row_text *x, axis_set axes, const char *condition)
{
  row_each_open(x, axes, condition);
  if (row_has_vec(x, axes) && x->p->vec > 1) text_begin(&x->t, "each q:$n", HOLES(NULL, INT(n, x->p->vec)));
}

// Computes the keys of loaded or computed elements. Beyond extents they are the least key.
static void keys(struct row_text *x, int value, const struct hole *holes)
{
  const struct kern_value *v = &x->p->r->k.v[value];
  const axis_set all = v->axes | v->folded;
  const char *in = row_name(x, v->in[0]), *at = row_at(x, all, 1, "q"), *outside = row_inside(x, v->folded);
  text_fill(&x->t, "%key$v:[$all].i64.RF <- UnaryPointwise<order>(%$in)", HOLES(holes, STR(in, in)));
  TEXT_SCOPE(&x->t);
  int indent = x->t.indent;
  elements_open(x, all, "");
  text_fill(&x->t,
            "%number$v:[1].i64.RF\n"
            "%number$v <- Init<(2 * ($number))><<<#grid, #me>>>()\n"
            "%key$v$at <- BinaryPointwise<->(%key$v$at, %number$v)",
            HOLES(holes, STR(at, at), STR(number, row_number(x, &v->at, 1))));
  text_until(&x->t, indent);
  if (!*outside) return;
  elements_open(x, all, arena_printf(x->mem, "!(%s)", outside));
  text_fill(&x->t, "%key$v$at <- Init<$least>()", HOLES(holes, STR(at, at)));
}

// The thread's largest key below the last selected one.
static void look_through(struct row_text *x, int value, const struct hole *holes)
{
  const axis_set over = x->p->r->k.v[value].folded & x->p->rounds;
  const size_t bytes = sizeof(bool) * (size_t)x->p->r->k.nvalues;
  bool *have = arena_copy(x->mem, x->have, bytes), *wide = arena_copy(x->mem, x->wide, bytes);
  TEXT_SCOPE(&x->t);
  if (over) {
    text_fill(&x->t, "%mine$v <- Init<$least>()", holes);
    row_rounds_open(x, over, INT64_MAX, "");
    row_inputs(x, value);
    keys(x, value, holes);
  }
  text_fill(&x->t,
            "%below$v:[$all].i64.RF <- BinaryPointwise<below>(%key$v, %last$v)\n"
            "%round$v:[$dims].i64.RF\n"
            "?fold %round$v <- Reduction<max>(%below$v)\n"
            "?!fold %round$v <- Move(%below$v)\n"
            "?!over %mine$v <- Move(%round$v)\n"
            "?over %mine$v <- BinaryPointwise<max>(%mine$v, %round$v)",
            HOLES(holes, INT(over, over != 0)));
  memcpy(x->have, have, bytes), memcpy(x->wide, wide, bytes);
}

// Only threads that had the selected key search again. In the first round all threads search, without a condition, because all lanes of a fold must
// take part.
static void look_again(struct row_text *x, int value, const struct hole *holes)
{
  TEXT_SCOPE(&x->t);
  if (!row_inputs_fold(x, value)) {
    text_fill(&x->t,
              "%had$v:[$dims].i64.RF <- BinaryPointwise<eq>(%mine$v, %last$v)\n"
              "?several %any$v:[$first].i64.RF <- Reduction<max>(%had$v)\n"
              "?!several %any$v:[$first].i64.RF <- Move(%had$v)\n"
              "%again$v:[$first].i32.RF <- UnaryPointwise<cast>(%any$v)\n"
              "@again$v = value(%again$v$zeros)",
              holes);
    text_open(&x->t, "if (@again%d == 1) {", value);
  }
  look_through(x, value, holes);
}

// Stores the selected elements, or their indices, in the type of their tensor.
static void store(struct row_text *x, int save, const struct hole *holes)
{
  const struct kern_save *s = &x->p->r->k.save[save];
  const bool number = x->p->r->k.v[s->value].kind == KERN_TOP_AT, cast = s->at.type != (number ? I32 : F32);
  text_fill(&x->t,
            "?number %chosen$s:[$dims].i32.RF <- UnaryPointwise<place>(%last$v)\n"
            "?!number %chosen$s:[$dims].fp32.RF <- UnaryPointwise<ordered>(%last$v)\n"
            "?cast %o$s:[$dims].$type.RF <- UnaryPointwise<cast>(%chosen$s)",
            HOLES(holes, INT(s, save), INT(number, number), INT(cast, cast), STR(type, tile_dtype(s->at.type))));
  row_store_top(x, save, arena_printf(x->mem, "%s%d", cast ? "o" : "chosen", save));
}

void row_top(struct row_text *x, int value)
{
  const struct kern *k = &x->p->r->k;
  const struct hole *holes = holes_of(x, value);
  const bool over = k->v[value].folded & x->p->rounds;
  bool warps = false;
  EACH_AXIS(a, k->v[value].folded) warps |= x->p->warps[a] > 1;
  text_about(&x->t, k->v[value].about);
  row_share_meet(x, value);
  if (!over) keys(x, value, holes);
  text_fill(&x->t,
            "%mine$v:[$dims].i64.RF <- Init<$above>()\n"
            "%last$v:[$dims].i64.RF <- Init<$above>()",
            holes);
  int indent = text_open(&x->t, "for (n%d = 0; n%d < %lld; n%d += 1) rolled {", value, value, (long long)k->v[value].at.by[0].limit, value);
  look_again(x, value, holes);
  text_fill(&x->t, "%v$v:[$dims].i64.RF <- Move(%mine$v)", holes);
  row_fold_across(x, 1, &value, false);
  text_fill(&x->t, "%last$v <- Move(%v$v)", holes);
  for (int s = 0; s < k->nsaves; s++)
    if (kern_tops(&k->v[k->save[s].value]) && row_top_first(k, k->save[s].value) == value) store(x, s, holes);
  text_until(&x->t, indent);
  if (warps) text_line(&x->t, "Sync<barrier>#%s()", x->team); // later code may reuse the memory
  text_about(&x->t, 0);
}

void row_tops(struct row_text *x, axis_set over, int pass)
{
  const struct kern *k = &x->p->r->k;
  for (int i = 0; i < k->nvalues; i++) {
    const struct kern_value *v = &k->v[i];
    bool here = v->live && kern_tops(v) && row_top_first(k, i) == i && x->p->pass[i] == pass;
    if (here && (k->v[v->in[0]].axes & x->p->rounds) == over) row_top(x, i);
  }
}

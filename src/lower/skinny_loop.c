// Text of the loop over k. A round makes fragments from its registers, then issues the loads of the round `depth` rounds later into these registers,
// then computes its products. The loop is `rolled`: compilers that unroll it completely move each load down to its use, and then none is in flight.
//
//   %w0[d][c][i]  product 0: stage d, chunk c, row i of the lane's k, V columns      (contiguous along k: [d][2 c + m], KV of k)
//   %u0[d][c][i]  the same if rows begin anywhere: two vectors, from which the round shifts out %w0[0][c][i]
//   %x3[d][n]     value 3: KV of k of row 8 n + g                                    %f3[n]  the same, invariant in k
//   %acc0[n, c][j] sums of product 0: columns V g + 2 j, + 1 of chunk c, rows 8 n + 2 q, + 1
//   %sum0[n]      statistic 0 of row 8 n + g
#include "lower/skinny.h"

// The node that computes the terms of the sum.
static int within(const struct sk_emit *e, int v)
{
  const struct kern_value *x = &e->p->kern.v[v];
  return x->within ? x->within : x->about;
}

static bool in_loop(const struct sk_emit *e, int v) { return e->p->role[v].reached >> SK_LOOP & 1; }
static bool runs(const struct sk_emit *e, int v) { return e->p->kern.v[v].axes & space_axes(&e->p->k); }
static int tiles_of(const struct sk_emit *e, int v) { return e->p->kern.v[v].axes & space_axes(&e->p->rows) ? e->s->tiles : 1; }

bool sk_streams(const struct sk_plan *p, int v)
{
  return p->role[v].reached >> SK_LOOP & 1 && p->kern.v[v].kind == KERN_LOAD && p->kern.v[v].axes & space_axes(&p->k);
}

static const char *row_index(const struct sk_emit *e)
{
  if (e->p->rows.size % 8 == 0) return "(n * 8 + @g)";
  return arena_printf(e->p->j->mem, "min(n * 8 + @g, %lld)", (long long)e->p->rows.size - 1); // rows beyond the last one are computed and dropped
}

static enum dtype weights_type(const struct sk_emit *e, int i) { return e->p->kern.v[e->p->product[i].w].at.type; }

// The first product with the same X as right operand, of the same type.
static int right_of(const struct sk_emit *e, int i)
{
  for (int k = 0; k < i; k++)
    if (e->p->product[k].x == e->p->product[i].x && weights_type(e, k) == weights_type(e, i)) return k;
  return i;
}

const struct hole *sk_product_holes(const struct sk_emit *e, int i)
{
  const struct sk_take *k = &e->s->take[i];
  bool part = e->p->product[i].wide && e->s->subs > 1;
  return KEPT_HOLES(e->p->j->mem, e->all, INT(i, i), INT(along, k->along), INT(chunks, k->chunks), INT(width, k->width), INT(vector, k->vector),
                    INT(single, k->single), INT(anywhere, k->anywhere), STR(stage, k->anywhere ? "0" : "d"),
                    INT(held, k->along ? k->unit : k->vector), INT(lines, k->along ? 2 : e->s->kv), INT(pairs, k->along ? 1 : k->vector / 2),
                    INT(right, right_of(e, i)), STR(sub, part ? arena_printf(e->p->j->mem, "@sub * %d + ", k->width / (k->along ? 1 : k->unit)) : ""),
                    STR(type, tile_dtype(weights_type(e, i))));
}

// Holes for a value in the loop.
static const struct hole *value_holes(const struct sk_emit *e, int v)
{
  enum dtype type = e->p->kern.v[v].at.type;
  return KEPT_HOLES(e->p->j->mem, e->all, INT(v, v), STR(in, runs(e, v) ? "e" : "f"), INT(parts, tiles_of(e, v)),
                    INT(wide, runs(e, v) ? e->s->kv : 1), STR(type, tile_dtype(type)), STR(cast, type == F32 ? "Move" : "UnaryPointwise<cast>"));
}

// ---- registers ----

static void declare(struct sk_emit *e)
{
  for (int i = 0; i < e->p->nproducts; i++) {
    sk_fill(e, e->p->kern.v[e->p->product[i].w].about,
            "?anywhere %u$i:[$depth].[$chunks].[$lines].[16].$type.RF\n"
            "?!anywhere %w$i:[$depth].[$chunks].[$lines].[$held].$type.RF",
            sk_product_holes(e, i));
    sk_fill(e, within(e, e->p->product[i].value), "%acc$i:[$tiles, $chunks].[$pairs].[2, 1].[1, 2].fp32.RF <- Init<0.0>()", sk_product_holes(e, i));
  }
  for (int i = 0; i < e->p->nstats; i++) sk_fill(e, within(e, e->p->stat[i]), "%sum$i:[$tiles].fp32.RF <- Init<0.0>()", HOLES(e->all, INT(i, i)));
  for (int v = 0; v < e->p->kern.nvalues; v++)
    if (sk_streams(e->p, v)) sk_fill(e, e->p->kern.v[v].about, "%x$v:[$depth].[$parts].[$kv].$type.RF", value_holes(e, v));
}

// Loads values that the loop needs and that do not change with k.
static void load_fixed(struct sk_emit *e)
{
  for (int v = 0; v < e->p->kern.nvalues; v++) {
    const struct kern_value *x = &e->p->kern.v[v];
    const struct sk_coord at[] = {{&e->p->rows, row_index(e), false}};
    if (!in_loop(e, v)) continue;
    if (x->kind == KERN_CONST)
      sk_fill(e, x->about, "%f$v:[1].[1].fp32.RF <- Init<$c>()", HOLES(e->all, INT(v, v), STR(c, text_number(e->p->j->mem, x->a.scalar))));
    if (x->kind == KERN_LOAD && !runs(e, v))
      sk_fill(e, x->about,
              "%f$v:[$parts].[1].fp32.RF\n"
              "each n:$parts\n"
              "%o:[1].$type.RF <- Move($from)\n"
              "%f$v[n] <- $cast(%o)",
              HOLES(value_holes(e, v), STR(from, sk_element(e, &x->at, 1, 1, at))));
  }
}

// ---- loads ----

const char *sk_clamped(const struct sk_emit *e, const char *index, int unit)
{
  return e->s->ragged ? arena_printf(e->p->j->mem, "min(%s, %lld)", index, (long long)(e->p->k.size / unit - 1)) : index;
}

// The place in device memory of the first of 8 columns of a lane that begin anywhere, at `kv` steps of k. clamped: to places of the weights.
static const char *place(const struct sk_emit *e, int i, const char *kv, bool clamped)
{
  struct arena *mem = e->p->j->mem;
  const struct hole *holes = sk_product_holes(e, i);
  const struct sk_product *x = &e->p->product[i];
  const char *col = text_of(mem, "(${sub}(c * 8 + @g) * $vector)", holes), *k = text_of(mem, "($at * $kv + i)", HOLES(holes, STR(at, kv)));
  if (clamped) col = sk_weights_column(e, i, col), k = sk_clamped(e, k, 1);
  const struct sk_coord at[] = {{&x->cols, col, true}, {&e->p->k, k, false}};
  struct str s = {0};
  CHECK(sk_address(e->p, &e->p->kern.v[x->w].at, 1, 2, at, &s));
  return str_keep(mem, &s);
}

// Loads are clamped to whole vectors of the tensor. Elements after the last one are loaded in the round. Other clamped vectors belong to columns that
// do not exist.
static void load_anywhere(struct sk_emit *e, int i)
{
  const struct kern_access *a = &e->p->kern.v[e->p->product[i].w].at;
  sk_fill(
      e, e->p->kern.v[e->p->product[i].w].about,
      "each c:$chunks i:$lines\n"
      "@e = $place\n"
      "%u$i[d][c][i].tile([8])[0] <- Move<ld.global.nc>(%$memory.tile([8])[min(@e / 8, $most)])\n"
      "%u$i[d][c][i].tile([8])[1] <- Move<ld.global.nc>(%$memory.tile([8])[min(@e / 8 + 1, $most)])",
      HOLES(sk_product_holes(e, i), STR(place, place(e, i, "@kv", true)), STR(memory, e->name[a->tensor]), INT(most, a->elements / SK_PIECE - 1)));
}

static void load_weights(struct sk_emit *e, int i)
{
  if (e->s->take[i].anywhere) {
    load_anywhere(e, i);
    return;
  }
  struct arena *mem = e->p->j->mem;
  const struct sk_product *x = &e->p->product[i];
  const struct hole *holes = sk_product_holes(e, i);
  const struct sk_take *k = &e->s->take[i];
  bool along = k->along;
  const char *index = along ? "(${sub}c * 16 + i * 8 + @g)" : k->single ? "(${sub}(c * 8 + @g) * $vector + e)" : "(${sub}c * 8 + @g)";
  const char *col = sk_weights_column(e, i, text_of(mem, index, holes));
  const struct sk_coord at[] = {{&x->cols, col, !along}, {&e->p->k, along ? "@kv" : sk_clamped(e, text_of(mem, "(@kv * $kv + i)", holes), 1), along}};
  sk_fill(e, e->p->kern.v[x->w].about,
          "?single each c:$chunks i:$lines e:$vector\n"
          "?single %w$i[d][c][i].tile([1])[e] <- Move<ld.global.nc>($from)\n"
          "?!single each c:$chunks i:$lines\n"
          "?!single %w$i[d][c][i] <- Move<ld.global.stream>($from)",
          HOLES(holes, STR(from, sk_element(e, &e->p->kern.v[x->w].at, k->unit, 2, at))));
}

static void load_elements(struct sk_emit *e, int v)
{
  const bool whole = e->s->unit == e->s->kv;
  const char *k = sk_clamped(e, whole ? "@kv" : text_of(e->p->j->mem, "(@kv * $units + y)", e->all), e->s->unit);
  const struct sk_coord at[] = {{&e->p->k, k, true}, {&e->p->rows, row_index(e), false}};
  sk_fill(e, e->p->kern.v[v].about,
          "?whole each n:$parts\n"
          "?whole %x$v[d][n] <- Move<ld.global.nc>($from)\n"
          "?!whole each n:$parts y:$units\n"
          "?!whole %x$v[d][n].tile([$unit])[y] <- Move<ld.global.nc>($from)",
          HOLES(value_holes(e, v), INT(whole, whole), STR(from, sk_element(e, &e->p->kern.v[v].at, e->s->unit, 2, at))));
}

// Loads step `step` into stage d. always: the step exists.
static void load_step(struct sk_emit *e, const char *step, bool always)
{
  TEXT_SCOPE(&e->t);
  text_begin(&e->t, "?!always if ($step < $steps) {\n@kv = ($step) * 4 + @q", HOLES(e->all, INT(always, always), STR(step, step)));
  for (int i = 0; i < e->p->nproducts; i++) load_weights(e, i);
  for (int v = 0; v < e->p->kern.nvalues; v++)
    if (sk_streams(e->p, v)) load_elements(e, v);
}

// ---- a round ----

// In the last step: sets registers to zero whose k is beyond the sum. loops: the text of loops over n or c, and over i of k.
static void clear(struct sk_emit *e, const char *loops, const char *registers, const struct hole *holes)
{
  if (!e->s->ragged) return;
  TEXT_SCOPE(&e->t);
  text_open(&e->t, "%s", text_of(e->p->j->mem, "if (@now * $kv + $kv > $sum) {", e->all));
  text_begin(&e->t, loops, holes);
  text_fill(&e->t, "if (@now * $kv + i >= $sum) {\n$registers <- Init<0.0>()", HOLES(holes, STR(registers, text_of(e->p->j->mem, registers, holes))));
}

// Loads the elements after the last whole vector of the weights. They belong to the last k.
static void rest(struct sk_emit *e, int i)
{
  const struct kern_access *a = &e->p->kern.v[e->p->product[i].w].at;
  const int64_t whole = a->elements / SK_PIECE;
  if (!(a->elements % SK_PIECE)) return;
  sk_fill(e, e->p->kern.v[e->p->product[i].w].about,
          "if (@now == $last) {\n"
          "@i = $line\n"
          "each c:$chunks z:$n\n"
          "@e = $place\n"
          "if (@e / 8 == $whole) {\n"
          "%u$i[d][c][$line][z] <- Move(%$memory[$from + z])\n"
          "}\n"
          "if (@e / 8 + 1 == $whole) {\n"
          "%u$i[d][c][$line][8 + z] <- Move(%$memory[$from + z])",
          HOLES(sk_product_holes(e, i), INT(last, (e->p->k.size - 1) / e->s->kv), INT(line, (e->p->k.size - 1) % e->s->kv),
                INT(n, a->elements % SK_PIECE), INT(whole, whole), INT(from, whole * SK_PIECE), STR(place, place(e, i, "@now", true)),
                STR(memory, e->name[a->tensor])));
}

// Makes pairs along k by byte permutations. The compiler knows the shift of a vector whose place is not clamped. Clamped ones need none. Does nothing if the lane's values are contiguous along k.
static void fragment(struct sk_emit *e, int i)
{
  if (e->s->take[i].anywhere) {
    rest(e, i);
    sk_fill(e, e->p->kern.v[e->p->product[i].w].about,
            "%w$i:[1].[$chunks].[$lines].[8].$type.RF\n"
            "each c:$chunks i:$lines\n"
            "@e = $place\n"
            "%w$i[0][c][i] <- Move<shift, @e % 8>(%u$i[d][c][i].tile([8])[0], %u$i[d][c][i].tile([8])[1])",
            HOLES(sk_product_holes(e, i), STR(place, place(e, i, "@now", false))));
  }
  clear(e, "each c:$chunks i:$lines", "%w$i[$stage][c][i]", sk_product_holes(e, i));
  sk_fill(e, within(e, e->p->product[i].value),
          "%a$i:[$kvs, $chunks].[$pairs].[2, 2].[1, 2].$type.RF\n"
          "each s:$kvs c:$chunks h:2 m:2\n"
          "?along %a$i[s, c][0][m, h] <- Move(%w$i[$stage][c][m].tile([2])[s * 2 + h])\n"
          "?!along each j:$pairs\n"
          "?!along %a$i[s, c][j][m, h][0, 0] <- Move(%w$i[$stage][c][s * 4 + h * 2][j * 2 + m])\n"
          "?!along %a$i[s, c][j][m, h][0, 1] <- Move(%w$i[$stage][c][s * 4 + h * 2 + 1][j * 2 + m])",
          sk_product_holes(e, i));
}

static const char *operand(struct sk_emit *e, int v)
{
  return arena_printf(e->p->j->mem, "%c%d[%s]", runs(e, v) ? 'e' : 'f', v, tiles_of(e, v) > 1 ? "n" : "0");
}

// Converts elements to fp32 if something other than a plain product needs them.
static void elements(struct sk_emit *e, int v, bool *made)
{
  const struct kern_value *x = &e->p->kern.v[v];
  const struct hole *holes = value_holes(e, v);
  if (made[v] || (x->kind != KERN_MAP && !runs(e, v))) return;
  made[v] = true;
  for (int k = 0; k < x->nin; k++) elements(e, x->in[k], made);
  TEXT_ABOUT(&e->t, x->about);
  text_begin(&e->t, "%$in$v:[$parts].[$wide].fp32.RF\neach n:$parts", holes);
  if (x->kind == KERN_LOAD) {
    text_fill(&e->t, "%$in$v[n] <- $cast(%x$v[d][n])", holes);
    return;
  }
  emit_map(&e->t, x, text_of(e->p->j->mem, "$in$v[n]", holes), operand(e, x->in[0]), x->nin > 1 ? operand(e, x->in[1]) : NULL);
  if (runs(e, v)) clear(e, "each i:$kv", "%e$v[n][i]", holes);
}

// A sum of x * x with a loaded x multiplies and adds without an fp32 copy.
static int squared(const struct sk_emit *e, int v)
{
  const struct kern_value *x = &e->p->kern.v[v];
  bool square = x->kind == KERN_MAP && (x->op == OP_SQUARE || (x->op == OP_MUL && x->in[0] == x->in[1]));
  return square && e->p->kern.v[x->in[0]].kind == KERN_LOAD && runs(e, x->in[0]) && tiles_of(e, x->in[0]) == e->s->tiles ? x->in[0] : -1;
}

static void statistic(struct sk_emit *e, int i, bool *made)
{
  int v = e->p->kern.v[e->p->stat[i]].in[0], of = squared(e, v);
  if (of < 0) elements(e, v, made);
  TEXT_ABOUT(&e->t, within(e, e->p->stat[i]));
  text_begin(&e->t, "each n:$tiles i:$kv", e->all);
  if (of >= 0) // mark the square's node in the loop of the sum
    sk_fill(e, e->p->kern.v[v].about, "%sum$i[n] <- MatMul(%x$v[d][n][i], %x$v[d][n][i])", HOLES(e->all, INT(i, i), INT(v, of)));
  else
    text_fill(&e->t, "%sum$i[n] <- BinaryPointwise<+>(%sum$i[n], %$x[$at])",
              HOLES(e->all, INT(i, i), STR(x, operand(e, v)), STR(at, runs(e, v) ? "i" : "0")));
}

// Makes X the right operand, once for all products that share it.
static void right_operand(struct sk_emit *e, int i, bool *made)
{
  int v = e->p->product[i].x;
  const struct kern_value *x = &e->p->kern.v[v];
  bool plain = x->kind == KERN_LOAD && runs(e, v) && x->at.type == weights_type(e, i);
  if (right_of(e, i) != i) return;
  TEXT_ABOUT(&e->t, within(e, e->p->product[i].value));
  if (!plain) elements(e, v, made);
  text_fill(&e->t,
            "?!plain %r$i:[$tiles].[$kv].$type.RF\n"
            "?!plain each n:$tiles\n"
            "?!plain %r$i[n] <- UnaryPointwise<cast>(%$x)\n"
            "?!plain }\n"
            "%b$i:[$tiles].[$kvs].[2, 1].[2, 1].$type.RF\n"
            "each n:$tiles s:$kvs h:2\n"
            "?plain %b$i[n][s][h, 0] <- Move(%x$v[d].tile([2])[$n][s * 2 + h])\n"
            "?!plain %b$i[n][s][h, 0] <- Move(%r$i.tile([2])[n][s * 2 + h])",
            HOLES(sk_product_holes(e, i), INT(plain, plain), INT(v, v), STR(x, operand(e, v)), STR(n, tiles_of(e, v) == 1 ? "0" : "n")));
}

static void multiply(struct sk_emit *e, int i)
{
  sk_fill(e, within(e, e->p->product[i].value),
          "each s:$kvs n:$tiles c:$chunks j:$pairs\n"
          "%acc$i[n, c][j] <- MatMul#lanes(%a$i[s, c][j], %b$right[n][s])",
          sk_product_holes(e, i));
}

// A round: fragments and other uses of the registers of stage d, the loads of a later round, then the products.
static void round_text(struct sk_emit *e, const char *next)
{
  bool made[SK_VALUES] = {0}, now = e->s->ragged;
  for (int i = 0; i < e->p->nproducts; i++) now |= e->s->take[i].anywhere;
  if (now) text_line(&e->t, "%s", text_of(e->p->j->mem, "@now = (step + d * $turn) * 4 + @q", e->all));
  for (int v = 0; v < e->p->kern.nvalues; v++)
    if (sk_streams(e->p, v)) clear(e, "each n:$parts i:$kv", "%x$v[d][n][i]", value_holes(e, v));
  for (int i = 0; i < e->p->nproducts; i++) fragment(e, i), right_operand(e, i, made);
  for (int i = 0; i < e->p->nstats; i++) statistic(e, i, made);
  if (next) load_step(e, next, false);
  for (int i = 0; i < e->p->nproducts; i++) multiply(e, i);
}

// Loads before the first round: one step for each stage.
static void first_steps(struct sk_emit *e)
{
  TEXT_SCOPE(&e->t);
  text_begin(&e->t, "each d:$depth", e->all);
  load_step(e, text_of(e->p->j->mem, "@first + d * $turn", e->all), e->s->depth * e->s->warps * e->s->split <= e->s->steps);
}

static void rounds(struct sk_emit *e)
{
  const struct sk_shape *s = e->s;
  int all = s->warps * s->split * s->depth;
  TEXT_SCOPE(&e->t);
  first_steps(e);
  text_begin(&e->t,
             "for (step = @first; step < $steps; step += $all) rolled {\n"
             "each d:$depth\n"
             "?partial if (step + d * $turn < $steps) {",
             HOLES(e->all, INT(all, all), INT(partial, s->steps % all)));
  round_text(e, s->rounds > s->depth ? text_of(e->p->j->mem, "step + (d + $depth) * $turn", e->all) : NULL);
}

void sk_emit_loop(struct sk_emit *e)
{
  declare(e);
  load_fixed(e);
  rounds(e);
}

// Text of the loop over k: loads of the round that comes `depth` rounds later stand between the fragments that a round
// makes of its registers and its products, so that registers are free again when the loads are issued. The loop is
// `rolled`: compilers that unroll all of it move each load down to its use, and nothing is in flight.
//
// Or the stages are a ring in shared memory, which holds many more bytes than registers: each thread copies there, past its
// registers, what it alone will read, and waits for nobody but itself.
//
//   %ring0[d][c, i][thread, V]  what comes to be %w0[0][c][i] of a thread; %ringx3[d][n][thread, KV] of %x3[0][n]
//   %w0[d][c][i]  product 0: stage d, chunk c, row i of the lane's k, V columns      (along k: [d][2 c + m], KV of k)
//   %x3[d][n]     value 3: KV of k of row 8 n + g                                    %f3[n]  the same, not changing with k
//   %acc0[n, c][j] sums of product 0: columns V g + 2 j, + 1 of chunk c, rows 8 n + 2 q, + 1
//   %sum0[n]      statistic 0 of row 8 n + g
#include "lower/skinny.h"

static const char *type_of(const struct kern_value *v) { return tile_dtype(v->at.type); }

static const char *weights_type(const struct sk_emit *e, int product) { return tile_dtype(e->p->kern.v[e->p->product[product].w].at.type); }

// The node that computes what is summed.
static int within(const struct sk_emit *e, int v)
{
  const struct kern_value *x = &e->p->kern.v[v];
  return x->within ? x->within : x->about;
}

static bool in_loop(const struct sk_emit *e, int v) { return e->p->role[v].reached >> SK_LOOP & 1; }
static bool runs(const struct sk_emit *e, int v) { return e->p->kern.v[v].axes & sk_space_axes(&e->p->k); }
static bool of_rows(const struct sk_emit *e, int v) { return e->p->kern.v[v].axes & sk_space_axes(&e->p->rows); }
static int tiles_of(const struct sk_emit *e, int v) { return of_rows(e, v) ? e->s->tiles : 1; }

bool sk_streams(const struct sk_plan *p, int v)
{
  return p->role[v].reached >> SK_LOOP & 1 && p->kern.v[v].kind == KERN_LOAD && p->kern.v[v].axes & sk_space_axes(&p->k);
}

static const char *row_index(const struct sk_emit *e)
{
  if (e->p->rows.size % 8 == 0) return "(n * 8 + @g)";
  return arena_printf(e->p->j->mem, "min(n * 8 + @g, %lld)", (long long)e->p->rows.size - 1); // those that are not there are not kept
}

// ---- registers ----

static void declare(struct sk_emit *e)
{
  struct text *t = &e->t;
  const struct sk_shape *s = e->s;
  int depth = s->ring ? 1 : s->depth;
  for (int i = 0; i < e->p->nproducts; i++) {
    const struct sk_take *k = &s->take[i];
    sk_text_about(e, e->p->kern.v[e->p->product[i].w].about);
    text_line(t, "%%w%d:[%d].[%d].[%d].[%d].%s.RF", i, depth, k->chunks, k->along ? 2 : s->kv, k->along ? s->kv : k->vector, weights_type(e, i));
    sk_text_about(e, within(e, e->p->product[i].value));
    text_line(t, "%%acc%d:[%d, %d].[%d].[2, 1].[1, 2].fp32.RF", i, s->tiles, k->chunks, k->along ? 1 : k->vector / 2);
    text_line(t, "%%acc%d <- Init<0.0><<<#grid, #me>>>()", i);
  }
  for (int i = 0; i < e->p->nstats; i++) {
    sk_text_about(e, within(e, e->p->stat[i]));
    text_line(t, "%%sum%d:[%d].fp32.RF", i, s->tiles);
    text_line(t, "%%sum%d <- Init<0.0><<<#grid, #me>>>()", i);
  }
  for (int v = 0; v < e->p->kern.nvalues; v++)
    if (sk_streams(e->p, v)) {
      sk_text_about(e, e->p->kern.v[v].about);
      text_line(t, "%%x%d:[%d].[%d].[%d].%s.RF", v, depth, tiles_of(e, v), s->kv, type_of(&e->p->kern.v[v]));
    }
  sk_text_about(e, 0);
}

// What the loop needs and does not change with k.
static void load_fixed(struct sk_emit *e)
{
  struct text *t = &e->t;
  for (int v = 0; v < e->p->kern.nvalues; v++) {
    const struct kern_value *x = &e->p->kern.v[v];
    const struct sk_coord at[] = {{&e->p->rows, row_index(e), false}};
    if (!in_loop(e, v)) continue;
    sk_text_about(e, x->about);
    if (x->kind == KERN_CONST) {
      text_line(t, "%%f%d:[1].[1].fp32.RF", v);
      text_line(t, "%%f%d <- Init<%#.17g><<<#grid, #me>>>()", v, x->a.scalar);
    }
    if (x->kind != KERN_LOAD || runs(e, v)) continue;
    text_line(t, "%%f%d:[%d].[1].fp32.RF", v, tiles_of(e, v));
    text_open(t, "for (n = 0; n < %d; n += 1) unroll", tiles_of(e, v));
    text_line(t, "%%o:[1].%s.RF", type_of(x));
    text_line(t, "%%o <- Move<<<#grid, #me>>>(%s)", sk_element(e, &x->at, 1, 1, at));
    text_line(t, "%%f%d[n] <- %s<<<#grid, #me>>>(%%o)", v, x->at.type == F32 ? "Move" : "UnaryPointwise<cast>");
    text_close(t);
  }
  sk_text_about(e, 0);
}

// ---- loads ----

static void load_weights(struct sk_emit *e, int i, const char *d)
{
  struct text *t = &e->t;
  struct arena *mem = e->p->j->mem;
  const struct sk_product *x = &e->p->product[i];
  const struct sk_take *k = &e->s->take[i];
  int unit = k->along ? e->s->kv : k->vector;
  const char *sub = x->wide && e->s->subs > 1 ? arena_printf(mem, "@sub * %d + ", k->width / (k->along ? 1 : unit)) : "";
  const char *col = k->along ? arena_printf(mem, "(%sc * 16 + i * 8 + @g)", sub) : arena_printf(mem, "(%sc * 8 + @g)", sub);
  const struct sk_coord along[] = {{&x->cols, col, false}, {&e->p->k, "@kv", true}};
  const struct sk_coord across[] = {{&x->cols, col, true}, {&e->p->k, arena_printf(mem, "(@kv * %d + i)", e->s->kv), false}};
  const char *from = sk_element(e, &e->p->kern.v[x->w].at, unit, 2, k->along ? along : across);
  int was = sk_text_about(e, e->p->kern.v[x->w].about);
  text_open(t, "for (c = 0; c < %d; c += 1) unroll", k->chunks);
  text_open(t, "for (i = 0; i < %d; i += 1) unroll", k->along ? 2 : e->s->kv);
  if (e->s->ring)
    text_line(t, "%%ring%d[%s][c, i].tile([1, %d])[@tid, 0] <- Move<cp.async><<<#grid, #me>>>(%s)", i, d, unit, from);
  else
    text_line(t, "%%w%d[%s][c][i] <- Move<ld.global.stream><<<#grid, #me>>>(%s)", i, d, from);
  text_close(t);
  text_close(t);
  sk_text_about(e, was);
}

static void load_elements(struct sk_emit *e, int v, const char *d)
{
  struct text *t = &e->t;
  const struct sk_coord at[] = {{&e->p->k, "@kv", true}, {&e->p->rows, row_index(e), false}};
  const char *from = sk_element(e, &e->p->kern.v[v].at, e->s->kv, 2, at);
  int was = sk_text_about(e, e->p->kern.v[v].about);
  text_open(t, "for (n = 0; n < %d; n += 1) unroll", tiles_of(e, v));
  if (e->s->ring)
    text_line(t, "%%ringx%d[%s][n].tile([1, %d])[@tid, 0] <- Move<cp.async><<<#grid, #me>>>(%s)", v, d, e->s->kv, from);
  else
    text_line(t, "%%x%d[%s][n] <- Move<ld.global.nc><<<#grid, #me>>>(%s)", v, d, from);
  text_close(t);
  sk_text_about(e, was);
}

// Step `step` into stage d. `always`: there is one.
static void load_step(struct sk_emit *e, const char *step, const char *d, bool always)
{
  struct text *t = &e->t;
  if (!always) text_open(t, "if (%s < %lld)", step, (long long)e->s->steps);
  text_line(t, "@kv = (%s) * 4 + @q", step);
  for (int i = 0; i < e->p->nproducts; i++) load_weights(e, i, d);
  for (int v = 0; v < e->p->kern.nvalues; v++)
    if (sk_streams(e->p, v)) load_elements(e, v, d);
  if (!always) text_close(t);
}

// ---- a round ----

// Pairs along k of the right rows: byte permutes, or nothing where the lane's values lie along k.
static void fragment(struct sk_emit *e, int i, const char *d)
{
  struct text *t = &e->t;
  const struct sk_take *k = &e->s->take[i];
  int products = k->along ? 1 : k->vector / 2;
  int was = sk_text_about(e, within(e, e->p->product[i].value));
  text_line(t, "%%a%d:[%d, %d].[%d].[2, 2].[1, 2].%s.RF", i, e->s->kv / 4, k->chunks, products, weights_type(e, i));
  text_open(t, "for (s = 0; s < %d; s += 1) unroll", e->s->kv / 4);
  text_open(t, "for (c = 0; c < %d; c += 1) unroll", k->chunks);
  text_open(t, "for (h = 0; h < 2; h += 1) unroll");
  text_open(t, "for (m = 0; m < 2; m += 1) unroll");
  if (k->along) {
    text_line(t, "%%a%d[s, c][0][m, h] <- Move<<<#grid, #me>>>(%%w%d[%s][c][m].tile([2])[s * 2 + h])", i, i, d);
  } else {
    text_open(t, "for (j = 0; j < %d; j += 1) unroll", products);
    text_line(t, "%%a%d[s, c][j][m, h][0, 0] <- Move<<<#grid, #me>>>(%%w%d[%s][c][s * 4 + h * 2][j * 2 + m])", i, i, d);
    text_line(t, "%%a%d[s, c][j][m, h][0, 1] <- Move<<<#grid, #me>>>(%%w%d[%s][c][s * 4 + h * 2 + 1][j * 2 + m])", i, i, d);
    text_close(t);
  }
  for (int n = 0; n < 4; n++) text_close(t);
  sk_text_about(e, was);
}

static const char *operand(struct sk_emit *e, int v)
{
  bool many = tiles_of(e, v) > 1, fixed = !runs(e, v);
  return arena_printf(e->p->j->mem, "%c%d[%s]", fixed ? 'f' : 'e', v, many ? "n" : "0");
}

// Elements in fp32, as far as something besides a plain product needs them.
static void elements(struct sk_emit *e, int v, const char *d, bool *made)
{
  struct text *t = &e->t;
  const struct kern_value *x = &e->p->kern.v[v];
  if (made[v] || (x->kind != KERN_MAP && !runs(e, v))) return;
  made[v] = true;
  if (x->kind == KERN_MAP) elements(e, x->in[0], d, made);
  if (x->kind == KERN_MAP && x->nin > 1) elements(e, x->in[1], d, made);
  int was = sk_text_about(e, x->about);
  int wide = runs(e, v) ? e->s->kv : 1;
  text_line(t, "%%%c%d:[%d].[%d].fp32.RF", runs(e, v) ? 'e' : 'f', v, tiles_of(e, v), wide);
  text_open(t, "for (n = 0; n < %d; n += 1) unroll", tiles_of(e, v));
  const char *out = operand(e, v), *to = tiles_of(e, v) > 1 ? out : arena_printf(e->p->j->mem, "%c%d[n]", runs(e, v) ? 'e' : 'f', v);
  bool plain = x->kind == KERN_LOAD && x->at.type == F32;
  if (x->kind == KERN_LOAD)
    text_line(t, "%%%s <- %s<<<#grid, #me>>>(%%x%d[%s][n])", to, plain ? "Move" : "UnaryPointwise<cast>", v, d);
  else
    emit_map(t, x, to, operand(e, x->in[0]), x->nin > 1 ? operand(e, x->in[1]) : NULL);
  text_close(t);
  sk_text_about(e, was);
}

// x * x where x is loaded: multiplied and added without a copy in fp32.
static int squared(const struct sk_emit *e, int v)
{
  const struct kern_value *x = &e->p->kern.v[v];
  bool square = x->kind == KERN_MAP && (x->op == OP_SQUARE || (x->op == OP_MUL && x->in[0] == x->in[1]));
  return square && e->p->kern.v[x->in[0]].kind == KERN_LOAD && runs(e, x->in[0]) && tiles_of(e, x->in[0]) == e->s->tiles ? x->in[0] : -1;
}

static void statistic(struct sk_emit *e, int i, const char *d, bool *made)
{
  struct text *t = &e->t;
  int v = e->p->kern.v[e->p->stat[i]].in[0], of = squared(e, v);
  if (of < 0) elements(e, v, d, made);
  int was = sk_text_about(e, within(e, e->p->stat[i]));
  text_open(t, "for (n = 0; n < %d; n += 1) unroll", e->s->tiles);
  text_open(t, "for (i = 0; i < %d; i += 1) unroll", e->s->kv);
  if (of >= 0) {
    int sum = sk_text_about(e, e->p->kern.v[v].about); // the square's line, in the loop of the sum
    text_line(t, "%%sum%d[n] <- MatMul<<<#grid, #me>>>(%%x%d[%s][n][i], %%x%d[%s][n][i])", i, of, d, of, d);
    sk_text_about(e, sum);
  }
  if (of < 0) text_line(t, "%%sum%d[n] <- BinaryPointwise<+><<<#grid, #me>>>(%%sum%d[n], %%%s[%s])", i, i, operand(e, v), runs(e, v) ? "i" : "0");
  text_close(t);
  text_close(t);
  sk_text_about(e, was);
}

// X as the right operand; made once for all products that share it.
static void right_operand(struct sk_emit *e, int i, const char *d, bool *made)
{
  struct text *t = &e->t;
  int v = e->p->product[i].x;
  const struct kern_value *x = &e->p->kern.v[v];
  const char *type = weights_type(e, i), *from = arena_printf(e->p->j->mem, "x%d[%s]", v, d);
  bool plain = x->kind == KERN_LOAD && runs(e, v) && x->at.type == e->p->kern.v[e->p->product[i].w].at.type;
  for (int k = 0; k < i; k++)
    if (e->p->product[k].x == v && weights_type(e, k) == type) return;
  int was = sk_text_about(e, within(e, e->p->product[i].value));
  if (!plain) {
    elements(e, v, d, made);
    from = arena_printf(e->p->j->mem, "r%d", i);
    text_line(t, "%%%s:[%d].[%d].%s.RF", from, e->s->tiles, e->s->kv, type);
    text_open(t, "for (n = 0; n < %d; n += 1) unroll", e->s->tiles);
    text_line(t, "%%%s[n] <- UnaryPointwise<cast><<<#grid, #me>>>(%%%s)", from, operand(e, v));
    text_close(t);
  }
  text_line(t, "%%b%d:[%d].[%d].[2, 1].[2, 1].%s.RF", i, e->s->tiles, e->s->kv / 4, type);
  text_open(t, "for (n = 0; n < %d; n += 1) unroll", e->s->tiles);
  text_open(t, "for (s = 0; s < %d; s += 1) unroll", e->s->kv / 4);
  text_open(t, "for (h = 0; h < 2; h += 1) unroll");
  text_line(t, "%%b%d[n][s][h, 0] <- Move<<<#grid, #me>>>(%%%s.tile([2])[%s][s * 2 + h])", i, from, plain && tiles_of(e, v) == 1 ? "0" : "n");
  for (int n = 0; n < 3; n++) text_close(t);
  sk_text_about(e, was);
}

static int right_of(const struct sk_emit *e, int i)
{
  for (int k = 0; k < i; k++)
    if (e->p->product[k].x == e->p->product[i].x && weights_type(e, k) == weights_type(e, i)) return k;
  return i;
}

static void multiply(struct sk_emit *e, int i)
{
  struct text *t = &e->t;
  const struct sk_take *k = &e->s->take[i];
  int was = sk_text_about(e, within(e, e->p->product[i].value));
  text_open(t, "for (s = 0; s < %d; s += 1) unroll", e->s->kv / 4);
  text_open(t, "for (n = 0; n < %d; n += 1) unroll", e->s->tiles);
  text_open(t, "for (c = 0; c < %d; c += 1) unroll", k->chunks);
  text_open(t, "for (j = 0; j < %d; j += 1) unroll", k->along ? 1 : k->vector / 2);
  text_line(t, "%%acc%d[n, c][j] <- MatMul<<<#grid, #lanes>>>(%%a%d[s, c][j], %%b%d[n][s])", i, i, right_of(e, i));
  for (int n = 0; n < 4; n++) text_close(t);
  sk_text_about(e, was);
}

// Fragments, what else is made of the registers of stage d, then the loads of a later round, then the products.
static void round_text(struct sk_emit *e, const char *d, const char *next)
{
  bool made[SK_VALUES] = {0};
  for (int i = 0; i < e->p->nproducts; i++) fragment(e, i, d), right_operand(e, i, d, made);
  for (int i = 0; i < e->p->nstats; i++) statistic(e, i, d, made);
  if (next) load_step(e, next, d, false);
  for (int i = 0; i < e->p->nproducts; i++) multiply(e, i);
}

static void in_registers(struct sk_emit *e)
{
  struct text *t = &e->t;
  const struct sk_shape *s = e->s;
  struct arena *mem = e->p->j->mem;
  int turn = s->warps * s->split;
  bool full = s->steps % ((int64_t)turn * s->depth) == 0;
  text_open(t, "for (d = 0; d < %d; d += 1) unroll", s->depth);
  load_step(e, arena_printf(mem, "@first + d * %d", turn), "d", s->depth * turn <= s->steps);
  text_close(t);
  text_open(t, "for (step = @first; step < %lld; step += %d) rolled", (long long)s->steps, s->depth * turn);
  text_open(t, "for (d = 0; d < %d; d += 1) unroll", s->depth);
  if (!full) text_open(t, "if (step + d * %d < %lld)", turn, (long long)s->steps);
  round_text(e, "d", s->rounds > s->depth ? arena_printf(mem, "step + (d + %d) * %d", s->depth, turn) : NULL);
  if (!full) text_close(t);
  text_close(t);
  text_close(t);
}

// ---- a ring ----

static void declare_ring(struct sk_emit *e)
{
  struct text *t = &e->t;
  const struct sk_shape *s = e->s;
  for (int i = 0; i < e->p->nproducts; i++) {
    const struct sk_take *k = &s->take[i];
    text_line(t, "%%ring%d:[%d].[%d, %d].[%d, %d].%s.SH", i, s->depth, k->chunks, k->along ? 2 : s->kv, s->threads, k->along ? s->kv : k->vector,
              weights_type(e, i));
  }
  for (int v = 0; v < e->p->kern.nvalues; v++)
    if (sk_streams(e->p, v))
      text_line(t, "%%ringx%d:[%d].[%d].[%d, %d].%s.SH", v, s->depth, tiles_of(e, v), s->threads, s->kv, type_of(&e->p->kern.v[v]));
}

// What this thread has copied to a stage, into registers.
static void take_stage(struct sk_emit *e)
{
  struct text *t = &e->t;
  for (int i = 0; i < e->p->nproducts; i++) {
    const struct sk_take *k = &e->s->take[i];
    text_open(t, "for (c = 0; c < %d; c += 1) unroll", k->chunks);
    text_open(t, "for (i = 0; i < %d; i += 1) unroll", k->along ? 2 : e->s->kv);
    text_line(t, "%%w%d[0][c][i] <- Move<<<#grid, #me>>>(%%ring%d[@stage][c, i].tile([1, %d])[@tid, 0])", i, i, k->along ? e->s->kv : k->vector);
    text_close(t);
    text_close(t);
  }
  for (int v = 0; v < e->p->kern.nvalues; v++) {
    if (!sk_streams(e->p, v)) continue;
    text_open(t, "for (n = 0; n < %d; n += 1) unroll", tiles_of(e, v));
    text_line(t, "%%x%d[0][n] <- Move<<<#grid, #me>>>(%%ringx%d[@stage][n].tile([1, %d])[@tid, 0])", v, v, e->s->kv);
    text_close(t);
  }
}

// Each thread copies what it will need itself to its own place in shared memory: nobody waits for anybody.
static void in_ring(struct sk_emit *e)
{
  struct text *t = &e->t;
  const struct sk_shape *s = e->s;
  struct arena *mem = e->p->j->mem;
  int turn = s->warps * s->split;
  bool full = s->steps % turn == 0;
  text_open(t, "for (once = 0; once < 1; once += 1) unroll"); // what comes later may lie where the ring was
  declare_ring(e);
  text_open(t, "for (d = 0; d < %d; d += 1) unroll", s->depth);
  load_step(e, arena_printf(mem, "@first + d * %d", turn), "d", s->depth * turn <= s->steps);
  text_line(t, "Sync<cp.commit><<<#grid, #me>>>()");
  text_close(t);
  text_open(t, "for (round = 0; round < %lld; round += 1) rolled", (long long)s->rounds);
  text_line(t, "@stage = round %% %d", s->depth);
  text_line(t, "@step = @first + round * %d", turn);
  text_line(t, "Sync<cp.wait, %d><<<#grid, #me>>>()", s->depth - 1);
  if (!full) text_open(t, "if (@step < %lld)", (long long)s->steps);
  take_stage(e);
  if (s->rounds > s->depth) load_step(e, arena_printf(mem, "@step + %d", s->depth * turn), "@stage", false);
  round_text(e, "0", NULL);
  if (!full) text_close(t);
  text_line(t, "Sync<cp.commit><<<#grid, #me>>>()");
  text_close(t);
  text_close(t);
  text_line(t, "Sync<barrier><<<#grid, #t>>>()");
}

void sk_emit_loop(struct sk_emit *e)
{
  declare(e);
  load_fixed(e);
  if (e->s->ring)
    in_ring(e);
  else
    in_registers(e);
}

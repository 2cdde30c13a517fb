// Products. A sum has steps of 16 and, if 8 terms remain, one step of mma.m16n8k8. Left operands are fragments (%aN, and %aNl for the last 8 terms).
// Right operands are read by ldmatrix, 16 columns at a time. If the summed index is contiguous in a tile, its operand is read without a
// transposition, otherwise with one.
#include "lower/mma.h"

// Whether all fragments of the left operand are kept: they are read again or loop-invariant, and there is room.
bool mma_keeps_left(const struct mma_plan *p, const struct mma_product *x)
{
  int64_t registers = 2ll * p->mt * p->cols[x->sum_cols].nt;
  const struct mma_tile *t = mma_tile_at(p, x->a);
  if (!t || mma_at(p, x->a)->uses > t->reads) return true; // other readers need its fragments
  if (p->wg || registers > 64) return false;
  return t->reads > 1 || (!t->varying && p->iterations > 1 && p->section[x->out] == MMA_LOOP);
}

// Whether a step of 8 follows those of 16.
static bool rest(const struct mma_plan *p, int cols) { return p->cols[cols].nt % 2; }

// The step of the sum that this warp computes in round s.
static const char *step_of(const struct mma_plan *p, int sum_cols)
{
  const struct mma_cols *c = &p->cols[sum_cols];
  if (c->from) return arena_printf(p->job->mem, "((%s) / 2 + s)", c->from);
  return c->split ? arena_printf(p->job->mem, "(@wn * %d + s)", c->nt / 2) : "s";
}

// The row of @b and @r in the shared tile, as text.
static const char *shared_row(struct mma_kernel *k, const struct lower_space *out)
{
  if (k->p->cut) return "@pr";
  int64_t stride[MAX_LETTERS];
  struct str s = {0};
  mma_list_strides(k->p->n, out, stride);
  str_add(&s, "0");
  mma_row_walk(k->p, stride, 1, &s);
  return str_keep(k->mem, &s);
}

// %to <- the fragments of 16 rows (m) and step `step` of the sum; NULL: of the last 8 terms, from `eight` on.
static void load_left(struct mma_kernel *k, const struct mma_tile *t, const char *to, const char *step, int eight)
{
  const struct mma_plan *p = k->p;
  const char *stage = mma_stage(p, t), *at;
  if (!t->turned) {
    mma_row_names(k, arena_printf(k->mem, "%s * 16 + @lane %% 16", mma_row_tile(p)));
    at = step ? arena_printf(k->mem, "%s * 2 + @lane / 16", step) : arena_printf(k->mem, "%d", eight);
    text_line(k->t, "%%%s <- Move<ldmatrix>#warp(%%s%d[%s].tile([1, 8])[%s, %s])", to, t->buffer, stage, shared_row(k, &t->out), at);
    return;
  }
  mma_row_names(k, arena_printf(k->mem, "%s * 16 + @lane / 8 %% 2 * 8", mma_row_tile(p)));
  at = step ? arena_printf(k->mem, "%s * 16 + @lane / 16 * 8", step) : arena_printf(k->mem, "%d", 8 * eight);
  text_line(k->t, "%%%s <- Move<ldmatrix.trans>#warp(%%s%d[%s].tile([1, 8])[%s + @lane %% 8, @r / 8])", to, t->buffer, stage, at);
}

// Declares fragments of `steps` steps (0: none) with that name, and those of the last 8 terms.
static void declare_left(struct mma_kernel *k, const char *name, int steps, bool last)
{
  const struct mma_plan *p = k->p;
  if (steps) text_line(k->t, "%%%s:[%d, %d].[2, 2].[1, 2].%s.RF", name, p->mt, steps, tile_dtype(p->type));
  if (last) text_line(k->t, "%%%sl:[%d, 1].[2, 1].[1, 2].%s.RF", name, p->mt, tile_dtype(p->type));
}

static const char *left_from_tile(struct mma_kernel *k, const struct mma_tile *t, int cols)
{
  const struct mma_plan *p = k->p;
  const char *name = arena_printf(k->mem, "a%d", k->t->fresh++);
  int steps = p->cols[cols].nt / 2;
  mma_arrive(k, t);
  declare_left(k, name, steps, rest(p, cols));
  TEXT_SCOPE(k->t);
  text_open(k->t, "each m:%d", p->mt);
  if (steps) {
    TEXT_SCOPE(k->t);
    text_open(k->t, "each s:%d", steps), load_left(k, t, arena_printf(k->mem, "%s[m, s]", name), step_of(p, cols), 0);
  }
  if (rest(p, cols)) load_left(k, t, arena_printf(k->mem, "%sl[m, 0]", name), NULL, 2 * steps);
  return name;
}

// Copies between fragments of a left operand and accumulators, tile by tile; back: to accumulators.
void mma_cast_left(struct mma_kernel *k, const char *left, const char *from, int cols, bool back)
{
  int whole = k->p->cols[cols].nt / 2 * 2;
  TEXT_SCOPE(k->t);
  text_open(k->t, "each m:%d", k->p->mt);
  for (int last = 0; last < 2; last++) {
    TEXT_SCOPE(k->t);
    if (last ? !rest(k->p, cols) : !whole) continue;
    const char *l = arena_printf(k->mem, last ? "%sl[m, 0][h, 0]" : "%s[m, n / 2][h, n %% 2]", left),
               *r = last ? arena_printf(k->mem, "%s[m, %d][h, 0]", from, whole) : arena_printf(k->mem, "%s[m, n][h, 0]", from);
    text_open(k->t, last ? "each h:2" : "each n:%d h:2", whole);
    emit_unary(k->t, "cast", back ? r : l, back ? l : r);
  }
}

static const char *left_from_registers(struct mma_kernel *k, int value, int cols)
{
  const char *from = mma_value(k, value, (struct mma_shape){true, cols}), *name = arena_printf(k->mem, "a%d", k->t->fresh++);
  mma_mask(k, from, (struct mma_shape){true, cols}, "0.0");
  declare_left(k, name, k->p->cols[cols].nt / 2, rest(k->p, cols));
  mma_cast_left(k, name, from, cols, false);
  return name;
}

const char *mma_left(struct mma_kernel *k, int value, int cols)
{
  if (k->left[value]) return k->left[value];
  const struct mma_tile *t = mma_tile_at(k->p, value);
  return k->left[value] = t ? left_from_tile(k, t, cols) : left_from_registers(k, value, cols);
}

// The first row of a right operand for batch index @b, as text to be added.
static const char *batch_rows(struct mma_kernel *k, const struct mma_product *x)
{
  const struct mma_plan *p = k->p;
  uint32_t batch = mma_list_has(&mma_tile_at(p, x->b)->out) & p->batch_letters;
  struct str s = {0};
  int64_t stride[MAX_LETTERS] = {0}, size = p->tile[p->tile_of[x->b]].every;
  if (!batch) return "";
  for (int i = p->batch.n - 1; i >= 0; i--)
    if (batch >> p->batch.axis[i] & 1) stride[(int)p->batch.axis[i]] = size, size *= p->n->extent[(int)p->batch.axis[i]];
  str_add(&s, " + 0");
  mma_walk_list(p, &p->batch, stride, 1, 1, "@b", &s);
  return str_keep(k->mem, &s);
}

// Reads the fragments of one or two tiles of 8 columns of a right operand, from tile `n` on; last: of the last 8 terms.
static void load_right(struct mma_kernel *k, const struct mma_product *x, int tiles, const char *n, bool last)
{
  const struct mma_plan *p = k->p;
  const struct mma_tile *t = mma_tile_at(p, x->b);
  bool trans = mma_list_has(&t->in) == x->cols;
  int eight = p->cols[x->sum_cols].nt - 1, half = last ? 8 : 16; // half: lanes that point to the first of two tiles
  const char *stage = mma_stage(p, t), *first = batch_rows(k, x), *step = step_of(p, x->sum_cols), *row, *col;
  const char *next = tiles == 2 ? arena_printf(k->mem, " + @lane / %d%s", half, last ? " % 2" : "") : "";
  const char *tile = tiles == 2 ? arena_printf(k->mem, "%s * 8", next) : "";
  text_line(k->t, last ? "%%b:[%d].[1, 1].[2, 1].%s.RF" : "%%b:[%d].[2, 1].[2, 1].%s.RF", tiles, tile_dtype(p->type));
  if (trans) {
    row = last ? arena_printf(k->mem, "%d + @lane %% 8", 8 * eight) : arena_printf(k->mem, "%s * 16 + @lane %% 16", step);
    text_line(k->t, "%%b <- Move<ldmatrix.trans>#warp(%%s%d[%s].tile([1, 8])[%s%s, %s%s])", t->buffer, stage, row, first, n, next);
    return;
  }
  col = last ? arena_printf(k->mem, "%d", eight) : arena_printf(k->mem, "%s * 2 + @lane / 8 %% 2", step);
  text_line(k->t, "%%b <- Move<ldmatrix>#warp(%%s%d[%s].tile([1, 8])[(%s) * 8%s + @lane %% 8%s, %s])", t->buffer, stage, n, tile, first, col);
}

static void multiply(struct mma_kernel *k, const struct mma_product *x, const char *left, const char *into, bool batched, bool last)
{
  const struct mma_plan *p = k->p;
  int nt = p->cols[x->out_cols].nt;
  bool split = p->cols[x->out_cols].split;
  for (int odd = 0; odd < 2; odd++) {
    TEXT_SCOPE(k->t);
    int rounds = odd ? nt % 2 : nt / 2, tiles = odd ? 1 : 2;
    if (!rounds) continue;
    const char *n = odd ? arena_printf(k->mem, "%d", nt - 1) : "n * 2";
    const char *at = split ? arena_printf(k->mem, "@wn * %d + %s", nt, n) : n;
    text_open(k->t, "each n:%d", rounds);
    load_right(k, x, tiles, at, last);
    if (!batched) text_open(k->t, "each m:%d", p->mt);
    for (int h = 0; h < tiles; h++) text_line(k->t, "%%%s[m, %s%s] <- MatMul#warp(%%%s, %%b[%d])", into, n, h ? " + 1" : "", left, h);
  }
}

// One step of the sum, of 16 or of the last 8 terms; left: kept fragments, or NULL.
static void one_step(struct mma_kernel *k, const struct mma_product *x, const char *left, const char *into, bool last)
{
  const struct mma_plan *p = k->p;
  bool batched = mma_list_has(&mma_tile_at(p, x->b)->out) & p->batch_letters;
  const char *one = left ? arena_printf(k->mem, last ? "%sl[m, 0]" : "%s[m, s]", left) : last ? "al[m, 0]" : "a[m, 0]";
  if (!left) {
    declare_left(k, "a", !last, last);
    text_open(k->t, "each m:%d", p->mt);
    load_left(k, mma_tile_at(p, x->a), one, last ? NULL : step_of(p, x->sum_cols), p->cols[x->sum_cols].nt - 1);
    text_close(k->t);
  }
  TEXT_SCOPE(k->t);
  if (batched) text_open(k->t, "each m:%d", p->mt), mma_row_names(k, arena_printf(k->mem, "%s * 16", mma_row_tile(p)));
  multiply(k, x, one, into, batched, last);
}

static void by_steps(struct mma_kernel *k, const struct mma_product *x, const char *into)
{
  const struct mma_plan *p = k->p;
  bool keeps = mma_keeps_left(p, x) || k->left[x->a];
  const char *left = keeps ? mma_left(k, x->a, x->sum_cols) : NULL;
  if (!keeps) mma_arrive(k, mma_tile_at(p, x->a));
  mma_arrive(k, mma_tile_at(p, x->b));
  for (int last = 0; last < 2; last++) {
    TEXT_SCOPE(k->t);
    int steps = last ? rest(p, x->sum_cols) : p->cols[x->sum_cols].nt / 2;
    if (steps) text_open(k->t, "each s:%d", steps), one_step(k, x, left, into, last);
  }
}

void mma_product_emit(struct mma_kernel *k, const struct mma_product *x, const char *into)
{
  TEXT_ABOUT(k->t, mma_at(k->p, x->out)->about);
  (k->p->wg ? wgmma_product : by_steps)(k, x, into);
}

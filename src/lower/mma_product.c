// Products: left operands as fragments, right operands by ldmatrix for 16 columns at a time. The lanes' addresses
// follow from how the tile lies: where the summed index is contiguous a left operand is read as it lies and a right one
// too, else both are transposed on the way.
#include "lower/mma.h"

static int left_tile(const struct mma_plan *p, int tensor) { return p->tile_of[tensor]; }

// Kept where they are read again, or the same in every iteration, if there is room.
bool mma_keeps_left(const struct mma_plan *p, const struct mma_product *x)
{
  int64_t registers = 2ll * p->mt * p->cols[x->sum_cols].nt;
  if (left_tile(p, x->a) < 0) return true;
  const struct mma_tile *t = &p->tile[left_tile(p, x->a)];
  if (p->wg) return p->n->uses[x->a] > t->reads;
  if (p->n->uses[x->a] > t->reads) return true; // others read its fragments too
  if (registers > 64) return false;
  return t->reads > 1 || (!t->varying && p->iterations > 1 && p->section[x->node] == MMA_LOOP);
}

// The step of the sum that this warp is at in round s.
static const char *step_of(const struct mma_plan *p, int sum_cols)
{
  const struct mma_cols *c = &p->cols[sum_cols];
  return c->split ? arena_printf(p->job->mem, "(@wn * %d + s)", c->nt / 2) : "s";
}

// The row of the shared tile that holds @b and @r, as text.
static const char *shared_row(struct mma_kernel *k, const struct mma_list *out)
{
  if (k->p->cut) return "@pr";
  int64_t stride[MAX_LETTERS] = {0}, step = 1;
  struct str s = {0};
  for (int i = out->n - 1; i >= 0; step *= k->p->n->extent[(int)out->letter[i--]]) stride[(int)out->letter[i]] = step;
  str_add(&s, "0");
  mma_row_walk(k->p, stride, 1, &s);
  return mma_text(k, &s);
}

// %to <- the fragments of 16 rows (m) and step `step` of the sum.
static void load_left(struct mma_kernel *k, const struct mma_tile *t, const char *to, const char *step)
{
  const struct mma_plan *p = k->p;
  const char *stage = mma_stage(p, t);
  if (!t->turned) {
    mma_row_names(k, arena_printf(k->mem, "%s * 16 + @lane %% 16", mma_row_tile(p)));
    text_line(k->t, "%%%s <- Move<ldmatrix><<<#grid, #warp>>>(%%s%d[%s].tile([1, 8])[%s, %s * 2 + @lane / 16])", to,
              t->buffer, stage, shared_row(k, &t->out), step);
    return;
  }
  mma_row_names(k, arena_printf(k->mem, "%s * 16 + @lane / 8 %% 2 * 8", mma_row_tile(p)));
  text_line(k->t,
            "%%%s <- Move<ldmatrix.trans><<<#grid, #warp>>>(%%s%d[%s].tile([1, 8])[%s * 16 + @lane / 16 * 8 + @lane %% "
            "8, @r / 8])",
            to, t->buffer, stage, step);
}

static const char *left_from_tile(struct mma_kernel *k, const struct mma_tile *t, int cols)
{
  const struct mma_plan *p = k->p;
  const char *name = arena_printf(k->mem, "a%d", k->t->fresh++);
  mma_arrive(k, t);
  text_line(k->t, "%%%s:[%d, %d].[2, 2].[1, 2].%s.RF", name, p->mt, p->cols[cols].nt / 2, tile_dtype(p->type));
  text_open(k->t, "for (m = 0; m < %d; m += 1) unroll", p->mt);
  text_open(k->t, "for (s = 0; s < %d; s += 1) unroll", p->cols[cols].nt / 2);
  load_left(k, t, arena_printf(k->mem, "%s[m, s]", name), step_of(p, cols));
  text_close(k->t), text_close(k->t);
  return name;
}

static const char *left_from_registers(struct mma_kernel *k, int tensor, int cols)
{
  const struct mma_plan *p = k->p;
  const char *from = mma_value(k, tensor, (struct mma_shape){true, cols});
  const char *name = arena_printf(k->mem, "a%d", k->t->fresh++);
  text_line(k->t, "%%%s:[%d, %d].[2, 2].[1, 2].%s.RF", name, p->mt, p->cols[cols].nt / 2, tile_dtype(p->type));
  text_open(k->t, "for (m = 0; m < %d; m += 1) unroll", p->mt);
  text_open(k->t, "for (n = 0; n < %d; n += 1) unroll", p->cols[cols].nt);
  text_open(k->t, "for (h = 0; h < 2; h += 1) unroll");
  text_line(k->t, "%%%s[m, n / 2][h, n %% 2] <- UnaryPointwise<cast><<<#grid, #me>>>(%%%s[m, n][h, 0])", name, from);
  text_close(k->t), text_close(k->t), text_close(k->t);
  return name;
}

const char *mma_left(struct mma_kernel *k, int tensor, int cols)
{
  if (k->left[tensor]) return k->left[tensor];
  int tile = left_tile(k->p, tensor);
  return k->left[tensor] =
             tile >= 0 ? left_from_tile(k, &k->p->tile[tile], cols) : left_from_registers(k, tensor, cols);
}

// The fragments of `mats` / 2 tiles of 8 columns, from tile `n` on, of a right operand.
static void load_right(struct mma_kernel *k, const struct mma_product *x, int mats, const char *n)
{
  const struct mma_plan *p = k->p;
  const struct mma_tile *t = &p->tile[p->tile_of[x->b]];
  bool trans = mma_list_has(&t->in) == x->cols;
  uint32_t batch = mma_list_has(&t->out) & p->batch_letters;
  const char *stage = mma_stage(p, t), *first = "", *step = step_of(p, x->sum_cols);
  if (batch) { // rows of the tile of one of the batch are together
    struct str s = {0};
    int64_t stride[MAX_LETTERS] = {0}, size = trans ? p->cols[x->sum_cols].size : p->cols[x->out_cols].size;
    for (int i = p->batch.n - 1; i >= 0; i--)
      if (batch >> p->batch.letter[i] & 1)
        stride[(int)p->batch.letter[i]] = size, size *= p->n->extent[(int)p->batch.letter[i]];
    str_add(&s, " + 0");
    mma_walk_list(p, &p->batch, stride, 1, 1, "@b", &s);
    first = mma_text(k, &s);
  }
  text_line(k->t, "%%b:[%d].[2, 1].[2, 1].%s.RF", mats / 2, tile_dtype(p->type));
  if (trans)
    text_line(k->t,
              "%%b <- Move<ldmatrix.trans><<<#grid, #warp>>>(%%s%d[%s].tile([1, 8])[%s * 16 + @lane %% 16%s, %s%s])",
              t->buffer, stage, step, first, n, mats == 4 ? " + @lane / 16" : "");
  else if (mats == 4)
    text_line(k->t,
              "%%b <- Move<ldmatrix><<<#grid, #warp>>>(%%s%d[%s].tile([1, 8])[(%s) * 8 + @lane / 16 * 8 + @lane %% "
              "8%s, %s * 2 + @lane / 8 %% 2])",
              t->buffer, stage, n, first, step);
  else
    text_line(k->t,
              "%%b <- Move<ldmatrix><<<#grid, #warp>>>(%%s%d[%s].tile([1, 8])[(%s) * 8 + @lane %% 8%s, %s * 2 + @lane "
              "/ 8 %% 2])",
              t->buffer, stage, n, first, step);
}

static void multiply(struct mma_kernel *k, const struct mma_product *x, const char *left, const char *into,
                     bool batched)
{
  const struct mma_plan *p = k->p;
  int nt = p->cols[x->out_cols].nt;
  bool split = p->cols[x->out_cols].split;
  for (int odd = 0; odd < 2; odd++) {
    int rounds = odd ? nt % 2 : nt / 2, mats = odd ? 2 : 4;
    if (!rounds) continue;
    const char *n = odd ? arena_printf(k->mem, "%d", nt - 1) : "n * 2";
    const char *at = split ? arena_printf(k->mem, "@wn * %d + %s", nt, n) : n;
    if (!odd)
      text_open(k->t, "for (n = 0; n < %d; n += 1) unroll", rounds);
    else
      text_open(k->t, "for (n = 0; n < 1; n += 1) unroll");
    load_right(k, x, mats, at);
    if (!batched) text_open(k->t, "for (m = 0; m < %d; m += 1) unroll", p->mt);
    for (int h = 0; h < mats / 2; h++)
      text_line(k->t, "%%%s[m, %s%s] <- MatMul<<<#grid, #warp>>>(%%%s, %%b[%d])", into, n, h ? " + 1" : "", left, h);
    if (!batched) text_close(k->t);
    text_close(k->t);
  }
}

void mma_product_emit(struct mma_kernel *k, const struct mma_product *x, const char *into)
{
  const struct mma_plan *p = k->p;
  if (p->wg) {
    wgmma_product(k, x, into);
    return;
  }
  bool batched = mma_list_has(&p->tile[p->tile_of[x->b]].out) & p->batch_letters,
       keeps = mma_keeps_left(p, x) || k->left[x->a];
  const char *left = keeps ? mma_left(k, x->a, x->sum_cols) : NULL;
  if (!keeps) mma_arrive(k, &p->tile[p->tile_of[x->a]]);
  mma_arrive(k, &p->tile[p->tile_of[x->b]]);
  const char *one = keeps ? arena_printf(k->mem, "%s[m, s]", left) : "a[m, 0]";
  text_open(k->t, "for (s = 0; s < %d; s += 1) unroll", p->cols[x->sum_cols].nt / 2);
  if (!keeps) {
    text_line(k->t, "%%a:[%d, 1].[2, 2].[1, 2].%s.RF", p->mt, tile_dtype(p->type));
    text_open(k->t, "for (m = 0; m < %d; m += 1) unroll", p->mt);
    load_left(k, &p->tile[p->tile_of[x->a]], "a[m, 0]", step_of(p, x->sum_cols));
    text_close(k->t);
  }
  if (batched) {
    text_open(k->t, "for (m = 0; m < %d; m += 1) unroll", p->mt);
    mma_row_names(k, arena_printf(k->mem, "%s * 16", mma_row_tile(p)));
  }
  multiply(k, x, one, into, batched);
  if (batched) text_close(k->t);
  text_close(k->t);
}

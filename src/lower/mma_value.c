// Fragments of iterators, straight from device memory unless a product has them in shared memory; rows and columns of
// the executing thread. Rows that do not exist read as the last one, and nothing is stored for them.
#include "lower/mma.h"

#include <string.h>

const char *mma_it(const struct mma_kernel *k) { return k->section == MMA_LOOP && k->p->iterations > 1 ? "it" : "0"; }

const char *mma_text(struct mma_kernel *k, struct str *s)
{
  const char *text = arena_strdup(k->mem, str_text(s));
  str_free(s);
  return text;
}

const char *mma_shape_text(const struct mma_plan *p, struct mma_shape s, const char *type)
{
  return arena_printf(p->job->mem, "[%d, %d].[%d, 1].[1, %d].%s", s.rows ? p->mt : 1, s.cols >= 0 ? p->cols[s.cols].nt : 1, s.rows ? 2 : 1,
                      s.cols >= 0 ? 2 : 1, type);
}

const char *mma_declare(struct mma_kernel *k, struct mma_shape s, const char *type)
{
  const char *name = arena_printf(k->mem, "v%d", k->t->fresh++);
  text_line(k->t, "%%%s:%s.RF", name, mma_shape_text(k->p, s, type));
  return name;
}

// ---- rows and columns of this thread ----

void mma_row_names(struct mma_kernel *k, const char *padded)
{
  const struct mma_plan *p = k->p;
  long long rows = p->nrows, full = p->padded;
  bool surplus = p->wm * p->mt * 16 > p->nbatch * p->padded;
  text_line(k->t, "@pr = %s", padded);
  if (p->cut) {
    text_line(k->t, "@r = %s", mma_cut_row(p, "@pr", true));
    return;
  }
  if (p->nbatch > 1 && surplus)
    text_line(k->t, "@b = min(@pr / %lld, %lld)", full, (long long)p->nbatch - 1);
  else if (p->nbatch > 1)
    text_line(k->t, "@b = @pr / %lld", full);
  if (p->nbatch > 1)
    text_line(k->t, rows < full ? "@r = min(@pr %% %lld, %lld)" : "@r = @pr %% %lld", full, rows - 1);
  else
    text_line(k->t, rows < full || surplus ? "@r = min(@pr, %lld)" : "@r = @pr", rows - 1);
}

// The number of this warp's m-th tile of 16 rows. Of a warpgroup four warps make 64 rows together.
const char *mma_row_tile(const struct mma_plan *p)
{
  if (p->wg && p->mt > 1) return arena_printf(p->job->mem, "(@wm / 4 * %d + m * 4 + @wm %% 4)", 4 * p->mt);
  return arena_printf(p->job->mem, "(@wm * %d + m)", p->mt);
}

void mma_rows_open(struct mma_kernel *k, bool rows)
{
  if (!rows) return;
  text_open(k->t, "for (m = 0; m < %d; m += 1) unroll", k->p->mt);
  text_open(k->t, "for (h = 0; h < 2; h += 1) unroll");
  mma_row_names(k, arena_printf(k->mem, "%s * 16 + h * 8 + @lane / 4", mma_row_tile(k->p)));
}

void mma_rows_close(struct mma_kernel *k, bool rows)
{
  if (!rows) return;
  text_close(k->t);
  text_close(k->t);
}

void mma_row_walk(const struct mma_plan *p, const int64_t *stride, int unit, struct str *out)
{
  if (p->nbatch > 1) mma_walk_list(p, &p->batch, stride, unit, 1, "@b", out);
  mma_walk_list(p, &p->rows, stride, unit, 1, "@r", out);
}

const char *mma_cols_index(const struct mma_plan *p, int cols, int unit)
{
  const struct mma_cols *c = &p->cols[cols];
  if (c->from) return arena_printf(p->job->mem, "(%s + n) * %d + @lane %% 4 * %d", c->from, 8 / unit, 2 / unit);
  if (c->split) return arena_printf(p->job->mem, "(@wn * %d + n) * %d + @lane %% 4 * %d", c->nt, 8 / unit, 2 / unit);
  return arena_printf(p->job->mem, "n * %d + @lane %% 4 * %d", 8 / unit, 2 / unit);
}

// ---- loads ----

const char *mma_address(struct mma_kernel *k, const struct access *a, struct mma_shape s, int unit, int e)
{
  struct str at = {0};
  mma_walk_base(k->p, a, unit, mma_it(k), &at);
  if (k->parts) {
    struct mma_list l = {0};
    for (int i = 0; i < k->p->n->nletters; i++)
      if (k->parts >> i & 1) l.letter[l.n++] = (int8_t)i;
    mma_walk_list(k->p, &l, a->stride, unit, 1, "p", &at);
  }
  if (s.rows) mma_row_walk(k->p, a->stride, unit, &at);
  if (s.cols >= 0) {
    mma_walk_list(k->p, &k->p->cols[s.cols].list, a->stride, unit, unit, mma_column(k->p, s.cols, unit, e), &at);
  }
  return mma_text(k, &at);
}

// Vectors are loaded where they are asked for: left to the compiler, those of all layers of a chain come at its
// beginning.
static const char *how(struct mma_shape s) { return s.rows ? "" : "<ld.global.nc>"; }

static void load_one(struct mma_kernel *k, const struct access *a, const char *to, struct mma_shape s, int e)
{
  enum dtype t = k->p->job->store[a->tensor];
  const char *row = s.rows ? "m" : "0", *half = s.rows ? "h" : "0", *col = s.cols >= 0 ? "n" : "0", *from = mma_address(k, a, s, 1, e);
  if (t == F32) {
    text_line(k->t, "%%%s[%s, %s][%s, 0][0, %d] <- Move%s<<<#grid, #me>>>(%%%s[%s])", to, row, col, half, e, how(s), k->global[a->tensor], from);
    return;
  }
  text_line(k->t, "%%one%d:[].%s.RF", e, tile_dtype(t));
  text_line(k->t, "%%one%d <- Move%s<<<#grid, #me>>>(%%%s[%s])", e, how(s), k->global[a->tensor], from);
  text_line(k->t, "%%%s[%s, %s][%s, 0][0, %d] <- UnaryPointwise<cast><<<#grid, #me>>>(%%one%d)", to, row, col, half, e, e);
}

static void load_pair(struct mma_kernel *k, const struct access *a, const char *to, struct mma_shape s)
{
  enum dtype t = k->p->job->store[a->tensor];
  const char *row = s.rows ? "m" : "0", *half = s.rows ? "h" : "0", *from = mma_address(k, a, s, 2, 0);
  if (t == F32) {
    text_line(k->t, "%%%s[%s, n][%s, 0] <- Move%s<<<#grid, #me>>>(%%%s.tile([2])[%s])", to, row, half, how(s), k->global[a->tensor], from);
    return;
  }
  text_line(k->t, "%%pair:[1, 2].%s.RF", tile_dtype(t));
  text_line(k->t, "%%pair <- Move%s<<<#grid, #me>>>(%%%s.tile([2])[%s])", how(s), k->global[a->tensor], from);
  text_line(k->t, "%%%s[%s, n][%s, 0] <- UnaryPointwise<cast><<<#grid, #me>>>(%%pair)", to, row, half);
}

static const char *from_memory(struct mma_kernel *k, const struct access *a, struct mma_shape s)
{
  const struct mma_plan *p = k->p;
  int was = text_about_tensor(k->t, p->n->block, a->tile);
  const char *to = mma_declare(k, s, "fp32");
  int width = s.cols >= 0 ? mma_width(p, a, &p->cols[s.cols].list, 2) : 1;
  mma_rows_open(k, s.rows);
  if (s.cols >= 0) text_open(k->t, "for (n = 0; n < %d; n += 1) unroll", p->cols[s.cols].nt);
  if (width == 2)
    load_pair(k, a, to, s);
  else
    for (int e = 0; e < (s.cols >= 0 ? 2 : 1); e++) load_one(k, a, to, s, e);
  if (s.cols >= 0) text_close(k->t);
  mma_rows_close(k, s.rows);
  text_about(k->t, was);
  text_about(k->t, was);
  return to;
}

const char *mma_load_parts(struct mma_kernel *k, int node)
{
  const struct mma_plan *p = k->p;
  const struct node *n = &p->n->block->nodes[node];
  const struct access *a = &p->n->iter[p->n->iter_of[p->n->t[n->in[0]].root]];
  struct mma_shape s = p->shape[n->out];
  const char *out = mma_declare(k, s, "fp32"), *one;
  k->parts = p->n->t[n->in[0]].has & ~p->n->t[n->out].has;
  int64_t parts = norm_extent(p->n, k->parts);
  text_line(k->t, "%%%s <- Init<%s><<<#grid, #me>>>()", out, n->op == OP_MAX ? "-inf" : "0.0");
  text_open(k->t, "for (p = 0; p < %lld; p += 1)%s", (long long)parts, parts <= 16 ? " unroll" : "");
  one = from_memory(k, a, s);
  text_line(k->t, "%%%s <- BinaryPointwise<%s><<<#grid, #me>>>(%%%s, %%%s)", out, n->op == OP_MAX ? "max" : "+", out, one);
  text_close(k->t);
  k->parts = 0;
  return out;
}

static const char *from_left(struct mma_kernel *k, int tensor, struct mma_shape s)
{
  const char *left = mma_left(k, tensor, s.cols), *to = mma_declare(k, s, "fp32");
  int whole = k->p->cols[s.cols].nt / 2 * 2;
  text_open(k->t, "for (m = 0; m < %d; m += 1) unroll", k->p->mt);
  if (whole) {
    text_open(k->t, "for (n = 0; n < %d; n += 1) unroll", whole);
    text_open(k->t, "for (h = 0; h < 2; h += 1) unroll");
    text_line(k->t, "%%%s[m, n][h, 0] <- UnaryPointwise<cast><<<#grid, #me>>>(%%%s[m, n / 2][h, n %% 2])", to, left);
    text_close(k->t), text_close(k->t);
  }
  if (whole < k->p->cols[s.cols].nt) {
    text_open(k->t, "for (h = 0; h < 2; h += 1) unroll");
    text_line(k->t, "%%%s[m, %d][h, 0] <- UnaryPointwise<cast><<<#grid, #me>>>(%%%sl[m, 0][h, 0])", to, whole, left);
    text_close(k->t);
  }
  text_close(k->t);
  return to;
}

// Some product's left operand, with these columns summed.
static bool is_left(const struct mma_plan *p, int tensor, int cols)
{
  for (int i = 0; i < p->nproducts; i++)
    if (p->product[i].a == tensor && p->product[i].sum_cols == cols) return true;
  return false;
}

const char *mma_value(struct mma_kernel *k, int tensor, struct mma_shape want)
{
  const struct mma_plan *p = k->p;
  const struct norm_tensor *t = &p->n->t[tensor];
  if (p->n->iter_of[tensor] < 0) return k->reg[tensor] ? k->reg[tensor] : (k->reg[tensor] = mma_vector_value(k, tensor));
  want.rows = (t->has & p->row_letters) != 0;
  if (!(t->has & ~p->row_letters)) want.cols = -1;
  if (k->reg[tensor] && k->have[tensor].cols == want.cols) return k->reg[tensor];
  if (p->source && p->source->tensor == tensor) return k->have[tensor] = want, k->reg[tensor] = mma_side_value(k, want);
  if (p->tile_of[tensor] >= 0 && is_left(p, tensor, want.cols))
    want.rows = true, k->reg[tensor] = from_left(k, tensor, want);
  else if (!(k->reg[tensor] = wgmma_vector_value(k, &p->n->iter[p->n->iter_of[tensor]], want)))
    k->reg[tensor] = from_memory(k, &p->n->iter[p->n->iter_of[tensor]], want);
  k->have[tensor] = want;
  return k->reg[tensor];
}

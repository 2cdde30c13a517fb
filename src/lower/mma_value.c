// Fragments of iterators, from device memory or, if a product reads the tile, from shared memory; rows and columns of the executing thread. Missing
// rows are read as copies of the last row, and are not stored.
#include "lower/mma.h"

#include <string.h>

const char *mma_it(const struct mma_kernel *k) { return k->section == MMA_LOOP && k->p->iterations > 1 ? mma_iteration(k->p, "it") : "0"; }

// "[2, 4].[2, 1].[1, 2].fp32"
static const char *fragment_type(const struct mma_plan *p, struct mma_shape s, const char *type)
{
  return arena_printf(p->job->mem, "[%d, %d].[%d, 1].[1, %d].%s", s.rows ? p->mt : 1, s.cols >= 0 ? p->cols[s.cols].nt : 1, s.rows ? 2 : 1,
                      s.cols >= 0 ? 2 : 1, type);
}

const char *mma_declare(struct mma_kernel *k, struct mma_shape s, const char *type)
{
  const char *name = arena_printf(k->mem, "v%d", k->t->fresh++);
  text_line(k->t, "%%%s:%s.RF", name, fragment_type(k->p, s, type));
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
  if (mma_ragged_rows(p)) {
    text_line(k->t, "@r = %s", mma_ragged_index(p, "@pr", 1, mma_it(k)));
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

// The number of this warp's m-th tile of 16 rows. Four warps of a warpgroup have 64 adjacent rows.
const char *mma_row_tile(const struct mma_plan *p)
{
  if (p->wg && p->mt > 1) return arena_printf(p->job->mem, "(@wm / 4 * %d + m * 4 + @wm %% 4)", 4 * p->mt);
  return arena_printf(p->job->mem, "(@wm * %d + m)", p->mt);
}

void mma_rows_open(struct mma_kernel *k, bool rows)
{
  if (!rows) return;
  text_open(k->t, "each m:%d h:2", k->p->mt);
  mma_row_names(k, arena_printf(k->mem, "%s * 16 + h * 8 + @lane / 4", mma_row_tile(k->p)));
}

void mma_cols_open(struct mma_kernel *k, int cols)
{
  if (cols >= 0) text_open(k->t, "each n:%d", k->p->cols[cols].nt);
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

const char *mma_address(struct mma_kernel *k, const struct plan_access *a, struct mma_shape s, int unit, int e)
{
  struct str at = {0};
  mma_walk_base(k->p, a, unit, mma_it(k), &at);
  if (k->parts) {
    struct lower_space l = {0};
    for (int i = 0; i < k->p->n->nletters; i++)
      if (k->parts >> i & 1) space_push(&l, k->p->n->extent, i);
    mma_walk_list(k->p, &l, a->stride, unit, 1, "p", &at);
  }
  if (s.rows) mma_row_walk(k->p, a->stride, unit, &at);
  if (s.cols >= 0) {
    mma_walk_list(k->p, &k->p->cols[s.cols].list, a->stride, unit, unit, mma_column(k->p, s.cols, unit, e), &at);
  }
  return str_keep(k->mem, &at);
}

const char *mma_element(struct mma_kernel *k, const char *reg, struct mma_shape s, bool pair, int e)
{
  const char *row = s.rows ? "m" : "0", *half = s.rows ? "h" : "0", *col = s.cols >= 0 ? "n" : "0";
  return arena_printf(k->mem, pair ? "%s[%s, %s][%s, 0]" : "%s[%s, %s][%s, 0][0, %d]", reg, row, col, half, e);
}

void mma_move(struct mma_kernel *k, enum dtype t, const char *by, bool pair, const char *reg, const char *memory, const char *how, bool back)
{
  bool narrow = t != F32;
  text_fill(k->t,
            "?narrow %$by:$shape.$type.RF\n"
            "?narrow ?back %$by <- UnaryPointwise<cast>(%$reg)\n"
            "?back %$memory <- Move(%$here)\n"
            "?!back %$here <- Move$how(%$memory)\n"
            "?narrow ?!back %$reg <- UnaryPointwise<cast>(%$by)",
            HOLES(NULL, INT(narrow, narrow), INT(back, back), STR(by, by), STR(shape, pair ? "[1, 2]" : "[]"), STR(type, tile_dtype(t)),
                  STR(reg, reg), STR(memory, memory), STR(here, narrow ? by : reg), STR(how, how)));
}

// Loads element e, or with a width of 2 a pair of columns. Vectors are loaded where they are used. If the compiler may move them, it loads the
// vectors of all layers of a chain at the start.
static void load(struct mma_kernel *k, const struct plan_access *a, const char *to, struct mma_shape s, int width, int e)
{
  const char *at = mma_address(k, a, s, width, e), *reg = mma_element(k, to, s, width == 2, e);
  if (norm_is_index(k->p->n, a->tensor))
    text_line(k->t, "%%%s <- Init<(%s)><<<#grid, #me>>>()", reg, at);
  else
    mma_move(k, k->p->job->store[a->tensor], width == 2 ? "pair" : arena_printf(k->mem, "one%d", e), width == 2, reg,
             arena_printf(k->mem, width == 2 ? "%s.tile([2])[%s]" : "%s[%s]", k->global[a->tensor], at), s.rows ? "" : "<ld.global.nc>", false);
}

static const char *from_memory(struct mma_kernel *k, const struct plan_access *a, struct mma_shape s)
{
  const struct mma_plan *p = k->p;
  TEXT_ABOUT(k->t, p->n->block->tensors[a->tile].node + 1);
  const char *to = mma_declare(k, s, "fp32");
  int width = s.cols >= 0 && !norm_is_index(p->n, a->tensor) ? mma_width(p, a, &p->cols[s.cols].list, 2) : 1;
  mma_rows_open(k, s.rows), mma_cols_open(k, s.cols);
  for (int e = 0; e < (s.cols >= 0 ? 2 : 1); e += width) load(k, a, to, s, width, e);
  return to;
}

const char *mma_load_parts(struct mma_kernel *k, int fold)
{
  const struct mma_plan *p = k->p;
  const struct kern_value *v = mma_at(p, fold);
  struct mma_shape s = p->shape[fold];
  const char *out = mma_declare(k, s, "fp32"), *one;
  k->parts = mma_gone(p, fold);
  int64_t parts = norm_extent(p->n, k->parts);
  text_line(k->t, "%%%s <- Init<%s>()", out, fold_neutral(v->kind));
  text_open(k->t, "for (p = 0; p < %lld; p += 1)%s {", (long long)parts, parts <= 16 ? " unroll" : "");
  one = from_memory(k, mma_access(p, v->in[0]), s);
  emit_binary(k->t, fold_operator(v->kind), out, out, one);
  text_close(k->t);
  k->parts = 0;
  return out;
}

static const char *from_left(struct mma_kernel *k, int value, struct mma_shape s)
{
  const char *left = mma_left(k, value, s.cols), *to = mma_declare(k, s, "fp32");
  mma_cast_left(k, left, to, s.cols, true);
  return to;
}

// Whether a product reads the value as left operand and sums over these columns.
static bool is_left(const struct mma_plan *p, int value, int cols)
{
  for (int i = 0; i < p->nproducts; i++)
    if (p->product[i].a == value && p->product[i].sum_cols == cols) return true;
  return false;
}

const char *mma_value(struct mma_kernel *k, int value, struct mma_shape want)
{
  const struct mma_plan *p = k->p;
  if (!mma_loads(p, value)) return k->reg[value];
  const struct plan_access *a = mma_access(p, value);
  want.rows = (mma_has(p, value) & p->row_letters) != 0;
  if (!(mma_has(p, value) & ~p->row_letters)) want.cols = -1;
  if (k->reg[value] && k->have[value].cols == want.cols) return k->reg[value];
  if (p->source && p->source->value == value) return k->have[value] = want, k->reg[value] = mma_side_value(k, want);
  if (p->tile_of[value] >= 0 && (p->tile[p->tile_of[value]].lanes || is_left(p, value, want.cols)))
    want.rows = true, k->reg[value] = from_left(k, value, want);
  else if (!(k->reg[value] = wgmma_vector_value(k, a, want)))
    k->reg[value] = from_memory(k, a, want);
  k->have[value] = want;
  return k->reg[value];
}

// Sizes that no instruction divides. Sums and columns are padded to whole fragments. Tiles in shared memory have chunks of zeros after the data. No
// copy touches them, so they are written once for all stages. In registers, columns beyond the end hold results of the last column, which is read
// again. Before columns are combined they are set to a neutral value: 0 for sums and operands of the next product, -inf for maxima. They are not
// stored.
#include "lower/mma.h"

// Steps of 16, and pairs of tiles if there is padding anyway, so that warps can share them.
int64_t mma_pad(int64_t size) { return size % 8 == 0 ? size : size < 8 ? 8 : (size + 15) / 16 * 16; }

bool mma_pads(const struct mma_plan *p, int cols)
{
  return cols >= 0 && (p->cols[cols].padded > p->cols[cols].size || mma_ragged(p, cols) || mma_clipped(p, cols));
}

// ---- tiles ----

int64_t mma_padded(const struct mma_plan *p, uint32_t letters, int64_t size)
{
  int cols = mma_cols_with(p, letters);
  return cols < 0 ? size : p->cols[cols].padded;
}

void mma_pad_tile(const struct mma_plan *p, struct mma_tile *t, bool left)
{
  t->own_rows = t->cut ? p->cut : space_size(&t->out), t->own_cols = space_size(&t->in);
  t->run = t->every = t->own_rows / t->batches;
  t->cols = mma_padded(p, mma_list_has(&t->in), t->own_cols);
  if (!left || t->turned) t->every = mma_padded(p, mma_list_has(&t->out) & ~p->batch_letters, t->run);
  t->rows = t->batches * t->every;
}

// The row of the tile that has this row of device memory.
const char *mma_tile_row(const struct mma_plan *p, const struct mma_tile *t, const char *row)
{
  long long run = t->run, gap = t->every - t->run;
  if (!gap || t->batches == 1) return row;
  return arena_printf(p->job->mem, "%s + (%s) / %lld * %lld", row, row, run, gap);
}

// Prints zeros to pieces of the tile, at this row and the column of piece @c.
static void zeros(struct mma_kernel *k, const struct mma_tile *t, int64_t pieces, const char *row, const char *col)
{
  const struct mma_plan *p = k->p;
  if (!pieces) return;
  text_fill(k->t,
            "each j:$rounds\n"
            "@c = j * $threads + @tid\n"
            "?over if (@c < $pieces) {\n"
            "%none:[1, $w].$type.RF <- Init<0.0>()\n"
            "each s:$stages\n"
            "%s$t[s].tile([1, $w])[$row, $col] <- Move(%none)",
            HOLES(NULL, INT(rounds, (pieces + p->threads - 1) / p->threads), INT(threads, p->threads), INT(over, pieces % p->threads),
                  INT(pieces, pieces), INT(w, mma_piece(t)), STR(type, tile_dtype(p->type)), INT(stages, mma_stages(p, t)), INT(t, t->tensor),
                  STR(row, row), STR(col, col)));
}

// Writes zeros after the columns of all rows, then to the rows after those of each batch index.
void mma_zero(struct mma_kernel *k)
{
  struct arena *mem = k->mem;
  for (int i = 0; i < k->p->ntiles; i++) {
    const struct mma_tile *t = &k->p->tile[i];
    long long row = mma_row_pieces(t), over = t->cols / mma_piece(t) - row, gap = t->every - t->run, every = t->every, run = t->run;
    if (t->slot > 0) continue;
    if (over) zeros(k, t, t->rows * over, arena_printf(mem, "@c / %lld", over), arena_printf(mem, "%lld + @c %% %lld", row, over));
    if (gap)
      zeros(k, t, t->batches * gap * row, arena_printf(mem, "@c / %lld / %lld * %lld + %lld + @c / %lld %% %lld", row, gap, every, run, row, gap),
            arena_printf(mem, "@c %% %lld", row));
  }
}

// ---- fragments ----

// Sets columns of these registers beyond the end to `value`.
void mma_mask(struct mma_kernel *k, const char *reg, struct mma_shape s, const char *value)
{
  const struct mma_plan *p = k->p;
  if (!mma_pads(p, s.cols)) return;
  const struct mma_cols *c = &p->cols[s.cols];
  bool ragged = mma_ragged(p, s.cols);
  long long size = ragged ? mma_ragged_last(p) : c->size, first = c->nt - (c->padded / 8 - size / 8);
  bool pairs = size % 2 == 0;
  TEXT_SCOPE(k->t);
  text_if(k->t, ragged ? arena_printf(k->mem, "%s == %lld", mma_iteration(p, "it"), (long long)p->iterations - 1) : NULL);
  text_open(k->t, "for (n = %lld; n < %d; n += 1) unroll {", MAX(first, 0ll), c->nt);
  for (int e = 0; e < (pairs ? 1 : 2); e++)
    text_fill(k->t,
              "if ($at + $e >= $size) {\n"
              "each m:$m h:$h\n"
              "%$reg[m, n][h, 0]$which <- Init<$value>()",
              HOLES(NULL, STR(at, mma_cols_index(p, s.cols, 1)), INT(e, e), INT(size, size), INT(m, s.rows ? p->mt : 1), INT(h, s.rows ? 2 : 1),
                    STR(reg, reg),
                    STR(which, pairs ? ""
                               : e   ? "[0, 1]"
                                     : "[0, 0]"),
                    STR(value, value)));
}

// The number of units of this iteration or block; NULL: all have the same.
static const char *count_here(const struct mma_plan *p, int cols, int unit)
{
  return mma_ragged(p, cols) ? mma_ragged_count(p, unit, mma_iteration(p, "it")) : mma_clipped(p, cols) ? mma_clip_count(p, unit) : NULL;
}

// This thread's first column of tile n plus e, in units of `unit`, clamped to existing columns.
const char *mma_column(const struct mma_plan *p, int cols, int unit, int e)
{
  const char *at = mma_cols_index(p, cols, unit), *count = count_here(p, cols, unit);
  if (e) at = arena_printf(p->job->mem, "%s + %d", at, e);
  if (count) return arena_printf(p->job->mem, "min(%s, %s - 1)", at, count);
  return mma_pads(p, cols) ? arena_printf(p->job->mem, "min(%s, %lld)", at, (long long)p->cols[cols].size / unit - 1) : at;
}

// The condition that this column exists; NULL: it always does.
const char *mma_column_exists(const struct mma_plan *p, int cols, int unit, int e)
{
  const char *at = mma_cols_index(p, cols, unit), *count = count_here(p, cols, unit);
  if (count) return arena_printf(p->job->mem, "%s + %d < %s", at, e, count);
  return mma_pads(p, cols) ? arena_printf(p->job->mem, "%s + %d < %lld", at, e, (long long)p->cols[cols].size / unit) : NULL;
}

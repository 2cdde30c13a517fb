// Stores of rows that begin at any element and are not adjacent. Each row of a warp's columns is a run (mma_store.c). A row passes through a ring of
// two pieces. The elements after the last whole vector of a piece are stored with the next one. So only the ends of a run are stored one by one.
#include "lower/mma.h"

static const char *LINE = "h * 8 + @lane / 4"; // the row of a fragment

// The column of the block at which the warp's begin; empty: 0.
static const char *first_column(const struct mma_kernel *k, const struct mma_cols *c)
{
  return c->split ? arena_printf(k->mem, "@wn * %d", 8 * c->nt) : "";
}

// Prints @start, @shift and @length of this row of the tile.
static void run(struct mma_kernel *k, int save, const char *row, const struct hole *holes)
{
  const struct mma_plan *p = k->p;
  const int cols = p->shape[p->k.save[save].value].cols;
  const struct mma_cols *c = &p->cols[cols];
  const char *first = first_column(k, c), *exists = mma_row_exists(k, ~0u);
  const char *count = mma_clipped(p, cols) ? mma_clip_count(p, 1) : arena_printf(k->mem, "%lld", (long long)c->size);
  const char *length = *first ? arena_printf(k->mem, "%s - %s", count, first) : count;
  if (*first || mma_clipped(p, cols)) length = arena_printf(k->mem, "max(min(%s, %d), 0)", length, 8 * c->nt);
  mma_row_names(k, arena_printf(k->mem, "%s * 16 + %s", mma_row_tile(p), row));
  mma_run_start(k, save, first, holes);
  text_line(k->t, "@length = %s", *exists ? arena_printf(k->mem, "%s ? %s : 0", exists, length) : length);
}

// Opens a loop over `each` numbers of the 16 rows, which lanes divide: @line and @of, then the row's run.
static void lines_open(struct mma_kernel *k, int save, int64_t each, const struct hole *holes)
{
  text_begin(k->t,
             "each z:$rounds\n"
             "@c = z * 32 + @lane\n"
             "?over if (@c < $all) {\n"
             "@line = @c / $each\n"
             "@of = @c % $each",
             HOLES(holes, INT(rounds, (16 * each + 31) / 32), INT(all, 16 * each), INT(over, 16 * each % 32), INT(each, each)));
  run(k, save, "@line", holes);
}

// Stores elements before the first whole vector of each run, or after the last one.
static void ends(struct mma_kernel *k, int save, const struct mma_runs *r, bool last, const struct hole *holes)
{
  TEXT_SCOPE(k->t);
  if (!last) text_open(k->t, "if (j == 0) {");
  lines_open(k, save, r->vector, holes);
  text_fill(k->t,
            "@head = min(($v - @shift) % $v, @length)\n"
            "?last @tail = max((@shift + @length) / $v * $v - @shift, @head)\n"
            "?last @e = @length - $v + @of\n"
            "?last if (@e >= @tail) {\n"
            "?!last @e = @of\n"
            "?!last if (@e < @head) {\n"
            "%one:[].$type.RF <- Move(%stage[@w][@line, (@shift + @e) % $elements])\n"
            "%$memory[@start + @e] <- Move(%one)",
            HOLES(holes, INT(last, last)));
}

// Writes `tiles` fragments of a piece, and stores its whole vectors. The piece has number j and begins at fragment j * r->tiles.
static void piece(struct mma_kernel *k, int save, const struct mma_runs *r, int tiles, const struct hole *holes)
{
  const struct mma_plan *whole = k->p;
  struct mma_plan *p = arena_copy(k->mem, whole, sizeof *p);
  struct mma_cols *c = &p->cols[p->shape[p->k.save[save].value].cols];
  const char *first = first_column(k, c), *exists = mma_row_exists(k, ~0u);
  const char *within = *first ? arena_printf(k->mem, "@shift + @col - %s", first) : "@shift + @col";
  const int64_t vectors = 8 * tiles / r->vector;
  {
    TEXT_SCOPE(k->t);
    text_open(k->t, "each h:2");
    run(k, save, LINE, holes);
    text_if(k->t, exists);
    c->from = c->split ? arena_printf(k->mem, "@wn * %d + j * %d", c->nt, r->tiles) : arena_printf(k->mem, "j * %d", r->tiles);
    c->from = arena_printf(k->mem, "(%s)", c->from), c->nt = tiles, k->p = p;
    mma_run_write(k, save, arena_printf(k->mem, "j * %d + n", r->tiles),
                  arena_printf(k->mem, "[@w][%s, (%s) %% %d]", LINE, within, r->ring * r->vector), holes);
    k->p = whole;
  }
  text_line(k->t, "Sync<barrier>#warp()");
  {
    TEXT_SCOPE(k->t);
    lines_open(k, save, vectors, holes);
    text_fill(k->t,
              "@v = j * $vectors + @of\n"
              "if (@v * $v >= @shift && @v * $v + $v <= @shift + @length) {\n"
              "%vector:[1, $v].$type.RF\n"
              "%vector <- Move(%stage[@w].tile([1, $v])[@line, @v % $ring])\n"
              "%$memory.tile([$v])[min(@start / $v + @v, $most)] <- Move(%vector)",
              HOLES(holes, INT(vectors, 8 * r->tiles / r->vector)));
  }
  ends(k, save, r, false, holes);
}

void mma_store_rows(struct mma_kernel *k, int save, const struct mma_runs *r, const struct hole *holes)
{
  const struct mma_plan *p = k->p;
  const struct mma_shape s = p->shape[p->k.save[save].value];
  const int nt = p->cols[s.cols].nt, full = nt / r->tiles, rest = nt % r->tiles;
  TEXT_SCOPE(k->t);
  text_if(k->t, mma_once(k, s));
  text_begin(k->t, "each m:$mt\n@w = @wm * $wn + @wn\n%stage:[$warps].[16, $pitch].$type.SH", HOLES(holes, INT(warps, p->wm * p->wn)));
  for (int i = 0; i < 2; i++) {
    TEXT_SCOPE(k->t);
    if (!(i ? rest : full)) continue;
    if (i)
      text_line(k->t, "@j = %d", full);
    else
      text_open(k->t, "each j:%d", full);
    piece(k, save, r, i ? rest : r->tiles, holes);
    text_line(k->t, "Sync<barrier>#warp()");
  }
  ends(k, save, r, true, holes);
  text_line(k->t, "Sync<barrier>#warp()");
}

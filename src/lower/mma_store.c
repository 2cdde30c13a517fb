// Stores of results whose rows begin at any element. Fragments would be stored element by element, and each store of a warp touches 8 rows. So the
// warps of a tile of rows pass the tile through shared memory. A run is contiguous in device memory: the tile of 16 rows if these are adjacent, or
// else a row. In shared memory a run lies at the same distance from an aligned vector as in device memory. So aligned vectors of one are aligned
// vectors of the other, and nothing is shifted. Elements before the first whole vector and after the last one are stored one by one.
#include "lower/mma.h"

enum { TILE = 16, VECTOR = 16, LEAST = 2 }; // rows of a tile; bytes of a vector; vectors of a run from which on a result is stored by runs

// Whether the list's elements are `step` apart, in their order.
static bool apart(const struct mma_plan *p, const struct lower_space *l, const struct plan_access *a, int64_t step)
{
  for (int i = l->n - 1; i >= 0; step *= p->n->extent[(int)l->axis[i--]])
    if (a->stride[(int)l->axis[i]] != step) return false;
  return true;
}

static const struct mma_cols *cols_of(const struct mma_plan *p, int save) { return &p->cols[p->shape[p->k.save[save].value].cols]; }

struct mma_runs mma_runs_of(const struct mma_plan *p, int save)
{
  const struct mma_runs none = {0};
  const struct plan_access *a = &p->n->save[save];
  const int value = p->k.save[save].value;
  const struct mma_shape s = p->shape[value];
  const int64_t bytes = dtype_bytes(p->job->store[a->tensor]);
  const uint32_t rows = mma_list_has(&p->rows) | mma_list_has(&p->batch);
  if (p->wg || p->tail || !s.rows || s.cols < 0 || (bytes != 2 && bytes != 4) || rows & ~mma_has(p, value)) return none;
  const struct mma_cols *c = cols_of(p, save);
  if (mma_width(p, a, &c->list, 2) > 1 || !mma_lies_along(p, a, &c->list) || !apart(p, &c->list, a, 1)) return none;
  const int64_t vector = VECTOR / bytes;
  const bool tiles = apart(p, &p->rows, a, c->size) && !mma_clipped(p, s.cols);
  const int64_t most = tiles ? TILE * c->size : c->size, vectors = (most + 2 * (vector - 1)) / vector;
  if (most < LEAST * vector || norm_elements(p->n, a->tensor) < vector) return none;
  // Rows lie an odd number of vectors apart, so that a fragment's rows are in different banks.
  return (struct mma_runs){(int)vector, tiles ? 1 : TILE, most, tiles ? vectors : vectors | 1};
}

int64_t mma_runs_bytes(const struct mma_plan *p)
{
  int64_t most = 0;
  for (int i = 0; i < p->n->nsave; i++) {
    const struct mma_runs r = mma_runs_of(p, i);
    most = MAX(most, p->wm * r.count * r.pitch * VECTOR);
  }
  return most;
}

// ---- text ----

static const char *group_size(const struct mma_kernel *k) { return arena_printf(k->mem, "%d", 32 * k->p->wn); }

// The number of rows of the tile that begins at @pr.
static const char *rows_here(const struct mma_kernel *k)
{
  const struct mma_plan *p = k->p;
  if (p->cut && !mma_cut_ragged(p)) return "16";
  if (p->cut) return arena_printf(k->mem, "max(min(%lld - (%s), 16), 0)", (long long)p->nrows, mma_cut_row(p, "@pr", false));
  const bool surplus = p->wm * p->mt * TILE > p->nbatch * p->padded;
  if (p->nrows == p->padded && !surplus) return "16";
  const char *left = arena_printf(k->mem, "max(min(%lld - @pr %% %lld, 16), 0)", (long long)p->nrows, (long long)p->padded);
  return surplus ? arena_printf(k->mem, "(@pr < %lld ? %s : 0)", (long long)(p->nbatch * p->padded), left) : left;
}

static const char *length(struct mma_kernel *k, int save, const struct mma_runs *r)
{
  const struct mma_plan *p = k->p;
  const long long cols = cols_of(p, save)->size;
  if (r->count == 1) return arena_printf(k->mem, "%s * %lld", rows_here(k), cols);
  const char *exists = mma_row_exists(k, ~0u), *all = arena_printf(k->mem, "%lld", cols);
  if (mma_clipped(p, p->shape[p->k.save[save].value].cols)) all = arena_printf(k->mem, "min(%lld, %s)", cols, mma_clip_count(p, 1));
  return *exists ? arena_printf(k->mem, "(%s ? %s : 0)", exists, all) : all;
}

// Prints @start, the first element of the run that has row @r, and @shift, its distance from an aligned vector.
static void start(struct mma_kernel *k, int save, const struct mma_runs *r)
{
  const struct plan_access *a = &k->p->n->save[save];
  struct str at = {0};
  mma_walk_base(k->p, a, 1, mma_it(k), &at);
  mma_row_walk(k->p, a->stride, 1, &at);
  text_line(k->t, "@start = %s\n@shift = @start %% %d", str_keep(k->mem, &at), r->vector);
}

// The first row of the tile, or its row `line`.
static void names(struct mma_kernel *k, const char *line)
{
  const char *tile = mma_row_tile(k->p);
  mma_row_names(k, line ? arena_printf(k->mem, "%s * 16 + %s", tile, line) : arena_printf(k->mem, "%s * 16", tile));
}

// The condition that the column exists; NULL: it always does. Only the last fragments of a warp may be padding, which compilers know with their numbers.
static const char *exists_here(struct mma_kernel *k, int cols, int e)
{
  const struct mma_cols *c = &k->p->cols[cols];
  const long long first = c->nt - (c->padded / 8 - c->size / 8);
  const char *there = mma_column_exists(k->p, cols, 1, e);
  return there && first > 0 && !mma_clipped(k->p, cols) ? arena_printf(k->mem, "n < %lld || %s", first, there) : there;
}

static void write(struct mma_kernel *k, int save, const struct mma_runs *r)
{
  const struct mma_plan *p = k->p;
  const int value = p->k.save[save].value;
  const struct mma_shape s = p->shape[value];
  const enum dtype type = p->job->store[p->n->save[save].tensor];
  const char *who = mma_once(k, s), *line = "h * 8 + @lane / 4", *exists = mma_row_exists(k, ~0u);
  TEXT_SCOPE(k->t);
  text_if(k->t, who);
  text_open(k->t, "each h:2");
  names(k, line);
  if (r->count > 1) start(k, save, r);
  text_if(k->t, exists);
  mma_cols_open(k, s.cols);
  const char *row = r->count > 1 ? "" : arena_printf(k->mem, " + (%s) * %lld", line, (long long)p->cols[s.cols].size);
  const struct hole *holes = HOLES(NULL, STR(type, tile_dtype(type)), STR(reg, k->reg[value]), INT(narrow, type != F32));
  text_fill(k->t, "?narrow %two:[1, 2].$type.RF <- UnaryPointwise<cast>(%$reg[m, n][h, 0])", holes);
  for (int e = 0; e < 2; e++) {
    const char *there = exists_here(k, s.cols, e);
    text_fill(k->t,
              "?cond if ($cond) {\n"
              "%stage[@wm][$line, @shift$row + $col + $e] <- Move(%$from[0, $e])",
              HOLES(holes, STR(cond, there ? there : ""), STR(line, r->count > 1 ? line : "0"), STR(row, row), STR(col, mma_cols_index(p, s.cols, 1)),
                    INT(e, e), STR(from, type == F32 ? arena_printf(k->mem, "%s[m, n][h, 0]", k->reg[value]) : "two")));
  }
}

// Opens a loop over `each` numbers of every run, divided among the warps of the tile: @line, the run, and @of, the number.
static void parts_open(struct mma_kernel *k, int save, const struct mma_runs *r, int64_t each)
{
  const int threads = 32 * k->p->wn;
  const int64_t all = r->count * each;
  const struct hole *holes = HOLES(NULL, INT(rounds, (all + threads - 1) / threads), INT(threads, threads), INT(each, each), INT(all, all),
                                   INT(lines, r->count > 1), INT(over, all % threads));
  text_begin(k->t,
             "each j:$rounds\n"
             "@c = j * $threads + @mine\n"
             "?over if (@c < $all) {\n"
             "?lines @line = @c / $each\n"
             "?!lines @line = 0\n"
             "?lines @of = @c % $each\n"
             "?!lines @of = @c",
             holes);
  names(k, r->count > 1 ? "@line" : NULL);
  start(k, save, r);
  text_line(k->t, "@length = %s", length(k, save, r));
}

static void read(struct mma_kernel *k, int save, const struct mma_runs *r)
{
  const struct plan_access *a = &k->p->n->save[save];
  const struct hole *holes = HOLES(NULL, INT(v, r->vector), STR(type, tile_dtype(k->p->job->store[a->tensor])), STR(memory, k->global[a->tensor]),
                                   INT(most, norm_elements(k->p->n, a->tensor) / r->vector - 1), INT(both, 2 * r->vector));
  {
    TEXT_SCOPE(k->t);
    parts_open(k, save, r, r->pitch);
    text_fill(k->t,
              "if (@of * $v >= @shift && @of * $v + $v <= @shift + @length) {\n"
              "%vector:[1, $v].$type.RF\n"
              "%vector <- Move(%stage[@wm].tile([1, $v])[@line, @of])\n"
              "%$memory.tile([$v])[min(@start / $v + @of, $most)] <- Move(%vector)",
              holes);
  }
  TEXT_SCOPE(k->t);
  parts_open(k, save, r, 2 * r->vector);
  text_fill(k->t,
            "@head = min(($v - @shift) % $v, @length)\n"
            "@last = max((@shift + @length) / $v * $v - @shift, @head)\n"
            "@e = @of < $v ? @of : @length - $both + @of\n"
            "if (@of < $v && @e < @head || @of >= $v && @e >= @last) {\n"
            "%one:[].$type.RF <- Move(%stage[@wm][@line, @shift + @e])\n"
            "%$memory[@start + @e] <- Move(%one)",
            holes);
}

void mma_store_runs(struct mma_kernel *k, int save, const struct mma_runs *r)
{
  const struct mma_plan *p = k->p;
  const struct hole *holes = HOLES(NULL, INT(groups, p->wm), STR(each, group_size(k)), INT(mt, p->mt), INT(runs, r->count),
                                   INT(pitch, r->pitch * r->vector), STR(type, tile_dtype(p->job->store[p->n->save[save].tensor])));
  TEXT_SCOPE(k->t);
  mma_meet(k);
  text_begin(k->t,
             "each m:$mt\n"
             "#sides:[$groups].[$each].thread = #t.tile([$each])\n"
             "@side, @mine = #sides.indices()\n"
             "#side:[$each].thread = #sides[@side]\n"
             "%stage:[$groups].[$runs, $pitch].$type.SH",
             holes);
  if (r->count == 1) names(k, NULL), start(k, save, r);
  write(k, save, r);
  text_line(k->t, "Sync<barrier>#side()");
  read(k, save, r);
  text_line(k->t, "Sync<barrier>#side()");
}

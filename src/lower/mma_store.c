// Stores of results whose rows are not aligned to vectors. Fragments would be stored by elements or pairs, and each store of a warp touches 8
// rows. So a tile of 16 rows passes through shared memory. A run is contiguous in device memory: the tile if its rows are adjacent, or else a row
// of a warp's columns (mma_store_rows.c). In shared memory a run lies at the same distance from an aligned vector as in device memory. So aligned
// vectors of one are aligned vectors of the other, and nothing is shifted. Elements before the first whole vector and after the last one are
// stored one by one.
#include "lower/mma.h"

// LEAST: vectors of a tile of adjacent rows, if it is a run; PIECE: vectors of a piece of a row. A row that is a run has at least one piece.
enum { LEAST = 2, PIECE = 4 };

// Whether the list's elements are `step` apart, in their order.
static bool apart(const struct mma_plan *p, const struct lower_space *l, const struct plan_access *a, int64_t step)
{
  for (int i = l->n - 1; i >= 0; step *= p->n->extent[(int)l->axis[i--]])
    if (a->stride[(int)l->axis[i]] != step) return false;
  return true;
}

// Vectors that have `elements`, wherever they begin.
static int64_t vectors_of(int64_t elements, int vector) { return (elements + 2 * (vector - 1)) / vector; }

// A row passes through a ring of two pieces. Rows lie an odd number of vectors apart, so that those of a fragment are in different banks.
static struct mma_runs by_rows(const struct mma_cols *c, int vector)
{
  return (struct mma_runs){
      .vector = vector, .most = MIN(c->size, 8ll * c->nt), .pitch = 2 * PIECE + 1, .tiles = PIECE * vector / 8, .ring = 2 * PIECE};
}

struct mma_runs mma_runs_of(const struct mma_plan *p, int save)
{
  const struct mma_runs none = {0};
  const struct plan_access *a = &p->n->save[save];
  const int value = p->k.save[save].value;
  const struct mma_shape s = p->shape[value];
  const int64_t bytes = dtype_bytes(p->job->store[a->tensor]);
  const uint32_t rows = mma_list_has(&p->rows) | mma_list_has(&p->batch);
  if (p->tail || !s.rows || s.cols < 0 || (bytes != 2 && bytes != 4) || rows & ~mma_has(p, value)) return none;
  const struct mma_cols *c = &p->cols[s.cols];
  const int vector = MMA_VECTOR / (int)bytes;
  if (mma_width(p, a, &c->list, vector) == vector || !mma_lies_along(p, a, &c->list) || !apart(p, &c->list, a, 1)) return none;
  const int64_t all = 16 * c->size;
  const bool adjacent = apart(p, &p->rows, a, c->size) && !mma_clipped(p, s.cols) && (!p->wg || p->wn == 1);
  const struct mma_runs r = adjacent ? (struct mma_runs){vector, true, all, vectors_of(all, vector), c->nt, 0} : by_rows(c, vector);
  return r.most < (adjacent ? LEAST : PIECE) * vector || norm_elements(p->n, a->tensor) < vector ? none : r;
}

static int64_t shared_bytes(const struct mma_plan *p)
{
  int64_t most = 0;
  for (int i = 0; i < p->n->nsave; i++) {
    const struct mma_runs r = mma_runs_of(p, i);
    most = MAX(most, p->wm * (r.adjacent ? 1 : 16 * p->wn) * r.pitch * MMA_VECTOR);
  }
  return most;
}

void mma_runs_choose(struct mma_plan *p, double (*seconds)(const void *plan), const void *plan)
{
  const int64_t bytes = shared_bytes(p);
  p->runs = false;
  if (!bytes || p->shared + bytes > p->job->gpu->scratch) return;
  const double one_by_one = seconds(plan);
  p->runs = true, p->shared += bytes;
  if (seconds(plan) > one_by_one) p->runs = false, p->shared -= bytes; // fewer blocks fit on a multiprocessor
}

// ---- text ----

static const struct mma_cols *cols_of(const struct mma_plan *p, int save) { return &p->cols[p->shape[p->k.save[save].value].cols]; }

const struct hole *mma_run_holes(struct mma_kernel *k, int save, const struct mma_runs *r)
{
  const struct mma_plan *p = k->p;
  const struct plan_access *a = &p->n->save[save];
  const enum dtype type = p->job->store[a->tensor];
  return KEPT_HOLES(k->mem, NULL, INT(v, r->vector), STR(type, tile_dtype(type)), INT(narrow, type != F32), STR(memory, k->global[a->tensor]),
                    INT(most, norm_elements(p->n, a->tensor) / r->vector - 1), INT(mt, p->mt), INT(wn, p->wn), INT(groups, p->wm),
                    INT(pitch, r->pitch * r->vector), INT(ring, r->ring), INT(elements, r->ring * r->vector),
                    STR(reg, k->reg[p->k.save[save].value]));
}

void mma_run_start(struct mma_kernel *k, int save, const char *first, const struct hole *holes)
{
  const struct plan_access *a = &k->p->n->save[save];
  struct str at = {0};
  mma_walk_base(k->p, a, 1, mma_it(k), &at);
  mma_row_walk(k->p, a->stride, 1, &at);
  if (*first) str_add(&at, " + %s", first);
  text_fill(k->t, "@start = $at\n@shift = @start % $v", HOLES(holes, STR(at, str_keep(k->mem, &at))));
}

// Only the last fragments of a warp may have padding, and their numbers are constants.
void mma_run_write(struct mma_kernel *k, int save, const char *tile, const char *to, const struct hole *holes)
{
  const struct mma_plan *p = k->p;
  const struct mma_cols *c = cols_of(p, save);
  const int cols = p->shape[p->k.save[save].value].cols;
  const long long inside = (c->split ? c->padded / 8 / p->wn : c->padded / 8) - (c->padded / 8 - c->size / 8);
  const char *count = mma_clipped(p, cols) ? mma_clip_count(p, 1) : arena_printf(k->mem, "%lld", (long long)c->size);
  const char *sure = inside > 0 && !mma_clipped(p, cols) ? arena_printf(k->mem, "%s < %lld || ", tile, inside) : "";
  text_fill(k->t,
            "each n:$nt\n"
            "?narrow %two:[1, 2].$type.RF <- UnaryPointwise<cast>(%$reg[m, $tile][h, 0])\n"
            "?!narrow %two:[1, 2].$type.RF <- Move(%$reg[m, $tile][h, 0])\n"
            "each e:2\n"
            "@col = $col + e\n"
            "?pads if ($sure@col < $count) {\n"
            "%stage$to <- Move(%two[0, e])",
            HOLES(holes, INT(nt, c->nt), STR(tile, tile), STR(col, mma_cols_index(p, cols, 1)), INT(pads, mma_pads(p, cols)), STR(sure, sure),
                  STR(count, count), STR(to, to)));
}

// ---- tiles of adjacent rows ----

// The number of rows of the tile that begins at @pr.
static const char *rows_here(const struct mma_kernel *k)
{
  const struct mma_plan *p = k->p;
  if (p->cut && !mma_cut_ragged(p)) return "16";
  if (p->cut) return arena_printf(k->mem, "max(min(%lld - (%s), 16), 0)", (long long)p->nrows, mma_cut_row(p, "@pr", false));
  const bool surplus = p->wm * p->mt * 16 > p->nbatch * p->padded;
  if (p->nrows == p->padded && !surplus) return "16";
  const char *left = arena_printf(k->mem, "max(min(%lld - @pr %% %lld, 16), 0)", (long long)p->nrows, (long long)p->padded);
  return surplus ? arena_printf(k->mem, "(@pr < %lld ? %s : 0)", (long long)(p->nbatch * p->padded), left) : left;
}

static void write(struct mma_kernel *k, int save, const struct hole *holes)
{
  const struct mma_plan *p = k->p;
  const char *line = "h * 8 + @lane / 4", *exists = mma_row_exists(k, ~0u);
  TEXT_SCOPE(k->t);
  text_if(k->t, mma_once(k, p->shape[p->k.save[save].value]));
  text_open(k->t, "each h:2");
  mma_row_names(k, arena_printf(k->mem, "%s * 16 + %s", mma_row_tile(p), line));
  text_if(k->t, exists);
  mma_run_write(k, save, "n", arena_printf(k->mem, "[@wm][@shift + (%s) * %lld + @col]", line, (long long)cols_of(p, save)->size), holes);
}

static void read(struct mma_kernel *k, const struct mma_runs *r, const struct hole *holes)
{
  const int threads = 32 * k->p->wn;
  text_fill(k->t,
            "each j:$rounds\n"
            "@of = j * $threads + @mine\n"
            "if (@of * $v >= @shift && @of * $v + $v <= @shift + @length) {\n"
            "%vector:[$v].$type.RF <- Move(%stage[@wm].tile([$v])[@of])\n"
            "%$memory.tile([$v])[min(@start / $v + @of, $most)] <- Move(%vector)",
            HOLES(holes, INT(rounds, (r->pitch + threads - 1) / threads), INT(threads, threads)));
  text_fill(k->t,
            "@head = min(($v - @shift) % $v, @length)\n"
            "@tail = max((@shift + @length) / $v * $v - @shift, @head)\n"
            "@e = @mine < $v ? @mine : @length - $both + @mine\n"
            "if (@mine < $v && @e < @head || @mine >= $v && @mine < $both && @e >= @tail) {\n"
            "%one:[].$type.RF <- Move(%stage[@wm][@shift + @e])\n"
            "%$memory[@start + @e] <- Move(%one)",
            HOLES(holes, INT(both, 2 * r->vector)));
}

static void by_tiles(struct mma_kernel *k, int save, const struct mma_runs *r, const struct hole *holes)
{
  const struct mma_plan *p = k->p;
  TEXT_SCOPE(k->t);
  text_begin(k->t,
             "each m:$mt\n"
             "?!alone #sides:[$groups].[$each].thread = #t.tile([$each])\n"
             "?!alone @side, @mine = #sides.indices()\n"
             "?!alone #side:[$each].thread = #sides[@side]\n"
             "?alone @mine = @lane\n"
             "%stage:[$groups].[$pitch].$type.SH",
             HOLES(holes, INT(alone, p->wn == 1), INT(each, 32 * p->wn)));
  mma_row_names(k, arena_printf(k->mem, "%s * 16", mma_row_tile(p)));
  mma_run_start(k, save, "", holes);
  text_line(k->t, "@length = %s * %lld", rows_here(k), (long long)cols_of(p, save)->size);
  const char *meet = arena_printf(k->mem, "Sync<barrier>#%s()", p->wn == 1 ? "warp" : "side");
  write(k, save, holes);
  text_line(k->t, "%s", meet);
  read(k, r, holes);
  text_line(k->t, "%s", meet);
}

// Waits until other warps have read what was in this shared memory. With wgmma, only another result by runs uses it if warps have all columns.
static void meet(struct mma_kernel *k)
{
  const struct mma_plan *p = k->p;
  const int threads = 32 * p->wm * p->wn;
  int results = 0;
  for (int i = 0; i < p->n->nsave; i++) results += mma_runs_of(p, i).vector > 0;
  if (!p->wg || p->wn > 1)
    mma_meet(k);
  else if (results > 1)
    text_fill(k->t, "#parts$x:[$parts].[$threads].thread = #t.tile([$threads])\n#all$x:[$threads].thread = #parts$x[0]\nSync<barrier>#all$x()",
              HOLES(NULL, INT(x, k->t->fresh++), INT(threads, threads), INT(parts, (threads + 128 + threads - 1) / threads)));
}

void mma_store_runs(struct mma_kernel *k, int save, const struct mma_runs *r)
{
  TEXT_SCOPE(k->t);
  meet(k);
  if (r->adjacent)
    by_tiles(k, save, r, mma_run_holes(k, save, r));
  else
    mma_store_rows(k, save, r, mma_run_holes(k, save, r));
}

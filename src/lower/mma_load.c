// Copies tiles of operands into shared memory, in the order of device memory. A copy is asynchronous if at least 4 bytes are contiguous and aligned.
// Otherwise rows go through registers (mma_anywhere.c), or short ones element by element. Varying tiles have a pipeline stage for each iteration in flight.
#include "lower/mma.h"

enum { MOST_ELEMENTS = 64 }; // element copies of a thread that are in flight

void mma_load_declare(struct mma_kernel *k)
{
  const struct mma_plan *p = k->p;
  for (int i = 0; i < p->ntiles; i++) {
    const struct mma_tile *t = &p->tile[i];
    if (t->slot > 0) continue;
    text_fill(k->t,
              "?longer %s$t:[$stages : $all].[$rows, $cols : $stride, 1].$type.SH\n"
              "?!longer ?swizzled %s$t:[$stages].[$rows, $cols].$type.SH.swizzle($bits, $base, $shift)\n"
              "?!longer ?!swizzled %s$t:[$stages].[$rows, $cols].$type.SH",
              HOLES(NULL, INT(t, t->tensor), INT(stages, mma_stages(p, t)), INT(all, t->rows * t->stride), INT(rows, t->rows), INT(cols, t->cols),
                    INT(stride, t->stride), STR(type, tile_dtype(p->type)), INT(longer, t->stride != t->cols), INT(swizzled, t->swizzle[0]),
                    INT(bits, t->swizzle[0]), INT(base, t->swizzle[1]), INT(shift, t->swizzle[2])));
  }
}

int mma_stages(const struct mma_plan *p, const struct mma_tile *t) { return t->varying || t->slot == 0 ? p->stages : 1; }

const char *mma_stage(const struct mma_plan *p, const struct mma_tile *t)
{
  return t->varying ? "@stage" : t->copy ? t->copy : t->slot < 0 ? "0" : arena_printf(p->job->mem, "%d", t->slot % p->stages);
}

// Row and column of piece j * threads + @tid. They are written so that j's part is visibly independent of the swizzle wherever it is.
static void piece(const char *j, int threads, long long row, char outer[64], char inner[64])
{
  bool rows = threads % row == 0, parts = row % threads == 0;
  if (rows)
    snprintf(outer, 64, "%s * %lld + @tid / %lld", j, threads / row, row), snprintf(inner, 64, "@tid %% %lld", row);
  else if (parts)
    snprintf(outer, 64, "%s / %lld", j, row / threads), snprintf(inner, 64, "%s %% %lld * %d + @tid", j, row / threads, threads);
  else
    snprintf(outer, 64, "@c / %lld", row), snprintf(inner, 64, "@c %% %lld", row);
}

// The pieces of a row that begin a line of memory, approximately, so that each line is prefetched once.
static const char *line_begins(const struct mma_plan *p, const struct mma_tile *t, const char *inner)
{
  long long per_line = MAX(1, 128 / (mma_piece(t) * (long long)dtype_bytes(p->type))), row = mma_row_pieces(t);
  return MIN(per_line, row) > 1 ? arena_printf(p->job->mem, "(%s) %% %lld == 0", inner, MIN(per_line, row)) : NULL;
}

// Rows or columns of the tile in iteration `it`.
static const char *within(const struct mma_plan *p, const struct lower_space *l, const char *at, int unit, const char *it)
{
  bool ragged = p->n->ragged.all && mma_list_has(l) >> p->n->ragged.letter & 1;
  return ragged ? mma_ragged_index(p, at, unit, it) : at;
}

int64_t mma_copy_rounds(const struct mma_plan *p, const struct mma_tile *t)
{
  return (t->own_rows * mma_row_pieces(t) + p->threads - 1) / p->threads;
}

int64_t mma_copy_batches(const struct mma_plan *p, const struct mma_tile *t)
{
  if (t->anywhere) return mma_anywhere_batches(p, t);
  return t->width * dtype_bytes(p->type) >= 4 ? 0 : (mma_copy_rounds(p, t) + MOST_ELEMENTS - 1) / MOST_ELEMENTS;
}

// Copies a tile to its stage; with `stage` NULL, prefetches it to the L2 cache.
static void copy_part(struct mma_kernel *k, const struct mma_tile *t, const char *stage, const char *it, enum mma_copy_part part)
{
  const struct mma_plan *p = k->p;
  const struct plan_access *a = &p->n->iter[t->iter];
  int w = t->width;
  int64_t row = mma_row_pieces(t), pieces = t->own_rows * row, rounds = mma_copy_rounds(p, t);
  int64_t batches = t->anywhere ? 1 : MAX(1, mma_copy_batches(p, t)), each = batches > 1 ? MOST_ELEMENTS : rounds;
  bool async = !mma_copy_batches(p, t);
  const char *j = t->anywhere && stage ? "@turn" : batches > 1 ? "@j" : "j", *begins;
  struct str at = {0};
  char outer[64], inner[64];
  TEXT_ABOUT(k->t, p->n->block->tensors[a->tile].node + 1);
  piece(j, p->threads, row, outer, inner);
  mma_walk_base(p, a, w, it, &at);
  mma_walk_list(p, &t->out, a->stride, w, 1, t->cut ? "@row" : within(p, &t->out, outer, 1, it), &at);
  if (t->anywhere)
    str_add(&at, " + (%s) * %d", inner, MMA_PIECE);
  else
    mma_walk_list(p, &t->in, a->stride, w, w, within(p, &t->in, inner, w, it), &at);
  const char *among = t->cut ? mma_cut_row(p, arena_printf(k->mem, "(%s)", outer), true) : "";
  const char *place = !stage ? "" : t->varying ? stage : mma_stage(p, t);
  if (t->anywhere && stage) {
    mma_anywhere_copy(k, t, &(struct mma_copy){among, str_keep(k->mem, &at), mma_tile_row(p, t, outer), inner, place, part});
    return;
  }
  begins = stage ? NULL : line_begins(p, t, inner);
  text_fill(k->t,
            "?batched for (i = 0; i < $batches; i += 1) rolled {\n"
            "each j:$each\n"
            "?batched @j = i * $each + j\n"
            "@c = $j * $threads + @tid\n"
            "?over if (@c < $pieces) {\n"
            "?cut @row = $row\n"
            "?begins if ($begins) {\n"
            "?stage %s$buffer[$stage].tile([1, $w])[$outer, $inner] <- Move$how(\n"
            "?!stage Sync<prefetch.L2>(\n"
            "  %$memory.tile([$w])[$at])",
            HOLES(NULL, INT(batched, batches > 1), INT(batches, batches), INT(each, each), STR(j, j), INT(threads, p->threads), INT(pieces, pieces),
                  INT(over, batches * each * p->threads > pieces), INT(cut, t->cut), INT(buffer, t->buffer), INT(w, w), STR(inner, inner),
                  STR(row, among), STR(begins, begins ? begins : ""), STR(stage, place), STR(outer, mma_tile_row(p, t, outer)),
                  STR(how, async ? "<cp.async>" : ""), STR(memory, k->global[a->tensor]), STR(at, str_keep(k->mem, &at))));
}

static void copy(struct mma_kernel *k, const struct mma_tile *t, const char *stage, const char *it)
{
  copy_part(k, t, stage, it, k->ring && mma_anywhere_late(k->p, t) ? MMA_COPY_LOADS : MMA_COPY_ALL);
}

void mma_store_late(struct mma_kernel *k, const char *stage, const char *it)
{
  for (int i = 0; i < k->p->ntiles; i++)
    if (mma_anywhere_late(k->p, &k->p->tile[i])) copy_part(k, &k->p->tile[i], stage, it, MMA_COPY_STORES);
}

void mma_load(struct mma_kernel *k, bool varying, const char *stage, const char *it)
{
  for (int i = 0; i < k->p->ntiles; i++)
    if (k->p->tile[i].varying == varying) copy(k, &k->p->tile[i], stage, it);
}

void mma_ahead(struct mma_kernel *k)
{
  const struct mma_plan *p = k->p;
  for (int it = 0; it < p->ahead; it++)
    for (int i = 0; i < p->ntiles; i++)
      if (p->tile[i].varying || !it) copy(k, &p->tile[i], NULL, mma_iteration(k->p, arena_printf(p->job->mem, "%d", it)));
}

// On an H200 it was best to prefetch a third of the L2 cache.
int mma_ahead_best(const struct mma_plan *p)
{
  const struct target *gpu = p->job->gpu;
  int64_t fit = MAX(1, MIN(gpu->shared_processor / (p->shared + 1024), gpu->registers / MAX(1, p->registers * p->threads)));
  int64_t blocks = MIN(mma_blocks(p), gpu->cores * fit), once = 0, each = 0;
  for (int i = 0; i < p->ntiles; i++) *(p->tile[i].varying ? &each : &once) += blocks * p->tile[i].rows * p->tile[i].cols * dtype_bytes(p->type);
  if (!p->job->dependent || !(gpu->can & CAN_PDL) || once > gpu->l2 / 3) return 0;
  return each ? (int)MIN(MIN(MMA_MOST_AHEAD, mma_parts_each(p)), (gpu->l2 / 3 - once) / each) : 1;
}

void mma_wait(struct mma_kernel *k, int left)
{
  text_line(k->t, "Sync<cp.wait, %d>()", left);
  text_line(k->t, "Sync<barrier>#t()");
}

// The copy group of a tile. Tiles with memory of their own come first, in the order in which they are read, then the queue.
static int group(const struct mma_plan *p, const struct mma_tile *t)
{
  int n = 1;
  for (int i = 0; i < p->ntiles; i++) {
    const struct mma_tile *x = &p->tile[i];
    n += x->slot < 0 && (t->slot >= 0 || x->due < t->due || (x->due == t->due && x < t));
  }
  return n + MAX(t->slot, 0);
}

static void bring(struct mma_kernel *k, int g)
{
  for (int i = 0; i < k->p->ntiles; i++)
    if (group(k->p, &k->p->tile[i]) == g) copy(k, &k->p->tile[i], "0", "0");
  text_line(k->t, "Sync<cp.commit>()");
  k->committed++;
}

void mma_load_once(struct mma_kernel *k)
{
  const struct mma_plan *p = k->p;
  int now = p->ntiles - p->queued + MIN(p->queued, p->stages);
  while (k->committed < now) bring(k, k->committed + 1);
}

// After the barrier no warp reads the previous tile of this slot, so the slot is free.
void mma_arrive(struct mma_kernel *k, const struct mma_tile *t)
{
  const struct mma_plan *p = k->p;
  int g = group(p, t);
  if (p->wg || p->iterations > 1 || g <= k->arrived) return;
  mma_wait(k, k->committed - g);
  k->arrived = g;
  if (t->slot > 0 && k->committed < p->ntiles) bring(k, k->committed + 1);
}

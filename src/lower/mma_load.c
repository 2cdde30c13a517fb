// Tiles of operands into shared memory, in the order in which device memory has them: asynchronously, where at least 4
// bytes lie together, else element by element. Tiles that vary have a stage of the ring for each iteration under way.
#include "lower/mma.h"

void mma_load_declare(struct mma_kernel *k)
{
  const struct mma_plan *p = k->p;
  mma_vector_declare(k);
  for (int i = 0; i < p->ntiles; i++) {
    const struct mma_tile *t = &p->tile[i];
    int stages = t->varying || t->slot == 0 ? p->stages : 1;
    if (t->slot > 0) continue;
    long long rows = t->rows, cols = t->cols, stride = t->stride;
    const char *type = tile_dtype(p->type);
    if (stride != cols)
      text_line(k->t, "%%s%d:[%d : %lld].[%lld, %lld : %lld, 1].%s.SH", t->tensor, stages, rows * stride, rows, cols,
                stride, type);
    else if (t->swizzle[0])
      text_line(k->t, "%%s%d:[%d].[%lld, %lld].%s.SH.swizzle(%d, %d, %d)", t->tensor, stages, rows, cols, type,
                t->swizzle[0], t->swizzle[1], t->swizzle[2]);
    else
      text_line(k->t, "%%s%d:[%d].[%lld, %lld].%s.SH", t->tensor, stages, rows, cols, type);
  }
}

const char *mma_stage(const struct mma_plan *p, const struct mma_tile *t)
{
  return t->varying ? "@stage" : t->slot < 0 ? "0" : arena_printf(p->job->mem, "%d", t->slot % p->stages);
}

// Row and column of piece j * threads + @tid, so that what j adds is seen to be no part of the swizzle wherever that is
// so.
static void piece(int threads, long long row, char outer[64], char inner[64])
{
  bool rows = threads % row == 0, parts = row % threads == 0;
  snprintf(outer, 64,
           rows    ? "j * %lld + @tid / %lld"
           : parts ? "j / %lld"
                   : "@c / %lld",
           rows    ? threads / row
           : parts ? row / threads
                   : row,
           row);
  snprintf(inner, 64,
           rows    ? "@tid %% %lld"
           : parts ? "j %% %lld * %d + @tid"
                   : "@c %% %lld",
           !rows && parts ? row / threads : row, threads);
}

static void copy(struct mma_kernel *k, const struct mma_tile *t, const char *stage, const char *it)
{
  const struct mma_plan *p = k->p;
  const struct access *a = &p->n->iter[t->iter];
  int w = t->width;
  long long row = t->cols / w, pieces = t->rows * row;
  struct str at = {0};
  char outer[64], inner[64];
  piece(p->threads, row, outer, inner);
  mma_walk_base(p, a, w, it, &at);
  mma_walk_list(p, &t->out, a->stride, w, 1, t->cut ? "@row" : outer, &at);
  mma_walk_list(p, &t->in, a->stride, w, w, inner, &at);
  text_open(k->t, "for (j = 0; j < %lld; j += 1) unroll", (pieces + p->threads - 1) / p->threads);
  text_line(k->t, "@c = j * %d + @tid", p->threads);
  if (pieces % p->threads) text_open(k->t, "if (@c < %lld)", pieces);
  if (t->cut) text_line(k->t, "@row = %s", mma_cut_row(p, arena_printf(k->mem, "(%s)", outer), true));
  text_line(k->t, "%%s%d[%s].tile([1, %d])[%s, %s] <- Move%s<<<#grid, #me>>>(", t->buffer,
            t->varying ? stage : mma_stage(p, t), w, outer, inner, w * dtype_bytes(p->type) >= 4 ? "<cp.async>" : "");
  text_line(k->t, "  %%%s.tile([%d])[%s])", k->global[a->tensor], w, str_text(&at));
  if (pieces % p->threads) text_close(k->t);
  text_close(k->t);
  str_free(&at);
}

void mma_load(struct mma_kernel *k, bool varying, const char *stage, const char *it)
{
  for (int i = 0; i < k->p->ntiles; i++)
    if (k->p->tile[i].varying == varying) copy(k, &k->p->tile[i], stage, it);
}

void mma_wait(struct mma_kernel *k, int left)
{
  text_line(k->t, "Sync<cp.wait, %d><<<#grid, #me>>>()", left);
  text_line(k->t, "Sync<barrier><<<#grid, #t>>>()");
}

// Which group of copies brings it: tiles that have room of their own in the order in which they are read, then the
// queue.
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
  text_line(k->t, "Sync<cp.commit><<<#grid, #me>>>()");
  k->committed++;
}

void mma_load_once(struct mma_kernel *k)
{
  const struct mma_plan *p = k->p;
  int now = p->ntiles - p->queued + MIN(p->queued, p->stages);
  while (k->committed < now) bring(k, k->committed + 1);
}

// After the barrier nobody reads what the queue had before this tile: its slot is free.
void mma_arrive(struct mma_kernel *k, const struct mma_tile *t)
{
  const struct mma_plan *p = k->p;
  int g = group(p, t);
  if (p->wg || p->iterations > 1 || g <= k->arrived) return;
  mma_wait(k, k->committed - g);
  k->arrived = g;
  if (t->slot > 0 && k->committed < p->ntiles) bring(k, k->committed + 1);
}

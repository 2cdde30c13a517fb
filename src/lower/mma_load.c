// Tiles of operands into shared memory, in the order in which device memory has them: asynchronously, where at least 4 bytes
// lie together, else element by element. Tiles that vary have a stage of the ring for each iteration under way.
#include "lower/mma.h"

void mma_load_declare(struct mma_kernel *k)
{
  const struct mma_plan *p = k->p;
  mma_vector_declare(k);
  for (int i = 0; i < p->ntiles; i++) {
    const struct mma_tile *t = &p->tile[i];
    int stages = t->varying ? p->stages : 1;
    long long rows = t->rows, cols = t->cols, stride = t->stride;
    const char *type = tile_dtype(p->type);
    if (stride != cols)
      text_line(k->t, "%%s%d:[%d : %lld].[%lld, %lld : %lld, 1].%s.SH", t->tensor, stages, rows * stride, rows, cols, stride, type);
    else if (t->swizzle[0])
      text_line(k->t, "%%s%d:[%d].[%lld, %lld].%s.SH.swizzle(%d, %d, %d)", t->tensor, stages, rows, cols, type, t->swizzle[0], t->swizzle[1], t->swizzle[2]);
    else
      text_line(k->t, "%%s%d:[%d].[%lld, %lld].%s.SH", t->tensor, stages, rows, cols, type);
  }
}

static void copy(struct mma_kernel *k, const struct mma_tile *t, const char *stage, const char *it)
{
  const struct mma_plan *p = k->p;
  const struct access *a = &p->n->iter[t->iter];
  int w = t->width;
  long long row = t->cols / w, pieces = t->rows * row;
  struct str at = {0};
  char outer[64], inner[64];
  snprintf(outer, sizeof outer, "@c / %lld", row), snprintf(inner, sizeof inner, "@c %% %lld", row);
  mma_walk_base(p, a, w, it, &at);
  mma_walk_list(p, &t->out, a->stride, w, 1, outer, &at);
  mma_walk_list(p, &t->in, a->stride, w, w, inner, &at);
  text_open(k->t, "for (j = 0; j < %lld; j += 1) unroll", (pieces + p->threads - 1) / p->threads);
  text_line(k->t, "@c = j * %d + @tid", p->threads);
  if (pieces % p->threads) text_open(k->t, "if (@c < %lld)", pieces);
  text_line(k->t, "%%s%d[%s].tile([1, %d])[%s, %s] <- Move%s<<<#grid, #me>>>(", t->tensor, t->varying ? stage : "0", w, outer, inner,
            w * dtype_bytes(p->type) >= 4 ? "<cp.async>" : "");
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

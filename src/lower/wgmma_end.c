// Matrices that only the end of an item reads, such as a residual, as tiles by TMA. They are requested after the first stages of the item's loop, and
// arrive long before its end. Without this, lanes load such a matrix from L2 one piece of results after another, and wait for each
// (wgmma_ahead.c).
//
// A tile has a copy for each warpgroup that takes items in turns, or one. It needs no barrier of its readers: it is requested in an iteration that
// waited for an earlier stage of the same item, which warpgroups release after they have ended the item before.
#include "lower/wgmma.h"

bool wgmma_end_reads(const struct mma_plan *p, int v, int *cols)
{
  return p->iterations > 1 && !mma_varies(p, v) && wgmma_loads_matrix(p, v, cols) && mma_read_in(p, v, 1u << MMA_POST | 1u << MMA_SENT);
}

bool wgmma_is_end(const struct mma_tile *t) { return t->lanes && !t->varying; }

// The iteration in which the tiles are requested.
static int64_t when(const struct wg_plan *w) { return MIN(w->p.stages, w->p.iterations - 1); }

bool wgmma_end_fit(struct wg_plan *w)
{
  struct mma_plan *p = &w->p;
  w->any_end = false, w->end_copies = w->alternate ? w->groups : 1;
  for (int i = 0; i < p->ntiles; i++) {
    struct mma_tile *t = &p->tile[i];
    if (!wgmma_is_end(t)) continue;
    w->any_end = true, t->copy = w->alternate ? "@g" : NULL;
    p->shared += (w->end_copies - 1) * t->rows * t->cols * dtype_bytes(p->type);
  }
  if (!w->any_end) return true;
  if (p->may_hide) return mma_refuse(p, "the loop may have too few iterations to bring what its end reads");
  return !w->walks || p->iterations > p->stages ||
         mma_refuse(p, "fewer iterations than stages, so that what the end of an item reads could come early");
}

static const char *copy_of(const struct wg_plan *w) { return w->alternate ? arena_printf(w->p.job->mem, "round %% %d", w->groups) : "0"; }

void wgmma_end_declare(struct mma_kernel *k, const struct wg_plan *w)
{
  if (w->any_end) text_line(k->t, "%%end:[%d].mbar.SH", w->end_copies);
}

void wgmma_end_init(struct mma_kernel *k, const struct wg_plan *w)
{
  for (int c = 0; c < w->end_copies && w->any_end; c++) text_line(k->t, "Sync<mbar.init, 1>(%%end[%d])", c);
}

void wgmma_end_bring(struct mma_kernel *k, const struct wg_plan *w)
{
  TEXT_SCOPE(k->t);
  if (!w->any_end) return;
  text_open(k->t, "if (it == %lld) {", (long long)when(w));
  wgmma_bring(k, w, WG_END, copy_of(w), "0", arena_printf(k->mem, "end[%s]", copy_of(w)));
}

void wgmma_end_wait(struct mma_kernel *k, const struct wg_plan *w)
{
  const char *phase = w->alternate ? arena_printf(k->mem, "round / %d %% 2", w->groups) : w->walks ? "round % 2" : "0";
  if (w->any_end) text_line(k->t, "Sync<mbar.wait, %s>(%%end[%s])", phase, w->alternate ? "@g" : "0");
}

void wgmma_end_leave(struct mma_kernel *k, const struct wg_plan *w)
{
  if (w->any_end && w->walks) text_line(k->t, "Sync<barrier>#group()");
}

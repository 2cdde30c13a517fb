// Products that follow one another without a loop (layers). Their right operands share a few slots of shared memory as a queue, in the order in which
// they are read, and each product waits for its own. Vectors that are needed between products are copied into shared memory at the start, all at
// once. Loaded at their use, each would cost the latency of device memory.
#include "lower/wgmma.h"

static const struct mma_tile *with_slot(const struct mma_plan *p, int slot)
{
  for (int i = 0; i < p->ntiles; i++)
    if (p->tile[i].slot == slot) return &p->tile[i];
  return NULL;
}

static int slot_of(const struct mma_plan *p, const struct mma_tile *t) { return t->slot % p->stages; }

void wgmma_queue_declare(struct mma_kernel *k)
{
  if (k->p->queued) text_line(k->t, "%%come:[%d].mbar.SH\n%%gone:[%d].mbar.SH", k->p->stages, k->p->stages);
}

void wgmma_queue_init(struct mma_kernel *k, const struct wg_plan *w)
{
  if (k->p->queued) wgmma_init(k, k->p->stages, "come", "gone", w->groups);
}

// Executed by the thread that copies tiles.
void wgmma_queue_bring(struct mma_kernel *k, const struct wg_plan *w)
{
  const struct mma_plan *p = k->p;
  for (int slot = 0; slot < p->queued; slot++) {
    const struct mma_tile *t = with_slot(p, slot);
    int at = slot_of(p, t);
    if (slot >= p->stages) text_line(k->t, "Sync<mbar.wait, %d>(%%gone[%d])", (slot / p->stages + 1) % 2, at);
    text_line(k->t, "Sync<mbar.expect, %lld>(%%come[%d])", (long long)(t->rows * t->cols * dtype_bytes(p->type)), at);
    wgmma_bring_tile(k, w, t, arena_printf(k->mem, "%d", at), "0", arena_printf(k->mem, "come[%d]", at));
  }
}

void wgmma_queue_arrive(struct mma_kernel *k, const struct mma_tile *t)
{
  if (t->slot >= 0) text_line(k->t, "Sync<mbar.wait, %d>(%%come[%d])", t->slot / k->p->stages % 2, slot_of(k->p, t));
}

// Executed when the products that read it are done.
void wgmma_queue_leave(struct mma_kernel *k, const struct mma_tile *t)
{
  const struct mma_plan *p = k->p;
  if (t->slot < 0 || t->slot + p->stages >= p->queued) return; // no later tile uses its slot
  text_line(k->t, "if (@i == 0) {\nSync<mbar.arrive>(%%gone[%d])", slot_of(p, t));
}

// ---- vectors ----

// Elements of one copy; 0: the access is not a vector, or cannot be copied.
static int width(const struct mma_plan *p, int iter, int *cols)
{
  const struct plan_access *a = &p->n->iter[iter];
  uint32_t has = 0;
  if (norm_is_index(p->n, a->tensor)) return 0;
  for (int v = 0; v < p->k.nvalues; v++)
    if (p->k.v[v].live && mma_loads(p, v) && mma_iter(p, v) == iter && p->tile_of[v] < 0) has = mma_has(p, v);
  if (!has || has & p->row_letters) return 0;
  *cols = mma_cols_with(p, has);
  if (*cols < 0 || mma_pads(p, *cols)) return 0;
  int bytes = dtype_bytes(p->job->store[a->tensor]), w = mma_width(p, a, &p->cols[*cols].list, 16 / bytes);
  return w * bytes >= 4 ? w : 0;
}

int64_t wgmma_vector_bytes(const struct wg_plan *w)
{
  int64_t bytes = 0;
  int cols;
  for (int i = 0; i < w->p.n->niter && w->p.queued; i++)
    if (width(&w->p, i, &cols)) bytes += w->groups * (w->p.cols[cols].size * dtype_bytes(w->p.job->store[w->p.n->iter[i].tensor]) + 16);
  return bytes;
}

void wgmma_vector_declare(struct mma_kernel *k, const struct wg_plan *w)
{
  const struct mma_plan *p = k->p;
  int cols;
  for (int i = 0; i < p->n->niter && p->queued; i++) {
    const struct plan_access *a = &p->n->iter[i];
    if (width(p, i, &cols))
      text_line(k->t, "%%q%d:[%d].[%lld].%s.SH", a->tile, w->groups, (long long)p->cols[cols].size, tile_dtype(p->job->store[a->tensor]));
  }
}

// Each warpgroup copies its own.
void wgmma_vector_load(struct mma_kernel *k)
{
  const struct mma_plan *p = k->p;
  bool any = false;
  int cols, w;
  for (int i = 0; i < p->n->niter && p->queued; i++) {
    const struct plan_access *a = &p->n->iter[i];
    struct str at = {0};
    TEXT_SCOPE(k->t);
    if (!(w = width(p, i, &cols))) continue;
    long long pieces = p->cols[cols].size / w;
    mma_walk_base(p, a, w, "0", &at);
    mma_walk_list(p, &p->cols[cols].list, a->stride, w, w, "@piece", &at);
    text_open(k->t, "each j:%lld\n@piece = j * 128 + @i\nif (@piece < %lld) {", (pieces + 127) / 128, pieces);
    text_line(k->t, "%%q%d[@g].tile([%d])[@piece] <- Move<cp.async>(%%%s.tile([%d])[%s])", a->tile, w, k->global[a->tensor], w,
              str_keep(k->mem, &at));
    any = true;
  }
  if (any) text_line(k->t, "Sync<cp.commit>()\nSync<cp.wait, 0>()\nSync<barrier>#group()");
}

// NULL: it is not in shared memory.
const char *wgmma_vector_value(struct mma_kernel *k, const struct plan_access *a, struct mma_shape s)
{
  const struct mma_plan *p = k->p;
  int cols;
  if (!p->wg || !p->queued || s.rows || s.cols < 0) return NULL;
  if (!width(p, (int)(a - p->n->iter), &cols) || cols != s.cols) return NULL;
  const char *to = mma_declare(k, s, "fp32"), *from = arena_printf(k->mem, "q%d[@g].tile([2])[%s]", a->tile, mma_cols_index(p, s.cols, 2));
  text_open(k->t, "each n:%d", p->cols[s.cols].nt);
  mma_move(k, p->job->store[a->tensor], "pair", true, arena_printf(k->mem, "%s[0, n][0, 0]", to), from, "", false);
  text_close(k->t);
  return to;
}

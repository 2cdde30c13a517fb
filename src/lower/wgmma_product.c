// Products by wgmma, whose operands are descriptors of shared memory, and the ring of stages that they read.
#include "lower/wgmma.h"

// ---- the ring ----

void wgmma_stage(struct mma_kernel *k, const struct wg_plan *w)
{
  text_line(k->t, "@n = %sit\n@stage = @n %% %d", wgmma_iterations_before(k, w), k->p->stages);
}

// Barriers of the second ring follow those of the first.
const char *wgmma_slot(struct mma_kernel *k, const struct wg_plan *w, int value, const char *stage)
{
  return w->rings == 2 && value == w->second->b ? arena_printf(k->mem, "%s + %d", stage, k->p->stages) : stage;
}

// The stage of an item's last iteration.
const char *wgmma_last_stage(struct mma_kernel *k, const struct wg_plan *w)
{
  const struct mma_plan *p = k->p;
  const long long n = p->iterations;
  const char *before = wgmma_iterations_before(k, w);
  if (p->hides) return arena_printf(k->mem, "(%s@count - 1) %% %d", before, p->stages);
  return w->walks ? arena_printf(k->mem, "(%s%lld) %% %d", before, n - 1, p->stages) : arena_printf(k->mem, "%lld", (n - 1) % p->stages);
}

// One thread of the warpgroup arrives, or one for each block of a pair.
void wgmma_release(struct mma_kernel *k, const struct wg_plan *w, const char *when, const char *which)
{
  if (w->pair_axis >= 0)
    text_line(k->t, "if (@i < 2%s) {\nSync<mbar.leave>(%%empty[%s].peer(%s))", when, which, wgmma_pair_peer(k, w, "@rank", "@i % 2"));
  else
    text_line(k->t, "if (@i == 0%s) {\nSync<mbar.arrive>(%%empty[%s])", when, which);
}

// ---- products ----

const char *wgmma_right(struct mma_kernel *k, const struct mma_product *x, const char *of_ring)
{
  const struct mma_tile *t = mma_tile_at(k->p, x->b);
  const char *stage = t->varying ? of_ring : t->slot >= 0 ? mma_stage(k->p, t) : k->p->wg_copy;
  long long n = 8 * k->p->cols[x->out_cols].nt;
  bool part = k->p->cols[x->out_cols].split, across = mma_list_has(&t->in) == x->cols;
  if (part && across) return arena_printf(k->mem, "%%s%d[%s].tile([16, %lld])[s, %s]", t->buffer, stage, n, wgmma_part(k->p));
  if (part)
    return arena_printf(k->mem, "%%s%d[%s].tile([%lld, 16])[%s, s].reshape(0, [16, %lld : %lld, 1])", t->buffer, stage, n, wgmma_part(k->p), n, n);
  if (across) return arena_printf(k->mem, "%%s%d[%s].tile([16, _])[s, 0]", t->buffer, stage);
  return arena_printf(k->mem, "%%s%d[%s].tile([_, 16])[0, s].reshape(0, [16, %lld : %lld, 1])", t->buffer, stage, n, n);
}

const char *wgmma_left(struct mma_kernel *k, const struct mma_product *x)
{
  int tile = k->p->tile_of[x->a];
  if (tile < 0 || k->left[x->a] || mma_keeps_left(k->p, x)) return arena_printf(k->mem, "%%%s[m, s]", mma_left(k, x->a, x->sum_cols));
  const struct mma_tile *t = &k->p->tile[tile];
  const char *stage = t->varying ? "@stage" : k->p->wg_copy;
  const char *rows = k->p->mt > 1 ? arena_printf(k->mem, "%s * %d + m", wgmma_rows(k->p), k->p->mt) : wgmma_rows(k->p);
  if (!t->turned) return arena_printf(k->mem, "%%s%d[%s].tile([64, 16])[%s, s]", t->tensor, stage, rows);
  return arena_printf(k->mem, "%%s%d[%s].tile([16, 64])[s, %s].reshape(0, [64, 16 : 16, 1])", t->tensor, stage, rows);
}

void wgmma_commit(struct mma_kernel *k) { text_line(k->t, "Sync<wgmma.commit>#group()"); }

void wgmma_wait(struct mma_kernel *k, int left) { text_line(k->t, "Sync<wgmma.wait, %d>#group()", left); }

void wgmma_multiply(struct mma_kernel *k, const struct mma_product *x, const char *left, const char *right, const char *into)
{
  TEXT_SCOPE(k->t);
  text_open(k->t, "each s:%lld m:%d", (long long)k->p->cols[x->sum_cols].padded / 16, k->p->mt);
  bool adds = x->into >= 0 || (x->joins >= 0 && k->reg[x->joins]);
  text_line(k->t, "%%%s%s <- MatMul<wgmma%s>#group(%s, %s)", into, k->p->mt > 1 ? "[m, _]" : "", adds ? "" : ", s", left, right);
}

void wgmma_product(struct mma_kernel *k, const struct mma_product *x, const char *into)
{
  const char *left = wgmma_left(k, x), *right = wgmma_right(k, x, "@stage");
  const struct mma_tile *t = mma_tile_at(k->p, x->b);
  wgmma_queue_arrive(k, t);
  text_line(k->t, "Sync<wgmma.fence>#group()");
  wgmma_multiply(k, x, left, right, into);
  if (k->p->wg_async && x->into >= 0) return;                // waited for in the next iteration, or after the loop
  if (t->slot < 0 && k->p->job->exact && x->goes_on) return; // waited for with the last product of its sum
  wgmma_commit(k);
  wgmma_wait(k, 0);
  wgmma_queue_leave(k, t);
}

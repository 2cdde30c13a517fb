// Two products in a loop, of which the second reads values computed from the first (attention). The first product of an iteration and the second of
// the previous one run together. The computation between them (softmax) runs while the second still runs, and while products of other warpgroups do.
// Tiles of the two products have separate barriers, since those of the first are free earlier.
//
// The order of the text matters. Nothing keeps the compiler from moving `wgmma.wait, 0` before the exponentials, but the loop of an mbar.wait does.
// So the wait for the next product's tile is placed between them.
//
// With `turns`, a warpgroup begins products only after the previous warpgroup has begun its own. So some warpgroups compute exponentials while
// products of others run, instead of all doing the same at once.
#include "lower/wgmma.h"

static void wait_full(struct mma_kernel *k, const struct wg_plan *w, const struct mma_product *x)
{
  text_line(k->t, "Sync<mbar.wait, @n / %d %% 2>(%%full[%s])", k->p->stages, wgmma_slot(k, w, x->b, "@stage"));
}

// Waits until all warps have read a stage that lanes read, before it is released.
static void lanes_done(struct mma_kernel *k)
{
  if (wgmma_lanes_read(k->p)) text_line(k->t, "Sync<barrier>#group()");
}

static void release(struct mma_kernel *k, const struct wg_plan *w, const struct mma_product *x, const char *stage)
{
  wgmma_release(k, w, "", wgmma_slot(k, w, x->b, stage));
}

static void fence(struct mma_kernel *k) { text_line(k->t, "Sync<wgmma.fence>#group()"); }

static void add_first(struct mma_kernel *k, const struct mma_product *x, const char *into)
{
  wgmma_multiply(k, x, wgmma_left(k, x), wgmma_right(k, x, "@stage"), into);
  k->reg[x->out] = into;
  if (x->joins >= 0) k->reg[x->joins] = into;
}

// The first product, and others that are added to it.
static void begin_first(struct mma_kernel *k, const struct wg_plan *w)
{
  TEXT_ABOUT(k->t, mma_at(k->p, w->first->out)->about);
  const char *into = mma_declare(k, k->p->shape[w->first->out], "fp32");
  add_first(k, w->first, into);
  for (int i = 0; i < k->p->nproducts; i++)
    if (&k->p->product[i] != w->first && k->p->product[i].leads == w->first->leads) add_first(k, &k->p->product[i], into);
  wgmma_commit(k);
}

static void begin_second(struct mma_kernel *k, const struct wg_plan *w, const char *left, const char *stage)
{
  const char *sum = k->reg[w->second->into];
  TEXT_ABOUT(k->t, mma_at(k->p, w->second->out)->about);
  wgmma_multiply(k, w->second, arena_printf(k->mem, "%%%s[m, s]", left), wgmma_right(k, w->second, stage), sum);
  wgmma_commit(k);
}

// Computes the values that depend on the first product.
static void between(struct mma_kernel *k, const struct wg_plan *w)
{
  const struct mma_plan *p = k->p;
  k->section = MMA_LOOP;
  for (int i = 0; i < p->norder; i++)
    if (p->section[p->order[i]] == MMA_LOOP && p->product_of[p->order[i]] < 0 && p->order[i] != w->second->into) mma_compute(k, p->order[i]);
}

// Releases tiles of the first product as soon as it is done, unless lanes read some of them.
static void compute_between(struct mma_kernel *k, const struct wg_plan *w)
{
  bool late = wgmma_lanes_read(k->p);
  if (w->rings > 1 && !late) release(k, w, w->first, "@stage");
  between(k, w);
  lanes_done(k);
  if (w->rings > 1 && late) release(k, w, w->first, "@stage");
}

// Sets columns that the iteration lacks to zero in the left operand of the second product.
static void keep_left(struct mma_kernel *k, const struct wg_plan *w, const char *left)
{
  int from = w->second->a, cols = w->second->sum_cols;
  if (mma_ragged(k->p, cols)) mma_mask(k, k->reg[from], (struct mma_shape){true, cols}, "0.0");
  mma_cast_left(k, left, k->reg[from], cols, false);
}

static void rescale(struct mma_kernel *k, const struct wg_plan *w)
{
  const struct kern_value *v = mma_at(k->p, w->second->into);
  const char *sum = k->reg[w->second->into];
  if (v->kind != KERN_RESCALE) return;
  TEXT_ABOUT(k->t, v->about);
  emit_binary(k->t, "*", sum, sum, k->reg[v->in[1]]);
}

// ---- turns ----

void wgmma_declare_turns(struct mma_kernel *k, const struct wg_plan *w)
{
  if (w->turns || w->alternate) text_line(k->t, "%%turn:[%d].mbar.SH", w->groups);
}

void wgmma_begin_turns(struct mma_kernel *k, const struct wg_plan *w)
{
  for (int g = 0; (w->turns || w->alternate) && g < w->groups; g++) text_line(k->t, "Sync<mbar.init, 1>(%%turn[%d])", g);
}

// The first warpgroup waits for no turn of others before its own first turn. Turns are counted from 1, like iterations: with `it - 1` nvcc unrolls
// the loop in spite of its pragma. Attention over 4,608 keys then had 44,000 lines of PTX instead of 3,000, ptxas took 30 seconds, and registers
// spilled.
static void take_turn(struct mma_kernel *k, const struct wg_plan *w)
{
  if (!w->turns) return;
  const char *before = wgmma_counts(w) ? "@before - round + "
                       : w->walks      ? arena_printf(k->mem, "round * %lld + ", (long long)k->p->iterations - 1)
                                       : "";
  text_line(k->t, "@turn = %sit", before); // the first iteration of an item takes none
  text_line(k->t, "Sync<mbar.wait, (@turn + (@g > 0)) %% 2><<<#grid, #me>>>(%%turn[@g])");
}

static void give_turn(struct mma_kernel *k, const struct wg_plan *w)
{
  if (w->turns) text_line(k->t, "if (@i == 0) {\nSync<mbar.arrive>(%%turn[(@g + 1) %% %d])", w->groups);
}

// ---- the loop ----

static void first_iteration(struct mma_kernel *k, const struct wg_plan *w, const char *left)
{
  text_open(k->t, "for (it = 0; it < 1; it += 1) {");
  wgmma_stage(k, w);
  wait_full(k, w, w->first);
  fence(k);
  begin_first(k, w);
  wgmma_wait(k, 0);
  compute_between(k, w);
  keep_left(k, w, left);
  if (w->rings > 1) wait_full(k, w, w->second);
  text_close(k->t);
}

static void other_iterations(struct mma_kernel *k, const struct wg_plan *w, const char *left)
{
  const struct mma_plan *p = k->p;
  text_open(k->t, "for (it = 1; it < %s; it += 1) rolled {", mma_iterations(k));
  wgmma_stage(k, w);
  text_line(k->t, "@last = (@n + %d) %% %d", p->stages - 1, p->stages);
  wait_full(k, w, w->first);
  take_turn(k, w);
  fence(k);
  begin_first(k, w);
  begin_second(k, w, left, "@last");
  give_turn(k, w);
  wgmma_wait(k, 1);
  compute_between(k, w);
  if (w->rings > 1) wait_full(k, w, w->second);
  wgmma_wait(k, 0);
  release(k, w, w->second, "@last");
  rescale(k, w);
  keep_left(k, w, left);
  text_close(k->t);
}

void wgmma_chain(struct mma_kernel *k, const struct wg_plan *w)
{
  const struct mma_plan *p = k->p;
  const char *left = arena_printf(k->mem, "a%d", k->t->fresh++);
  text_line(k->t, "%%%s:[1, %d].[2, 2].[1, 2].%s.RF", left, p->cols[w->second->sum_cols].nt / 2, tile_dtype(p->type));
  struct mma_known known = mma_remember(k);
  first_iteration(k, w, left);
  mma_forget(k, &known), known = mma_remember(k);
  other_iterations(k, w, left);
  mma_forget(k, &known);
  fence(k);
  begin_second(k, w, left, wgmma_last_stage(k, w));
  wgmma_wait(k, 0);
  if (w->walks) release(k, w, w->second, wgmma_last_stage(k, w));
}

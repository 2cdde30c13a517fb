// What the scheme takes, and the plan at some knobs: how many warpgroups, whether blocks walk, whether two products run across
// iterations, whether registers and shared memory suffice.
#include "lower/wgmma.h"

// Registers of a thread that computes, and of one that brings tiles, by warpgroups that compute: together no more than the
// block has when it starts, (65536 / threads) rounded down to 8 for each.
static const int computing[WG_MOST + 1] = {0, 255, 232, 160, 112}, bringing[WG_MOST + 1] = {0, 0, 40, 32, 24};
static const int most_estimated[WG_MOST + 1] = {0, 255, 224, 144, 100};

int wgmma_copies(const struct wg_plan *w) { return w->walks ? 2 : 1; }

// Is the tile read by others than products?
bool wgmma_reads_tile(const struct mma_plan *p, const struct mma_tile *t)
{
  int products = 0;
  for (int i = 0; i < p->nproducts; i++) products += (p->product[i].a == t->tensor) + (p->product[i].b == t->tensor);
  return p->n->uses[t->tensor] > products;
}

bool wgmma_plan(struct wg_plan *w, const struct lower_job *j, struct mma_anew to, char why[160])
{
  struct mma_plan *p = &w->p;
  if (!mma_plan(p, j, to, why)) return false;
  p->why = why, p->wg = true, w->any_fixed = w->any_varying = false;
  if (p->nsides) return mma_refuse(p, "the right operand of a product is computed");
  if (p->nbatch > 1) return mma_refuse(p, "right operands differ among the rows of a block");
  if ((p->cut ? p->cut : p->nrows) % 64) return mma_refuse(p, "%lld rows, no multiple of 64", (long long)p->nrows);
  for (int i = 0; i < p->nproducts; i++)
    if (p->cols[p->product[i].out_cols].size > 256) return mma_refuse(p, "a product of more than 256 columns");
  for (int i = 0; i < p->ntiles; i++) {
    struct mma_tile *t = &p->tile[i];
    if (!box_make(p, t, &w->box[i])) return false;
    t->stride = t->cols;
    t->swizzle[0] = w->box[i].chunk == 64 ? 3 : w->box[i].chunk == 32 ? 2 : 1, t->swizzle[1] = t->swizzle[2] = 3;
    *(t->varying ? &w->any_varying : &w->any_fixed) = true;
  }
  return true;
}

// Does the loop nothing but add products to accumulators? Then one iteration's run while the next one's are begun.
static bool adds_only(const struct mma_plan *p)
{
  const struct graph *b = p->n->block;
  if (p->iterations == 1) return false;
  for (int i = 0; i < b->nnodes; i++) {
    bool product = p->product_of[i] >= 0 && p->product[p->product_of[i]].into >= 0;
    if (p->section[i] != MMA_LOOP || b->nodes[i].op == OP_ITER || op_rows[b->nodes[i].op].rule == RULE_VIEW) continue;
    if (product && p->tile_of[p->product[p->product_of[i]].a] < 0) return false;
    if (!product && b->nodes[i].op != OP_ACCUM) return false;
  }
  for (int i = 0; i < p->ntiles; i++)
    if (wgmma_reads_tile(p, &p->tile[i])) return false;
  return true;
}

// Two products in the loop, the second of what is computed from the first (attention): then the second one of an iteration runs
// while the next iteration computes from its first.
static void find_chain(struct wg_plan *w)
{
  const struct mma_plan *p = &w->p;
  const struct mma_product *first = NULL, *second = NULL;
  w->first = w->second = NULL;
  for (int i = 0; i < p->nproducts; i++) {
    const struct mma_product *x = &p->product[i];
    if (p->section[x->node] != MMA_LOOP) continue;
    bool ready = p->tile_of[x->a] >= 0 || p->n->block->tensors[x->a].phase == FIXED, adds = x->into >= 0;
    if (ready && !adds && !first) first = x;
    else if (!ready && adds && !second) second = x;
    else return;
  }
  if (!first || !second || p->iterations < 2 || p->mt > 1) return;
  if (!p->tile[p->tile_of[first->b]].varying || !p->tile[p->tile_of[second->b]].varying) return;
  for (int i = 0; i < p->ntiles; i++)
    if (p->tile[i].varying && wgmma_reads_tile(p, &p->tile[i])) return;
  if (p->n->block->tensors[second->a].phase == VARYING) w->first = first, w->second = second;
}

bool wgmma_fit(struct wg_plan *w, const struct knobs *k)
{
  struct mma_plan *p = &w->p;
  w->groups = k->v[WG_GROUPS];
  if (w->groups < 1 || w->groups > WG_MOST || mma_block_rows(p) % (w->groups * 64))
    return mma_refuse(p, "%d warpgroups for %lld rows", w->groups, (long long)mma_block_rows(p));
  struct knobs as = {{[MMA_WM] = 4 * w->groups, [MMA_WN] = 1, [MMA_STAGES] = k->v[WG_STAGES]}};
  struct gpu_limits roomy = *p->job->gpu;
  struct lower_job job = *p->job;
  const struct lower_job *own = p->job;
  roomy.registers = INT32_MAX, job.gpu = &roomy, p->job = &job; // registers are shared out by setmaxnreg
  bool fits = mma_fit(p, &as);
  p->job = own;
  if (!fits) return false;
  p->shared += 1024 + 16 * p->stages;
  w->items = w->blocks = mma_blocks(p);
  if (k->v[WG_BLOCKS] && k->v[WG_BLOCKS] < w->items) w->blocks = k->v[WG_BLOCKS];
  w->walks = w->blocks < w->items;
  if (w->walks && !w->any_varying) return mma_refuse(p, "blocks do not walk over tiles without a loop");
  for (int i = 0; i < p->ntiles; i++)
    if (w->walks && !p->tile[i].varying) {
      if (wgmma_reads_tile(p, &p->tile[i])) return mma_refuse(p, "lanes read a tile that does not change with the loop");
      p->shared += p->tile[i].rows * p->tile[i].cols * dtype_bytes(p->type); // two, so that the next one comes early
    }
  p->wg_async = adds_only(p), p->wg_copy = w->walks ? "round % 2" : "0";
  w->computing = computing[w->groups], w->bringing = bringing[w->groups];
  w->first = w->second = NULL;
  if (k->v[WG_CHAIN]) find_chain(w);
  if (k->v[WG_CHAIN] && !w->first) return mma_refuse(p, "no two products that follow each other in the loop");
  if (w->first) p->registers += 2ll * p->cols[w->second->sum_cols].nt; // the left operand, while the next one is computed
  if (p->shared > own->gpu->shared) return mma_refuse(p, "%lld bytes of shared memory", (long long)p->shared);
  if (p->registers > most_estimated[w->groups]) return mma_refuse(p, "about %lld registers a thread", (long long)p->registers);
  p->threads = 128 * (w->groups + 1);
  return true;
}

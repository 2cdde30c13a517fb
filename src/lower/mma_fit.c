// The plan for given knobs: the number of tiles of a warp, what warps share, and whether registers and shared memory suffice.
#include "lower/count.h"
#include "lower/mma.h"

enum { COPY_REGISTERS = 40 }; // registers of a thread for addresses and other values, without those of a copy

// ---- columns among warps ----

// Each warp has either a part of a product's sum or a part of its columns.
static bool may_split(const struct mma_plan *p, int c)
{
  if (p->cols[c].padded % ((p->cols[c].summed ? 16 : 8) * p->wn)) return false;
  for (int i = 0; i < p->nproducts; i++) {
    const struct mma_product *x = &p->product[i];
    if ((x->sum_cols == c && p->cols[x->out_cols].split) || (x->out_cols == c && p->cols[x->sum_cols].split)) return false;
  }
  return true;
}

static void split(struct mma_plan *p, bool product, bool summed)
{
  for (int c = 0; c < p->ncols; c++)
    if (p->cols[c].product == product && p->cols[c].summed == summed && may_split(p, c)) p->cols[c].split = true;
}

// Splits the columns of accumulators with partial sums after the loop, unless a value there needs all columns: a product that sums over them, or a
// product of which each warp has a part of the sum.
static void split_after(struct mma_plan *p)
{
  for (int v = 0; v < p->k.nvalues; v++) {
    int c = p->shape[v].cols;
    if (mma_partial(p, v) && c >= 0 && !p->cols[c].split && p->cols[c].padded % (8 * p->wn) == 0) p->cols[c].split_after = true;
  }
  for (int i = 0; i < p->norder; i++) {
    int v = p->order[i];
    if (p->section[v] != MMA_POST) continue;
    const struct mma_product *x = mma_product_at(p, v);
    if (x) p->cols[x->sum_cols].split_after = false;
    if (x && p->cols[x->sum_cols].split) p->cols[x->out_cols].split_after = false;
    for (int k = 0; k < p->k.v[v].nin; k++) {
      int from = p->k.v[v].in[k], c = p->shape[from].cols;
      if (c >= 0 && !mma_loads(p, from) && p->section[from] != MMA_POST && !mma_partial(p, from)) p->cols[c].split_after = false;
    }
  }
}

static const struct mma_product *added_product(const struct mma_plan *p, int accumulator)
{
  for (int i = 0; i < p->nproducts; i++)
    if (p->product[i].into == accumulator) return &p->product[i];
  return NULL;
}

bool mma_adds_products(const struct mma_plan *p, int accumulator) { return added_product(p, accumulator); }

bool mma_partial(const struct mma_plan *p, int accumulator)
{
  const struct mma_product *x = added_product(p, accumulator);
  return x && mma_sums_part(p, x);
}

// Splits the columns of results among warpgroups. Columns that a product sums over stay whole in each warpgroup's registers.
static void split_results(struct mma_plan *p)
{
  for (int c = 0; c < p->ncols; c++) {
    bool whole = p->cols[c].padded % (16 * p->wn) != 0;
    for (int i = 0; i < p->nproducts; i++) whole |= p->product[i].sum_cols == c && mma_keeps_left(p, &p->product[i]);
    p->cols[c].split = p->cols[c].product && !whole;
  }
}

static bool share_columns(struct mma_plan *p, int by)
{
  bool any = p->wn == 1;
  for (int c = 0; c < p->ncols; c++) p->cols[c].split = p->cols[c].split_after = false;
  if (p->wn > 1 && p->wg) split_results(p);
  if (p->wn > 1 && !p->wg && by == MMA_BY_COLUMNS) split(p, true, false);
  if (p->wn > 1 && by == MMA_BY_SUMS) split(p, true, true), split(p, false, true);
  for (int c = 0; c < p->ncols; c++) {
    p->cols[c].nt = (int)(p->cols[c].padded / 8 / (p->cols[c].split ? p->wn : 1));
    any |= p->cols[c].split;
  }
  for (int i = 0; i < p->nproducts; i++) // an accumulator has parts of all its summands or of none
    if (p->product[i].into >= 0 && mma_partial(p, p->product[i].into) != mma_sums_part(p, &p->product[i]))
      return mma_refuse(p, "an accumulator adds parts and wholes");
  for (int i = 0; i < p->nproducts; i++)
    if (p->product[i].joins >= 0 && mma_sums_part(p, &p->product[i])) return mma_refuse(p, "warps have parts of a sum of products");
  if (p->wn > 1 && !p->wg) split_after(p);
  return any || mma_refuse(p, "%d warps share no columns", p->wn);
}

// Registers of a thread: those that live through the loop, and the most that one product or operator needs in addition.
static int64_t estimate(const struct mma_plan *p)
{
  int64_t lasting = 0, most = 0;
  for (int i = 0; i < p->norder; i++) {
    int v = p->order[i];
    const struct kern_value *n = mma_at(p, v);
    int64_t here = mma_fragment_registers(p, p->shape[v]);
    if (p->folded[v]) continue;
    if (mma_accumulates(p, v) || p->section[v] == MMA_PRE) {
      lasting += here;
      continue;
    }
    for (int k = 0; k < n->nin && n->kind != KERN_PRODUCT; k++) here += mma_fragment_registers(p, mma_wanted(p, v, k)) / 2;
    const struct mma_product *x = mma_product_at(p, v);
    if (x) {
      if (x->into >= 0) here = 0;
      here += mma_keeps_left(p, x) ? 2 * p->mt * p->cols[x->sum_cols].nt / 2 : 4 * p->mt;
    }
    most = MAX(most, here);
  }
  return lasting + most + 40;
}

// Registers of copies of rows that begin anywhere: those of late tiles live beside the loop's products, others at most beside accumulators.
static int64_t copies(const struct mma_plan *p, bool late)
{
  int64_t all = 0;
  for (int i = 0; i < p->ntiles && !p->wg; i++) {
    const int64_t here = mma_anywhere_registers(p, &p->tile[i]);
    if (late && mma_anywhere_late(p, &p->tile[i])) all += here;
    if (!late) all = MAX(all, here);
  }
  return all;
}

// Shared memory through which parts of sums and maxima pass.
static int64_t combined(const struct mma_plan *p)
{
  int64_t bytes = 0;
  for (int i = 0; i < p->norder && p->wn > 1; i++) {
    int v = p->order[i];
    bool reduces = mma_reduces(mma_at(p, v)) && mma_gone(p, v);
    struct mma_shape in = reduces ? mma_wanted(p, v, 0) : (struct mma_shape){false, -1};
    const struct mma_product *x = mma_product_at(p, v);
    if ((in.cols >= 0 && p->cols[in.cols].split) || mma_partial(p, v) || (x && x->into < 0 && mma_sums_part(p, x)))
      bytes += mma_combine_bytes(p, p->shape[v]);
  }
  return bytes;
}

// ---- the queue ----

static bool same_room(const struct mma_tile *a, const struct mma_tile *b)
{
  return a->rows == b->rows && a->cols == b->cols && a->own_rows == b->own_rows && a->own_cols == b->own_cols && a->stride == b->stride &&
         a->swizzle[0] == b->swizzle[0] && a->swizzle[2] == b->swizzle[2];
}

// Whether one product reads the tile, as its right operand, and no side computation does.
static bool may_queue(const struct mma_plan *p, const struct mma_tile *t)
{
  int reads = 0;
  if (t->reads) return false;
  for (int i = 0; i < p->nproducts; i++) reads += p->product[i].b == t->value;
  for (int i = 0; i < p->nsides; i++)
    if (p->side[i].tile == t - p->tile) return false;
  return reads == 1;
}

// The most queued tiles, if there are more tiles than slots.
static void queue(struct mma_plan *p)
{
  const struct mma_tile *shape = NULL;
  p->queued = 0;
  for (int i = 0; i < p->ntiles; i++) p->tile[i].slot = -1, p->tile[i].buffer = p->tile[i].tensor;
  for (int i = 0; i < p->ntiles && p->stages > 1; i++) {
    int n = 0;
    for (int k = 0; k < p->ntiles; k++) n += same_room(&p->tile[i], &p->tile[k]) && may_queue(p, &p->tile[k]);
    if (n > p->queued) p->queued = n, shape = &p->tile[i];
  }
  if (p->queued <= p->stages) p->queued = 0;
  for (int i = 0; i < p->ntiles && p->queued; i++) {
    struct mma_tile *t = &p->tile[i];
    if (!same_room(t, shape) || !may_queue(p, t)) continue;
    t->slot = 0;
    for (int k = 0; k < p->ntiles; k++)
      t->slot += same_room(&p->tile[k], shape) && may_queue(p, &p->tile[k]) && (p->tile[k].due < t->due || (p->tile[k].due == t->due && k < i));
  }
  for (int i = 0; i < p->ntiles; i++)
    for (int k = 0; k < p->ntiles; k++)
      if (p->tile[i].slot >= 0 && p->tile[k].slot == 0) p->tile[i].buffer = p->tile[k].tensor;
}

bool mma_tail_fit(struct mma_plan *p, int way, int threads)
{
  p->tail = NULL, p->n = p->job->n;
  for (int i = 0; i < p->k.nsaves; i++) p->k.save[i].at.left = false;
  if (!p->job->tail || !threads) return true;
  if (way < 0 || way >= TAIL_WAYS || !p->tails[way]) return mma_refuse(p, "a tail that is not done so");
  if (!tail_fit(p->tails[way], threads)) return mma_refuse(p, "a tail that does not fit into registers");
  p->tail = p->tails[way], p->n = &p->tail->head, p->shared += tail_shared(p->tail);
  for (int i = 0; i < p->k.nsaves; i++) p->k.save[i].at.left = tail_keeps(p->tail, p->k.save[i].at.tensor);
  return true;
}

static double seconds(const void *plan)
{
  const struct mma_plan *p = plan;
  struct kernel_counts c;
  mma_count(p, NULL, &c);
  return kernel_time(&c, p->job->gpu, NULL);
}

bool mma_fit(struct mma_plan *p, const struct knobs *k)
{
  int64_t tiles = mma_block_rows(p) / 16;
  p->ahead = k->v[MMA_AHEAD], p->hold = k->v[MMA_HOLD], p->parts = 0;
  p->wm = k->v[MMA_WM], p->wn = k->v[MMA_WN], p->stages = k->v[MMA_STAGES];
  if (p->ahead < 0 || p->ahead > MIN(MMA_MOST_AHEAD, p->iterations) || k->v[MMA_HOLD] < 0 || k->v[MMA_HOLD] > 1 || p->wm < 1 || p->wn < 1 ||
      p->wm > 16 || p->wn > 16 || p->wm * p->wn > 16 || p->stages < 0 || p->stages > 8 || (p->iterations > 1 && p->stages < 2))
    return mma_refuse(p, "knobs out of range");
  if (p->wm > tiles) return mma_refuse(p, "%d warps for %lld tiles of rows", p->wm, (long long)tiles);
  if (p->cut && tiles % p->wm) return mma_refuse(p, "%lld tiles of rows for %d warps", (long long)tiles, p->wm);
  if (!mma_ragged_fits(p)) return false;
  p->mt = (int)((tiles + p->wm - 1) / p->wm), p->threads = 32 * p->wm * p->wn;
  if (!share_columns(p, k->v[MMA_BY])) return false;
  p->shared = p->registers = p->queued = 0;
  if (p->iterations == 1) queue(p);
  for (int i = 0; i < p->ntiles; i++) {
    const struct mma_tile *t = &p->tile[i];
    p->shared += t->slot > 0 ? 0 : t->rows * t->stride * 2 * (t->varying || t->slot == 0 ? p->stages : 1);
  }
  p->shared += combined(p);
  mma_side_fit(p);
  if (!mma_tail_fit(p, k->v[MMA_LAST], p->wg ? 0 : p->threads) || !mma_parts_fit(p, k->v[MMA_PARTS])) return false;
  p->registers = MAX(p->wg ? mma_live(p) + 24 : MIN(estimate(p), mma_live(p) + 32) + copies(p, true), p->registers);
  p->registers = MAX(p->registers, copies(p, false) + COPY_REGISTERS);
  if (p->shared > p->job->gpu->scratch) return mma_refuse(p, "%lld bytes of shared memory", (long long)p->shared);
  if (p->registers > 255 || p->registers * p->threads > p->job->gpu->registers)
    return mma_refuse(p, "about %lld registers a thread", (long long)p->registers);
  p->runs = false;
  if (!p->wg) mma_runs_choose(p, seconds, p);
  return true;
}

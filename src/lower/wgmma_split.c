// Blocks that share the sum of an item: whether they can, and what it costs. The blocks of a cluster take contiguous shares of the loop's iterations, so
// that few tiles with long sums keep all multiprocessors busy. Then each block finishes a part of the tile: the others write their accumulators of this
// part into its shared memory, and it adds them in the order of blocks. So results do not depend on which block is done first.
//
// A part is one of `split` equal slices of the columns, or, if what follows the loop needs whole rows, all of some warpgroups: block g % split finishes
// warpgroup g. wgmma_join.c has the text.
#include "lower/wgmma.h"

// Bytes a second that arrive in one multiprocessor from others: a guess between figures of published benchmarks. Not measured.
static const double ARRIVING = 3.5e10;

// Whether the loop has plain sums alone.
static bool may_split(struct mma_plan *p)
{
  for (int i = 0; i < p->norder; i++) {
    const int v = p->order[i];
    const struct kern_value *x = mma_at(p, v);
    if (mma_accumulates(p, v) && (x->kind != KERN_SUM || x->axes & p->k.loops)) return mma_refuse(p, "blocks of a cluster share plain sums only");
  }
  for (int i = 0; i < p->k.nsaves; i++)
    if (mma_at(p, p->k.save[i].value)->axes & p->k.loops) return mma_refuse(p, "blocks that share a loop store nothing in it");
  return true;
}

static bool follows_loop(const struct mma_plan *p, int v) { return p->section[v] == MMA_POST || p->section[v] == MMA_SENT; }

// ---- slices of columns ----

bool wgmma_is_sliced(const struct mma_plan *p, int cols)
{
  for (int i = 0; i < p->norder && cols >= 0; i++)
    if (mma_accumulates(p, p->order[i]) && p->shape[p->order[i]].cols == cols) return true;
  return false;
}

// Whether what follows the loop is done for each column alone, by operators that are computed there.
static bool columns_alone(const struct mma_plan *p)
{
  for (int i = 0; i < p->norder; i++) {
    const int v = p->order[i];
    const bool after = follows_loop(p, v) && !mma_accumulates(p, v);
    if (after && (mma_product_at(p, v) || (mma_reduces(mma_at(p, v)) && mma_gone(p, v)))) return false;
    if (!mma_accumulates(p, v) && p->section[v] == MMA_PRE && wgmma_is_sliced(p, p->shape[v].cols)) return false;
  }
  return true;
}

static bool in_slices(const struct wg_plan *w)
{
  const struct mma_plan *p = &w->p;
  for (int i = 0; i < p->norder; i++)
    if (mma_accumulates(p, p->order[i]) && p->shape[p->order[i]].cols >= 0 && p->cols[p->shape[p->order[i]].cols].nt % w->split) return false;
  for (int i = 0; i < p->k.nsaves; i++) {
    if (!wgmma_is_sliced(p, p->shape[p->k.save[i].value].cols)) return false;
    if (wgmma_sends(w, i) && w->store[i].box.chunks % (w->wide * w->split)) return false;
  }
  return columns_alone(p);
}

// Whether warpgroups that different blocks finish would have to combine columns.
static bool combines_columns(const struct mma_plan *p)
{
  for (int i = 0; i < p->norder; i++) {
    const int v = p->order[i];
    if (mma_accumulates(p, v) || !follows_loop(p, v) || !mma_reduces(mma_at(p, v)) || !mma_gone(p, v)) continue;
    const int cols = mma_wanted(p, v, 0).cols;
    if (cols >= 0 && p->cols[cols].split) return true;
  }
  return false;
}

// ---- the plan ----

int wgmma_cluster(const struct wg_plan *w) { return MAX(1, w->split) * wgmma_pair_size(w); }

int wgmma_own_groups(const struct wg_plan *w) { return w->slices > 1 ? w->groups : (w->groups + w->split - 1) / w->split; }

static int64_t bytes_in(const struct wg_plan *w)
{
  const struct mma_plan *p = &w->p;
  int64_t words = 0; // of a thread
  for (int i = 0; i < p->norder; i++) {
    const struct mma_shape s = p->shape[p->order[i]];
    if (mma_accumulates(p, p->order[i])) words += mma_fragment_registers(p, s) / (s.cols >= 0 ? w->slices : 1);
  }
  return 4ll * 128 * words * wgmma_own_groups(w) * (w->split - 1);
}

bool wgmma_split_fit(struct wg_plan *w, int split)
{
  struct mma_plan *p = &w->p;
  const struct target *gpu = p->job->gpu;
  w->split = split, w->slices = 1;
  if (!split) return true;
  if (split < 2 || split > WG_SPLIT_MOST || split & (split - 1)) return mma_refuse(p, "knobs out of range");
  if (!(gpu->can & CAN_CLUSTER) || gpu->cluster < wgmma_cluster(w)) return mma_refuse(p, "the target has no clusters of %d blocks", wgmma_cluster(w));
  if (p->job->tail || p->may_hide) return mma_refuse(p, "blocks do not share a loop with a tail or with hidden iterations");
  if (w->walks || w->first) return mma_refuse(p, "blocks that share a loop do not walk or chain products");
  if (w->any_end) return mma_refuse(p, "blocks that share a loop bring no matrices for its end");
  if (p->iterations < split || norm_only_loop(p->n->block) < 0) return mma_refuse(p, "%d blocks share one loop of as many iterations", split);
  if (!may_split(p)) return false;
  if (in_slices(w)) w->slices = split;
  if (w->slices == 1 && combines_columns(p)) return mma_refuse(p, "warpgroups of different blocks would add up columns");
  p->parts = split, w->blocks = w->items * split, p->shared += bytes_in(w);
  return gpu_blocks(gpu, w->blocks) == w->blocks || mma_refuse(p, "blocks that share a loop have one item each");
}

double wgmma_split_seconds(const struct wg_plan *w) { return w->split ? (double)bytes_in(w) / ARRIVING : 0; }

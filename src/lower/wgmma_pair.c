// Pairs of blocks that share tiles. Two blocks that differ along one grid axis read the same tiles of the loop if these do not change along it:
// products of other rows by the same columns, or heads of other queries with the same keys. As a cluster of two, each block copies one half of such a
// tile into the shared memory of both, so that L2 delivers it once. A stage is empty when the warpgroups of both blocks have read it, and full in
// each block when all its bytes have arrived there.
//
// If other blocks share the sum of each of the two items (wgmma_split.c), the cluster has a pair for each share of the iterations. Block number
// 2 * @rank + @half of the cluster is half @half of pair @rank.
#include "lower/wgmma.h"

// The dimension along which each piece of a box can be halved into its first and last rows; -1: none.
static int halved_dim(const struct box *b)
{
  int64_t rows = 1;
  int first = -1;
  for (int i = b->ndims - 1; i >= 0; i--) {
    if (b->dim[i].inner || b->dim[i].box == 1) continue;
    rows *= b->dim[i].box, first = i;
  }
  if (first < 0 || (b->dim[first].apart && !b->dim[first].clipped) || b->dim[first].ragged || b->dim[first].box % 2 || rows % 16) return -1;
  return first;
}

// Whether blocks along the axis read the same tile, and each can copy a half. Each block copies other tiles for itself.
static bool may_share(const struct wg_plan *w, int tile, int axis)
{
  const struct mma_tile *t = &w->p.tile[tile];
  return t->varying && !mma_changes(&w->p, t, axis) && (w->box[tile].chunks % 2 == 0 || halved_dim(&w->box[tile]) >= 0);
}

static double bytes_along(const struct wg_plan *w, int axis)
{
  const struct mma_plan *p = &w->p;
  double bytes = 0;
  for (int i = 0; i < p->ntiles; i++)
    if (may_share(w, i, axis)) bytes += (double)(p->tile[i].rows * p->tile[i].cols);
  return bytes;
}

// The axis along which most bytes are shared; -1: none.
static int best_axis(const struct wg_plan *w)
{
  const struct graph *b = w->p.n->block;
  int best = -1;
  for (int i = 0; i < b->ngrid; i++)
    if (b->grid[i] % 2 == 0 && bytes_along(w, i) > 0 && (best < 0 || bytes_along(w, i) > bytes_along(w, best))) best = i;
  return best;
}

bool wgmma_pair_fit(struct wg_plan *w, int pair)
{
  struct mma_plan *p = &w->p;
  const struct target *gpu = p->job->gpu;
  w->pair_axis = -1;
  if (pair < 0 || pair > 1) return mma_refuse(p, "knobs out of range");
  if (!pair) return true;
  if (!(gpu->can & CAN_MULTICAST) || gpu->cluster < 2) return mma_refuse(p, "the target has no pairs of blocks");
  if (p->job->tail || p->may_hide || p->queued) return mma_refuse(p, "blocks of a pair do not do the same iterations");
  int axis = best_axis(w);
  if (axis < 0 || w->blocks % 2) return mma_refuse(p, "no pairs of blocks that share tiles");
  for (int i = 0; i < p->ntiles; i++) w->shared[i] = may_share(w, i, axis);
  return w->pair_axis = axis, true;
}

int wgmma_pair_size(const struct wg_plan *w) { return w->pair_axis >= 0 ? 2 : 1; }

const char *wgmma_pair_peer(struct mma_kernel *k, const struct wg_plan *w, const char *rank, const char *half)
{
  if (w->pair_axis < 0) return rank;
  return w->split ? arena_printf(k->mem, "2 * %s + %s", rank, half) : half;
}

bool wgmma_shares(const struct wg_plan *w, int tile) { return w->pair_axis >= 0 && w->shared[tile]; }

// ---- emission ----

void wgmma_pair_names(struct mma_kernel *k, const struct wg_plan *w)
{
  const char *both = "3";
  if (w->pair_axis < 0) return;
  for (int i = 1; i < w->split; i++) both = arena_printf(k->mem, "@rank == %d ? %d : %s", i, 3 << 2 * i, both);
  text_line(k->t, "@half = @first %% 2");
  if (w->split) text_line(k->t, "@both = %s", both);
}

static void one_half(struct mma_kernel *k, const struct wg_plan *w, const char *to, const char *from, const char *barrier)
{
  text_line(k->t, "%s <- Move<tma.multicast, %s>(%s, %%%s)", to, w->split ? "@both" : "3", from, barrier);
}

// Copies this block's half of the tile into both blocks.
void wgmma_bring_half(struct mma_kernel *k, const struct wg_plan *w, const struct mma_tile *t, const char *stage, const char *it, const char *barrier)
{
  TEXT_SCOPE(k->t);
  const struct box *b = &w->box[t - k->p->tile];
  if (b->chunks % 2) {
    struct box half = *b;
    int d = halved_dim(b);
    half.dim[d].box /= 2, half.dim[d].parts = 2, half.dim[d].part = "@half";
    const char *width = "_", *chunk = "0";
    if (b->chunks > 1) {
      text_open(k->t, "each c:%lld", (long long)b->chunks);
      width = arena_printf(k->mem, "%lld", (long long)b->chunk), chunk = "c";
    }
    one_half(k, w,
             arena_printf(k->mem, "%%s%d[%s].tile([%lld, %s])[@half, %s]%s", t->buffer, stage, (long long)t->rows / 2, width, chunk,
                          box_shape(k->p, &half)),
             arena_printf(k->mem, "%%box%d%s", t->tensor, box_view(k->p, &half, it, chunk)), barrier);
    return;
  }
  text_open(k->t, "each c:%lld\n@piece = @half * %lld + c", (long long)b->chunks / 2, (long long)b->chunks / 2);
  one_half(k, w, arena_printf(k->mem, "%%s%d[%s].tile([_, %lld])[0, @piece]%s", t->buffer, stage, (long long)b->chunk, box_shape(k->p, b)),
           arena_printf(k->mem, "%%box%d%s", t->tensor, box_view(k->p, b, it, "@piece")), barrier);
}

// Waits for all threads of the cluster: barriers are initialized, or neither block will write to the other again.
void wgmma_pair_meet(struct mma_kernel *k) { text_line(k->t, "Sync<cluster.arrive>#t()\nSync<cluster.wait>#t()"); }

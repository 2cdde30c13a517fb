// Counts the work of a plan, as for mma.sync except for the copies by TMA.
#include "lower/count.h"
#include "lower/wgmma.h"

#include <math.h>

// ALONE: share of the rate of lanes that one warpgroup reaches; WHOLE: results of an item whose end takes as long as that of a larger one
static const double ALONE = 0.75, WHOLE = 128 * 128;

// TMA takes as long for a narrow row of a box as for a wide one.
static double boxed(const struct wg_plan *w)
{
  double rows = 0;
  for (int i = 0; i < w->p.ntiles; i++) {
    const struct mma_tile *t = &w->p.tile[i];
    rows += (t->varying ? (double)mma_parts_each(&w->p) : 1) * (double)(t->rows * w->box[i].chunks);
  }
  return rows;
}

// Bytes of a stage. If one tile serves both products of a chain, two stages are read at a time.
static double stage_bytes(const struct wg_plan *w)
{
  double bytes = 0;
  for (int i = 0; i < w->p.ntiles; i++)
    if (w->p.tile[i].varying) bytes += (double)(w->p.tile[i].rows * w->p.tile[i].cols * dtype_bytes(w->p.type));
  return bytes;
}

// Seconds of products in the waves that there are only because clusters do not reach all multiprocessors. The model has a multiprocessor's items
// from all of them.
static double more_waves(const struct wg_plan *w, const struct kernel_counts *c)
{
  const struct target *gpu = w->p.job->gpu;
  const double waves = ceil(c->blocks / kernel_reach(gpu, c->cluster)), counted = ceil(c->blocks / gpu->cores);
  return (waves - counted) * c->wgmma * gpu->cores / gpu->flops;
}

static double fed(const struct wg_plan *w)
{
  double bytes = 0;
  for (int i = 0; i < w->p.ntiles; i++) {
    const struct mma_tile *t = &w->p.tile[i];
    const double times = t->varying ? (double)mma_parts_each(&w->p) * (w->p.hides ? w->p.share : 1) : 1;
    const double each = times * (double)(t->rows * t->cols * dtype_bytes(w->p.type));
    bytes += (double)w->items * MAX(1, w->split) * each / (wgmma_shares(w, i) ? 2 : 1);
  }
  return bytes;
}

// Waits for matrices that lanes read after the loop: one for each piece of results.
static double late_loads(const struct wg_plan *w)
{
  double waits = 0;
  for (int v = 0, cols; v < w->p.k.nvalues; v++)
    if (wgmma_end_reads(&w->p, v, &cols)) waits += w->p.mt * (w->places ? fmax(1, 8.0 * w->p.cols[cols].nt / (double)w->store_chunk / w->slices) : 1);
  return waits;
}

static double results(const struct wg_plan *w)
{
  double most = 0;
  for (int i = 0; i < w->p.k.nsaves; i++) {
    const struct mma_shape s = w->p.shape[w->p.k.save[i].value];
    if (s.rows && s.cols >= 0) most = fmax(most, (double)mma_block_rows(&w->p) * (double)w->p.cols[s.cols].size);
  }
  return most;
}

void wgmma_count(const struct wg_plan *w, struct kernel_counts *c)
{
  bool *sent = NEWS(w->p.job->mem, bool, w->p.n->nsave + 1);
  for (int i = 0; i < w->p.n->nsave; i++) sent[i] = w->places && wgmma_sends(w, i);
  mma_count(&w->p, sent, c);
  if (w->divides) c->room = w->two ? 2 : 1; // blocks of a multiprocessor that have these registers
  c->blocks = (double)w->blocks, c->boxed = boxed(w), c->fed = fed(w), c->waits += late_loads(w),
  c->abreast = w->alternate ? fmin(1, results(w) / WHOLE) : 0;
  if (w->alternate || w->groups == 1) c->ends /= ALONE;
  if (w->first && w->rings == 1) c->flight = fmax(c->flight - stage_bytes(w), stage_bytes(w) / 4);
  // Products of f32 parts: warpgroups add up their sums while others multiply.
  c->overlap = w->p.wg_async || (w->p.job->exact && w->groups > 1) ? 2 : w->first ? 1 : 0;
  // Blocks of a pair wait for each other at both ends, about as long as a load takes.
  if (w->pair_axis >= 0) c->waits += c->blocks / c->items;
  if (w->split) c->cluster = wgmma_cluster(w), c->barriers += 2, c->tail = wgmma_split_seconds(w) + more_waves(w, c);
}

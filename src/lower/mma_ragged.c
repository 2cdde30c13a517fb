// Loops whose last iteration is shorter, such as a prime number of keys, 64 at a time. Its tiles have the full size. cp.async copies the last element
// again beyond the end, and TMA fills zeros. In registers, columns beyond the end are set to a neutral value before they are combined, as padding is
// (mma_pad.c). So a product may sum over them only if its left operand is in registers, or if TMA copies both operands.
#include "lower/mma.h"

static uint32_t letters(const struct mma_plan *p)
{
  return (p->n->ragged.all ? 1u << p->n->ragged.letter : 0) | (p->n->clipped.all ? 1u << p->n->clipped.letter : 0);
}

static uint32_t letter(const struct mma_plan *p) { return p->n->ragged.all ? 1u << p->n->ragged.letter : 0; }

bool mma_ragged(const struct mma_plan *p, int cols) { return cols >= 0 && p->n->ragged.all && p->cols[cols].has == letter(p); }

bool mma_ragged_rows(const struct mma_plan *p) { return p->n->ragged.all && p->row_letters == letter(p); }

int64_t mma_ragged_last(const struct mma_plan *p)
{
  int64_t step = p->n->extent[p->n->ragged.letter];
  return p->n->ragged.all - (p->iterations - 1) * step;
}

const char *mma_ragged_count(const struct mma_plan *p, int unit, const char *it)
{
  long long all = p->n->ragged.all / unit, step = p->n->extent[p->n->ragged.letter] / unit;
  return arena_printf(p->job->mem, "%lld - (%s) * %lld", all, it, step);
}

const char *mma_ragged_index(const struct mma_plan *p, const char *at, int unit, const char *it)
{
  return arena_printf(p->job->mem, "min(%s, %s - 1)", at, mma_ragged_count(p, unit, it));
}

static bool columns_alone(const struct mma_plan *p)
{
  for (int c = 0; c < p->ncols; c++)
    if (p->cols[c].has & letters(p) && p->cols[c].has & (p->cols[c].has - 1)) return false;
  return true;
}

// Whether a computed operand loads nothing beyond the last row. Its tile has all rows, but other tensors have not.
static bool rows_fit(const struct mma_plan *p, const struct mma_side *s)
{
  bool fit = true;
  for (int v = 0; v < p->k.nvalues && !mma_ragged_rows(s->plan); v++)
    fit &= !s->member[v] || !mma_loads(p, v) || p->k.v[v].at.index || p->tile_of[v] >= 0 || !(mma_has(p, v) & s->plan->row_letters & letters(p));
  return fit;
}

static bool tile_alone(const struct mma_plan *p, const struct lower_space *l)
{
  const uint32_t has = mma_list_has(l) & letters(p);
  return !has || space_size(l) == norm_extent(p->n, has);
}

bool mma_ragged_fits(struct mma_plan *p)
{
  if (!letters(p)) return true;
  if ((p->row_letters | p->batch_letters) & letters(p)) return mma_refuse(p, "the last iteration has fewer rows");
  bool alone = columns_alone(p);
  for (int i = 0; i < p->nsides; i++) alone &= columns_alone(p->side[i].plan) && rows_fit(p, &p->side[i]);
  for (int i = 0; i < p->ntiles; i++) alone &= tile_alone(p, &p->tile[i].out) && tile_alone(p, &p->tile[i].in);
  if (!alone) return mma_refuse(p, "columns of which the last iteration has fewer stand beside others");
  for (int i = 0; i < p->nproducts && !p->wg; i++)
    if (p->product[i].sum & letter(p) && p->tile_of[p->product[i].a] >= 0)
      return mma_refuse(p, "the last iteration sums fewer, and no operand is in registers");
  return true;
}

// ---- columns of which the last block has fewer ----

bool mma_clipped(const struct mma_plan *p, int cols) { return cols >= 0 && p->n->clipped.all && p->cols[cols].has == 1u << p->n->clipped.letter; }

const char *mma_clip_count(const struct mma_plan *p, int unit)
{
  const struct graph *b = p->n->block;
  long long all = p->n->clipped.all / unit, cols = p->n->extent[p->n->clipped.letter] / unit, below = 1;
  for (int i = 0; i < p->n->clipped.axis; i++) below *= b->grid[i];
  return arena_printf(p->job->mem, "%lld - @bid / %lld %% %lld * %lld", all, below, (long long)b->grid[p->n->clipped.axis], cols);
}

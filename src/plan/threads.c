// Assigns warps to products. Warps side by side along columns load the same rows of the left operand, and warps along rows the same right operand. So
// layouts of a number of warps differ in the bytes loaded from shared memory. They also differ in the work of the busiest warp if tiles do not divide
// evenly. There are few layouts, so all are evaluated.
#include "plan/passes.h"

enum { TILE_ROWS = 16, TILE_COLS = 8, STEP = 16, HALF = 2, SINGLE = 4 }; // mma.m16n8k16; bytes

static int64_t up(int64_t n, int64_t by) { return (n + by - 1) / by; }

// Tiles of rows: for each index of the batch that right operands have, the rows padded to whole tiles.
static int64_t row_tiles(const struct norm *n, const struct chains *c)
{
  uint32_t batch = 0;
  for (int i = 0; i < c->nproducts; i++) batch |= c->product[i].batch & n->t[c->product[i].b].has;
  return norm_extent(n, batch) * up(norm_extent(n, c->rows & ~batch), TILE_ROWS);
}

struct warp_layout warp_cost(const struct norm *n, const struct chains *c, int rows, int cols, bool sums)
{
  struct warp_layout w = {rows, cols, sums, 0, 0};
  int64_t own = up(row_tiles(n, c), rows);
  for (int i = 0; i < c->nproducts; i++) {
    const struct chain_product *x = &c->product[i];
    int64_t wide = up(norm_extent(n, x->cols), TILE_COLS), steps = up(norm_extent(n, x->sum), STEP);
    int64_t own_cols = sums ? wide : up(wide, cols), own_steps = sums ? up(steps, cols) : steps;
    bool left = n->iter_of[x->a] >= 0;
    w.calls += own * own_cols * own_steps;
    w.volume += rows * cols * HALF * ((left ? own * TILE_ROWS * own_steps * STEP : 0) + own_cols * TILE_COLS * own_steps * STEP);
    if (sums && cols > 1) w.volume += 2ll * rows * cols * SINGLE * own * TILE_ROWS * wide * TILE_COLS;
  }
  return w;
}

static bool better(const struct warp_layout *a, const struct warp_layout *b)
{
  if (a->calls != b->calls) return a->calls < b->calls;
  return a->volume < b->volume;
}

static bool same(const struct warp_layout *a, const struct warp_layout *b) { return a->rows == b->rows && a->cols == b->cols && a->sums == b->sums; }

static void add(struct warp_layout *out, int *count, const struct warp_layout *w)
{
  for (int i = 0; i < *count; i++)
    if (same(&out[i], w)) return;
  if (*count < WARP_LAYOUTS) out[(*count)++] = *w;
}

// Neighbours: half as many warps along one side and twice as many along the other, or the same with sums divided.
static bool beside(const struct warp_layout *a, const struct warp_layout *b)
{
  if (a->rows * a->cols != b->rows * b->cols) return false;
  return a->rows == b->rows || a->rows == 2 * b->rows || 2 * a->rows == b->rows;
}

int plan_threads(const struct norm *n, const struct chains *c, struct warp_layout out[WARP_LAYOUTS])
{
  struct warp_layout all[WARP_LAYOUTS];
  int64_t tiles = row_tiles(n, c);
  int count = 0, listed = 0, firsts;
  for (int rows = 1; rows <= WARPS_MOST && rows <= tiles; rows *= 2)
    for (int cols = 1; rows * cols <= WARPS_MOST && cols <= WARP_COLUMNS; cols *= 2)
      for (int sums = 0; sums < (cols > 1 ? 2 : 1) && count < WARP_LAYOUTS; sums++) {
        struct warp_layout w = warp_cost(n, c, rows, cols, sums);
        int at = count++;
        for (; at > 0 && better(&w, &all[at - 1]); at--) all[at] = all[at - 1];
        all[at] = w;
      }
  for (int warps = WARPS_MOST; warps; warps /= 2)
    for (int i = 0, found = 0; i < count && !found; i++)
      if (all[i].rows * all[i].cols == warps) add(out, &listed, &all[i]), found = 1;
  firsts = listed;
  for (int k = 0; k < firsts; k++)
    for (int i = 0; i < count; i++)
      if (beside(&all[i], &out[k])) add(out, &listed, &all[i]);
  for (int i = 0; i < count; i++) add(out, &listed, &all[i]);
  return listed;
}

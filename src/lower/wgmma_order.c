// The order of blocks. Blocks that read the same tiles in their loop run one after another or at the same time, so that later ones find them in the
// L2 cache. Grid axes along which no tile of the loop changes are the fastest digits, and those along which all change are the slowest. Between them
// are two axes if the loop multiplies rows by columns. Blocks that run at a time then form a rectangle. Its width minimizes the bytes read, unless L2
// holds all tiles along the first axis. mma_late.c has the order of blocks with different numbers of iterations.
#include "lower/wgmma.h"

enum wgmma_along { ALONG_NONE, ALONG_SOME, ALONG_ALL }; // which tiles of the loop change along an axis

static enum wgmma_along along(const struct wg_plan *w, int axis)
{
  const struct mma_plan *p = &w->p;
  int varying = 0, changing = 0;
  for (int i = 0; i < p->ntiles; i++) {
    varying += p->tile[i].varying;
    changing += p->tile[i].varying && mma_changes(p, &p->tile[i], axis);
  }
  return !changing ? varying ? ALONG_NONE : ALONG_ALL : changing < varying ? ALONG_SOME : ALONG_ALL;
}

struct wgmma_order {
  int64_t extent[GRID_AXES], stride[GRID_AXES]; // of axes, in units of pairs if blocks are paired; in numbers of blocks
  int band[2];                                  // the two axes of a rectangle, the faster one first; -1: none
  int64_t wide;                                 // width of the rectangle along the first, in blocks
};

// Elements of the loop's tiles that change along the axis.
static double elements_along(const struct mma_plan *p, int axis)
{
  double elements = 0;
  for (int i = 0; i < p->ntiles; i++)
    if (p->tile[i].varying && mma_changes(p, &p->tile[i], axis)) elements += (double)(p->tile[i].rows * p->tile[i].cols);
  return elements;
}

// The same for one block's reads, or those of a pair.
static double read_along(const struct wg_plan *w, int axis) { return elements_along(&w->p, axis) * (axis == w->pair_axis ? 2 : 1); }

static int64_t widest(const struct wg_plan *w, const struct wgmma_order *o)
{
  int64_t at_once = MIN(w->blocks, w->p.job->gpu->cores) / wgmma_cluster(w), best = 1;
  double first = read_along(w, o->band[0]), second = read_along(w, o->band[1]), least = 0;
  for (int64_t n = 1; n <= o->extent[o->band[0]]; n++) {
    double read = (double)n * first + (double)((at_once + n - 1) / n) * second;
    if (n == 1 || read < least) least = read, best = n;
  }
  return best;
}

// Whether all tiles along one axis stay in the L2 cache while blocks go along the other. Then each is read from memory once.
static bool stays_in_l2(const struct wg_plan *w, int axis)
{
  const struct mma_plan *p = &w->p;
  const int64_t each = dtype_bytes(p->type) * p->iterations * p->n->block->grid[axis];
  return elements_along(p, axis) * (double)each <= 0.75 * (double)p->job->gpu->l2;
}

static struct wgmma_order order_of(const struct wg_plan *w)
{
  const struct graph *b = w->p.n->block;
  struct wgmma_order o = {.band = {-1, -1}};
  int some = 0;
  for (int64_t i = 0, below = 1; i < b->ngrid; below *= b->grid[i++]) {
    int pair = i == w->pair_axis ? 2 : 1;
    o.extent[i] = b->grid[i] / pair, o.stride[i] = below * pair;
    if (along(w, (int)i) != ALONG_SOME || o.extent[i] == 1) continue;
    if (some < 2) o.band[some] = (int)i;
    some++;
  }
  if (some == 2) o.wide = stays_in_l2(w, o.band[0]) ? o.extent[o.band[0]] : widest(w, &o);
  if (some != 2 || o.wide == o.extent[o.band[0]]) o.band[0] = o.band[1] = -1;
  return o;
}

static void add_axes_along(const struct wg_plan *w, const struct wgmma_order *o, enum wgmma_along which, struct lower_walk *walk)
{
  for (int i = w->p.n->block->ngrid - 1; i >= 0; i--)
    if (along(w, i) == which && i != o->band[0] && i != o->band[1]) walk_add(walk, o->extent[i], o->stride[i]);
}

static int64_t extent_of(const struct lower_walk *w)
{
  int64_t n = 1;
  for (int i = 0; i < w->n; i++) n *= w->extent[i];
  return n;
}

// The coordinates of number @cell in rectangles that cover both axes; the last rectangle may be narrower.
static void band_text(struct mma_kernel *k, const struct wgmma_order *o, const char *cell, struct str *s)
{
  long long first = o->extent[o->band[0]], second = o->extent[o->band[1]], wide = o->wide, all = wide * second;
  const char *width = arena_printf(k->mem, "%lld", wide);
  text_line(k->t, "@cell = %s", cell);
  if (first % wide) text_line(k->t, "@wide = @cell < %lld ? %lld : %lld", first / wide * all, wide, first % wide), width = "@wide";
  str_add(s, " + (@cell / %lld * %lld + @cell %% %lld %% %s) * %lld", all, wide, all, width, (long long)o->stride[o->band[0]]);
  str_add(s, " + @cell %% %lld / %s * %lld", all, width, (long long)o->stride[o->band[1]]);
}

void wgmma_item(struct mma_kernel *k, const struct wg_plan *w, const char *item)
{
  struct wgmma_order o = order_of(w);
  struct lower_walk inner = {0}, outer = {0};
  struct str s = {0};
  const char *at = w->pair_axis >= 0 ? arena_printf(k->mem, "%s / 2", item) : item;
  if (w->pair_axis >= 0) str_add(&s, " + @half * %lld", (long long)o.stride[w->pair_axis] / 2);
  if (w->p.hides && w->p.late >= 0) {
    mma_late_text(k, o.extent, o.stride, at, &s);
  } else if (o.band[0] < 0) { // slowest first
    add_axes_along(w, &o, ALONG_ALL, &outer), add_axes_along(w, &o, ALONG_SOME, &outer), add_axes_along(w, &o, ALONG_NONE, &outer);
    mma_walk_text(&outer, at, &s);
  } else {
    add_axes_along(w, &o, ALONG_NONE, &inner), add_axes_along(w, &o, ALONG_ALL, &outer);
    long long within = extent_of(&inner), cells = o.extent[o.band[0]] * o.extent[o.band[1]];
    if (inner.n) mma_walk_text(&inner, arena_printf(k->mem, "%s %% %lld", at, within), &s);
    const char *cell = within > 1 ? arena_printf(k->mem, "%s / %lld", at, within) : at;
    band_text(k, &o, outer.n ? arena_printf(k->mem, "%s %% %lld", cell, cells) : cell, &s);
    if (outer.n) mma_walk_text(&outer, arena_printf(k->mem, "%s / %lld", at, within * cells), &s);
  }
  text_line(k->t, "@bid = 0%s", str_text(&s));
  str_free(&s);
}

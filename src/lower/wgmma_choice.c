// Settings of the knobs that are worth trying.
#include "lower/count.h"
#include "lower/wgmma.h"

#include <string.h>

// Persistent blocks need more items than blocks. There are two for each multiprocessor only where it has room for them.
static bool fits_so(struct wg_plan *w, const struct knobs *k, char why[160])
{
  char other[160];
  w->p.why = *why ? other : why; // the first reason is kept
  return wgmma_fit(w, k) && (!k->v[WG_BLOCKS] || (w->walks && (w->two || k->v[WG_BLOCKS] <= w->p.job->gpu->cores)));
}

// Whether the previous setting is the same except for how results are stored.
static bool only_stores_differ(const struct knobs *before, const struct knobs *k)
{
  struct knobs x = *k;
  x.v[WG_STORE] = before->v[WG_STORE];
  return !memcmp(before, &x, sizeof x);
}

static int add(const struct wg_plan *w, const struct knobs *k, int n, struct knobs *out)
{
  if (w->p.job->counts) wgmma_count(w, &w->p.job->counts[n]);
  out[n] = *k;
  return n + 1;
}

static int add_tails(struct wg_plan *w, struct knobs k, int n, int most, struct knobs *out, char why[160])
{
  for (int last = 0; last < TAIL_WAYS && n < most; last++) {
    k.v[WG_LAST] = last;
    if (fits_so(w, &k, why)) n = add(w, &k, n, out);
  }
  return n;
}

// The most places for pieces of results that fit. No places is a separate way only for blocks of one item: a persistent block overlaps stores with
// its next item.
static int add_stores(struct wg_plan *w, struct knobs k, int n, int most, struct knobs *out, char why[160])
{
  if (w->p.job->tail) return add_tails(w, k, n, most, out, why);
  for (int store = 2; store >= 0 && n < most; store--) {
    k.v[WG_STORE] = store;
    if (n && only_stores_differ(&out[n - 1], &k) && (store || k.v[WG_BLOCKS])) continue;
    if (fits_so(w, &k, why) && (k.v[WG_STAGES] == 2 || w->p.iterations > 1 || w->p.queued)) n = add(w, &k, n, out);
  }
  return n;
}

struct wgmma_way { // knobs that many settings share
  int groups, wide, brought;
  struct norm_retile to;
};

static struct knobs knobs_of(struct wgmma_way y, int stages, int blocks)
{
  return (struct knobs){{[WG_GROUPS] = y.groups,
                         [WG_STAGES] = stages,
                         [WG_BLOCKS] = blocks,
                         [WG_ROWS] = (int)y.to.rows,
                         [WG_STEP] = (int)y.to.step,
                         [WG_WIDE] = y.wide,
                         [WG_BROUGHT] = y.brought,
                         [WG_COLS] = (int)y.to.cols}};
}

static bool chain_fits(struct wg_plan *w, struct wgmma_way y)
{
  char ignored[160] = "";
  struct knobs k = knobs_of(y, 2, 0);
  k.v[WG_CHAIN] = WG_CHAINED;
  return w->p.iterations > 1 && fits_so(w, &k, ignored);
}

static int most_blocks(const struct wg_plan *w, struct wgmma_way y) { return (y.groups == 1 ? 2 : 1) * w->p.job->gpu->cores; }

// Stages: for chained products the most of four that fit, and two; otherwise two.
static int add_chains(struct wg_plan *w, struct wgmma_way y, int n, int most, struct knobs *out, char why[160])
{
  int first = n, processors = w->p.job->gpu->cores;
  for (int stages = 4; stages >= 2; stages--) {
    if ((stages > w->p.iterations || n > first) && stages > 2) continue;
    for (int chain = WG_TURNS; chain >= (stages > 2 ? WG_CHAINED : WG_SINGLE); chain--)
      for (int blocks = 0; blocks <= most_blocks(w, y); blocks += processors)
        for (int poly = 0; poly <= (chain ? WG_SHARE : 0); poly += WG_SHARE) {
          struct knobs k = knobs_of(y, stages, blocks);
          k.v[WG_CHAIN] = chain, k.v[WG_POLY] = poly;
          n = add_stores(w, k, n, most, out, why);
        }
  }
  return n;
}

// Pairs of blocks with the most stages that fit, persistent and not.
static int add_pairs(struct wg_plan *w, struct wgmma_way y, int n, int most, struct knobs *out)
{
  char ignored[160] = "";
  const int processors = w->p.job->gpu->cores, chain = chain_fits(w, y) ? WG_CHAINED : WG_SINGLE;
  for (int blocks = processors; blocks >= 0; blocks -= processors)
    for (int stages = 8, before = n; stages >= 2 && n == before; stages--) {
      struct knobs k = knobs_of(y, stages, blocks);
      k.v[WG_PAIR] = 1, k.v[WG_CHAIN] = chain;
      if (stages <= w->p.iterations) n = add_stores(w, k, n, most, out, ignored);
    }
  return n;
}

// Blocks of a cluster share an item where multiprocessors have less to do then: by waves of whole blocks, or of the shares of one. Larger clusters do
// not reach all multiprocessors.
static bool pays(const struct lower_job *j, int split, int pair)
{
  const int64_t processors = j->gpu->cores, reached = (int64_t)(kernel_reach(j->gpu, split * (pair + 1)) + 0.5), items = graph_blocks(j->n->block);
  const int64_t whole = (items + processors - 1) / processors, shares = (items * split + reached - 1) / reached;
  return shares < whole * split;
}

// With the most stages that fit. A ring of two releases one when the product that reads the other has begun, so each load would be waited for.
enum { SPLIT_STAGES = 3 };
static int add_splits(struct wg_plan *w, struct wgmma_way y, int pair, int n, int most, struct knobs *out)
{
  char ignored[160] = "";
  for (int split = 2; split <= WG_SPLIT_MOST; split *= 2)
    for (int stages = 8, before = n; stages >= SPLIT_STAGES && n == before && pays(w->p.job, split, pair); stages--) {
      struct knobs k = knobs_of(y, stages, 0);
      k.v[WG_SPLIT] = split, k.v[WG_PAIR] = pair;
      if (stages <= MAX(SPLIT_STAGES, w->p.iterations / split)) n = add_stores(w, k, n, most, out, ignored);
    }
  return n;
}

// Warpgroups that take items alternately. Results go by TMA if they can: with two places for their pieces, and with one place if more stages fit then.
static int add_turns(struct wg_plan *w, struct wgmma_way y, int n, int most, struct knobs *out)
{
  char ignored[160] = "";
  const int places = w->store_chunk ? 2 : 0;
  for (int pair = 0; pair < 2; pair++) {
    struct knobs k = knobs_of(y, 8, w->p.job->gpu->cores);
    k.v[WG_ALTERNATE] = 1, k.v[WG_PAIR] = pair;
    for (int store = places, stages = 2; store >= places / 2; store--, stages = k.v[WG_STAGES]) {
      k.v[WG_STORE] = store, k.v[WG_STAGES] = 8;
      while (k.v[WG_STAGES] > stages && !fits_so(w, &k, ignored)) k.v[WG_STAGES]--;
      if (n < most && k.v[WG_STAGES] > stages) n = add(w, &k, n, out);
    }
  }
  return n;
}

static int add_groups(struct wg_plan *w, struct wgmma_way y, int n, int most, struct knobs *out, char why[160])
{
  const int64_t iterations = w->p.iterations;
  const int processors = w->p.job->gpu->cores, before = n;
  if (chain_fits(w, y)) return add_pairs(w, y, add_chains(w, y, n, most, out, why), most, out);
  for (int stages = 8; stages >= 2; stages--)
    for (int blocks = 0; blocks <= most_blocks(w, y); blocks += processors) {
      // Without a loop, the code of all layers takes long to compile, so few settings are tried.
      if (iterations == 1 && stages != 4 && (stages != 2 || n > before)) continue;
      bool many = (iterations > 1 && stages > iterations) || ((y.to.rows || y.to.step) && stages > 4 && stages % 2);
      if (!many || stages == 2) n = add_stores(w, knobs_of(y, stages, blocks), n, most, out, why);
    }
  if (iterations == 1) return n;
  n = add_pairs(w, y, n, most, out);
  if (y.groups > 1 && y.groups < WG_MOST && !y.wide) n = add_turns(w, y, n, most, out);
  for (int pair = 0; pair < 2; pair++) n = add_splits(w, y, pair, n, most, out);
  return n;
}

// The least number of warpgroups that share columns, as the widest result needs; 0: one has them all.
static int least_wide(int64_t columns)
{
  int wide = 1;
  while (wide < WG_MOST && columns > wide * WG_COLUMNS) wide *= 2;
  return wide > 1 ? wide : 0;
}

// The most of them: a warpgroup's rows must leave the others some rows.
static int most_wide(const struct wg_plan *w, int64_t columns)
{
  return columns > WG_COLUMNS ? WG_MOST : mma_block_rows(&w->p) == 64 && columns >= WG_COLUMNS / 2 ? 2 : 0;
}

static int64_t widest_columns(const struct wg_plan *w)
{
  int64_t columns = 0;
  for (int i = 0; i < w->p.nproducts; i++) columns = MAX(columns, w->p.cols[w->p.product[i].out_cols].padded);
  return columns;
}

static int add_ways(struct wg_plan *w, struct wgmma_way y, int n, int most, struct knobs *out, char why[160])
{
  int64_t columns = widest_columns(w);
  char other[160];
  for (y.wide = least_wide(columns); y.wide <= most_wide(w, columns); y.wide = MAX(2 * y.wide, 2))
    for (y.groups = WG_MOST; y.groups >= MAX(y.wide, 1); y.groups--) { // the reason of the fewest warpgroups is the most useful one
      bool fewest = y.groups == MAX(y.wide, 1);
      *other = 0;
      if (!y.wide || y.groups % y.wide == 0) n = add_groups(w, y, n, most, out, fewest ? why : other);
    }
  return n;
}

enum { FEWEST_COLUMNS = 32 };

// The least number of columns to try: 128, or fewer if blocks of 128 would leave half of the multiprocessors idle.
static int64_t least_columns(const struct lower_job *j, struct norm_retile to)
{
  char ignored[160];
  to.cols = WG_COLUMNS / 2;
  const struct lower_job *cut = mma_retile(j, to, ignored);
  int64_t blocks = cut ? graph_blocks(cut->n->block) : j->gpu->cores;
  for (; 2 * blocks <= j->gpu->cores && to.cols > FEWEST_COLUMNS; blocks *= 2) to.cols /= 2;
  return to.cols;
}

// If sharing a sum pays, but not by pairs, since clusters of four do not reach all multiprocessors: the least number of columns for which these pay, in
// whole boxes; 0: none.
enum { WIDE_BOX = 64 };
static int64_t pair_columns(const struct lower_job *j, struct norm_retile to, int64_t own)
{
  char ignored[160];
  const struct lower_job *cut = mma_retile(j, to, ignored);
  if (!own || !cut || !pays(cut, 2, 0) || pays(cut, 2, 1)) return 0;
  for (to.cols = own / WIDE_BOX * WIDE_BOX + WIDE_BOX; to.cols <= WG_COLUMNS; to.cols += WIDE_BOX)
    if ((cut = mma_retile(j, to, ignored)) && pays(cut, 2, 1)) return to.cols;
  return 0;
}

static int add_pairs_of(struct wg_plan *w, struct wgmma_way y, int n, int most, struct knobs *out)
{
  for (y.groups = 2; y.groups >= 1; y.groups--) n = add_splits(w, y, 1, n, most, out);
  return n;
}

int wgmma_choices(const struct lower_job *j, int most, struct knobs *out, char why[160])
{
  struct wg_plan *w = NEW(j->mem, struct wg_plan);
  struct norm_retile to[MMA_CUTS];
  char other[160];
  int n = 0, cuts = mma_cuts(j, 64, to, why);
  // Other widths are tried if 128 does not divide the columns, or if blocks of fewer columns are still more than the multiprocessors.
  int64_t own = 0;
  const int64_t all = j->n->passes->chains.nproducts ? norm_clip_all(j->n, &own) : 0;
  const bool small = own < WG_COLUMNS / 2 && graph_blocks(j->n->block) > j->gpu->cores, retile = all % 128 || small;
  for (int i = 0; i < cuts; i++) {
    bool bring = true;
    for (int brought = 0; brought < 2 && bring; brought++) {
      bring = false;
      if (wgmma_plan(w, mma_retile(j, to[i], other), brought, *why || brought ? other : why)) {
        bring |= wgmma_may_bring(w);
        n = add_ways(w, (struct wgmma_way){.brought = brought, .to = to[i]}, n, most, out, why);
      }
      for (to[i].cols = least_columns(j, to[i]); retile && to[i].cols < all && to[i].cols <= WG_COLUMNS; to[i].cols *= 2)
        if (wgmma_plan(w, mma_retile(j, to[i], other), brought, other)) {
          bring |= wgmma_may_bring(w);
          n = add_ways(w, (struct wgmma_way){.brought = brought, .to = to[i]}, n, most, out, other);
        }
      to[i].cols = w->p.iterations > 1 && !brought ? pair_columns(j, (struct norm_retile){to[i].rows, to[i].step, 0}, own) : 0;
      if (to[i].cols && wgmma_plan(w, mma_retile(j, to[i], other), brought, other))
        n = add_pairs_of(w, (struct wgmma_way){.brought = brought, .to = to[i]}, n, most, out);
      to[i].cols = 0;
    }
  }
  return n;
}

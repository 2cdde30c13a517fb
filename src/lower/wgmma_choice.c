// Settings of the knobs that are worth trying.
#include "lower/count.h"
#include "lower/wgmma.h"

#include <string.h>

// Blocks that walk are only where there are more items than they.
static bool fits_so(struct wg_plan *w, const struct knobs *k, char why[160])
{
  char other[160];
  w->p.why = *why ? other : why; // the first reason is kept
  return wgmma_fit(w, k) && (!k->v[WG_BLOCKS] || w->walks);
}

// Is the choice before the same but for the way of results?
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

// The most places for pieces of results that fit; none is another way only for blocks that do not walk, which send nothing while
// they go on.
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

static struct knobs knobs_of(int groups, int stages, int blocks, struct mma_anew to)
{
  return (struct knobs){{[WG_GROUPS] = groups, [WG_STAGES] = stages, [WG_BLOCKS] = blocks, [WG_ROWS] = (int)to.rows, [WG_STEP] = (int)to.step}};
}

static bool chain_fits(struct wg_plan *w, int groups, struct mma_anew to)
{
  char ignored[160] = "";
  struct knobs k = knobs_of(groups, 2, 0, to);
  k.v[WG_CHAIN] = WG_CHAINED;
  return w->p.iterations > 1 && fits_so(w, &k, ignored);
}

// Where products chain, the most of four stages that fit and two, and without a chain two.
static int add_chains(struct wg_plan *w, int groups, struct mma_anew to, int n, int most, struct knobs *out, char why[160])
{
  int first = n, processors = w->p.job->gpu->processors;
  for (int stages = 4; stages >= 2; stages--) {
    if ((stages > w->p.iterations || n > first) && stages > 2) continue;
    for (int chain = WG_TURNS; chain >= (stages > 2 ? WG_CHAINED : WG_SINGLE); chain--)
      for (int blocks = 0; blocks <= processors; blocks += processors)
        for (int poly = 0; poly <= (chain ? WG_SHARE : 0); poly += WG_SHARE) {
          struct knobs k = knobs_of(groups, stages, blocks, to);
          k.v[WG_CHAIN] = chain, k.v[WG_POLY] = poly;
          n = add_stores(w, k, n, most, out, why);
        }
  }
  return n;
}

// Pairs of blocks with the most stages that fit; blocks that walk, and blocks that do not.
static int add_pairs(struct wg_plan *w, int groups, struct mma_anew to, int n, int most, struct knobs *out)
{
  char ignored[160] = "";
  const int processors = w->p.job->gpu->processors, chain = chain_fits(w, groups, to) ? WG_CHAINED : WG_SINGLE;
  for (int blocks = processors; blocks >= 0; blocks -= processors)
    for (int stages = 8, before = n; stages >= 2 && n == before; stages--) {
      struct knobs k = knobs_of(groups, stages, blocks, to);
      k.v[WG_PAIR] = 1, k.v[WG_CHAIN] = chain;
      if (stages <= w->p.iterations) n = add_stores(w, k, n, most, out, ignored);
    }
  return n;
}

static int choose_rest(struct wg_plan *w, struct mma_anew to, int n, int most, struct knobs *out, char why[160])
{
  const int64_t iterations = w->p.iterations;
  const int processors = w->p.job->gpu->processors;
  for (int groups = WG_MOST; groups >= 1; groups--) {
    if (chain_fits(w, groups, to)) {
      n = add_chains(w, groups, to, n, most, out, why);
      n = add_pairs(w, groups, to, n, most, out);
      continue;
    }
    const int before = n; // without a loop the code is all layers one after the other, and takes long to compile: few ways
    for (int stages = 8; stages >= 2; stages--)
      for (int blocks = 0; blocks <= processors; blocks += processors) {
        if (iterations == 1 && stages != 4 && (stages != 2 || n > before)) continue;
        bool many = (iterations > 1 && stages > iterations) || ((to.rows || to.step) && stages > 4 && stages % 2);
        if (!many || stages == 2) n = add_stores(w, knobs_of(groups, stages, blocks, to), n, most, out, why);
      }
    if (iterations > 1) n = add_pairs(w, groups, to, n, most, out);
  }
  return n;
}

int wgmma_choices(const struct lower_job *j, int most, struct knobs *out, char why[160])
{
  struct wg_plan *w = NEW(j->mem, struct wg_plan);
  struct mma_anew to[MMA_CUTS];
  char other[160];
  int n = 0, cuts = mma_cuts(j, 64, to, why);
  for (int i = 0; i < cuts; i++)
    if (wgmma_plan(w, mma_anew(j, to[i], other), *why ? other : why)) n = choose_rest(w, to[i], n, most, out, why);
  return n;
}

// Packs memory blocks with lifetimes as tightly as possible: dynamic storage allocation, which is NP-hard. Greedy placements differ in the order of
// blocks and in the choice of gap; the best of several is kept, and few blocks are searched exhaustively. Mirage plans memory in the same way (paper,
// section 6).
#include "plan/plan.h"

enum { EXACT = 8, SHUFFLES = 64 };
// Greedy placements. The first three take the largest block first, and put it into the lowest gap, the smallest that is large enough, or the highest.
// FIT_RANDOM is the best of SHUFFLES random orders into the lowest gap.
enum plan_fit { FIT_FIRST, FIT_BEST, FIT_LAST, FIT_RANDOM };

struct fit {
  int n;
  struct plan_piece *p; // offset -1: not placed yet
  int64_t best;         // total of the best placement so far; -1: none
  int64_t *at;          // its offsets
  int64_t bound;        // lower bound of any placement
};

static bool meet(const struct plan_piece *a, const struct plan_piece *b) { return a->from <= b->to && b->from <= a->to; }

// The lowest offset from `at` on at which x overlaps no placed block with an overlapping lifetime.
static int64_t lowest(const struct fit *f, const struct plan_piece *x, int64_t at)
{
  for (bool moved = true; moved;) {
    moved = false;
    for (int i = 0; i < f->n; i++) {
      const struct plan_piece *o = &f->p[i];
      if (o->offset < 0 || !meet(o, x) || at >= o->offset + o->bytes || o->offset >= at + x->bytes) continue;
      at = o->offset + o->bytes, moved = true;
    }
  }
  return at;
}

// End of the free space at `at`: the next block that conflicts with x; INT64_MAX: none.
static int64_t gap_end(const struct fit *f, const struct plan_piece *x, int64_t at)
{
  int64_t end = INT64_MAX;
  for (int i = 0; i < f->n; i++)
    if (f->p[i].offset >= at && f->p[i].offset < end && meet(&f->p[i], x)) end = f->p[i].offset;
  return end;
}

// Gaps begin at 0 and at the ends of blocks. First fit takes the lowest, last fit the highest finite one, best fit the smallest.
static int64_t place(const struct fit *f, const struct plan_piece *x, enum plan_fit how)
{
  int64_t found = lowest(f, x, 0), size = gap_end(f, x, found);
  if (how == FIT_FIRST || size == INT64_MAX) return found;
  for (int i = 0; i < f->n; i++) {
    if (f->p[i].offset < 0 || !meet(&f->p[i], x)) continue;
    int64_t at = lowest(f, x, f->p[i].offset + f->p[i].bytes), end = gap_end(f, x, at);
    if (end == INT64_MAX) continue;
    if (how == FIT_BEST ? end - at < size : at > found) found = at, size = end - at;
  }
  return found;
}

static void keep(struct fit *f, int64_t total)
{
  if (f->best >= 0 && total >= f->best) return;
  f->best = total;
  for (int i = 0; i < f->n; i++) f->at[i] = f->p[i].offset;
}

static void place_all(struct fit *f, const int *order, enum plan_fit how)
{
  int64_t total = 0;
  for (int k = 0; k < f->n; k++) f->p[k].offset = -1;
  for (int k = 0; k < f->n; k++) {
    struct plan_piece *x = &f->p[order[k]];
    x->offset = place(f, x, how);
    total = MAX(total, x->offset + x->bytes);
  }
  keep(f, total);
  for (int k = 0; k < f->n; k++) f->p[k].offset = -1;
}

// Tries all orders of the blocks, each put at its lowest offset. One of them gives the least total: that of ascending offsets in a best placement.
static void search(struct fit *f, int placed, int64_t total)
{
  if (f->best >= 0 && total >= f->best) return;
  if (placed == f->n) keep(f, total);
  for (int i = 0; i < f->n && (f->best < 0 || f->best > f->bound); i++) {
    struct plan_piece *x = &f->p[i];
    if (x->offset >= 0) continue;
    x->offset = lowest(f, x, 0);
    search(f, placed + 1, MAX(total, x->offset + x->bytes));
    x->offset = -1;
  }
}

// A lower bound: the largest size of all blocks that are live at the same time.
static int64_t least(const struct fit *f)
{
  int64_t most = 0;
  for (int i = 0; i < f->n; i++) {
    int64_t sum = 0;
    for (int k = 0; k < f->n; k++)
      if (f->p[k].from <= f->p[i].from && f->p[i].from <= f->p[k].to) sum += f->p[k].bytes;
    most = MAX(most, sum);
  }
  return most;
}

static void largest_first(const struct fit *f, int *order)
{
  for (int i = 0; i < f->n; i++) {
    int k = i;
    for (; k > 0 && f->p[order[k - 1]].bytes < f->p[i].bytes; k--) order[k] = order[k - 1];
    order[k] = i;
  }
}

static void shuffle(int *order, int n, struct rng *r)
{
  for (int i = n - 1; i > 0; i--) {
    int k = (int)rng_below(r, (uint64_t)i + 1), x = order[i];
    order[i] = order[k], order[k] = x;
  }
}

static void try_fit(struct fit *f, enum plan_fit how, int *order)
{
  struct rng r = {1};
  largest_first(f, order);
  if (how != FIT_RANDOM) place_all(f, order, how);
  for (int i = 0; i < SHUFFLES && how == FIT_RANDOM && (f->best < 0 || f->best > f->bound); i++) {
    shuffle(order, f->n, &r);
    place_all(f, order, FIT_FIRST);
  }
}

static struct fit fit_of(struct arena *mem, int n, struct plan_piece *p)
{
  struct fit f = {.n = n, .p = p, .best = -1, .at = NEWS(mem, int64_t, n + 1)};
  for (int i = 0; i < n; i++) p[i].offset = -1;
  f.bound = least(&f);
  return f;
}

static int64_t finish(struct fit *f)
{
  for (int i = 0; i < f->n; i++) f->p[i].offset = f->at[i];
  return MAX(f->best, 0);
}

int64_t plan_pack(struct arena *mem, int n, struct plan_piece *p)
{
  static const enum plan_fit tried[] = {FIT_FIRST, FIT_BEST, FIT_LAST, FIT_RANDOM};
  struct fit f = fit_of(mem, n, p);
  int *order = NEWS(mem, int, n + 1);
  for (size_t i = 0; i < COUNT(tried) && (f.best < 0 || f.best > f.bound); i++)
    if (tried[i] != FIT_RANDOM || n > EXACT) try_fit(&f, tried[i], order);
  if (n <= EXACT) search(&f, 0, 0);
  return finish(&f);
}

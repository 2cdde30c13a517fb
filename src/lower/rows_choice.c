// Lists the plans of a kernel of rows that are worth trying, cheapest first by the model.
#include "lower/count.h"
#include "lower/rows.h"

#include <math.h>
#include <string.h>

enum { WIDEST = 8, NARROWEST = 4, TURNS = 2, FEW_THREADS = 64, WIDE_REGS = 2 };

static int upper_power(int64_t n, int most)
{
  int x = 1;
  while (x < n && x < most) x *= 2;
  return x;
}

// Settings that differ only in the vector or in the number of rows of a block are of one kind. Only the best of a kind is kept, so that a race of a
// few settings compares different kinds.
struct row_tried {
  struct knobs k;
  int across, down, regs, late, alone, cluster, stack; // the kind. alone: a block has one row
  bool anywhere;                                       // part of the kind, too
  double cost;
  struct kernel_counts counts;
};
struct row_trying {
  const struct rows *r;
  int n, most;
  struct row_tried best[CHOICES];
};

static bool alike(const struct row_tried *a, const struct row_tried *b)
{
  return a->across == b->across && a->down == b->down && a->regs == b->regs && a->late == b->late && a->alone == b->alone &&
         a->cluster == b->cluster && a->stack == b->stack && a->anywhere == b->anywhere;
}

static void insert(struct row_trying *t, const struct row_tried *x)
{
  int i = 0;
  while (i < t->n && !alike(&t->best[i], x)) i++;
  if (i < t->n && t->best[i].cost <= x->cost) return;
  if (i == t->n && t->n == t->most && t->best[--i].cost <= x->cost) return;
  if (i == t->n) t->n++;
  for (; i > 0 && t->best[i - 1].cost > x->cost; i--) t->best[i] = t->best[i - 1];
  t->best[i] = *x;
}

static void attempt(struct row_trying *t, const struct knobs *k)
{
  struct row_plan p;
  struct arena_mark m = arena_mark(t->r->j->mem);
  struct row_tried x = {
      .k = *k, .across = k->v[KNOB_ACROSS], .down = k->v[KNOB_DOWN], .late = k->v[KNOB_LATE], .alone = k->v[KNOB_JOIN] == 1, .cost = INFINITY};
  x.cluster = k->v[KNOB_CLUSTER], x.stack = k->v[KNOB_STACK];
  if (rows_plan(t->r->j->mem, t->r, k, &p) && rows_count(&p, &x.counts)) {
    x.anywhere = p.anywhere;
    if (t->r->j->dependent) rows_before_best(&p, &x.counts);
    x.k.v[KNOB_AHEAD] = p.ahead, x.k.v[KNOB_HOLD] = p.hold;
    x.counts.soon = rows_soon(&p), x.cost = kernel_time(&x.counts, t->r->j->gpu, NULL);
    for (int i = 0; i < t->r->k.nvalues; i++)
      if (t->r->k.v[i].live) x.regs = MAX(x.regs, p.held[i]);
  }
  if (isfinite(x.cost)) insert(t, &x);
  arena_reset(t->r->j->mem, m);
}

// Whether a limit of `few` register elements (0: all) gives the same plan as a smaller limit or as no limit.
static bool repeats(const struct rows *r, int axis, int few, int places)
{
  if (axis < 0) return few > 0;
  bool folded = r->k.folded >> axis & 1;
  int64_t need = (r->k.extent[axis] + places - 1) / places;
  return folded ? few && few >= need : !few || (few > 1 && few > need);
}

static void with_registers(struct row_trying *t, struct knobs k)
{
  const struct row_roles *role = &t->r->role;
  static const int few[] = {0, 1, 2, 4, 8};
  for (size_t i = 0; i < COUNT(few); i++)
    for (size_t d = 0; d < COUNT(few); d++) {
      k.v[KNOB_REGS] = few[i], k.v[KNOB_DEEP] = few[d];
      if (repeats(t->r, role->across, few[i], k.v[KNOB_VEC] * k.v[KNOB_ACROSS]) || repeats(t->r, role->down, few[d], k.v[KNOB_DOWN])) continue;
      for (k.v[KNOB_LATE] = 0; k.v[KNOB_LATE] < 2; k.v[KNOB_LATE]++) attempt(t, &k);
    }
}

// Whether loaded elements are used again after a fold of them. Then registers should hold all of them.
static bool comes_back(const struct rows *r)
{
  for (int i = 0; i < r->k.nvalues; i++)
    if (r->k.v[i].live && r->k.v[i].axes & r->k.folded && r->life[i].stage) return true;
  return false;
}

// Tries clusters if blocks are few, or if registers of one block do not hold all elements that are used again. knob: the one whose axis the blocks
// share.
static void with_clusters(struct row_trying *t, struct knobs k, int knob, int axis)
{
  const struct target *g = t->r->j->gpu;
  const axis_set all = AXIS(t->r->k.naxes) - 1, folded = t->r->k.folded;
  const int64_t free = kern_extent(&t->r->k, all & ~folded) / MAX(k.v[KNOB_JOIN], 1);
  const bool large = comes_back(t->r) && WIDE_REGS * kern_extent(&t->r->k, all & folded) > g->registers;
  if (axis < 0 || !(folded >> axis & 1) || !(g->can & CAN_CLUSTER)) return;
  for (int n = 2; n <= g->cluster && (large || n * free <= TURNS * g->cores); n *= 2) k.v[knob] = n, with_registers(t, k);
}

// The widest access in elements. streams: whether all accesses together have more bytes than the L2 cache.
static int widest(const struct rows *r, int *streams)
{
  struct row_plan p = {.r = r, .role = r->role, .vec = WIDEST};
  struct kern_use u;
  double bytes = 0;
  int w = 1;
  for (int i = 0; i < kern_uses(&r->k); i++) {
    if (!kern_use(&r->k, i, &u)) continue;
    if (r->alone && u.at->stride[MAX(r->role.across, 0)] == 1) w = MAX(w, MIN(WIDEST, 16 / (int)dtype_bytes(u.at->type)));
    w = MAX(w, row_width(&p, u.at)), bytes += (double)u.at->elements * dtype_bytes(u.at->type);
  }
  for (int i = 0; i < r->k.nvalues; i++) {
    const struct kern_access seen = row_seen(&p, &r->k.v[i].at, r->woven[i]);
    if (r->woven[i].n) w = MAX(w, row_width(&p, &seen));
  }
  return *streams = bytes > (double)r->j->gpu->l2, w;
}

int rows_choices(const struct rows *r, int most, struct knobs *out)
{
  struct row_roles role = r->role;
  struct row_trying t = {.r = r, .most = MIN(most, CHOICES)};
  int64_t across = role.across < 0 ? 1 : r->k.extent[role.across], down = role.down < 0 ? 1 : r->k.extent[role.down];
  int64_t join = role.join < 0 ? 1 : r->k.extent[role.join];
  struct knobs k = {{0}};
  for (int v = widest(r, &k.v[KNOB_STREAM]); v >= 1; v /= 2)
    for (int a = 1; a <= upper_power(MAX(across / v, ROW_LANES), TILE_THREADS); a *= 2)
      for (int d = 1; d <= upper_power(down, TILE_THREADS); d *= 2)
        for (int b = 1; b <= upper_power(join, 64); b *= 2) {
          if (a * d * b > TILE_THREADS || (a * d * b < ROW_LANES && role.across >= 0) || (across % v && v < NARROWEST && v > 1)) continue;
          k.v[KNOB_VEC] = v, k.v[KNOB_ACROSS] = role.across < 0 ? 1 : a, k.v[KNOB_DOWN] = d, k.v[KNOB_JOIN] = b;
          with_registers(&t, k);
          if (a * d * b < FEW_THREADS) continue;
          with_clusters(&t, k, KNOB_CLUSTER, role.across);
          with_clusters(&t, k, KNOB_STACK, role.down);
        }
  for (int i = 0; i < t.n; i++) {
    out[i] = t.best[i].k;
    if (r->j->counts) r->j->counts[i] = t.best[i].counts;
  }
  return t.n;
}

// Counts the work of a plan (count.def).
#include "lower/count.h"
#include "lower/rows.h"

#include <math.h>

static const double PIECES = 0.15;          // additional share of the bytes, for each halving of the contiguous part of a memory line
enum { WORD = 4, WIDEST = 16, BANKS = 32 }; // bytes of a result; bytes of the widest access; banks of shared memory
enum {
  BASE_REGS = 20,
  MOST_THREAD_REGS = 255,
  SLOW = 10,
  MEET = 16,
  ROUND = 5
}; // MEET: a barrier of a cluster, as instructions of a chain; ROUND: the loads of a round, as iterations of a ring

// Elements along the axis that a block has in a round.
static int64_t covered(const struct row_plan *p, int a)
{
  int64_t share = (p->r->k.extent[a] + row_blocks(p, a) - 1) / row_blocks(p, a);
  return MIN(share, (int64_t)p->regs[a] * row_own(p, a) * row_vec(p, a));
}

// The number of blocks that access a value with these axes. If blocks of a cluster have the same elements, only the first stores.
static double storing(const struct row_plan *p, axis_set axes)
{
  return (double)p->blocks / (p->share >= 0 && !(axes >> p->share & 1) ? p->cluster : 1);
}

// Bytes that an access moves per byte that it needs. Sectors are moved whole, and partial lines cost somewhat more.
static double waste(const struct row_plan *p, const struct kern_access *x, axis_set axes)
{
  double run = dtype_bytes(x->type);
  EACH_AXIS(a, axes)
    if (x->stride[a] == 1) run *= (double)covered(p, a) * (p->rounds >> a & 1 ? (double)p->chunks[a] : 1);
  return fmax(1, MEMORY_SECTOR / run) * (1 + PIECES * fmax(0, log2(MEMORY_LINE / fmax(run, MEMORY_SECTOR))));
}

static double block_bytes(const struct row_plan *p, const struct kern_access *x, axis_set axes)
{
  double n = dtype_bytes(x->type);
  EACH_AXIS(a, axes) n *= (double)covered(p, a) * (p->rounds >> a & 1 ? (double)p->chunks[a] : 1);
  return n * waste(p, x, axes);
}

// Lines of the L1 cache that an access of a warp touches. Adjacent lanes may touch the same line.
static double lines(const struct row_plan *p, const struct kern_access *x, axis_set axes)
{
  double n = 1;
  EACH_AXIS(a, axes) {
    if (p->lanes[a] == 1) continue;
    if (x->by[0].limit && !x->stride[a]) { // each lane has its own index
      n *= p->lanes[a];
      continue;
    }
    double step = (double)x->stride[a] * row_vec(p, a) * dtype_bytes(x->type);
    n *= fmax(1, p->lanes[a] * fmin(step, MEMORY_LINE) / MEMORY_LINE);
  }
  return n;
}

// Whether each vector is made from two aligned ones.
static bool shifted(const struct row_plan *p, const struct kern_access *x, axis_set axes)
{
  return p->anywhere && axes >> p->role.across & 1 && row_way(p, x) == ROW_SHIFTED;
}

// Line accesses of all blocks for this access.
static double touched(const struct row_plan *p, const struct kern_access *x, axis_set axes)
{
  double n = (double)p->blocks * p->threads / ROW_LANES * row_regs(p, axes);
  EACH_AXIS(a, axes & p->rounds) n *= (double)p->chunks[a];
  if (p->role.across >= 0 && axes >> p->role.across & 1) n *= (shifted(p, x, axes) ? 2.0 : 1.0) / row_width(p, x);
  return n * lines(p, x, axes);
}

static void traffic(const struct row_plan *p, struct kernel_counts *c)
{
  const struct rows *r = p->r;
  for (int i = 0; i < r->k.nvalues; i++) {
    const struct kern_value *v = &r->k.v[i];
    if (!v->live || !kern_loads(v) || v->at.index) continue;
    const struct kern_access at = row_seen(p, &v->at, r->woven[i]);
    double times = v->axes & p->rounds ? p->passes : 1, all = dtype_bytes(at.type) * waste(p, &at, v->axes);
    EACH_AXIS(a, v->axes) all *= (double)r->k.extent[a];
    count_bytes(r->j, v->at.tensor, all, c);
    c->cache += times * block_bytes(p, &at, v->axes) * (double)p->blocks;
    c->lines += times * touched(p, &at, v->axes);
    if (p->late && p->late[i])
      c->waits = 1;
    else
      c->flight += (double)p->held[i] * dtype_bytes(v->at.type) * p->threads;
  }
  for (int i = 0; i < r->k.nsaves; i++) {
    const struct kern_save *s = &r->k.save[i];
    const struct kern_access at = row_seen(p, &s->at, row_save_weave(p, i));
    const double each = kern_tops(&r->k.v[s->value]) ? (double)s->at.by[0].limit : 1; // stores for each element of the axes
    double b = each * block_bytes(p, &at, s->axes) * storing(p, s->axes);
    count_bytes(r->j, s->at.tensor, b, c);
    c->cache += b, c->lines += each * touched(p, &at, s->axes);
  }
}

// The most registers that live at once. Values live in the order of stages, loads from the beginning.
static double live_regs(const struct row_plan *p)
{
  const struct rows *r = p->r;
  double most = 0;
  for (int now = 0; now < r->norder; now++) {
    double live = 0;
    for (int i = 0; i < r->k.nvalues; i++) {
      const struct kern_value *v = &r->k.v[i];
      if (!v->live || now >= r->life[i].last || r->life[i].through) continue; // a result reuses the registers of its last-read operand
      double regs = p->held[i];
      if (kern_loads(v))
        live += now < r->life[i].first ? (p->late && p->late[i] ? 0 : regs) * dtype_bytes(v->at.type) / 4 : regs;
      else if (r->life[i].made <= now)
        live += regs;
    }
    most = MAX(most, live);
  }
  return most;
}

// Counts an exchange between the warps of a fold whose threads keep `kept` results. Each thread writes its part to shared memory and reads all parts.
// Results are adjacent, so that lanes have bank conflicts.
static void exchange(const struct row_plan *p, double kept, double warps, double times, struct kernel_counts *c)
{
  double meet = fmin(fmax(1, kept * WORD / WIDEST), BANKS * WORD / WIDEST);
  c->shared += times * p->threads * kept * WORD * (1 + warps) * meet;
  c->chain += times * kept * warps, c->barriers += times;
}

// Returns the instructions of a topk. A thread loads its `own` elements in `rounds` steps. After the first round, only threads that had the selected
// element search theirs again.
static double choosing(const struct row_plan *p, const struct kern_value *v, double rounds, double lanes, double warps, struct kernel_counts *c)
{
  enum { KEY = 8, LOOK = 6, ROUNDS = 30, STEP = 6 }; // instructions: make a key; compare one; a round's overhead; a step over lanes
  const double own = row_regs(p, v->axes | v->folded) * rounds, results = row_regs(p, v->axes), k = (double)v->at.by[0].limit;
  c->chain += k * (ROUNDS + LOOK * own), c->folds += 2 * k * log2(lanes);
  if (rounds > 1) c->waits += k;
  if (warps > 1) exchange(p, 2 * results, warps, k, c);
  if (p->share >= 0 && v->folded >> p->share & 1) c->chain += k * (2 * MEET + results * p->cluster);
  return own * (KEY + LOOK + k * LOOK / warps) + k * results * (ROUNDS + STEP * log2(lanes) + (warps > 1 ? 10 + STEP * warps : 0));
}

// Returns the instructions of a scan beyond those of a fold: steps over lanes for each register, and an addition of the preceding total to each
// element. Totals of warps are stored so that lanes read adjacent ones.
static double scanning(const struct row_plan *p, const struct kern_value *v, double rounds, double lanes, double warps, struct kernel_counts *c)
{
  enum { STEP = 3 }; // instructions of a shuffle step
  const int along = __builtin_ctzll(v->folded);
  const double elements = row_regs(p, v->axes), totals = elements / row_vec(p, along);
  if (warps > 1) {
    c->shared += rounds * p->threads * row_regs(p, row_result(v)) * WORD * (1 + warps);
    c->chain += rounds * warps, c->barriers += rounds;
  }
  return rounds * (elements * (lanes > 1 ? 1 : 0) + totals * (STEP * log2(lanes) + (lanes > 1 ? STEP : 0)));
}

// Instructions of a load for each element.
static double load_work(const struct row_plan *p, const struct kern_value *v)
{
  static const double of[] = {[ROW_ALIGNED] = 2, [ROW_SHIFTED] = 48, [ROW_SINGLE] = 32}, vector = 8, usual = 1.5;
  if (!p->anywhere || !(v->axes >> p->role.across & 1)) return usual / p->vec;
  const enum row_way way = row_way(p, &v->at);
  return of[way] / (way == ROW_ALIGNED ? p->vec : vector);
}

// Instructions of a store or a fold at the edges of rows. The first and the last warp of a row have elements beyond it.
static double edge_work(const struct row_plan *p)
{
  enum { TEST = 3, ELEMENT = 8, ENDS = 2 };
  int edge[ROW_EDGES];
  const double share = fmin(1, ENDS / (double)(p->warps[p->role.across] * row_blocks(p, p->role.across)));
  return row_edges(p, 0, edge) * (TEST + share * ELEMENT * p->vec);
}

static void work(const struct row_plan *p, struct kernel_counts *c)
{
  const struct rows *r = p->r;
  double instructions = 20; // of a thread; a constant for the frame of the kernel
  for (int i = 0; i < r->k.nvalues; i++) {
    const struct kern_value *v = &r->k.v[i];
    if (!v->live || (kern_tops(v) && row_top_first(&r->k, i) != i)) continue;
    double n = p->held[kern_folds(v) ? v->in[0] : i], rounds = 1, lanes = 1, warps = 1;
    EACH_AXIS(a, (v->axes | v->folded) & p->rounds) rounds *= (double)p->chunks[a];
    EACH_AXIS(a, v->folded) lanes *= p->lanes[a], warps *= p->warps[a];
    if (kern_tops(v)) {
      instructions += choosing(p, v, rounds, lanes, warps, c);
      continue;
    }
    double all = n * rounds * (v->axes & p->rounds ? p->passes : 1);
    if (v->kind == KERN_MAP && kern_op(v->op).cost >= SLOW)
      c->exps += all * p->threads;
    else
      instructions += all * (kern_loads(v) ? load_work(p, v) : v->kind == KERN_MAP ? 1 + kern_op(v->op).cost / 3 : 1);
    if (!v->folded) continue;
    // An exponential is 0 beyond rows, where a maximum has set its operand to -inf (rows_fold.c).
    if (p->anywhere && v->folded >> p->role.across & 1 && !row_exponential(&r->k.v[v->in[0]])) instructions += edge_work(p) * rounds;
    c->chain += n / p->vec * rounds + p->vec, c->folds += log2(lanes);
    const double kept = row_regs(p, row_result(v));
    if (warps > 1 && !kern_scans(v)) exchange(p, kept, warps, 1, c);
    instructions += 2 * log2(lanes) * kept + (warps > 1 ? 10 + warps * kept : 0);
    if (kern_scans(v)) instructions += scanning(p, v, rounds, lanes, warps, c);
    if (p->share >= 0 && v->folded >> p->share & 1) c->chain += MEET + kept * p->cluster;
  }
  for (int i = 0; i < r->k.nsaves; i++)
    if (p->anywhere && r->k.save[i].axes >> p->role.across & 1) instructions += edge_work(p);
  c->lanes = instructions * p->threads;
}

bool rows_count(const struct row_plan *p, struct kernel_counts *c)
{
  const struct target *g = p->r->j->gpu;
  double regs = live_regs(p) + BASE_REGS, rounds = 1;
  if (p->cluster > g->cluster || regs > MOST_THREAD_REGS || regs * p->threads > (double)g->registers) return false;
  *c = (struct kernel_counts){
      .kind = COUNT_ROWS, .blocks = (double)p->blocks, .items = (double)p->blocks, .threads = p->threads, .cluster = p->cluster, .registers = regs};
  c->room = fmax(1, fmin(fmin(g->blocks, g->threads / (double)p->threads), floor((double)g->registers / (p->threads * (8 * ceil(regs / 8))))));
  traffic(p, c), work(p, c);
  c->soon = rows_soon(p);
  EACH_AXIS(a, p->rounds) rounds *= (double)p->chunks[a];
  c->waits += (rounds - 1) * p->passes + p->passes - 1;
  c->steps = ROUND * (rounds * p->passes - 1); // no round is loaded ahead
  return true;
}

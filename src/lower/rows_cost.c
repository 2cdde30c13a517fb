// What a plan costs, modelled. A kernel of rows is bound by bytes where there are many, and
// by the latency of one block (a load, its folds, a store) where there are few; between them, by how many bytes its threads
// have under way. The measured kernels of kernels/ on an H200 set the constants.
#include "lower/rows.h"

#include <math.h>

static const double LATENCY = 0.6e-6, STORE = 0.15e-6, LANE_STEP = 14e-9, BARRIER = 45e-9, CHAIN = 2.4e-9, START = 5e-9, CROWD = 2e-11, // s
    HEAVY = 6e-4,  // of the time, for each register above EASY_REGS: fewer warps hide less
    ALONE = 1.5,   // cycles between instructions of a warp that has a scheduler for itself
    CLOCK = 1.7e9, // instructions of warps a second and scheduler; lines of the L1 a second and multiprocessor
    PORT = 9e10,   // bytes a second into a multiprocessor
    PIECES = 0.15, // of the bytes, for each halving of a line that an access takes of it
    SECTOR = 32, LINE = 128; // bytes
enum { BASE_REGS = 20, THREADS = 2048, BLOCKS = 32, MOST_THREAD_REGS = 255, SCHEDULERS = 4, EASY_REGS = 48 };

static int64_t covered(const struct row_plan *p, int a)
{
  return MIN(p->r->extent[a], (int64_t)p->regs[a] * row_threads(p, a) * row_vec(p, a));
}

// How many times what it needs a block moves for an access: whole sectors, and of pieces of lines something more.
static double waste(const struct row_plan *p, const struct row_access *x, axis_set axes)
{
  double run = dtype_bytes(x->type);
  for (int a = 0; a < p->r->naxes; a++)
    if (axes >> a & 1 && x->stride[a] == 1) run *= (double)covered(p, a) * (p->rounds >> a & 1 ? (double)p->chunks[a] : 1);
  return fmax(1, SECTOR / run) * (1 + PIECES * fmax(0, log2(LINE / fmax(run, SECTOR))));
}

static double block_bytes(const struct row_plan *p, const struct row_access *x, axis_set axes)
{
  double n = dtype_bytes(x->type);
  for (int a = 0; a < p->r->naxes; a++)
    if (axes >> a & 1) n *= (double)covered(p, a) * (p->rounds >> a & 1 ? (double)p->chunks[a] : 1);
  bool pieces = p->role.across >= 0 && axes >> p->role.across & 1 && x->stride[p->role.across] == 1 && row_width(p, x) < p->vec &&
                row_width(p, x) * dtype_bytes(x->type) < (int)SECTOR;
  return n * waste(p, x, axes) * (pieces ? 2 : 1); // each access of a vector takes a part of the same sectors
}

// Lines of the L1 that an access of a warp touches: those of lanes next to each other may be the same.
static double lines(const struct row_plan *p, const struct row_access *x, axis_set axes)
{
  double n = 1;
  for (int a = 0; a < p->r->naxes; a++) {
    if (!(axes >> a & 1) || p->lanes[a] == 1) continue;
    double step = (double)x->stride[a] * row_vec(p, a) * dtype_bytes(x->type);
    n *= fmax(1, p->lanes[a] * fmin(step, LINE) / LINE);
  }
  return n;
}

// Line accesses of all blocks for it.
static double touched(const struct row_plan *p, const struct row_access *x, axis_set axes)
{
  double n = (double)p->blocks * p->threads / ROW_LANES * row_regs(p, axes);
  for (int a = 0; a < p->r->naxes; a++)
    if (axes & p->rounds & AXIS(a)) n *= (double)p->chunks[a];
  if (p->role.across >= 0 && axes >> p->role.across & 1) n /= row_width(p, x);
  return n * lines(p, x, axes);
}

struct traffic {
  double dram, l2, ahead; // bytes; of a thread before its first use
  double lines;
};

static struct traffic traffic(const struct row_plan *p)
{
  struct traffic t = {0};
  const struct rows *r = p->r;
  for (int i = 0; i < r->nvalues; i++) {
    const struct row_value *v = &r->v[i];
    if (!v->live || v->kind != ROW_LOAD) continue;
    double times = v->axes & p->rounds ? p->passes : 1, all = dtype_bytes(v->at.type) * waste(p, &v->at, v->axes);
    for (int a = 0; a < r->naxes; a++)
      if (v->axes >> a & 1) all *= (double)r->extent[a];
    t.dram += all, t.l2 += times * block_bytes(p, &v->at, v->axes) * (double)p->blocks;
    t.lines += times * touched(p, &v->at, v->axes);
    t.ahead += (double)row_regs(p, v->axes) * dtype_bytes(v->at.type);
  }
  for (int i = 0; i < r->nsaves; i++) {
    const struct row_save *s = &r->save[i];
    double b = block_bytes(p, &s->at, s->axes) * (double)p->blocks;
    t.dram += b, t.l2 += b, t.lines += touched(p, &s->at, s->axes);
  }
  return t;
}

// Does only a fold read value i? Then it is computed as it is folded, and never there as a whole.
static bool passes_through(const struct rows *r, int i)
{
  int users = 0, folds = 0;
  for (int u = 0; u < r->nvalues; u++)
    for (int k = 0; k < r->v[u].nin; k++)
      if (r->v[u].live && r->v[u].in[k] == i) users++, folds += row_folds(&r->v[u]);
  for (int k = 0; k < r->nsaves; k++) users += r->save[k].value == i;
  return r->v[i].kind == ROW_MAP && users == 1 && folds == 1;
}

// Registers that are alive at once, at most: values in the order of stages, loads from the beginning.
static double live_regs(struct arena *mem, const struct row_plan *p)
{
  const struct rows *r = p->r;
  int *stage = NEWS(mem, int, r->nvalues + 1), n = row_stages(mem, p, stage), *order = NEWS(mem, int, r->nvalues + 1), at = 0;
  int *first = NEWS(mem, int, r->nvalues + 1), *last = NEWS(mem, int, r->nvalues + 1), *made = NEWS(mem, int, r->nvalues + 1);
  double most = 0;
  for (int s = 0; s < n; s++)
    for (int i = 0; i < 2 * r->nvalues; i++) { // folds of a stage before the rest
      int v = i % r->nvalues;
      if (r->v[v].live && stage[v] == s && row_folds(&r->v[v]) == (i < r->nvalues)) made[v] = at, order[at++] = v;
    }
  for (int i = 0; i < at; i++)
    for (int k = 0; k < r->v[order[i]].nin; k++) {
      int x = r->v[order[i]].in[k];
      first[x] = first[x] ? first[x] : i, last[x] = MAX(last[x], i);
    }
  for (int i = 0; i < r->nsaves; i++) last[r->save[i].value] = MAX(last[r->save[i].value], made[r->save[i].value] + 1);
  for (int now = 0; now < at; now++) {
    double live = 0;
    for (int i = 0; i < r->nvalues; i++) {
      const struct row_value *v = &r->v[i];
      if (!v->live || now >= last[i] || passes_through(r, i)) continue; // a result takes the place of what it is made of
      double regs = row_regs(p, v->axes);
      if (v->kind == ROW_LOAD) live += now < first[i] ? regs * dtype_bytes(v->at.type) / 4 : regs;
      else if (made[i] <= now) live += regs;
    }
    most = MAX(most, live);
  }
  return most;
}

// Latency of the folds of a block, and instructions of one of its threads.
static void work(const struct row_plan *p, double *latency, double *instructions)
{
  const struct rows *r = p->r;
  for (int i = 0; i < r->nvalues; i++) {
    const struct row_value *v = &r->v[i];
    if (!v->live) continue;
    double n = row_regs(p, row_folds(v) ? r->v[v->in[0]].axes : v->axes), rounds = 1, lanes = 1, warps = 1;
    for (int a = 0; a < r->naxes; a++) {
      if ((v->axes | v->folded) & p->rounds & AXIS(a)) rounds *= (double)p->chunks[a];
      if (v->folded >> a & 1) lanes *= p->lanes[a], warps *= p->warps[a];
    }
    double cost = v->kind == ROW_LOAD ? 1.5 / p->vec : v->kind == ROW_MAP ? 1 + op_rows[v->op].cost / 3 : 1;
    *instructions += n * rounds * cost * (v->axes & p->rounds ? p->passes : 1);
    if (!v->folded) continue;
    *latency += CHAIN * (n / p->vec * rounds + p->vec) + LANE_STEP * log2(lanes);
    if (warps > 1) *latency += BARRIER + warps * 1e-9 + p->threads / ROW_LANES * 3e-9;
    *instructions += 2 * log2(lanes) + (warps > 1 ? 10 + warps : 0);
  }
}

double rows_cost(const struct lower_job *j, const struct row_plan *p)
{
  const struct gpu_limits *g = j->gpu;
  struct traffic t = traffic(p);
  double regs = live_regs(j->mem, p) + BASE_REGS, latency = LATENCY + STORE, instructions = 20, rounds = 1;
  if (regs > MOST_THREAD_REGS || regs * p->threads > (double)g->registers) return INFINITY;
  work(p, &latency, &instructions);
  for (int a = 0; a < p->r->naxes; a++)
    if (p->rounds >> a & 1) rounds *= (double)p->chunks[a];
  latency += (rounds - 1) * LATENCY * p->passes + (p->passes - 1) * LATENCY;
  latency += instructions * fmax(ALONE, p->threads / ROW_LANES / (double)SCHEDULERS) / CLOCK;
  double each = fmin(fmin(BLOCKS, THREADS / (double)p->threads), floor((double)g->registers / (p->threads * (8 * ceil(regs / 8)))));
  double room = fmax(1, each) * g->processors, resident = fmin(room, (double)p->blocks), busy = fmin(g->processors, (double)p->blocks);
  double flight = resident * p->threads * fmax(t.ahead, 1);
  double memory = fmax(fmax(t.dram / g->bandwidth, t.l2 / g->l2_bandwidth), fmax(t.lines / busy / CLOCK, t.l2 / busy / PORT));
  memory = fmax(memory, t.l2 * LATENCY / flight);
  double issue = (double)p->blocks * p->threads * instructions / ROW_LANES / SCHEDULERS / CLOCK / busy;
  double waves = fmax(1, (double)p->blocks / room);
  return g->launch + fmax(fmax(memory, issue), waves * latency) + 0.1 * (memory + issue + latency) + 0.2 * fmin(memory, latency) +
         START * (double)p->blocks / busy + CROWD * p->threads + HEAVY * fmax(0, regs - EASY_REGS) * (memory + latency);
}

// Counts the work of a plan (count.def), for mma.sync and for wgmma. An item is a block of the block graph.
#include "lower/count.h"
#include "lower/mma.h"

#include <math.h>

enum { ATOM = 16, UNROLLED = 16, FEW = 4, QUAD = 8, POLY = 10, ANYWHERE = 6 };
static const double DENSE = 0.8; // instructions of lanes for a unit of the cost of an exponential and the like
enum { BANK = 4, STAGED = 2, ADJACENT = 6, APART = 20, ENDS = 16 * 20 };
// ATOM: most bytes of a thread's copy; UNROLLED, FEW: loads in flight; QUAD: columns of a quad of lanes; POLY: instructions of an exponential by
// multiplications; ANYWHERE: of a piece of a row that begins anywhere. Compiled, it takes 45 instructions, and a piece of 16 bytes by cp.async, which
// counts as 2, takes 15 with its address.
// BANK: bytes of shared memory that a store of one element occupies; STAGED: instructions of such a store; ADJACENT, APART: of a vector of a run, if
// the rows of a tile are one run, or if each is one; ENDS: of the elements of a run that are in no vector.

static double iterations(const struct mma_plan *p) { return (double)mma_parts_each(p) * (p->hides ? p->share : 1); }

static double times(const struct mma_plan *p, bool varying) { return varying ? iterations(p) : 1; }

// The items that a block ends, which others of its cluster share.
static double ended(const struct mma_plan *p, const struct kernel_counts *c) { return p->wg && p->parts ? c->items / p->parts : c->items; }

// Whether serial waits are counted in the loop or outside.
#define SERIAL(c, loop, name) (*((loop) ? &(c)->loop_##name : &(c)->name))

// Missing rows of the last piece are loaded, as copies of the last row, but not saved. TMA does not load them.
static double elements_of(const struct mma_plan *p, uint32_t has, bool loads)
{
  int64_t rows = norm_extent(p->n, has & p->row_letters);
  if (p->cut) rows = loads && !p->wg && has & p->row_letters ? p->cut : MIN(rows, p->cut);
  return (double)(rows * norm_extent(p->n, has & ~p->row_letters));
}

// Counts the copy of a tile whose rows begin anywhere, n times: two loads for each piece.
static void anywhere(const struct mma_tile *t, double n, double run, struct kernel_counts *c)
{
  const double pieces = n * (double)(t->own_rows * mma_row_pieces(t));
  c->lanes += ANYWHERE * pieces, c->lines += c->items * pieces * 2 * ATOM / fmin(run, 32 * ATOM);
}

// The portions in which tiles are loaded through registers: batches follow one another, but all late tiles of an iteration are loaded together.
static double portions(const struct mma_plan *p)
{
  double all = 0, late = 0;
  for (int i = 0; i < p->ntiles && !p->wg; i++) {
    const struct mma_tile *t = &p->tile[i];
    if (mma_anywhere_late(p, t))
      late = iterations(p);
    else
      all += times(p, t->varying) * (double)mma_copy_batches(p, t);
  }
  return fmax(all, late);
}

// Counts loads. Tiles are copied to shared memory. Values that only elementwise operators read are loaded into fragments, two elements at a time.
static void loads(const struct mma_plan *p, struct kernel_counts *c)
{
  double ring = 0, fixed = 0, soon = 0;
  for (int v = 0; v < p->k.nvalues; v++) {
    if (!mma_loads(p, v) || !p->k.v[v].live || p->k.v[v].at.index) continue;
    const struct plan_access *a = mma_access(p, v);
    bool varying = mma_varies(p, v), tile = p->tile_of[v] >= 0;
    double elem = dtype_bytes(p->job->store[a->tensor]), all = elements_of(p, mma_has(p, v), true), run = elem * count_run(p->n, a);
    double more = MEMORY_SECTOR * ceil(run / MEMORY_SECTOR) / run, n = times(p, varying) * (mma_read_hidden(p, v) ? p->partly : 1),
           bytes = elem * all;
    double copy = tile ? elem * p->tile[p->tile_of[v]].width : 2 * elem, items = tile || varying ? c->items : ended(p, c);
    c->cache += items * n * bytes * more;
    if (tile) c->shared += n * bytes;
    if (tile && p->tile[p->tile_of[v]].lanes) c->shared += n * bytes, c->lanes += n * all;
    if (tile && !p->wg && p->tile[p->tile_of[v]].anywhere)
      anywhere(&p->tile[p->tile_of[v]], n, run, c);
    else if (!tile || !p->wg)
      c->lanes += n * bytes / copy * 2, c->lines += items * n * bytes / fmin(run, tile ? 32 * fmin(copy, ATOM) : QUAD * elem);
    if (!tile && varying && p->iterations > 1 && !mma_read_in(p, v, 1u << MMA_SIDE)) c->loop_waits = n;
    if (tile && p->ahead) soon += varying ? bytes * p->ahead : bytes;
    *(varying && p->iterations > 1 ? &ring : &fixed) += bytes;
    c->loaded += n * bytes;
  }
  double stages = p->stages - 1; // one stage is being read
  c->soon = soon;
  c->flight = p->iterations > 1 ? fixed + ring * fmin(stages, iterations(p)) : fixed;
  if (p->queued) c->flight *= fmin(1, (double)p->stages / p->queued);
  if (portions(p) > 0) c->flight = fmin(c->flight, c->loaded / portions(p));
  if (p->iterations > 1) c->steps = iterations(p);
}

// Counts a result that is stored by runs, through shared memory.
static void by_runs(const struct mma_plan *p, const struct mma_runs *r, double elem, double all, struct kernel_counts *c)
{
  const double runs = all / (double)r->most, vectors = all / r->vector, line = r->adjacent ? 32 * ATOM : r->ring * ATOM / 2;
  c->shared += (BANK + elem) * all, c->barriers += r->adjacent ? 1 + 2 * p->mt : 1;
  c->lanes += STAGED * all + (r->adjacent ? ADJACENT : APART) * vectors + ENDS * runs;
  c->lines += ended(p, c) * (elem * all / fmin(elem * (double)r->most, line) + (r->adjacent ? 1 : 2) * runs);
}

// Counts stores: from fragments, one or two elements of a lane at once, by runs, or by TMA from shared memory in whole lines.
static void saves(const struct mma_plan *p, const bool *sent, struct kernel_counts *c)
{
  for (int i = 0; i < p->n->nsave; i++) {
    const struct plan_access *a = &p->n->save[i];
    const int value = p->k.save[i].value, cols = p->shape[value].cols, width = cols < 0 ? 2 : mma_width(p, a, &p->cols[cols].list, 2);
    const struct mma_runs runs = p->runs ? mma_runs_of(p, i) : (struct mma_runs){0};
    double elem = dtype_bytes(p->job->store[a->tensor]), all = elements_of(p, mma_has(p, value), false);
    double run = elem * count_run(p->n, a);
    c->cache += ended(p, c) * elem * all;
    if (sent && sent[i])
      c->shared += 2 * elem * all, c->lanes += all / 4;
    else if (runs.vector)
      by_runs(p, &runs, elem, all, c);
    else
      c->lanes += 3 * all / width, c->lines += ended(p, c) * elem * all / fmin(run, QUAD * elem * width / 2);
  }
}

static void products(const struct mma_plan *p, struct kernel_counts *c)
{
  double warps = p->wm * p->wn, *flops = p->wg ? &c->wgmma : &c->mma;
  for (int i = 0; i < p->nproducts; i++) {
    const struct mma_product *x = &p->product[i];
    bool loop = p->section[x->out] == MMA_LOOP;
    double n = times(p, loop), rows = 16.0 * p->mt, cols = 8.0 * p->cols[x->out_cols].nt,
           sum = p->wg ? (double)p->cols[x->sum_cols].padded : 8.0 * p->cols[x->sum_cols].nt;
    double share = p->wg ? 4 : 1; // warps that share a read of the right operand
    *flops += n * warps * 2 * rows * cols * sum;
    c->shared += n * warps * 2 * cols * sum / share * (p->wg ? p->mt : 1);
    if (!mma_keeps_left(p, x))
      c->shared += n * warps * 2 * rows * sum;
    else if (p->tile_of[x->a] < 0)
      c->lanes += n * 32 * warps * rows * sum / 64; // conversions to the operands' type
    SERIAL(c, loop, chain) += n * (4 + sum / 16 * (p->wg ? 1 : 2));
  }
}

// Counts loads of reductions over parts, one part after another; a few are in flight. A warp's load touches as many lines as a fragment has rows.
// Warps that share rows load the same lines.
static void parts(const struct mma_plan *p, struct kernel_counts *c)
{
  for (int i = 0; i < p->norder; i++) {
    int v = p->order[i];
    bool loop = p->section[v] == MMA_LOOP;
    if (!mma_reduces(mma_at(p, v)) || !mma_sums_parts(p, v)) continue;
    struct mma_shape s = p->shape[v];
    double each = times(p, loop), all = (double)norm_extent(p->n, mma_gone(p, v));
    double words = (s.rows ? 2.0 * p->mt : 1) * (s.cols >= 0 ? p->cols[s.cols].nt : 1), loads = each * all * words * p->threads;
    SERIAL(c, loop, waits) += each * (all <= UNROLLED ? 1 : all / FEW), c->lanes += loads * 4,
        c->lines += c->items * loads / 32 * (s.rows ? QUAD : 1);
  }
}

static double cost_of(const struct kern_value *v) { return v->kind == KERN_MAP ? kern_op(v->op).cost : 2; }

static double elements_in(const struct mma_plan *p, struct mma_shape s) { return (double)mma_fragment_registers(p, s); }

// A multiplication that only an addition or a subtraction reads is fused with it.
static bool fused(const struct mma_plan *p, int v)
{
  const struct kern_value *x = mma_at(p, v);
  if (x->kind != KERN_MAP || !(x->op == OP_MUL || kern_op(x->op).flags & SCALES) || x->uses != 1) return false;
  for (int i = v + 1; i < p->k.nvalues; i++)
    if (mma_reads(p, i, v)) return p->k.v[i].kind == KERN_MAP && (p->k.v[i].op == OP_ADD || p->k.v[i].op == OP_SUB);
  return false;
}

// Counts elementwise operators, reductions and accumulators on the lanes. Casts, maxima and factors of accumulators count as one instruction each.
static void arithmetic(const struct mma_plan *p, struct kernel_counts *c)
{
  for (int i = 0; i < p->norder; i++) {
    int v = p->order[i];
    const struct kern_value *n = mma_at(p, v);
    bool maps = n->kind == KERN_MAP || n->kind == KERN_SPREAD, accumulates = mma_accumulates(p, v), folds = !maps && mma_gone(p, v);
    if (n->kind == KERN_PRODUCT || n->kind == KERN_RUN_MOVE || (p->folded[v] && !p->own[v]) || fused(p, v) || cost_of(n) == 0) continue;
    bool loop = p->section[v] == MMA_LOOP, rolled = loop && p->iterations > 1, last = rolled && !accumulates;
    struct mma_shape s = maps ? p->shape[v] : mma_wanted(p, v, 0);
    double each = times(p, rolled) * (p->own[v] ? p->partly : 1), elements = elements_in(p, s), rows = s.rows ? 2.0 * p->mt : 1;
    double all = each * p->threads * (elements + (n->kind == KERN_RESCALE ? elements_in(p, p->shape[v]) : 0));
    bool slow = cost_of(n) >= 10;
    if (p->wg && !loop && maps) c->ends += all * 32 * p->wm * p->wn / p->threads * (slow ? DENSE * cost_of(n) : fmax(1, cost_of(n) / 2));
    double by_lanes = loop && p->poly && slow ? all / p->poly : 0;
    if (maps && slow)
      c->exps += all - by_lanes, c->lanes += POLY * by_lanes;
    else
      c->lanes += all * (maps ? fmax(1, cost_of(n) / 2) : 1);
    if (folds)
      SERIAL(c, last, folds) += 2 * (last ? each : 1), SERIAL(c, rolled, chain) += each * elements / rows;
    else
      SERIAL(c, rolled, chain) += each * 2;
    if (folds && p->wn > 1 && s.cols >= 0 && p->cols[s.cols].split) SERIAL(c, last, barriers) += last ? each : 1;
  }
}

// Counts loads of a side computation, by the warps that share its rows. Fragments are loaded as they are read, some at a time.
static void side(const struct mma_plan *p, const struct mma_side *s, struct kernel_counts *c)
{
  const struct mma_plan *q = s->plan;
  double n = times(p, s->varying), lanes = 32.0 * q->wm, words = 0;
  bool loop = s->varying && p->iterations > 1;
  for (int v = 0; v < p->k.nvalues; v++) {
    if (!s->member[v]) continue;
    const struct kern_value *x = mma_at(p, v);
    double elements = elements_in(q, q->shape[v]);
    for (int k = 0; k < x->nin; k++)
      if (mma_loads(p, x->in[k]) && p->tile_of[x->in[k]] < 0) words += elements / 2;
    c->lanes += n * lanes * elements * fmax(1, cost_of(x) / 2), SERIAL(c, loop, chain) += n * elements;
  }
  c->lanes += n * lanes * words * 4, SERIAL(c, loop, waits) += n * words / FEW, SERIAL(c, loop, barriers) += n;
}

// Counts the exchange of parts of sums through shared memory. Each warp writes its part and reads all parts, or its share of them.
static void combine(const struct mma_plan *p, struct mma_shape s, bool loop, bool share, struct kernel_counts *c)
{
  double bytes = (double)mma_combine_bytes(p, s), reads = share ? 1 : p->wn, words = bytes / 8 / p->threads, n = times(p, loop);
  SERIAL(c, loop, barriers) += n, c->shared += n * bytes * (1 + reads);
  c->lanes += n * p->threads * words * (1 + 3 * reads), SERIAL(c, loop, chain) += n * words * (1 + reads);
}

static void combining(const struct mma_plan *p, struct kernel_counts *c)
{
  for (int i = 0; i < p->norder && p->wn > 1; i++) {
    int v = p->order[i];
    const struct mma_product *x = mma_product_at(p, v);
    struct mma_shape s = p->shape[v];
    if (mma_partial(p, v)) combine(p, s, false, s.cols >= 0 && p->cols[s.cols].split_after, c);
    if (x && x->into < 0 && mma_sums_part(p, x)) combine(p, s, p->section[v] == MMA_LOOP, false, c);
  }
}

static double room(const struct mma_plan *p)
{
  const struct target *gpu = p->job->gpu;
  int64_t fit = MIN(gpu->shared_processor / (p->shared + 1024), gpu->registers / (MAX(p->registers, 32) * p->threads));
  return (double)MIN(MAX(fit, 1), MIN(gpu->threads / p->threads, gpu->blocks));
}

void mma_count(const struct mma_plan *p, const bool *sent, struct kernel_counts *c)
{
  *c = (struct kernel_counts){.kind = p->wg ? COUNT_WGMMA : COUNT_MMA, .blocks = (double)mma_blocks(p), .threads = p->threads, .cluster = 1};
  if (p->tail) c->tail = tail_cost(p->tail), c->cluster = p->tail->way == TAIL_CLUSTER ? (double)p->tail->parts : 1;
  if (p->parts && !p->wg) c->tail = mma_parts_cost(p);
  c->items = c->blocks, c->room = room(p), c->registers = (double)p->registers;
  count_tensors(p->job, c);
  loads(p, c), saves(p, sent, c), products(p, c), parts(p, c), arithmetic(p, c), combining(p, c);
  for (int i = 0; i < p->nsides; i++) side(p, &p->side[i], c);
}

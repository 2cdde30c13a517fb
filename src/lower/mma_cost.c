// What a plan does, counted (count.def), by mma.sync and by wgmma. An item is a block of the block graph.
#include "lower/count.h"
#include "lower/mma.h"

#include <math.h>

enum { ATOM = 16, UNROLLED = 16, FEW = 4, QUAD = 8, POLY = 10 };
// Bytes that a copy of a thread moves at most; columns of a quad of lanes; instructions of an
// exponential by multiplications.

static double times(const struct mma_plan *p, bool varying) { return varying ? (double)p->iterations : 1; }

// Where what waits for one another is counted: in the loop, or outside.
#define SERIAL(c, loop, name) (*((loop) ? &(c)->loop_##name : &(c)->name))

// Rows of a piece that do not exist are not saved, but loaded: as the last one again, or by TMA, which knows that there are none.
static double elements_of(const struct mma_plan *p, uint32_t has, bool loads)
{
  int64_t rows = norm_extent(p->n, has & p->row_letters);
  if (p->cut) rows = loads && !p->wg && has & p->row_letters ? p->cut : MIN(rows, p->cut);
  return (double)(rows * norm_extent(p->n, has & ~p->row_letters));
}

// Do only operands that are computed on the side read it?
static bool aside(const struct mma_plan *p, int root)
{
  const struct graph *b = p->n->block;
  for (int i = 0; i < b->nnodes; i++)
    for (int k = 0; k < b->nodes[i].nin && b->nodes[i].op != OP_ITER; k++)
      if (p->n->t[b->nodes[i].in[k]].root == root && op_rows[b->nodes[i].op].rule != RULE_VIEW && p->section[i] != MMA_SIDE) return false;
  return true;
}

// Tiles come in copies; what only elementwise operators read comes from memory straight into fragments, two elements at a time.
static void loads(const struct mma_plan *p, struct kernel_counts *c)
{
  double ring = 0, fixed = 0, soon = 0;
  for (int i = 0; i < p->n->niter; i++) {
    const struct access *a = &p->n->iter[i];
    bool varying = p->n->block->tensors[a->tile].phase == VARYING, tile = p->tile_of[a->tile] >= 0;
    double elem = dtype_bytes(p->job->store[a->tensor]), all = elements_of(p, p->n->t[a->tile].has, true), run = elem * count_run(p->n, a);
    double more = MEMORY_SECTOR * ceil(run / MEMORY_SECTOR) / run, n = times(p, varying), bytes = elem * all;
    double copy = tile ? elem * p->tile[p->tile_of[a->tile]].width : 2 * elem;
    c->cache += c->items * n * bytes * more;
    if (tile) c->shared += n * bytes;
    if (!tile || !p->wg) c->lanes += n * bytes / copy * 2, c->lines += c->items * n * bytes / fmin(run, tile ? 32 * fmin(copy, ATOM) : QUAD * elem);
    if (!tile && varying && p->iterations > 1 && !aside(p, a->tile)) c->loop_waits = n;
    if (tile && p->ahead) soon += varying ? bytes * p->ahead : bytes;
    *(varying && p->iterations > 1 ? &ring : &fixed) += bytes;
    c->loaded += n * bytes;
  }
  double stages = p->stages - 1; // one is read
  c->soon = soon;
  c->flight = p->iterations > 1 ? fixed + ring * fmin(stages, (double)p->iterations) : fixed;
  if (p->queued) c->flight *= fmin(1, (double)p->stages / p->queued);
  if (p->iterations > 1) c->steps = (double)p->iterations;
}

// Of a fragment, or by TMA from shared memory, where whole lines go at once.
static void saves(const struct mma_plan *p, const bool *sent, struct kernel_counts *c)
{
  for (int i = 0; i < p->n->nsave; i++) {
    const struct access *a = &p->n->save[i];
    double elem = dtype_bytes(p->job->store[a->tensor]), all = elements_of(p, p->n->t[a->tile].has, false);
    double run = elem * count_run(p->n, a);
    c->cache += c->items * elem * all;
    if (sent && sent[i])
      c->shared += 2 * elem * all, c->lanes += all / 4;
    else
      c->lanes += 3 * all / 2, c->lines += c->items * elem * all / fmin(run, QUAD * elem);
  }
}

static void products(const struct mma_plan *p, struct kernel_counts *c)
{
  double warps = p->wm * p->wn, *flops = p->wg ? &c->wgmma : &c->mma;
  for (int i = 0; i < p->nproducts; i++) {
    const struct mma_product *x = &p->product[i];
    bool loop = p->section[x->node] == MMA_LOOP;
    double n = times(p, loop), rows = 16.0 * p->mt, cols = 8.0 * p->cols[x->out_cols].nt, sum = 8.0 * p->cols[x->sum_cols].nt;
    double share = p->wg ? 4 : 1; // warps that read the right operand together
    *flops += n * warps * 2 * rows * cols * sum;
    c->shared += n * warps * 2 * cols * sum / share * (p->wg ? p->mt : 1);
    if (!mma_keeps_left(p, x))
      c->shared += n * warps * 2 * rows * sum;
    else if (p->tile_of[x->a] < 0)
      c->lanes += n * 32 * warps * rows * sum / 64; // rounded to operands
    SERIAL(c, loop, chain) += n * (4 + sum / 16 * (p->wg ? 1 : 2));
  }
}

// Sums of parts are loaded one part after another; the compiler unrolls what it may, and else a few. A warp's load touches as many
// lines as a fragment has rows, and warps that share rows load the same.
static void parts(const struct mma_plan *p, struct kernel_counts *c)
{
  for (int i = 0; i < p->n->block->nnodes; i++) {
    const struct node *n = &p->n->block->nodes[i];
    bool reduces = op_rows[n->op].rule == RULE_REDUCE || op_rows[n->op].flags & REDUCES, loop = p->section[i] == MMA_LOOP;
    if (!n->nout || !reduces || p->section[i] == MMA_SIDE || !mma_sums_parts(p, n)) continue;
    struct mma_shape s = p->shape[n->out];
    double each = times(p, loop), all = (double)norm_extent(p->n, p->n->t[n->in[0]].has & ~p->n->t[n->out].has);
    double words = (s.rows ? 2.0 * p->mt : 1) * (s.cols >= 0 ? p->cols[s.cols].nt : 1), loads = each * all * words * p->threads;
    SERIAL(c, loop, waits) += each * (all <= UNROLLED ? 1 : all / FEW), c->lanes += loads * 4,
        c->lines += c->items * loads / 32 * (s.rows ? QUAD : 1);
  }
}

static bool slow(enum op op) { return op_rows[op].cost >= 10; }

// Elementwise operators, folds and accumulators on the lanes. Casts, maxima and factors of accumulators count as one each.
static void arithmetic(const struct mma_plan *p, struct kernel_counts *c)
{
  const struct graph *b = p->n->block;
  for (int i = 0; i < b->nnodes; i++) {
    const struct node *n = &b->nodes[i];
    const struct op_row *row = &op_rows[n->op];
    bool maps = row->rule == RULE_MAP, folds = row->rule == RULE_REDUCE || row->flags & REDUCES;
    if (!n->nout || n->op == OP_ITER || row->rule == RULE_VIEW || row->rule == RULE_CONST || row->rule == RULE_CONTRACT) continue;
    bool loop = p->section[i] == MMA_LOOP || row->rule == RULE_ACCUM;
    struct mma_shape s = maps ? p->shape[n->out] : mma_wanted(p, i, 0);
    double each = times(p, loop && p->iterations > 1), elements = (s.rows ? 2.0 * p->mt : 1) * (s.cols >= 0 ? 2.0 * p->cols[s.cols].nt : 1);
    if (p->folded[i] || p->section[i] == MMA_SIDE) continue;
    if (row->flags & RESCALES) elements += (p->shape[n->out].cols >= 0 ? 2.0 * p->cols[p->shape[n->out].cols].nt : 1) * 2 * p->mt;
    double all = each * p->threads * elements, by_lanes = loop && p->poly && slow(n->op) ? all / p->poly : 0;
    if (maps && slow(n->op))
      c->exps += all - by_lanes, c->lanes += POLY * by_lanes;
    else
      c->lanes += all * (maps ? fmax(1, row->cost / 2.0) : 1);
    bool rolled = loop && p->iterations > 1, last = rolled && row->rule != RULE_ACCUM;
    if (folds)
      SERIAL(c, last, folds) += 2 * (last ? each : 1), SERIAL(c, rolled, chain) += each * elements / (s.rows ? 2.0 * p->mt : 1);
    else
      SERIAL(c, rolled, chain) += each * 2;
    if (folds && p->wn > 1 && s.cols >= 0 && p->cols[s.cols].split) SERIAL(c, last, barriers) += last ? each : 1;
  }
}

// Of an operand that is computed on the side, by warps that share its rows: fragments of what it is computed from are loaded as
// they are read, some at a time.
static void side(const struct mma_plan *p, const struct mma_side *s, struct kernel_counts *c)
{
  const struct mma_plan *q = s->plan;
  const struct graph *b = p->n->block;
  double n = times(p, s->varying), lanes = 32.0 * q->wm, words = 0;
  bool loop = s->varying && p->iterations > 1;
  for (int i = 0; i < b->nnodes; i++) {
    const struct node *x = &b->nodes[i];
    if (!s->node[i] || op_rows[x->op].rule == RULE_VIEW || !x->nout) continue;
    struct mma_shape of = q->shape[x->out];
    double elements = (of.rows ? 2.0 * q->mt : 1) * (of.cols >= 0 ? 2.0 * q->cols[of.cols].nt : 1);
    for (int k = 0; k < x->nin; k++)
      if (p->n->iter_of[p->n->t[x->in[k]].root] >= 0 && p->tile_of[p->n->t[x->in[k]].root] < 0) words += elements / 2;
    c->lanes += n * lanes * elements * fmax(1, op_rows[x->op].cost / 2.0), SERIAL(c, loop, chain) += n * elements;
  }
  c->lanes += n * lanes * words * 4, SERIAL(c, loop, waits) += n * words / FEW, SERIAL(c, loop, barriers) += n;
}

// Parts that warps have of a sum go through shared memory: each writes its own, and reads all, or all of its share.
static void combine(const struct mma_plan *p, struct mma_shape s, bool loop, bool share, struct kernel_counts *c)
{
  double bytes = (double)mma_combine_bytes(p, s), reads = share ? 1 : p->wn, words = bytes / 8 / p->threads, n = times(p, loop);
  SERIAL(c, loop, barriers) += n, c->shared += n * bytes * (1 + reads);
  c->lanes += n * p->threads * words * (1 + 3 * reads), SERIAL(c, loop, chain) += n * words * (1 + reads);
}

static void combining(const struct mma_plan *p, struct kernel_counts *c)
{
  const struct graph *b = p->n->block;
  if (p->wn == 1) return;
  for (int i = 0; i < b->nnodes; i++) {
    const struct node *n = &b->nodes[i];
    const struct mma_product *x = p->product_of[i] >= 0 ? &p->product[p->product_of[i]] : NULL;
    if (!n->nout) continue;
    struct mma_shape s = p->shape[n->out];
    if (op_rows[n->op].rule == RULE_ACCUM && mma_partial(p, i)) combine(p, s, false, s.cols >= 0 && p->cols[s.cols].split_after, c);
    if (x && x->into < 0 && p->cols[x->sum_cols].split && !p->folded[i]) combine(p, s, p->section[i] == MMA_LOOP, false, c);
  }
}

static double room(const struct mma_plan *p)
{
  const struct gpu_limits *gpu = p->job->gpu;
  int64_t fit = MIN(gpu->shared_processor / (p->shared + 1024), gpu->registers / (MAX(p->registers, 32) * p->threads));
  return (double)MIN(MAX(fit, 1), MIN(gpu->threads / p->threads, gpu->blocks));
}

void mma_count(const struct mma_plan *p, const bool *sent, struct kernel_counts *c)
{
  *c = (struct kernel_counts){
      .kind = p->wg ? COUNT_WGMMA : COUNT_MMA, .blocks = (double)graph_blocks(p->n->block), .threads = p->threads, .cluster = 1};
  if (p->tail) c->tail = tail_cost(p->tail), c->cluster = p->tail->way == TAIL_CLUSTER ? (double)p->tail->parts : 1;
  c->items = c->blocks, c->room = room(p), c->registers = (double)p->registers;
  count_tensors(p->job, c);
  loads(p, c), saves(p, sent, c), products(p, c), parts(p, c), arithmetic(p, c), combining(p, c);
  for (int i = 0; i < p->nsides; i++) side(p, &p->side[i], c);
}

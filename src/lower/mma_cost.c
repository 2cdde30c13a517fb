// What a plan will cost, so that choices can be ordered: in each iteration the slowest of device memory, tensor cores,
// shared memory and arithmetic, for the blocks that share a multiprocessor, and never less than memory's latency over
// the stages that are under way.
#include "lower/mma.h"

static double tensor_bytes(const struct mma_plan *p, const struct access *a, uint32_t has)
{
  int64_t rows = norm_extent(p->n, has & p->row_letters);
  if (p->cut) rows = MIN(rows, p->cut);
  return (double)(rows * norm_extent(p->n, has & ~p->row_letters)) * dtype_bytes(p->job->store[a->tensor]);
}

struct work {                         // of a block in one iteration
  double bytes, flops, shared, lanes; // loaded; by tensor cores; through shared memory; instructions of threads
};

static void loads(const struct mma_plan *p, struct work *w)
{
  for (int i = 0; i < p->n->niter; i++) {
    const struct access *a = &p->n->iter[i];
    double once = p->n->block->tensors[a->tile].phase == VARYING ? 1 : 1.0 / (double)p->iterations,
           bytes = tensor_bytes(p, a, p->n->t[a->tile].has);
    w->bytes += once * bytes;
    if (p->tile_of[a->tile] >= 0) w->shared += once * bytes;
  }
}

static void products(const struct mma_plan *p, struct work *w)
{
  for (int i = 0; i < p->nproducts; i++) {
    const struct mma_product *x = &p->product[i];
    const struct mma_cols *sum = &p->cols[x->sum_cols], *out = &p->cols[x->out_cols];
    double once = p->section[x->node] == MMA_LOOP ? 1 : 1.0 / (double)p->iterations, warps = p->wm * p->wn;
    w->flops += once * warps * 2 * 16.0 * p->mt * 8 * out->nt * 8 * sum->nt;
    w->shared += once * warps * 2 * 8.0 * out->nt * 8 * sum->nt;
    if (!mma_keeps_left(p, x)) w->shared += once * warps * 2 * 16.0 * p->mt * 8 * sum->nt;
  }
}

// An exponential takes as long as eight additions; casts, maxima and factors of accumulators count as one each.
static void arithmetic(const struct mma_plan *p, struct work *w)
{
  const struct graph *b = p->n->block;
  for (int i = 0; i < b->nnodes; i++) {
    const struct node *n = &b->nodes[i];
    if (!n->nout || p->section[i] != MMA_LOOP || n->op == OP_ITER || op_rows[n->op].rule == RULE_VIEW) continue;
    struct mma_shape s = op_rows[n->op].rule == RULE_MAP || op_rows[n->op].rule == RULE_CONTRACT ? p->shape[n->out]
                                                                                                 : mma_wanted(p, i, 0);
    double elements = (s.rows ? 2.0 * p->mt : 1) * (s.cols >= 0 ? 2.0 * p->cols[s.cols].nt : 1);
    double each = op_rows[n->op].rule == RULE_MAP        ? (op_rows[n->op].cost > 4 ? 8 : 1)
                  : op_rows[n->op].rule == RULE_CONTRACT ? 0.5
                                                         : 1;
    if (op_rows[n->op].flags & RESCALES)
      elements += (p->shape[n->out].cols >= 0 ? 2.0 * p->cols[p->shape[n->out].cols].nt : 1) * 2 * p->mt;
    w->lanes += p->threads * elements * each;
  }
}

double mma_cost(const struct mma_plan *p)
{
  const struct gpu_limits *gpu = p->job->gpu;
  struct work w = {0};
  const double clock = 1.7e9, blocks = (double)graph_blocks(p->n->block), processors = gpu->processors;
  int64_t fit =
      MIN(gpu->shared_processor / MAX(p->shared + 1024, 1), gpu->registers / (MAX(p->registers, 32) * p->threads));
  fit = MIN(MAX(fit, 1), MIN(2048 / p->threads, 32));
  loads(p, &w), products(p, &w), arithmetic(p, &w);
  double at_once = MIN(blocks, (double)fit * processors), here = MIN(MAX(1, at_once / processors), (double)fit);
  double waves = blocks / at_once, busy = MIN(1, here * p->threads / 32 / 8.0);
  if (waves > 1 && waves < 8) waves = (double)(int64_t)(waves + 0.999);
  double one = at_once * w.bytes / (1.5 * gpu->bandwidth); // some of it from L2
  one =
      MAX(one, here * w.flops / (0.6 * gpu->flops / processors * busy)); // mma.sync reaches about that much of the rate
  one = MAX(one, here * w.shared / (128 * clock));
  one = MAX(one, here * w.lanes / (128 * clock * MAX(busy, 0.25)));
  one = MAX(one, 0.8e-6 / MAX(1, p->stages - 1)) + 0.1e-6 + (p->wn > 1 ? 0.03e-6 : 0);
  double saved = 0;
  for (int i = 0; i < p->n->nsave; i++) saved += tensor_bytes(p, &p->n->save[i], p->n->t[p->n->save[i].tile].has);
  return (p->tail ? tail_cost(p->tail) : 0) + gpu->launch + waves * ((double)p->iterations * one + 1.5e-6) + blocks * saved / gpu->bandwidth;
}

// The plan at some knobs: how many tiles a warp has, whether registers and shared memory suffice, and what it will cost.
#include "lower/mma.h"

static int64_t fragment_registers(const struct mma_plan *p, struct mma_shape s)
{
  return (s.rows ? 2 * p->mt : 1) * (s.cols >= 0 ? 2 * p->cols[s.cols].nt : 1);
}

static bool share_columns(struct mma_plan *p)
{
  bool any = p->wn == 1;
  for (int i = 0; i < p->ncols; i++) {
    struct mma_cols *c = &p->cols[i];
    int64_t tiles = c->size / 8;
    bool split = !c->whole && p->wn > 1 && tiles % p->wn == 0;
    c->nt = (int)(split ? tiles / p->wn : tiles);
    any |= split && c->product;
  }
  return any || mma_refuse(p, "no product's columns can be shared by %d warps", p->wn);
}

// Registers of a thread: what lives through the loop, and the most that one product or operator needs besides.
static int64_t estimate(const struct mma_plan *p)
{
  const struct graph *b = p->n->block;
  int64_t lasting = 0, most = 0;
  for (int i = 0; i < b->nnodes; i++) {
    const struct node *n = &b->nodes[i];
    int64_t here = 0;
    if (n->op == OP_ITER || n->op == OP_SAVE || op_rows[n->op].rule == RULE_VIEW) continue;
    here = fragment_registers(p, p->shape[n->out]);
    if (op_rows[n->op].rule == RULE_ACCUM || p->section[i] == MMA_PRE) {
      lasting += here;
      continue;
    }
    for (int k = 0; k < n->nin; k++)
      if (n->op != OP_MATMUL) here += fragment_registers(p, mma_wanted(p, i, k)) / 2;
    if (p->product_of[i] >= 0) {
      const struct mma_product *x = &p->product[p->product_of[i]];
      if (x->into >= 0) here = 0;
      here += mma_keeps_left(p, x) ? 2 * p->mt * p->cols[x->sum_cols].nt / 2 : 4 * p->mt;
    }
    most = MAX(most, here);
  }
  return lasting + most + 40;
}

bool mma_fit(struct mma_plan *p, const struct knobs *k)
{
  int64_t tiles = p->nbatch * p->padded / 16;
  p->wm = k->v[MMA_WM], p->wn = k->v[MMA_WN], p->stages = p->iterations > 1 ? k->v[MMA_STAGES] : 1;
  if (p->wm < 1 || p->wn < 1 || p->wm * p->wn > 16 || (p->iterations > 1 && (p->stages < 2 || p->stages > 8)))
    return mma_refuse(p, "knobs out of range");
  if (p->wm > tiles) return mma_refuse(p, "%d warps for %lld tiles of rows", p->wm, (long long)tiles);
  p->mt = (int)((tiles + p->wm - 1) / p->wm), p->threads = 32 * p->wm * p->wn;
  if (!share_columns(p)) return false;
  p->shared = 0;
  for (int i = 0; i < p->ntiles; i++) {
    const struct mma_tile *t = &p->tile[i];
    p->shared += t->rows * t->stride * 2 * (t->varying ? p->stages : 1);
  }
  p->registers = p->wg ? mma_live(p) + 24 : estimate(p);
  if (p->shared > p->job->gpu->shared) return mma_refuse(p, "%lld bytes of shared memory", (long long)p->shared);
  if (p->registers > 255 || p->registers * p->threads > p->job->gpu->registers)
    return mma_refuse(p, "about %lld registers a thread", (long long)p->registers);
  return true;
}

// ---- cost ----

static double tensor_bytes(const struct mma_plan *p, const struct access *a, uint32_t has)
{
  return (double)norm_extent(p->n, has) * dtype_bytes(p->job->store[a->tensor]);
}

// Of one iteration: what is loaded, and operations of tensor cores with padding.
static void iteration(const struct mma_plan *p, double *bytes, double *flops)
{
  const struct graph *b = p->n->block;
  *bytes = *flops = 0;
  for (int i = 0; i < p->n->niter; i++) {
    const struct access *a = &p->n->iter[i];
    double once = b->tensors[a->tile].phase == VARYING ? 1 : 1.0 / (double)p->iterations;
    *bytes += once * tensor_bytes(p, a, p->n->t[a->tile].has);
  }
  for (int i = 0; i < p->nproducts; i++) {
    const struct mma_product *x = &p->product[i];
    double once = p->section[x->node] == MMA_LOOP ? 1 : 1.0 / (double)p->iterations;
    double copies = p->cols[x->out_cols].nt * 8 == p->cols[x->out_cols].size ? p->wn : 1;
    *flops += once * copies * 32.0 * p->mt * p->wm * (double)p->cols[x->out_cols].size * (double)p->cols[x->sum_cols].size;
  }
}

// Blocks go in waves; within one, an iteration takes its part of the bandwidth or of the tensor cores, and no less than the
// latency of memory divided among the stages that are under way.
double mma_cost(const struct mma_plan *p)
{
  const struct gpu_limits *gpu = p->job->gpu;
  double bytes, flops, blocks = (double)graph_blocks(p->n->block);
  int64_t fit = MIN(gpu->shared_processor / MAX(p->shared + 1024, 1), gpu->registers / (MAX(p->registers, 32) * p->threads));
  fit = MIN(MAX(fit, 1), MIN(2048 / p->threads, 32));
  iteration(p, &bytes, &flops);
  double at_once = MIN(blocks, (double)fit * gpu->processors), waves = blocks / at_once;
  if (waves > 1 && waves < 8) waves = (double)(int64_t)(waves + 0.999);
  double warps_processor = at_once / gpu->processors * p->threads / 32;
  double rate = gpu->flops * MIN(1, warps_processor / 8) * 0.6; // mma.sync reaches about that much of wgmma's rate
  double one = MAX(at_once * bytes / (1.5 * gpu->bandwidth), at_once * flops / rate);
  one = MAX(one, 0.8e-6 / MAX(1, p->stages - 1)) + 0.15e-6;
  double saved = 0;
  for (int i = 0; i < p->n->nsave; i++) saved += tensor_bytes(p, &p->n->save[i], p->n->t[p->n->save[i].tile].has);
  return gpu->launch + waves * ((double)p->iterations * one + 1.5e-6) + blocks * saved / gpu->bandwidth;
}

// The cost model of the CPU: arithmetic of a core, cache traffic, memory traffic. Rates are measured on the host (target.h). The formulas follow the
// generated code: matrix products in registers, fused elementwise chains, iterators that read in place.
#include "search/space.h"

#include <math.h>

static const double SHORT_RUN = 256;  // bytes: contiguous runs of this length take twice the time of a stream
static const double START = 2e-8;     // seconds to start one operator on one tile
static const double PACKING = 5;      // bytes of a tile that are read from a cache in the time in which one is packed in pairs
static const double OF_MEMORY = 0.02; // largest share of the memory for the tiles of all cores

// Contiguous bytes of a tile in memory. The layout of a tensor that a kernel stores is not fixed, so the whole tile counts.
static double run_bytes(const struct model *m, const struct device *d, double elem, double tile, const struct sizes *z)
{
  if (d->visit < 0) return tile;
  const struct labels *l = &m->s->visit[d->visit].l;
  double run = elem;
  for (int i = l->n - 1; i >= 0; i--)
    for (int k = l->d[i].n - 1; k >= 0; k--) {
      const int64_t *ext = z->ext[(int)l->d[i].c[k]];
      run *= (double)ext[TILE];
      if (ext[GRID] * ext[LOOP] > 1) return run;
    }
  return run;
}

static double times_of(const struct work *w, const struct sizes *z) { return (double)z->blocks * (w->looped ? (double)z->iterations : 1); }

static struct search_term load_term(const struct model *m, const struct work *w, const struct sizes *z)
{
  const struct device *d = &m->dev[w->device];
  if (!d->has) return (struct search_term){0};
  double elem = d->input >= 0 ? dtype_bytes(m->s->p->tensors[d->input].dtype) : 4;
  double whole = elem * (double)size_of(z, d->has), tile = elem * (double)size_of(z, w->stored), times = times_of(w, z);
  return (struct search_term){.compute = tile * times / (m->t->cache_bandwidth / m->t->cores),
                              .unique = whole * (1 + SHORT_RUN / run_bytes(m, d, elem, tile, z)),
                              .again = fmax(0, tile * times - whole)};
}

static struct search_term product_term(const struct model *m, const struct work *w, const struct sizes *z)
{
  double k = (double)size_of(z, w->over), batch = (double)size_of(z, w->batch);
  double rows = (double)size_of(z, w->rows), cols = (double)size_of(z, w->cols);
  double one_core = target_products(m->t, w->pairs) / m->t->cores, lanes = m->t->lanes;
  double steps = w->pairs ? ceil(k / 2) : k; // steps of words with two bf16 numbers
  double efficiency = 0.97 * steps / (steps + 2) * (rows < 2 ? 0.5 : rows / (rows + 0.1)) * cols / (lanes * ceil(cols / lanes));
  double bytes = batch * k * ((w->pairs ? 2 : 4) * cols * ceil(rows / 16) + 4 * rows); // the right operand streams from cache
  double once = fmax(2 * batch * rows * cols * k / (one_core * efficiency), bytes / (m->t->cache_bandwidth / m->t->cores));
  const double packing = w->pairs && !w->frozen ? PACKING * batch * 2 * k * cols / (m->t->cache_bandwidth / m->t->cores) : 0;
  return (struct search_term){.compute = times_of(w, z) * (once + packing + START)};
}

static struct search_term pass_term(const struct model *m, const struct work *w, const struct sizes *z)
{
  double n = (double)size_of(z, w->rows), times = times_of(w, z);
  double one_core = m->t->flops / m->t->cores / 2; // single operations, not fused multiply-adds
  double once = w->ops >= 10 ? n * w->ops / 10 / (m->t->exp_rate / m->t->cores) : n * w->ops / one_core;
  return (struct search_term){.compute = times * (once + START), .streams = times * 2 * n};
}

static struct search_term save_term(const struct model *m, const struct work *w, const struct sizes *z)
{
  (void)m;
  return (struct search_term){.unique = 4 * (double)size_of(z, w->rows)};
}

static struct search_term term_of(const struct model *m, const struct work *w, const struct sizes *z)
{
  static struct search_term (*const terms[])(const struct model *, const struct work *, const struct sizes *) = {
      [WORK_LOAD] = load_term, [WORK_PRODUCT] = product_term, [WORK_PASS] = pass_term, [WORK_SAVE] = save_term};
  struct search_term x = terms[w->kind](m, w, z);
  x.tile = w->elem * (double)size_of(z, w->stored);
  return x;
}

// Additional time if tiles do not fit in L1, relative to the time in which a core reads them from L1. It grows with the size of the tiles up to four
// times L1, and is constant above: the tiles are then in L2 (bench/cpu_tiles.csv).
static double farther(const struct target *t, double near, double tiles) { return 4 * near * fmin(tiles / (4 * (double)t->l1), 1); }

// Additional time if tiles do not fit in L2 either. Each pass reads the excess from L3 or from memory.
static double farthest(const struct target *t, const struct search_term *sum)
{
  const bool cached = sum->tile * t->cores < 0.5 * (double)t->l3;
  return 4 * sum->streams * fmax(0, 1 - (double)t->scratch / sum->tile) / (cached ? 0.5 * t->cache_bandwidth : t->bandwidth);
}

static bool may_fit(const struct model *m, const struct search_term *sum) { return sum->tile <= (double)m->t->scratch; }

// Tiles of kernels without products may exceed L2. A kernel with products reads its tiles many times, and has a loop that bounds them.
static bool may_spill(const struct model *m, const struct search_term *sum)
{
  bool products = false;
  for (int c = 0; c < m->s->nclass; c++) products |= (m->s->classes[c].kind & CONTRACTED) != 0;
  return !products && sum->tile * m->t->cores <= OF_MEMORY * (double)m->t->memory;
}

static double kernel_seconds(const struct model *m, const struct search_term *sum, const struct sizes *z)
{
  if (!may_fit(m, sum) && !may_spill(m, sum)) return INFINITY;
  double cores = m->t->cores, waves = ceil((double)z->blocks / cores) * cores / (double)z->blocks;
  double near = sum->streams / (3 * m->t->cache_bandwidth / cores);
  double compute = (sum->compute + near) / cores * waves;
  bool cached = sum->unique < 0.5 * (double)m->t->l3;
  double memory = sum->unique / (cached ? 0.5 * m->t->cache_bandwidth : m->t->bandwidth) + sum->again / (0.4 * m->t->cache_bandwidth);
  if ((double)z->blocks < cores) memory *= 0.6 * cores / (double)z->blocks;
  memory += farthest(m->t, sum) + farther(m->t, near, sum->tile) / cores * waves; // arithmetic overlaps it, as it overlaps memory traffic
  return fmax(compute, memory) + 0.3 * fmin(compute, memory) + m->t->launch + 1e-7 * (double)z->blocks / cores;
}

static double seconds_of(const struct target *t, double elements, double ops)
{
  return ops >= 10 ? elements * ops / 10 / t->exp_rate : elements * ops / (t->flops / 2);
}

// Whether a product reads its second operand packed in advance (packed.c of gen). The operand is a view of a frozen input.
static bool packed_before(const struct graph *p, const struct node *n)
{
  const struct tensor *root = &p->tensors[graph_root(p, n->in[1])];
  return root->frozen && (root->dtype == F32 || num_rows[root->dtype].bits == 16) && p->tensors[n->in[1]].shape.n == 2;
}

static double library_seconds(const struct target *t, const struct graph *p, const struct node *n)
{
  double bytes = 0, work = 0;
  const struct tensor *out = &p->tensors[n->out];
  for (int i = 0; i < n->nin; i++) bytes += dtype_bytes(p->tensors[n->in[i]].dtype) * (double)shape_size(&p->tensors[n->in[i]].shape);
  bytes += 2 * dtype_bytes(out->dtype) * (double)shape_size(&out->shape);
  if (n->op == OP_MATMUL) {
    const struct shape *x = &p->tensors[n->in[0]].shape;
    double rows = (double)x->d[x->n - 2], k = (double)x->d[x->n - 1], flops = 2 * (double)shape_size(&out->shape) * k;
    const bool packed = packed_before(p, n), pairs = packed && p->tensors[n->in[1]].dtype == BF16 && t->pair_flops > t->flops;
    work = flops / ((pairs ? 0.55 * t->pair_flops : (packed ? 1.05 : 0.85) * t->flops) * rows / (rows + 3) * k / (k + 12));
    if (rows < 32 && !packed) bytes *= 1.6;         // packing is not amortized
    for (int i = 0; i < (packed ? 1 : n->nin); i++) // copies in the dtype that is multiplied
      if (p->tensors[n->in[i]].dtype != (pairs ? BF16 : F32)) bytes += 8 * (double)shape_size(&p->tensors[n->in[i]].shape);
  } else {
    work = seconds_of(t, (double)MAX(shape_size(&out->shape), shape_size(&p->tensors[n->in[0]].shape)), op_rows[n->op].cost);
  }
  double rate = bytes < 0.5 * (double)t->l3 ? 0.5 * t->cache_bandwidth : t->bandwidth;
  return fmax(work, bytes / rate) + 0.3 * fmin(work, bytes / rate) + t->launch;
}

const struct cost_rules cost_cpu = {.term = term_of,
                                    .seconds = kernel_seconds,
                                    .library = library_seconds,
                                    .operate = seconds_of,
                                    .fits = may_fit,
                                    .spills = may_spill,
                                    .pairs = true,
                                    .lattice = 64,
                                    .fill = 1};

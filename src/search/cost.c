// The cost model of the CPU: what a core computes, what the caches move, what memory moves. Rates are the
// host's, measured (target.h); the shape of the formulas is what generated code does: matrix products in
// registers, elementwise chains fused, iterators that read in place.
#include "search/space.h"

#include <math.h>

static const double SHORT_RUN = 256; // bytes: reading so few in a row takes twice the time of a stream

int64_t size_of(const struct sizes *z, mask m)
{
  const int64_t *ext = z->ext[0]; // piece p of class c is bit 3 c + p
  int64_t n = 1;

  for (; m; m &= m - 1) n *= ext[__builtin_ctzll(m)];
  return n;
}

struct sum {
  double compute;  // seconds of one core for all blocks
  double unique;   // bytes of device memory touched once
  double again;    // bytes read again by other blocks or iterations
  double tile;     // bytes of tiles
  double streams;  // bytes that elementwise operators and reductions read and write in tiles
};

static double product_seconds(const struct model *m, const struct table *t, const struct deriv *d, const struct sizes *z)
{
  const struct value *a = &t->v[d->a], *b = &t->v[d->b];
  mask over = a->stored & all_of(d->cls), both = a->stored & b->stored & ~over;
  double k = (double)size_of(z, over), batch = (double)size_of(z, both);
  double rows = (double)size_of(z, a->stored & ~over & ~both), cols = (double)size_of(z, b->stored & ~over & ~both);
  double one_core = m->t->flops / m->t->cores, lanes = m->t->lanes;
  double efficiency = 0.97 * k / (k + 2) * (rows < 2 ? 0.5 : rows / (rows + 0.1)) * cols / (lanes * ceil(cols / lanes));
  double bytes = 4 * batch * (k * cols * ceil(rows / 16) + rows * k); // the right operand streams from cache
  return fmax(2 * batch * rows * cols * k / (one_core * efficiency), bytes / (m->t->cache_bandwidth / m->t->cores));
}

static double map_seconds(const struct model *m, const struct table *t, const struct deriv *d, const struct sizes *z, const struct value *v)
{
  const struct value *x = &t->v[d->a];
  double n = (double)size_of(z, op_rows[d->op].rule == RULE_MAP ? v->stored : x->stored);
  double one_core = m->t->flops / m->t->cores / 2, row = op_rows[d->op].cost; // one operation, not a fused pair
  if (d->op == OP_DIV && t->v[d->b].stored != v->stored) row = 1;             // a reciprocal a row, and products
  return row >= 10 ? n * row / 10 / (m->t->exp_rate / m->t->cores) : n * row / one_core;
}

// Bytes in a row that a tile has of a tensor in memory; of what a kernel leaves the order is open, so all of the tile.
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

static void add_leaf(const struct model *m, const struct value *v, const struct sizes *z, struct sum *sum)
{
  const struct device *d = &m->dev[v->leaf];
  if (!d->has) return;
  double elem = d->input >= 0 ? dtype_bytes(m->s->p->tensors[d->input].dtype) : 4;
  double whole = elem * (double)size_of(z, d->has), tile = elem * (double)size_of(z, v->stored);
  double times = (double)z->blocks * (v->phase == VARYING ? (double)z->iterations : 1);
  sum->unique += whole * (1 + SHORT_RUN / run_bytes(m, d, elem, tile, z));
  sum->again += fmax(0, tile * times - whole);
  sum->compute += tile * times / (m->t->cache_bandwidth / m->t->cores);
}

static void add_value(const struct model *m, const struct table *t, int value, int deriv, const struct sizes *z, struct sum *sum)
{
  const struct value *v = &t->v[value];
  const struct deriv *d = &t->d[deriv];
  bool accum = op_rows[d->op].rule == RULE_ACCUM;
  double times = (double)z->blocks * (accum || v->phase == VARYING ? (double)z->iterations : 1);
  double once = d->op == OP_MATMUL ? product_seconds(m, t, d, z) : map_seconds(m, t, d, z, v);
  sum->compute += times * (once + 2e-8);
  if (d->op != OP_MATMUL) sum->streams += times * 2 * (double)size_of(z, op_rows[d->op].rule == RULE_MAP ? v->stored : t->v[d->a].stored);
}

double cost_tiles(const struct model *m, const struct table *t, const struct pick *p, const struct sizes *z)
{
  double sum = 0;
  for (int i = 0; i < p->n; i++) {
    const struct value *v = &t->v[p->value[i]];
    if (p->deriv[i] >= 0 || m->dev[v->leaf].has) sum += 4 * (double)size_of(z, v->stored);
  }
  return sum;
}

double cost_kernel(const struct model *m, const struct table *t, const struct pick *p, const int *roots, int nroots,
                   const struct sizes *z)
{
  struct sum sum = {.tile = cost_tiles(m, t, p, z)};
  if (sum.tile > (double)m->t->scratch) return INFINITY;
  for (int i = 0; i < p->n; i++) {
    if (p->deriv[i] < 0) add_leaf(m, &t->v[p->value[i]], z, &sum);
    else add_value(m, t, p->value[i], p->deriv[i], z, &sum);
  }
  sum.compute += sum.streams * (1 + sum.tile / (2 * (double)m->t->l1)) / (3 * m->t->cache_bandwidth / m->t->cores);
  for (int i = 0; i < nroots; i++) sum.unique += 4 * (double)size_of(z, t->v[roots[i]].has);
  double cores = m->t->cores, waves = ceil((double)z->blocks / cores) * cores / (double)z->blocks;
  double compute = sum.compute / cores * waves;
  bool cached = sum.unique < 0.5 * (double)m->t->l3;
  double memory = sum.unique / (cached ? 0.5 * m->t->cache_bandwidth : m->t->bandwidth) + sum.again / (0.4 * m->t->cache_bandwidth);
  if ((double)z->blocks < cores) memory *= 0.6 * cores / (double)z->blocks;
  return fmax(compute, memory) + 0.3 * fmin(compute, memory) + m->t->launch + 1e-7 * (double)z->blocks / cores;
}

double cost_library(const struct model *m, const struct node *n)
{
  const struct graph *p = m->s->p;
  double bytes = 0, work = 0;
  const struct tensor *out = &p->tensors[n->out];
  for (int i = 0; i < n->nin; i++) bytes += dtype_bytes(p->tensors[n->in[i]].dtype) * (double)shape_size(&p->tensors[n->in[i]].shape);
  bytes += 2 * dtype_bytes(out->dtype) * (double)shape_size(&out->shape);
  if (n->op == OP_MATMUL) {
    const struct shape *x = &p->tensors[n->in[0]].shape;
    double rows = (double)x->d[x->n - 2], k = (double)x->d[x->n - 1], flops = 2 * (double)shape_size(&out->shape) * k;
    work = flops / (0.85 * m->t->flops * rows / (rows + 3) * k / (k + 12));
    if (rows < 32) bytes *= 1.6; // packing is not amortized
  } else {
    double row = op_rows[n->op].cost, elements = (double)MAX(shape_size(&out->shape), shape_size(&p->tensors[n->in[0]].shape));
    work = row >= 10 ? elements * row / 10 / m->t->exp_rate : elements * row / (m->t->flops / 2);
  }
  double rate = bytes < 0.5 * (double)m->t->l3 ? 0.5 * m->t->cache_bandwidth : m->t->bandwidth;
  return fmax(work, bytes / rate) + 0.3 * fmin(work, bytes / rate) + m->t->launch;
}

double cost_op_by_op(const struct model *m)
{
  const struct graph *p = m->s->p;
  double sum = 0;
  for (int i = 0; i < p->nnodes; i++) {
    enum rule rule = op_rows[p->nodes[i].op].rule;
    if (rule != RULE_IO && rule != RULE_CONST && rule != RULE_VIEW) sum += cost_library(m, &p->nodes[i]);
  }
  return sum;
}

// The cost model of GPUs. A kernel's time is its launch, a start (addresses, first load, last store), and the longest of these:
//
//   memory    bytes over the bandwidth, if enough of them are in flight
//   L2        bytes that all blocks load, over the bandwidth of L2; a multiprocessor gets its share and a little more
//   work      products on tensor cores, with tiles padded to the instruction's shape, plus elementwise operators and reductions, on the busiest
//             multiprocessor
//   waiting   latencies of a block's dependent steps, times the number of blocks that run one after the other on a multiprocessor
//
// The times overlap only partly, so a share of the shorter ones is added. Each of the first few waves after the first also adds the first load and
// the last store of a block. The model assumes the kernels of the schemes: loaded operands of products are in shared memory, in pipeline stages if a
// loop loads them; all other tiles are in registers.
#include "search/space.h"

#include <math.h>

// fmin and fmax are calls of a library, because they heed NaN. No term of a cost is NaN.
static double smaller(double a, double b) { return a < b ? a : b; }
static double larger(double a, double b) { return a > b ? a : b; }

static const double START = 0.5e-6;
static const double LATENCY = 0.75e-6, L2_LATENCY = 0.3e-6; // of a load
static const double UNEVEN = 1.35;                          // a single multiprocessor may draw this many times its share of L2 bandwidth
static const double OVERLAP = 0.15, ALONE = 0.6;            // share of the shorter times that is added; ALONE: if nothing else is in flight
static const double BARRIER = 2e-8;                         // seconds: waiting for the next pipeline stage
static const double PRODUCT = 5e-8, PRODUCT_STEP = 4e-9;    // latency of a product's first result, and of each 16 of its depth
static const double NEXT = 1e-6, MANY_TURNS = 4;            // seconds that a block after the first wave adds; for that many waves
static const double FOLD = 6e-8, PASS = 5e-9;
static const double SHARED_LOOP = 2.5e-6; // seconds until the last of the blocks that share a loop has combined the sums of all
static const double PART = 1e-8;          // seconds to load one partial sum in a kernel with products: few loads are in flight

// Seconds for each iteration of a product of which the block computes both operands: the right one passes through shared memory before the product.
// Fitted to the prices that lowering gives to 221 such kernels of 13 programs: masked and linear attention, and products of activated matrices. The
// ratio of price to cost is compared with the median of the program's other kernels. The mean error of its logarithm over the programs is least here
// (0.31; 0.33 at 0, 0.45 at 1e-6), and below 0.32 from 2e-8 to 1.5e-7. From 3e-8 on, the masked programs get the kernel that multiplies the weights.
static const double COMPUTED = 7e-8;

static const double WGMMA = 0.95, VECTOR = 0.45, EXP = 0.75; // achieved share of the peak rates
static const double SECTOR = 32, LINE = 128;                 // least size and preferred size of a memory access in bytes
enum {
  STAGES = 4,
  BLOCKS = 16,
  BLOCK_REGISTERS = 144 << 10,
  MOST_REGISTERS = 4 << 20,
  BLOCK_OVERHEAD = 10 << 10,
  BLOCK_SHARED = 1 << 10,
  PRODUCT_REGISTERS = 4 << 10
};

static double pad(double n, double to) { return to * ceil(n / to); }

// The grid pieces of the classes of which `has` stores partial sums.
static mask partial(mask has)
{
  mask parts = 0;
  for (int at = 0; has >> at; at += 3)
    if ((has >> at & 7) == (mask)1 << GRID) parts |= (mask)1 << GRID << at;
  return parts;
}

static mask whole_classes(mask has)
{
  mask whole = 0;
  for (int at = 0; has >> at; at += 3)
    if ((has >> at & 7) == 7) whole |= (mask)7 << at;
  return whole;
}

// Bytes of an element. Partial sums are fp32. The program's results have their own dtypes; other tensors between kernels have the dtype of its
// outputs.
static double elem_of(const struct model *m, mask has)
{
  const struct graph *p = m->s->p;
  return partial(has) ? 4 : dtype_bytes(p->tensors[m->s->visit[m->s->out[0]].tensor].dtype);
}

// Bytes transferred for each byte of device tensor d that is read, from the contiguous runs of a tile in memory. inner: bytes of the tile in one
// part.
static double waste(const struct model *m, const struct device *d, double elem, double inner, const struct sizes *z)
{
  if (d->visit < 0) return pad(inner, SECTOR) / inner; // its layout is not fixed, except that parts come first
  const struct labels *l = &m->s->visit[d->visit].l;
  double run = elem;
  for (int i = l->n - 1; i >= 0; i--)
    for (int k = l->d[i].n - 1; k >= 0; k--) {
      const int64_t *ext = z->ext[(int)l->d[i].c[k]];
      run *= (double)ext[TILE];
      if (ext[GRID] * ext[LOOP] > 1) return pad(run, SECTOR) / run * (run < LINE ? 1.1 : 1);
    }
  return 1;
}

static double turns_of(const struct work *w, const struct sizes *z) { return w->looped ? (double)z->iterations : 1; }

static struct search_term load_term(const struct model *m, const struct work *w, const struct sizes *z)
{
  const struct device *d = &m->dev[w->device];
  if (!d->has) return (struct search_term){0};
  double elem = d->input >= 0 ? dtype_bytes(m->s->p->tensors[d->input].dtype) : elem_of(m, d->has);
  double whole = elem * (double)size_of(z, d->has), tile = elem * (double)size_of(z, w->stored);
  double more = waste(m, d, elem, elem * (double)size_of(z, w->stored & whole_classes(d->has)), z), turns = turns_of(w, z);
  bool near = d->input < 0 && whole < 0.5 * (double)m->t->l2; // an earlier kernel wrote it, and it still is in L2
  struct search_term x = {.unique = near ? 0 : whole * more,
                          .again = tile * more * turns * (double)z->blocks,
                          .steps = w->looped ? BARRIER * turns : 0,
                          .parts = turns * ((double)size_of(z, partial(d->has)) - 1)};
  *(w->feeds ? w->looped ? &x.ring : &x.tile : &x.registers) = w->feeds ? tile : 4 * tile / elem;
  return x;
}

// Seconds of a multiprocessor for one product of tiles, with the faster instruction and order of operands. wgmma needs an operand that is loaded.
static double product_seconds(const struct target *t, bool computed, double rows, double cols, double k)
{
  const bool warpgroups = t->can & CAN_WGMMA && !computed;
  double rate = t->flops / t->cores, by_warps = rate * t->mma, least = INFINITY;
  double shared = t->shared_width * t->vector_rate / t->cores / t->lanes; // bytes/s
  for (int turn = 0; turn < 2; turn++) {
    double a = turn ? cols : rows, b = turn ? rows : cols;
    double mma = 2 * pad(a, 16) * pad(b, 8) * k / by_warps, fragments = k * (3 * pad(a, 16) + (a > 16 ? 3 : 2) * pad(b, 8)) / shared;
    least = smaller(least, larger(mma, fragments));
    if (!warpgroups || a < 64) continue;
    double wgmma = 2 * pad(a, 64) * pad(b, 8) * k / (rate * WGMMA), tiles = 2 * k * (pad(a, 64) + pad(b, 8)) / shared;
    least = smaller(least, larger(wgmma, tiles));
  }
  return least;
}

static struct search_term product_term(const struct model *m, const struct work *w, const struct sizes *z)
{
  double k = pad((double)size_of(z, w->over), 16), batch = (double)size_of(z, w->batch), turns = turns_of(w, z);
  double rows = (double)size_of(z, w->rows), cols = (double)size_of(z, w->cols);
  double area = smaller(pad(rows, 16) * pad(cols, 8), pad(rows, 8) * pad(cols, 16));
  double all = turns * (double)z->blocks * batch * product_seconds(m->t, w->computed, rows, cols, k);
  return (struct search_term){.compute = all,
                              .once = w->looped ? 0 : all,
                              .registers = 4 * batch * area + PRODUCT_REGISTERS,
                              .steps = turns * (PRODUCT + PRODUCT_STEP * k / 16),
                              .passed = w->computed ? turns : 0};
}

static struct search_term pass_term(const struct model *m, const struct work *w, const struct sizes *z)
{
  double n = (double)size_of(z, w->rows), turns = turns_of(w, z), cores = m->t->cores;
  double all = turns * (double)z->blocks * cores * cost_gpu.operate(m->t, n, w->ops);
  return (struct search_term){.streams = all, .once = w->looped ? 0 : all, .steps = turns * (w->folds ? FOLD : PASS)};
}

static struct search_term save_term(const struct model *m, const struct work *w, const struct sizes *z)
{
  double bytes = elem_of(m, w->rows) * (double)size_of(z, w->rows);
  bool near = partial(w->rows) && bytes < 0.5 * (double)m->t->l2;
  return (struct search_term){.unique = near ? 0 : bytes, .again = near ? bytes : 0};
}

static struct search_term term_of(const struct model *m, const struct work *w, const struct sizes *z)
{
  static struct search_term (*const terms[])(const struct model *, const struct work *, const struct sizes *) = {
      [WORK_LOAD] = load_term, [WORK_PRODUCT] = product_term, [WORK_PASS] = pass_term, [WORK_SAVE] = save_term};
  return terms[w->kind](m, w, z);
}

static bool may_fit(const struct model *m, const struct search_term *least)
{
  return least->tile + least->ring <= (double)m->t->scratch && least->registers <= MOST_REGISTERS;
}

// Number of pipeline stages; 0 if the kernel does not fit.
static double stages_of(const struct model *m, const struct search_term *sum, const struct sizes *z)
{
  if (!may_fit(m, sum)) return 0;
  if (sum->ring <= 0) return 1;
  double want = smaller((double)z->iterations, STAGES), room = floor(((double)m->t->scratch - sum->tile) / sum->ring);
  return room < smaller(want, 2) ? 0 : smaller(want, room);
}

// Number of resident blocks of a multiprocessor.
static double held(const struct model *m, const struct search_term *sum, double stages)
{
  double shared = (double)m->t->shared_processor / (sum->tile + stages * sum->ring + BLOCK_SHARED);
  double registers = 4 * (double)m->t->registers / (1.3 * sum->registers + BLOCK_OVERHEAD);
  return larger(1, smaller(BLOCKS, floor(smaller(shared, registers))));
}

// Seconds for one byte, limited by a rate and by a latency. The squares cannot overflow, so the slower hypot() is not needed.
static double bound_by(double rate, double latency) { return sqrt(rate * rate + latency * latency); }

// parts: blocks that share a loop (lower/mma_parts.c).
static double seconds_in(const struct model *m, const struct search_term *sum, const struct sizes *z, double parts)
{
  const struct target *t = m->t;
  double stages = stages_of(m, sum, z), blocks = (double)z->blocks * parts, cores = t->cores;
  if (stages <= 0) return INFINITY;
  double hold = held(m, sum, stages), most = ceil(blocks / cores), each = sum->again / blocks;
  double flight = smaller(blocks, cores * hold) * each * smaller(1, stages * parts / (double)z->iterations) + 1;
  double memory = sum->unique * bound_by(1 / t->bandwidth, LATENCY / flight);
  double share = UNEVEN * t->cache_bandwidth / cores;
  double cache = larger(sum->again * bound_by(1 / t->cache_bandwidth, L2_LATENCY / flight), most * each / share);
  double product = sum->compute / blocks * most, vector = sum->streams / blocks * most;
  double work = larger(product, vector) + 0.5 * smaller(product, vector);
  double turns = ceil(blocks / (cores * hold)), wait = (sum->steps / parts + (sum->compute > 0 ? PART * sum->parts : 0)) * turns;
  double moved = larger(memory, cache), longest = larger(moved, larger(work, wait)), beside = larger(1, smaller(hold, blocks / cores));
  double over = sqrt(larger(1, sum->registers / BLOCK_REGISTERS)); // schemes retile rows of products, and read long rows again
  double show = larger(OVERLAP, ALONE / (beside * stages)), alone = larger(0, larger(OVERLAP, ALONE / beside) - show) * sum->once / blocks * most;
  double others = COMPUTED * sum->passed * turns + NEXT * smaller(turns - 1, MANY_TURNS);
  return t->launch + START + over * longest + show * (moved + work + wait - longest) + alone + others;
}

static double kernel_seconds(const struct model *m, const struct search_term *sum, const struct sizes *z)
{
  const double whole = seconds_in(m, sum, z, 1), parts = floor(smaller(m->t->cores / (double)z->blocks, (double)z->iterations / 2));
  return parts < 2 || sum->compute <= 0 || sum->ring <= 0 ? whole : smaller(whole, SHARED_LOOP + seconds_in(m, sum, z, parts));
}

// A product by the vendor's library, or an operator as a separate kernel.
static double library_seconds(const struct target *t, const struct graph *p, const struct node *n)
{
  const struct tensor *out = &p->tensors[n->out];
  double bytes = dtype_bytes(out->dtype) * (double)shape_size(&out->shape), work = 0, again = 0;
  for (int i = 0; i < n->nin; i++) bytes += dtype_bytes(p->tensors[n->in[i]].dtype) * (double)shape_size(&p->tensors[n->in[i]].shape);
  if (n->op == OP_MATMUL) {
    const struct shape *x = &p->tensors[n->in[0]].shape;
    double rows = (double)x->d[x->n - 2], flops = 2 * (double)shape_size(&out->shape) * (double)x->d[x->n - 1];
    work = flops / (0.85 * t->flops) * pad(rows, 64) / rows, again = 1.2e-6; // its kernels are general
    bytes /= 0.85;
  } else {
    work = cost_gpu.operate(t, (double)MAX(shape_size(&out->shape), shape_size(&p->tensors[n->in[0]].shape)), op_rows[n->op].cost);
  }
  double memory = bound_by(bytes / t->bandwidth, LATENCY);
  return larger(work, memory) + OVERLAP * smaller(work, memory) + t->launch + START + again;
}

static double seconds_of(const struct target *t, double elements, double ops)
{
  return ops >= 10 ? elements * ops / 10 / (EXP * t->exp_rate) : elements * ops / (VECTOR * t->vector_rate);
}

// Whether lowering does not need to pad such a tile. A looped extent must be a multiple of 16. Other extents must be a multiple of the largest power
// of two up to 16 that divides the class, or a power of two up to 8.
static bool good_extent(int64_t whole, int64_t tile, bool looped)
{
  int64_t unit = looped ? 16 : MIN(16, whole & -whole);
  return tile % unit == 0 || (!looped && tile <= 8 && (tile & (tile - 1)) == 0);
}

const struct cost_rules cost_gpu = {.term = term_of,
                                    .seconds = kernel_seconds,
                                    .library = library_seconds,
                                    .operate = seconds_of,
                                    .fits = may_fit,
                                    .extent = good_extent,
                                    .step = 64,
                                    .lattice = 160,
                                    .feeds = true,
                                    .spread = 6,
                                    .fill = 0.2};

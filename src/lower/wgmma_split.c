// Blocks that share the sum of an item. The blocks of a cluster take contiguous shares of the loop's iterations, so that few tiles with long sums keep
// all multiprocessors busy. Warpgroup g of all blocks computes the same rows, and that of block g % split finishes them. The other blocks write their
// accumulators into its shared memory, and it adds them in the order of blocks. So results do not depend on which block is done first. With as many
// warpgroups as blocks, each block sends and receives as much as the others.
//
//   %in5[q][j, i]  accumulator 5 of the q-th other block: fragment j of thread i of a warpgroup
//
// This memory is no part of the ring, so a block writes as soon as its own loop has ended. It only has to know that the other blocks have begun.
#include "lower/wgmma.h"

// Bytes a second that arrive in one multiprocessor from others: a guess between figures of published benchmarks. Not measured.
static const double ARRIVING = 3.5e10;

// Whether the loop has plain sums alone, and what follows it needs no other warpgroup.
static bool may_split(struct mma_plan *p)
{
  for (int i = 0; i < p->norder; i++) {
    const int v = p->order[i];
    const struct kern_value *x = mma_at(p, v);
    if (mma_accumulates(p, v) && (x->kind != KERN_SUM || x->axes & p->k.loops)) return mma_refuse(p, "blocks of a cluster share plain sums only");
    if (mma_accumulates(p, v) || (p->section[v] != MMA_POST && p->section[v] != MMA_SENT) || !mma_reduces(x) || !mma_gone(p, v)) continue;
    const int cols = mma_wanted(p, v, 0).cols;
    if (cols >= 0 && p->cols[cols].split) return mma_refuse(p, "warpgroups of different blocks would add up columns");
  }
  for (int i = 0; i < p->k.nsaves; i++)
    if (mma_at(p, p->k.save[i].value)->axes & p->k.loops) return mma_refuse(p, "blocks that share a loop store nothing in it");
  return true;
}

// Warpgroups that a block finishes, at most.
static int own_groups(const struct wg_plan *w) { return (w->groups + w->split - 1) / w->split; }

// Registers that a thread has of all accumulators.
static int64_t words(const struct mma_plan *p)
{
  int64_t n = 0;
  for (int i = 0; i < p->norder; i++)
    if (mma_accumulates(p, p->order[i])) n += mma_fragment_registers(p, p->shape[p->order[i]]);
  return n;
}

static int64_t bytes_in(const struct wg_plan *w) { return 4ll * 128 * words(&w->p) * own_groups(w) * (w->split - 1); }

bool wgmma_split_fit(struct wg_plan *w, int split)
{
  struct mma_plan *p = &w->p;
  const struct target *gpu = p->job->gpu;
  w->split = split;
  if (!split) return true;
  if (split < 2 || split > WG_SPLIT_MOST || split & (split - 1)) return mma_refuse(p, "knobs out of range");
  if (!(gpu->can & CAN_CLUSTER) || gpu->cluster < split) return mma_refuse(p, "the target has no clusters of %d blocks", split);
  if (p->job->tail || p->may_hide) return mma_refuse(p, "blocks do not share a loop with a tail or with hidden iterations");
  if (w->walks || w->pair_axis >= 0 || w->first) return mma_refuse(p, "blocks that share a loop do not walk, form pairs or chain products");
  if (p->iterations < split || norm_only_loop(p->n->block) < 0) return mma_refuse(p, "%d blocks share one loop of as many iterations", split);
  if (!may_split(p)) return false;
  p->parts = split, w->blocks = w->items * split, p->shared += bytes_in(w);
  return gpu_blocks(gpu, w->blocks) == w->blocks || mma_refuse(p, "blocks that share a loop have one item each");
}

double wgmma_split_seconds(const struct wg_plan *w) { return w->split ? (double)bytes_in(w) / ARRIVING : 0; }

// ---- emission ----

const char *wgmma_split_bounds(struct mma_kernel *k, const struct wg_plan *w)
{
  const long long n = k->p->iterations;
  const int split = w->split;
  text_line(k->t, "@rank = @first %% %d", split);
  if (n % split)
    text_line(k->t, "@from = @rank * %lld / %d\n@count = (@rank + 1) * %lld / %d - @from", n, split, n, split);
  else
    text_line(k->t, "@from = @rank * %lld\n@count = %lld", n / split, n / split);
  return arena_printf(k->mem, "(@first / %d)", split);
}

// Registers of a value as fragments of a thread.
static const struct hole *holes_of(const struct mma_kernel *k, const struct wg_plan *w, int v)
{
  const struct mma_plan *p = k->p;
  const struct mma_shape s = p->shape[v];
  const int mt = s.rows ? p->mt : 1, nt = s.cols >= 0 ? p->cols[s.cols].nt : 1;
  return KEPT_HOLES(k->mem, NULL, INT(v, v), STR(reg, k->reg[v] ? k->reg[v] : ""), INT(mt, mt), INT(nt, nt), INT(h, s.rows ? 2 : 1),
                    INT(e, s.cols >= 0 ? 2 : 1), INT(others, w->split - 1), INT(all, own_groups(w) * mt * nt), INT(split, w->split),
                    STR(at, arena_printf(k->mem, "(@g / %d * %d + m) * %d + n", w->split, mt, nt)));
}

// The other blocks may write once all have begun.
void wgmma_split_declare(struct mma_kernel *k, const struct wg_plan *w)
{
  const struct mma_plan *p = k->p;
  for (int i = 0; i < p->norder && w->split; i++)
    if (mma_accumulates(p, p->order[i])) text_fill(k->t, "%in$v:[$others].[$all, 128].[$h, 1].[1, $e].fp32.SH", holes_of(k, w, p->order[i]));
}

void wgmma_split_begin(struct mma_kernel *k, const struct wg_plan *w)
{
  if (w->split) text_line(k->t, "Sync<cluster.arrive.relaxed>#t()");
}

static void meet(struct mma_kernel *k) { text_line(k->t, "Sync<cluster.arrive>#group()\nSync<cluster.wait>#group()"); }

static void send(struct mma_kernel *k, const struct wg_plan *w)
{
  const struct mma_plan *p = k->p;
  TEXT_SCOPE(k->t);
  text_line(k->t, "@owner = @g %% %d", w->split);
  text_open(k->t, "if (@owner != @rank) {");
  for (int i = 0; i < p->norder; i++) {
    const int v = p->order[i];
    if (!mma_accumulates(p, v)) continue;
    TEXT_ABOUT(k->t, mma_at(p, v)->about);
    text_fill(k->t,
              "each m:$mt n:$nt\n"
              "%in$v[@rank - (@rank > @owner)].peer(@owner)[$at, @i] <- Move(%$reg[m, n])\n"
              "}",
              holes_of(k, w, v));
  }
}

static void receive(struct mma_kernel *k, const struct wg_plan *w)
{
  const struct mma_plan *p = k->p;
  for (int i = 0; i < p->norder; i++) {
    const int v = p->order[i];
    if (!mma_accumulates(p, v)) continue;
    TEXT_ABOUT(k->t, mma_at(p, v)->about);
    text_fill(k->t,
              "each q:$others m:$mt n:$nt\n"
              "%other:[$h, 1].[1, $e].fp32.RF\n"
              "%other <- Move(%in$v[q][$at, @i])\n"
              "%$reg[m, n] <- BinaryPointwise<+>(%$reg[m, n], %other)\n"
              "}",
              holes_of(k, w, v));
  }
}

void wgmma_split_join(struct mma_kernel *k, const struct wg_plan *w)
{
  if (!w->split) return;
  text_line(k->t, "Sync<cluster.wait>#group()");
  send(k, w);
  meet(k);
  text_open(k->t, "if (@g %% %d == @rank) {", w->split);
  receive(k, w);
}

void wgmma_split_accompany(struct mma_kernel *k, const struct wg_plan *w)
{
  if (!w->split) return;
  text_line(k->t, "Sync<cluster.wait>#group()");
  meet(k);
}
